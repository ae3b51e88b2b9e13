"""Bad rows and bad files of the labelled sets: each is one line that names file, row and cause."""

import functools
import json
import shutil

import pytest

import hub_parquet as hub
import official
from gpt1_jax.data import bpe_training, splits, tasks
from gpt1_jax.errors import fail
from refusal import refusal

HIGH = official.PASSAGES['high'][0]
BLOCK = 'The wall fell as it was old.\nit\nThe wall,a hill\nThe wall\n\n'
SNLI = '{"gold_label": "neutral", "sentence1": "A.", "sentence2": "B."}'
STORY = f'{official.STORY_HEADER}a,A,B,C,D,E,F,1\n'


def passage(**changes):
    return json.dumps(HIGH | changes)


FILES = {  # set: (split, file, the beginning of its content)
    'cola': ('dev', 'dev.tsv', 'gj04\t1\t\tA cat.\n'),
    'sst2': ('glue_test', 'test.tsv', 'index\tsentence\n0\tA.\n'),
    'stsb': ('dev', 'dev.tsv', 'sentence1\tsentence2\tscore\nA.\tB.\t3.5\n'),
    'snli': ('dev', 'snli_1.0_dev.jsonl', f'{SNLI}\n'),
    'race': ('dev', 'dev/high/5.txt', ''),
    'dpr': ('test', 'test.c.txt', BLOCK),
    'rte': ('dev', 'dev.tsv', ''),
    'story_cloze': ('dev', 'cloze_test_val__spring2016.csv', STORY),
}
ROWS = [  # a set, a bad row after good ones, the cause, how many rows are left
    ('cola', 'gj04\t1\tA dog.\n', 'row 2: 3 columns, expected 4', 1),
    ('cola', 'gj04\t2\t\tA dog.\n', "row 2: label '2' is not one of 0, 1", 1),
    ('cola', 'gj04\t1\t\t \n', 'row 2: sentence is empty', 1),
    ('sst2', '0\tB.\n', "row 3: duplicate id '0'", 1),
    ('stsb', 'A.\tB.\tnan\n', 'row 3: label is nan, must be', 1),
    ('stsb', 'A.\tB.\thigh\n', "row 3: label 'high' is not a number", 1),
    ('snli', SNLI[:-1], 'line 2: not JSON (', 1),
    ('snli', '{"gold_label": "neutral", "sentence1": "A."}', 'line 2: no sentence2', 1),
    ('race', passage()[:-1], 'not JSON (', 9),
    ('race', passage(article=' '), 'article', 9),
    ('race', passage(answers=['A']), 'questions, options and answers', 9),
    (
        'race',
        passage(options=[*HIGH['options'][:3], ['a', 'b', 'c']]),
        'question 4: 3 options, expected 4',
        12,
    ),
    ('dpr', 'The kit fit.\nit\nA,B\nA\n', "row 6: the pronoun 'it'", 1),
    ('dpr', 'A saw it.\nit\nA,B,C\nA\n', 'row 6: 3 candidates', 1),
    ('dpr', 'A saw it.\nit\nA,B\nC\n', "row 6: the right candidate 'C'", 1),
    ('dpr', 'A saw it.\nit\nA,B\n', 'row 6: a block of 3 lines', 1),
    ('dpr', 'A saw it\nit\nA,B\nA\n', 'row 6: nothing follows the pronoun', 1),
    # Bad files: errors even where bad rows are left out.
    ('cola', b'gj04\t1\t\tA caf\xe9.\n', 'not UTF-8 at byte 13', None),
    ('rte', '\n', 'empty', None),
    ('rte', 'index\tsentence1\tsentence2\tlabel\n', 'no rows', None),
    (
        'rte',
        'index\tsentence1\tlabel\n0\tA.\tentailment\n',
        "no column 'sentence2', did you mean 'sentence1'? (columns: index, sentence1, label)",
        None,
    ),
    ('story_cloze', 'a,A,B,C,D,"E,F,1\n', 'a quotation mark opens a cell that is never', None),
]


def complaint(name, directory, split, on_bad=fail):
    return refusal(tasks.get(name).read, directory, split, on_bad)


@pytest.mark.parametrize('name, bad, cause, left', ROWS)
def test_a_bad_row_is_named_or_left_out_and_a_bad_file_is_an_error(
    tmp_path, name, bad, cause, left
):
    split, file, good = FILES[name]
    if name == 'race':
        official.race(tmp_path, 'dev', {'middle': official.PASSAGES['middle']})
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(bad, str):
        bad = bad.encode()
    path.write_bytes(good.encode() + bad)
    message = complaint(name, tmp_path, split)
    assert str(path) in message and cause in message
    skipped = []
    if left is None:
        assert cause in complaint(name, tmp_path, split, skipped.append)
    else:
        assert len(tasks.get(name).read(tmp_path, split, skipped.append)) == left
        assert skipped == [message] and message.startswith(f'{path}: ')


