"""Bad rows and bad files of the labelled sets: each is one line that names file, row and cause."""

import functools
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hub_parquet as hub
import official
from gpt1_jax.data import bpe_training, splits, tasks
from gpt1_jax.errors import fail
from refusal import refusal

RTE = b'index\tsentence1\tsentence2\tlabel\n'
SNLI = '{"gold_label": "neutral", "sentence1": "A.", "sentence2": "B."}'
STSB = b'sentence1\tsentence2\tscore\nA.\tB.\t3.5\n'
HIGH = official.PASSAGES['high'][0]
BLOCK = 'The wall fell as it was old.\nit\nThe wall,a hill\nThe wall\n\n'


def passage(**changes):
    return json.dumps(HIGH | changes)


# (set, split, file, contents with one bad row among good ones, what names row and cause, how many
# rows are left if any)
STORY = 'cloze_test_test__spring2016.csv'
ROWS = [
    (
        'cola',
        'dev',
        'dev.tsv',
        b'gj04\t1\t\tA cat.\ngj04\t1\tA dog.\n',
        'row 2: 3 columns, expected 4',
        1,
    ),
    (
        'cola',
        'dev',
        'dev.tsv',
        b'gj04\t1\t\tA cat.\ngj04\t2\t\tA dog.\n',
        "row 2: label '2' is not one of 0, 1",
        1,
    ),
    ('cola', 'dev', 'dev.tsv', b'gj04\t1\t\tA cat.\ngj04\t1\t\t \n', 'row 2: sentence is empty', 1),
    (
        'cola',
        'glue_test',
        'test.tsv',
        b'index\tsentence\n0\tA.\n0\tB.\n',
        "row 3: duplicate id '0'",
        1,
    ),
    *[
        ('stsb', 'dev', 'dev.tsv', STSB + f'A.\tB.\t{score}\n'.encode(), f'row 3: label {shown}', 1)
        for score, shown in (('nan', 'is nan, must be'), ('high', "'high' is not a number"))
    ],
    ('snli', 'dev', 'snli_1.0_dev.jsonl', f'{SNLI}\n{SNLI[:-1]}\n', 'line 2: not JSON (', 1),
    (
        'snli',
        'dev',
        'snli_1.0_dev.jsonl',
        f'{SNLI}\n{{"gold_label": "neutral", "sentence1": "A."}}\n',
        'line 2: no sentence2',
        1,
    ),
    *[
        ('race', 'dev', 'dev/high/5.txt', content, cause, left)
        for content, cause, left in (
            (passage()[:-1], 'not JSON (', 9),
            (passage(article=' '), 'article', 9),
            (passage(answers=['A']), 'questions, options and answers', 9),
            (
                passage(options=[*HIGH['options'][:3], ['a', 'b', 'c']]),
                'question 4: 3 options, expected 4',
                12,
            ),
        )
    ],
    *[
        ('dpr', 'test', 'test.c.txt', BLOCK + block, f'row 6: {cause}', 1)
        for block, cause in (
            ('The kit fit.\nit\nA,B\nA\n', "the pronoun 'it'"),
            ('A saw it.\nit\nA,B,C\nA\n', '3 candidates'),
            ('A saw it.\nit\nA,B\nC\n', "the right candidate 'C'"),
            ('A saw it.\nit\nA,B\n', 'a block of 3 lines'),
            ('A saw it\nit\nA,B\nA\n', 'nothing follows the pronoun'),
        )
    ],
    # Bad files: errors even where bad rows are left out.
    *[
        (*one, None)
        for one in (
            ('cola', 'dev', 'dev.tsv', b'gj04\t1\t\tA caf\xe9.\n', 'not UTF-8 at byte 13'),
            ('rte', 'dev', 'dev.tsv', b'\n', 'empty'),
            ('rte', 'dev', 'dev.tsv', RTE, 'no rows'),
            (
                'rte',
                'dev',
                'dev.tsv',
                b'index\tsentence1\tlabel\n0\tA.\tentailment\n',
                "no column 'sentence2', did you mean 'sentence1'? (columns: index, sentence1, label)",
            ),
            (
                'story_cloze',
                'test',
                STORY,
                official.STORY_HEADER + 'a,A,B,C,D,"E,F,1\n',
                'row 2: a quotation mark opens a cell that is never closed',
            ),
            (
                'story_cloze',
                'dev',
                'cloze_test_val__spring2016.csv',
                official.STORY_HEADER + 'a,A,B,C,D,E,F,1\n',
                '1 stories, the split takes 374 of them for validation',
            ),
        )
    ],
]


