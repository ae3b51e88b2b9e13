"""A set described by fields: rows of each kind of file and target as Examples, and what is said of bad ones."""
import json
import types

import pytest

from gpt1_jax.data import inputs
from gpt1_jax.data.tasks import custom
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError, fail

FIVE = {'name': 'five', 'files': {'train': 'train.csv', 'dev': 'dev.csv'}, 'segments': [['passage', 'question']],
        'cut': 'passage', 'choices': ['a', 'b', 'c', 'd', 'e'], 'label': 'answer', 'answer': 'letter', 'id': 'id'}
FIVE_ROWS = ('id,passage,question,a,b,c,d,e,answer\n'
             'q1,"It sat, then left.",Where?,mat,tree,hill,car,sea,B\n'
             'q2,Dogs ran.,Who ran?,cats,dogs,birds,fish,,d\n')
FIVE_EXAMPLES = [Example('q1', ('It sat, then left.', 'Where?'), ('mat', 'tree', 'hill', 'car', 'sea'), 1),
                 Example('q2', ('Dogs ran.', 'Who ran?'), ('cats', 'dogs', 'birds', 'fish'), 3)]
RATING = {'name': 'rating', 'files': {'train': 'train.csv', 'dev': 'dev.csv'}, 'segments': [['text']],
          'label': 'score', 'score': [1, 7]}
LINES = {'files': {'train': 'train.jsonl', 'dev': 'dev.jsonl'}, 'format': 'jsonl'}
PREMISES = {'name': 'two', 'files': {'train': 'train.tsv', 'dev': 'dev.tsv'}, 'format': 'tsv', 'quoting': False,
            'segments': [['p1', 'p2'], ['h']], 'label': 'label', 'labels': ['no', 'maybe', 'yes']}
DIGITS = types.SimpleNamespace(encode=lambda text: [int(c) for c in text], start_id=10, delimiter_id=11, extract_id=12)


def read(fields, directory, content, split='train', on_bad=fail):
    """The examples of a split whose file is written first: text, or JSON of each record of a list."""
    if isinstance(content, list):
        content = ''.join(json.dumps(record) + '\n' for record in content)
    content = content if isinstance(content, bytes) else content.encode()
    task = custom.task(fields)
    with open(task.files(directory, split)[0], 'wb') as file:
        file.write(content)
    return task.read(directory, split, on_bad)


def test_choices_are_columns_of_which_the_last_may_be_empty_or_a_json_list(tmp_path):
    assert read(FIVE, tmp_path, FIVE_ROWS) == FIVE_EXAMPLES
    listed = {'choices': ['choices'], 'max_choices': 5}
    records = [{'id': e.id, 'passage': e.texts[0], 'question': e.texts[1], 'choices': list(e.choices),
                'answer': 'ABCDE'[e.label], 'unused': None} for e in FIVE_EXAMPLES]
    assert read(FIVE | LINES | listed, tmp_path, records) == FIVE_EXAMPLES
    rows = [f'{r["id"]}|{r["passage"]}|{r["question"]}|{json.dumps(r["choices"])}|{r["answer"]}\n' for r in records]
    assert read(FIVE | listed | {'quoting': False, 'format': '|'}, tmp_path,
                'id|passage|question|choices|answer\n' + ''.join(rows)) == FIVE_EXAMPLES


@pytest.mark.parametrize('fields, expected', [
    (FIVE, dict(name='five', head='choice', labels=tuple('ABCDE'), metrics=('accuracy',), splits=('train', 'dev'),
                unlabelled=(), segments=(2,), cut=0)),
    (RATING, dict(head='classify', labels=tuple('1234567'), score=(1, 7), squared=False,
                  metrics=('pearson', 'spearman'))),
    (RATING | {'score': [0.5, 2.5], 'squared': True}, dict(labels=('score',), score=(0.5, 2.5), squared=True)),
    (PREMISES, dict(head='classify', labels=('no', 'maybe', 'yes'), segments=(2, 1), cut=None)),
    (PREMISES | {'segments': [['p1'], ['p2']], 'orders': 2, 'metrics': ['f1', 'accuracy'], 'labels': ['same', 'other'],
                 'positive': 'same'}, dict(head='similarity', segments=(1, 1), metrics=('f1', 'accuracy'), positive=0)),
    (PREMISES | {'files': PREMISES['files'] | {'test': 'a', 'unlabelled': 'b'}},
     dict(splits=('train', 'dev', 'test'), unlabelled=('unlabelled',)))])
def test_a_description_becomes_a_task(fields, expected):
    task = custom.task(fields)
    assert {name: getattr(task, name) for name in expected} == expected


def test_the_columns_of_a_segment_are_laid_end_to_end_and_a_delimiter_stands_between_segments(tmp_path):
    (example,) = read(PREMISES, tmp_path, 'p1\tp2\th\tlabel\n12\t3\t45\tyes\n')
    assert example == Example('0', ('12', '3', '45'), (), 2)
    (row,) = inputs.encode_all([example], custom.task(PREMISES), DIGITS, 64)
    assert row.sequences == [[10, 1, 2, 3, 11, 4, 5, 12]] and row.target == [0, 0, 1]


