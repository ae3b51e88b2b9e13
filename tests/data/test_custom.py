"""A set described by fields: rows of each kind of file and target become Examples, and bad rows are
named."""

import json

import pytest

from gpt1_jax.data.tasks import custom
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import fail
from own_sets import FIVE, FIVE_EXAMPLES, FIVE_ROWS, LINES, PREMISES, RATING, SENTIMENT, lines
from refusal import refusal

HEADER = 'id,passage,question,a,b,c,d,e,answer\n'
PAIR = {
    'name': 'pair',
    'files': {'train': 'train.json', 'dev': 'dev.json'},
    'format': 'json',
    'segments': [['a'], ['b']],
    'label': 'y',
    'labels': ['no', 'yes'],
}
ROWS = [{'a': 'A.', 'b': 'B.', 'y': 'no'}, {'a': 'C.', 'b': 'D.', 'y': 'yes'}]
PAIRS = [(('A.', 'B.'), 0), (('C.', 'D.'), 1)]


def read(fields, directory, content, split='train', on_bad=fail):
    """The examples of a split whose file is written first: text, or JSON of each record of a
    list."""
    content = lines(content) if isinstance(content, list) else content
    task = custom.task(fields)
    with open(task.files(directory, split)[0], 'wb') as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return task.read(directory, split, on_bad)


def test_choices_are_columns_of_which_the_last_may_be_empty_or_a_json_list(tmp_path):
    assert read(FIVE, tmp_path, FIVE_ROWS) == FIVE_EXAMPLES
    listed = {'choices': ['choices'], 'max_choices': 5}
    records = [
        {
            'id': e.id,
            'passage': e.texts[0],
            'question': e.texts[1],
            'choices': list(e.choices),
            'answer': 'ABCDE'[e.label],
            'unused': None,
        }
        for e in FIVE_EXAMPLES
    ]
    assert read(FIVE | LINES | listed, tmp_path, records) == FIVE_EXAMPLES
    rows = [
        f'{r["id"]}|{r["passage"]}|{r["question"]}|{json.dumps(r["choices"])}|{r["answer"]}\n'
        for r in records
    ]
    assert (
        read(
            FIVE | listed | {'quoting': False, 'format': '|'},
            tmp_path,
            'id|passage|question|choices|answer\n' + ''.join(rows),
        )
        == FIVE_EXAMPLES
    )


@pytest.mark.parametrize(
    'fields, expected',
    [
        (
            FIVE,
            dict(
                head='choice',
                labels=tuple('ABCDE'),
                metrics=('accuracy',),
                unlabelled=(),
                segments=(2,),
            ),
        ),
        (
            RATING,
            dict(
                head='classify',
                labels=tuple('1234567'),
                score=(1, 7),
                squared=False,
                metrics=('pearson', 'spearman'),
            ),
        ),
        (
            RATING | {'score': [0.5, 2.5], 'squared': True},
            dict(labels=('score',), score=(0.5, 2.5), squared=True),
        ),
        (
            PREMISES
            | {
                'segments': [['p1'], ['p2']],
                'metrics': ['f1', 'accuracy'],
                'labels': ['same', 'other'],
                'positive': 'same',
            },
            dict(head='classify', segments=(1, 1), metrics=('f1', 'accuracy'), positive=0),
        ),
        (
            PREMISES | {'files': PREMISES['files'] | {'test': 'a', 'unlabelled': 'b'}},
            dict(
                head='classify',
                labels=('no', 'maybe', 'yes'),
                segments=(2, 1),
                cut=None,
                splits=('train', 'dev', 'test'),
                unlabelled=('unlabelled',),
            ),
        ),
    ],
)
def test_a_description_becomes_a_task(fields, expected):
    task = custom.task(fields)
    assert {name: getattr(task, name) for name in expected} == expected


LONG = ' '.join(['word'] * 40_000)


@pytest.mark.parametrize(
    'fields, content, expected',
    [
        (
            RATING,
            'text,score\n"A ""good"" one,\nif long.",6\nPlain "as" it is.,2\n',
            [(('A "good" one,\nif long.',), 6.0), (('Plain "as" it is.',), 2.0)],
        ),
        (RATING, f'text,score\n"{LONG} ",6\n', [((LONG,), 6.0)]),
        (
            PREMISES,
            'p1\tp2\th\tlabel\n"He said\t"x" y\tz"\tno\r\n',
            [(('"He said', '"x" y', 'z"'), 0)],
        ),
        (
            RATING,
            b'\xef\xbb\xbftext,score\r\nGood.,5\r\n',
            [(('Good.',), 5.0)],
        ),  # a byte-order mark
        (RATING | LINES, b'\xef\xbb\xbf{"text": "Good.", "score": 5}\r\n', [(('Good.',), 5.0)]),
        # Numbers and truths are read as JSON writes them.
        (
            RATING | LINES | {'score': None, 'labels': ['false', 'true']},
            [{'text': 12, 'score': True}],
            [(('12',), 1)],
        ),
        (
            RATING | LINES | {'score': None, 'labels': [0, 1]},
            [{'text': 'x', 'score': 0}],
            [(('x',), 0)],
        ),
    ],
)
def test_cells_are_read_as_written(tmp_path, fields, content, expected):
    found = read(fields, tmp_path, content)
    assert [(e.texts, e.label) for e in found] == expected and [e.id for e in found] == list('012')[
        : len(found)
    ]