def test_a_bad_row_names_the_option_that_leaves_it_out(tmp_path):
    path = tmp_path / 'dev.tsv'
    path.write_text('sentence\tlabel\nA.\t2\nB.\t1\n')
    option = '--config.data.skip_bad=True leaves such rows out'
    tokenizer = bpe_training.train(['A. B. ab.'], merges=1)
    load = functools.partial(splits.load, tasks.get('sst2'), tmp_path, 'dev', tokenizer, 16, '')
    assert refusal(load) == f"{path}: row 2: label '2' is not one of 0, 1; {option}"
    assert [row.id for row in load(skip_bad=True)] == ['1']


def test_only_bad_rows_are_an_error(tmp_path):
    path = tmp_path / 'dev.tsv'
    path.write_text('sentence\tlabel\nA.\t2\nB.\t2\n')
    assert complaint('sst2', tmp_path, 'dev', [].append).startswith(
        f'{path} (sst2 dev): all 2 rows are bad, the first: {path}: row 2: label'
    )


@pytest.mark.parametrize(
    'name, message',
    [
        ('snli', 'snli_1.0_dev.txt: no such file (nor snli_1.0_dev.jsonl)'),
        ('race', 'dev: no such directory'),
        ('story_cloze', 'cloze_test_val__spring2016*.csv: no such file'),
    ],
)
def test_a_missing_file_is_named(tmp_path, name, message):
    assert complaint(name, tmp_path, 'dev').startswith(f'{tmp_path}/{message}')


def test_ambiguous_and_unreadable_files_are_named(tmp_path):
    (tmp_path / 'dev.tsv').mkdir()
    assert complaint('mrpc', tmp_path, 'dev') == f'{tmp_path}/dev.tsv: Is a directory'
    for name in ('a', 'b'):
        official.story_cloze(tmp_path / f'cloze_test_test__spring2016 {name}.csv')
    said = complaint('story_cloze', tmp_path, 'test')
    assert '2 files match cloze_test_test__spring2016*.csv, expected one' in said
    (tmp_path / 'dev').mkdir()
    said = complaint('race', tmp_path, 'dev')
    assert said == f'{tmp_path}/dev: no middle or high directory with .txt files'


# Parquet


@pytest.mark.parametrize(
    'name, columns, row, cause',
    [
        (
            'cola',
            hub.GLUE['cola'] | {'label': ['good', 'bad']},
            ('It rains.', 1, 0),
            "row 0: label 'bad' is not one of 0, 1",
        ),
        (
            'cola',
            hub.GLUE['cola'] | {'label': 'int32'},
            ('It rains.', 1, 0),
            'row 0: what the number 1 in label means is unknown',
        ),
        ('scitail', {'label': 'string'}, ('neutral',), "no column 'sentence1' (columns:"),
        ('race', hub.RACE, (None, 'A.', 'A', 'B?', [*'abcd']), 'row 0: example_id is empty'),
    ],
)
def test_parquet_files_of_another_set_are_named(tmp_path, name, columns, row, cause):
    folder = {'race': 'all'}.get(name, '.')
    path = hub.write(tmp_path / folder / 'validation.parquet', columns, [row])
    assert complaint(name, tmp_path, 'dev').startswith(f'{path}: {cause}')


def test_class_names_in_another_order_keep_their_meaning(tmp_path):
    columns = hub.GLUE['cola'] | {'label': ['acceptable', 'unacceptable']}
    hub.write(tmp_path / 'validation.parquet', columns, [('It rains.', 1, 0), ('It.', 0, 1)])
    assert [one.label for one in tasks.get('cola').read(tmp_path, 'dev')] == [0, 1]


def test_parquet_files_that_are_missing_or_of_two_versions_are_named(tmp_path):
    rows = [(pair[0], int(pair[4])) for pair in official.PAIRS]
    first, second = hub.glue(tmp_path, 'cola', 'train', rows, n=2)
    content = second.read_bytes()
    second.write_bytes(content[:-20])
    assert complaint('cola', tmp_path, 'train').startswith(f'{second}: cannot be read (')
    second.unlink()
    assert '1 files of a split in 2 shard(s): some are missing' in complaint(
        'cola', tmp_path, 'train'
    )
    second.write_bytes(content)
    shutil.copy(first, first.with_name('train-00000-of-00001.parquet'))
    assert '3 files of a split in ' in complaint('cola', tmp_path, 'train')
    assert complaint('cola', 'parquet:/no/such/place', 'dev').startswith(
        'parquet:/no/such/place: no Parquet file of cola validation'
    )