def write(directory, name, file, content):
    if name == 'race':
        official.race(directory, 'dev', {'middle': official.PASSAGES['middle']})
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def complaint(name, directory, split, on_bad=fail):
    return refusal(tasks.get(name).read, directory, split, on_bad)


@pytest.mark.parametrize('name, split, file, content, cause, left', ROWS)
def test_a_bad_row_is_named_or_left_out_and_a_bad_file_is_an_error(
    tmp_path, name, split, file, content, cause, left
):
    path = write(tmp_path, name, file, content)
    message = complaint(name, tmp_path, split)
    skipped = []
    assert str(path) in message and cause in message
    if left is None:
        again = complaint(name, tmp_path, split, skipped.append)
        assert str(path) in again and cause in again
    else:
        assert message.startswith(f'{path}: ')
        assert len(tasks.get(name).read(tmp_path, split, skipped.append)) == left and skipped == [
            message
        ]


def test_a_bad_row_names_the_option_that_leaves_it_out(tmp_path):
    path = write(tmp_path, 'sst2', 'dev.tsv', b'sentence\tlabel\nA.\t2\nB.\t1\n')
    option = '--config.data.skip_bad=True leaves such rows out'
    tokenizer = bpe_training.train(['A. B. ab.'], merges=1)
    load = functools.partial(splits.load, tasks.get('sst2'), tmp_path, 'dev', tokenizer, 16, {})
    assert refusal(load) == f"{path}: row 2: label '2' is not one of 0, 1; {option}"
    assert [row.id for row in load(skip_bad=True)] == ['1']


def test_only_bad_rows_are_an_error(tmp_path):
    path = write(tmp_path, 'sst2', 'dev.tsv', b'sentence\tlabel\nA.\t2\nB.\t2\n')
    assert complaint('sst2', tmp_path, 'dev', [].append).startswith(
        f'{path} (sst2 dev): all 2 rows are bad, the first: {path}: row 2: label'
    )


def test_missing_ambiguous_and_unreadable_files_are_named(tmp_path):
    for name, message in (
        ('snli', 'snli_1.0_dev.txt: no such file (nor snli_1.0_dev.jsonl)'),
        ('race', 'dev: no such directory'),
        ('story_cloze', 'cloze_test_val__spring2016*.csv: no such file'),
    ):
        assert complaint(name, tmp_path, 'dev').startswith(f'{tmp_path}/{message}')
    (tmp_path / 'dev.tsv').mkdir()
    assert complaint('mrpc', tmp_path, 'dev') == f'{tmp_path}/dev.tsv: Is a directory'
    for name in ('a', 'b'):
        official.story_cloze(tmp_path / f'cloze_test_test__spring2016 {name}.csv')
    assert '2 files match cloze_test_test__spring2016*.csv, expected one' in complaint(
        'story_cloze', tmp_path, 'test'
    )
    (tmp_path / 'dev').mkdir()
    assert (
        complaint('race', tmp_path, 'dev')
        == f'{tmp_path}/dev: no middle or high directory with .txt files'
    )


# Parquet