def test_an_unlabelled_file_may_have_the_label_and_the_ids_or_not(tmp_path):
    fields = RATING | {'files': RATING['files'] | {'unlabelled': 'new.csv'}}
    for content in ('text\nGood.\n', 'text,score\nGood.,\n'):
        assert read(fields | {'id': 'id'}, tmp_path, content, 'unlabelled') == [
            Example('0', ('Good.',))
        ]
    assert read(fields | {'id': 'id'}, tmp_path, 'id,text\n7,Good.\n', 'unlabelled') == [
        Example('7', ('Good.',))
    ]
    # --config.custom.choices=
    assert custom.task(fields | {'choices': ('',)}) == custom.task(fields)


@pytest.mark.parametrize(
    'answer, cell, label',
    [
        ('index0', '0', 0),
        ('index0', '3', 3),
        ('index1', '1', 0),
        ('index1', '4', 3),
        ('letter', 'A', 0),
        ('letter', 'd', 3),
        ('text', ' birds ', 2),
        ('index0', '4', None),
        ('index1', '0', None),
        ('letter', 'E', None),
        ('text', 'Birds', None),
        ('text', 'dogs', None),
    ],
)
def test_the_right_choice_is_given_as_declared(tmp_path, answer, cell, label):
    given = FIVE | {'answer': answer}, tmp_path, HEADER + f'q,P,Q,dogs,dogs,birds,fish,,{cell}\n'
    if label is not None:
        assert read(*given)[0].label == label
    else:
        assert f"train.csv: row 2: answer '{cell}' is " in refusal(read, *given)


@pytest.mark.parametrize('name', ['train.json', 'train.jsonl'])
@pytest.mark.parametrize(
    'text',
    [
        json.dumps(ROWS),
        '\n' + json.dumps(ROWS, indent=2).replace('\n', '\r\n') + '\n\n',
        lines(ROWS).replace('\n', '\n\n'),
        '\ufeff' + json.dumps(ROWS, indent=2),
    ],
)
def test_an_array_of_records_and_a_record_a_line_are_the_same_whatever_the_files_name(
    tmp_path, name, text
):
    found = read(PAIR | {'files': {'train': name, 'dev': name}}, tmp_path, text)
    assert [(e.texts, e.label) for e in found] == PAIRS


def parts(fields, directory, content):
    """The first texts of (train, dev), where dev is a share of the training rows."""
    fields = fields | {'files': {'train': fields['files']['train']}, 'dev_fraction': 0.25}
    read(fields, directory, content)
    return [
        [e.texts[0] for e in custom.task(fields).read(directory, split)]
        for split in ('train', 'dev')
    ]


def rated(texts):
    return 'text,score\n' + ''.join(f'{text},1\n' for text in texts)


def test_a_share_of_the_training_rows_becomes_dev_whatever_their_order(tmp_path):
    fields = RATING | {'dev_seed': 3}
    texts = [f'text {i}' for i in range(40)]
    train, dev = parts(fields, tmp_path, rated(texts))
    assert len(dev) == 10 and sorted(train + dev) == sorted(texts) and not set(train) & set(dev)
    assert parts(fields, tmp_path, rated(texts[::-1])) == [train[::-1], dev[::-1]]
    assert set(parts(RATING | {'dev_seed': 4}, tmp_path, rated(texts))[1]) != set(dev)
    # Equal texts stay together
    train, dev = parts(fields, tmp_path, rated([f'text {i % 10}' for i in range(40)]))
    assert len(train) + len(dev) == 40 and not set(train) & set(dev)
    assert '1 rows leave none for train by config.custom.dev_fraction = 0.25' in refusal(
        parts, fields, tmp_path, rated(['A'])
    )


JSON_FIVE = FIVE | LINES | {'choices': ['a'], 'max_choices': 3}
RECORD = {'id': 'q', 'passage': 'P', 'question': 'Q', 'a': ['x', 'y'], 'answer': 'A'}