LONG = ' '.join(['word'] * 40_000)


@pytest.mark.parametrize('fields, content, expected', [
    (RATING, 'text,score\nGood.,5.5\nBad.,1\n', [(('Good.',), 5.5), (('Bad.',), 1.0)]),
    (RATING, 'text,score\n"A ""good"" one,\nif long.",6\nPlain "as" it is.,2\n',
     [(('A "good" one,\nif long.',), 6.0), (('Plain "as" it is.',), 2.0)]),
    (RATING, f'text,score\n"{LONG} ",6\n', [((LONG,), 6.0)]),
    (PREMISES, 'p1\tp2\th\tlabel\n"He said\t"x" y\tz"\tno\r\n', [(('"He said', '"x" y', 'z"'), 0)]),
    (RATING, b'\xef\xbb\xbftext,score\r\nGood.,5\r\n', [(('Good.',), 5.0)]),  # a byte-order mark
    (RATING | LINES, b'\xef\xbb\xbf{"text": "Good.", "score": 5}\r\n', [(('Good.',), 5.0)]),
    # Numbers and truths are read as JSON writes them.
    (RATING | LINES | {'score': None, 'labels': ['false', 'true']}, [{'text': 12, 'score': True}], [(('12',), 1)]),
    (RATING | LINES | {'score': None, 'labels': [0, 1]}, [{'text': 'x', 'score': 0}], [(('x',), 0)]),
    (PREMISES | {'columns': ['label', 'p1', 'p2', 'h', 'source']}, 'yes\tA\tB\tC\tx\n', [(('A', 'B', 'C'), 2)])])
def test_cells_are_read_as_written(tmp_path, fields, content, expected):
    found = read(fields, tmp_path, content)
    assert [(e.texts, e.label) for e in found] == expected and [e.id for e in found] == list('012')[:len(found)]


def test_an_unlabelled_file_may_have_the_label_and_the_ids_or_not(tmp_path):
    fields = RATING | {'files': RATING['files'] | {'unlabelled': 'new.csv'}}
    for content in ('text\nGood.\n', 'text,score\nGood.,\n'):
        for of_id in ({}, {'id': 'id'}):
            assert read(fields | of_id, tmp_path, content, 'unlabelled') == [Example('0', ('Good.',))]
    assert read(fields | {'id': 'id'}, tmp_path, 'id,text\n7,Good.\n', 'unlabelled') == [Example('7', ('Good.',))]
    assert custom.task(fields | {'choices': ('',)}) == custom.task(fields)  # --config.custom.choices=
    headless = PREMISES | {'columns': ['label', 'p1', 'p2', 'h'], 'files': PREMISES['files'] | {'unlabelled': 'n.tsv'}}
    assert read(headless, tmp_path, 'A\tB\tC\n', 'unlabelled') == [Example('0', ('A', 'B', 'C'))]


@pytest.mark.parametrize('answer, cell, label', [
    ('index0', '0', 0), ('index0', '3', 3), ('index1', '1', 0), ('index1', '4', 3), ('letter', 'A', 0),
    ('letter', 'd', 3), ('text', ' birds ', 2), ('index0', '4', None), ('index1', '0', None), ('letter', 'E', None),
    ('text', 'Birds', None), ('text', 'dogs', None)])
def test_the_right_choice_is_given_as_declared(tmp_path, answer, cell, label):
    fields = FIVE | {'answer': answer}
    rows = f'id,passage,question,a,b,c,d,e,answer\nq,P,Q,dogs,dogs,birds,fish,,{cell}\n'
    if label is not None:
        assert read(fields, tmp_path, rows)[0].label == label
        return
    with pytest.raises(UserError, match=f"train.csv: row 2: answer: '{cell}' is .* of the row's (4 )?choices"):
        read(fields, tmp_path, rows)


HEADER = 'id,passage,question,a,b,c,d,e,answer\n'
JSON_FIVE = FIVE | LINES | {'choices': ['a'], 'max_choices': 3}
RECORD = {'id': 'q', 'passage': 'P', 'question': 'Q', 'a': ['x', 'y'], 'answer': 'A'}