def test_bad_rows_of_parquet_are_named_or_left_out(tmp_path):
    (path,) = hub.glue(
        tmp_path,
        'rte',
        'validation',
        [('A.', 'B.', 0), ('A.', None, 0), (' ', 'B.', 1), ('A.', 'B.', -1), ('A.', 'B.', None)],
    )
    skipped = []
    (found,) = tasks.get('rte').read(tmp_path, 'dev', skipped.append)
    assert (found.id, found.label) == ('0', 0) and skipped == [
        f'{path}: row {i}: {cause}'
        for i, cause in enumerate(
            ('sentence2 is empty', 'sentence1 is empty', 'no label', 'no label'), 1
        )
    ]
    assert complaint('rte', tmp_path, 'dev') == skipped[0]


RACE_ROWS = hub.race_rows(official.PASSAGES)


@pytest.mark.parametrize(
    'name, split, file, columns, rows, cause',
    [
        (
            'cola',
            'dev',
            'validation',
            hub.GLUE['cola'] | {'label': ['good', 'bad']},
            [('It rains.', 1, 0)],
            "row 0: label 'bad' is not one of 0, 1",
        ),
        (
            'cola',
            'dev',
            'validation',
            None,
            [('It rains.', 1, 0)],
            'row 0: what the number 1 in label means is unknown',
        ),
        (
            'scitail',
            'dev',
            'validation',
            {'label': 'string'},
            [('neutral',)],
            "no column 'sentence1' (columns:",
        ),
        (
            'race',
            'dev',
            'all/validation',
            hub.RACE,
            [*RACE_ROWS[:2], (None, *RACE_ROWS[2][1:])],
            'row 2: example_id is empty',
        ),
    ],
)
def test_parquet_files_of_another_set_are_named(tmp_path, name, split, file, columns, rows, cause):
    path = hub.write(
        tmp_path / f'{file}.parquet',
        columns or hub.GLUE['cola'],
        rows,
        metadata=columns is not None,
    )
    assert complaint(name, tmp_path, split).startswith(f'{path}: {cause}')


def test_class_names_in_another_order_keep_their_meaning(tmp_path):
    columns = hub.GLUE['cola'] | {'label': ['acceptable', 'unacceptable']}
    hub.write(tmp_path / 'validation.parquet', columns, [('It rains.', 1, 0), ('It.', 0, 1)])
    assert [one.label for one in tasks.get('cola').read(tmp_path, 'dev')] == [0, 1]


def test_two_columns_of_one_name_in_parquet_are_an_error(tmp_path):
    columns = [pa.array(['a']), pa.array(['b']), pa.array([1]), pa.array([0])]
    table = pa.Table.from_arrays(columns, ['sentence', 'sentence', 'label', 'idx'])
    pq.write_table(table, tmp_path / 'validation.parquet')
    assert complaint('cola', tmp_path, 'dev').endswith(
        "validation.parquet: 2 columns are called 'sentence'"
    )


def test_parquet_files_that_are_missing_or_of_two_versions_are_named(tmp_path):
    rows = [(pair[0], int(pair[4])) for pair in official.PAIRS]
    first, second = hub.glue(tmp_path, 'cola', 'train', rows, n=2)
    second.rename(tmp_path / 'away')
    assert complaint('cola', tmp_path, 'train') == f'{first}: shard 1 of 2 is missing'
    (tmp_path / 'away').rename(second)
    second.write_bytes(second.read_bytes()[:-20])
    assert complaint('cola', tmp_path, 'train').startswith(f'{second}: cannot be read (')
    assert complaint('cola', tmp_path, 'dev') == (
        f'{tmp_path}: no Parquet file of cola validation, such as '
        'cola/validation-00000-of-00001.parquet'
    )
    assert complaint('cola', 'parquet:/no/such/place', 'dev') == '/no/such/place: no such directory'
    shutil.copy(first, first.with_name('train-00000-of-00001.parquet'))
    hub.glue(tmp_path, 'cola', 'train', rows, n=2)
    assert 'delete those of another version' in complaint('cola', tmp_path, 'train')