@pytest.mark.parametrize(
    'fields, content, cause',
    [
        *[
            (RATING, content, cause)
            for content, cause in (
                ('text,score\nA,1\n ,2\n', 'row 3: text is empty'),
                ('text,score\nA,good\n', "row 2: score 'good'"),
                ('text,scores\nA,1\n', "no column 'score' (columns: text, scores)"),
                ('text,score,text\nA,1,B\n', "two columns are called 'text'"),
            )
        ],
        (FIVE, HEADER + 'q,P,Q,x,,y,,,A\n', 'row 2: b is empty'),
        *[
            (JSON_FIVE, [RECORD | {'a': choices}], f'row 1: a: {cause}')
            for choices, cause in (
                (['x'], '1 choices, must be 2 to 3'),
                (['x', ' ', 'z'], 'choice 2 is empty'),
                ('[x', 'not JSON ('),
            )
        ],
        *[
            (JSON_FIVE, content, cause)
            for content, cause in (
                ([RECORD | {'passage': [['P']]}], 'row 1: passage: [["P"]] is not a text'),
                ([RECORD, {'id': 'r', 'passage': 'P'}], 'row 2: no question'),
                (lines([RECORD]) + '{"id"\n', 'row 2: not JSON ('),
            )
        ],
        *[
            (PAIR, content, cause)
            for content, cause in (
                (
                    '[' * 10_000,
                    'neither a JSON array of records nor a record a line: not JSON (maximum '
                    'recursion depth',
                ),
                ('{\n "data": []\n}', 'one JSON object, expected an array'),
                (json.dumps([ROWS[0], {'a': 'A.', 'b': 'B.'}], indent=1), 'record 2: no y'),
                ([ROWS[0] | {'a': float('nan')}], 'row 1: a is empty'),
                ([['A.', 'B.']], 'row 1: list, expected an object'),
            )
        ],
    ],
)
def test_a_bad_row_or_file_is_named_with_its_cause(tmp_path, fields, content, cause):
    message = refusal(read, fields, tmp_path, content)
    assert message.startswith(f'{tmp_path}/{fields["files"]["train"]}: {cause}')


def test_bad_rows_are_left_out_and_told_where_a_list_is_given(tmp_path):
    skipped = []
    found = read(RATING, tmp_path, 'text,score\nA,1\n,2\nB,9\nC,3,4\nD,5\n', on_bad=skipped.append)
    assert found == [Example('0', ('A',), (), 1.0), Example('4', ('D',), (), 5.0)]
    assert [line.split(': ')[1] for line in skipped] == ['row 3', 'row 4', 'row 5']


@pytest.mark.parametrize(
    'content',
    [
        'text,score\nOne\rtwo.,1\nB,2\n',
        'text,score\rOne two.,1\rB,2\r',
        'sep=;\ntext;score\nOne two.;1\nB;2\n',
    ],
)
def test_carriage_returns_and_excel_s_separator_line_are_read(tmp_path, content):
    fields = RATING | {'format': ';'} if content.startswith('sep') else RATING
    assert [e.texts for e in read(fields, tmp_path, content)] == [('One two.',), ('B',)]


def test_rows_below_excel_s_separator_line_are_counted_as_an_editor_does(tmp_path):
    assert 'row 3: score' in refusal(
        read, RATING | {'format': ';'}, tmp_path, 'sep=;\ntext;score\nA;x\n'
    )


@pytest.mark.parametrize('labels', [['1', '2'], [1.0, 2.0]])
def test_equal_numbers_are_one_label(tmp_path, labels):
    fields = RATING | {'score': None, 'labels': labels}
    found = read(fields, tmp_path, 'text,score\nA,1\nB,1.0\nC,2.00\nD,2\n')
    assert [e.label for e in found] == [0, 0, 1, 1]


def test_dev_has_a_share_of_each_label_of_several_rows(tmp_path):
    fields = RATING | {
        'files': {'train': 'train.csv'},
        'dev_fraction': 0.1,
        'score': None,
        'labels': ['common', 'rare', 'single'],
    }
    rows = [('common', i) for i in range(40)] + [('rare', 50), ('rare', 51), ('single', 60)]
    read(fields, tmp_path, 'text,score\n' + ''.join(f'text {i},{label}\n' for label, i in rows))
    train, dev = (custom.task(fields).read(tmp_path, split) for split in ('train', 'dev'))
    assert [sum(e.label == label for e in dev) for label in range(3)] == [4, 1, 0]
    assert [sum(e.label == label for e in train) for label in range(3)] == [36, 1, 1]


def test_labels_of_one_row_each_leave_no_dev_and_a_line(tmp_path):
    fields = SENTIMENT | {'files': {'train': 'train.csv'}, 'dev_fraction': 0.1}
    (tmp_path / 'train.csv').write_text('text,label\none,negative\ntwo,positive\n')
    for split in ('train', 'dev'):
        assert refusal(custom.task(fields).read, tmp_path, split).endswith(
            'train.csv: 2 rows leave none for dev by config.custom.dev_fraction = 0.1'
        )