@pytest.mark.parametrize('fields, content, cause', [
    (RATING, 'text,score\nA,1\n ,2\n', 'row 3: text is empty'), (RATING, 'text,score\nA,\n', 'row 2: score is empty'),
    (RATING, 'text,score\nA,good\n', "row 2: score 'good' is not a number"),
    (RATING, 'text,score\nA,nan\n', 'row 2: score nan is out of range 1 to 7'),
    (PREMISES, 'p1\tp2\th\tlabel\nA\tB\tC\tNo\n', "row 2: label 'No' is not one of no, maybe, yes"),
    (FIVE, HEADER + 'q,P,Q,x,,y,,,A\n', 'row 2: b is empty'), (FIVE, HEADER + 'q,P,Q,x,,,,,A\n', 'row 2: b is empty'),
    (FIVE, HEADER + 'q,P,Q,x,y,,,,A\nq,P,Q,x,y,,,,A\n', "row 3: duplicate id 'q'"),
    (FIVE, HEADER + ',P,Q,x,y,,,,A\n', 'row 2: id is empty'),
    (JSON_FIVE, [RECORD | {'a': ['x']}], 'row 1: a: 1 choices, must be 2 to 3 (config.custom.max_choices)'),
    (JSON_FIVE, [RECORD | {'a': ['x', ' ', 'z']}], 'row 1: a: choice 2 is empty'),
    (JSON_FIVE, [RECORD | {'a': {'x': 'y'}}], 'row 1: a: not a JSON list of texts'),
    (JSON_FIVE, [RECORD | {'a': '[x'}], 'row 1: a: not JSON ('),
    (JSON_FIVE, [RECORD | {'passage': [['P']]}], 'row 1: passage: [["P"]] is not a text'),
    (JSON_FIVE, [RECORD | {'passage': None}], 'row 1: passage is empty'),
    (JSON_FIVE, [RECORD, {'id': 'r', 'passage': 'P'}], 'row 2: no question'),
    (JSON_FIVE, [7], 'row 1: int, expected an object'),
    (JSON_FIVE, json.dumps(RECORD) + '\n{"id"\n', 'row 2: not JSON ('),
    (RATING, b'text,score\nA caf\xe9.,1\n', 'not UTF-8 at byte 16'), (RATING, b'', 'empty'),
    (JSON_FIVE, b'{"a": "\xe9"}', 'not UTF-8 at byte 7'), (JSON_FIVE, b'', 'empty'),
    (RATING, 'text,score\n', 'no rows'),
    (RATING, 'text,scores\nA,1\n', "no column 'score' (columns: text, scores)"),
    (RATING, 'text,score,text\nA,1,B\n', "two columns are called 'text'")])
def test_a_bad_row_or_file_is_named_with_its_cause(tmp_path, fields, content, cause):
    with pytest.raises(UserError) as caught:
        read(fields, tmp_path, content)
    assert str(caught.value).startswith(f'{tmp_path}/{fields["files"]["train"]}: {cause}')


def test_bad_rows_are_left_out_and_told_where_a_list_is_given(tmp_path):
    skipped = []
    found = read(RATING, tmp_path, 'text,score\nA,1\n,2\nB,9\nC,3,4\nD,5\n', on_bad=skipped.append)
    assert found == [Example('0', ('A',), (), 1.0), Example('4', ('D',), (), 5.0)]
    assert [line.split(': ')[1] for line in skipped] == ['row 3', 'row 4', 'row 5']
    with pytest.raises(UserError, match='the first: .*row 2: score is empty'):
        read(RATING, tmp_path, 'text,score\nA,\n', on_bad=[].append)


PARTED = RATING | {'files': {'train': 'train.csv'}, 'dev_fraction': 0.25, 'dev_seed': 3}


def parts(directory, texts, fields=PARTED):
    """(train, dev) as sets of texts, where each row has one text."""
    read(fields, directory, 'text,score\n' + ''.join(f'{text},1\n' for text in texts))
    return [[e.texts[0] for e in custom.task(fields).read(directory, split)] for split in ('train', 'dev')]


def test_a_share_of_the_training_rows_becomes_dev_whatever_their_order(tmp_path):
    texts = [f'text {i}' for i in range(40)]
    train, dev = parts(tmp_path, texts)
    assert len(dev) == 10 and sorted(train + dev) == sorted(texts) and not set(train) & set(dev)
    again = parts(tmp_path, texts[::-1])
    assert (again[0], again[1]) == (train[::-1], dev[::-1])
    assert set(parts(tmp_path, texts, PARTED | {'dev_seed': 4})[1]) != set(dev)
    assert custom.task(PARTED).files(tmp_path, 'dev') == [str(tmp_path / 'train.csv')]
    train, dev = parts(tmp_path, [f'text {i % 10}' for i in range(40)])  # equal texts stay together
    assert len(train) + len(dev) == 40 and not set(train) & set(dev)
    with pytest.raises(UserError, match='1 rows leave none for train beside config.custom.dev_fraction = 0.25'):
        parts(tmp_path, ['A'])


def test_a_split_that_is_not_there_and_tfds_are_errors(tmp_path):
    with pytest.raises(UserError, match=r"rating has no split 'test' \(there are train, dev\)"):
        custom.task(RATING).read(tmp_path, 'test')
    with pytest.raises(UserError, match='tfds:x: rating is not read from TFDS'):
        custom.task(RATING).read('tfds:x', 'train')
