"""Rows to be answered: from files in each task's own layout, with labels or without, and from JSON
lines."""

import csv
import dataclasses
import json

import pyarrow
import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import own, unlabelled
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import fail
from own_sets import FIVE, FIVE_EXAMPLES, FIVE_ROWS, RATING, lines
from refusal import refusal

PAIRS = official.PAIRS
PAIR = ('sentence1', 'sentence2')
RATED = own.task('a.csv', **RATING)


def five():
    return own.task('a.csv', **FIVE, labels=tuple('ABCDE'))


FIVE_UNLABELLED = [dataclasses.replace(e, label=None) for e in FIVE_EXAMPLES]
BY_TEXTS = [{'id': e.id, 'texts': e.texts, 'choices': e.choices} for e in FIVE_EXAMPLES]


def read(name, path, on_bad=fail):
    return unlabelled.read(tasks.get(name), path, on_bad)


@pytest.mark.parametrize(
    'name, header, row, first',
    [
        ('cola', None, ('gj04', '1', '', 0), 0),  # as train.tsv and dev.tsv
        ('cola', ('index', 'sentence'), ('id', 0), 7),  # as test.tsv
        ('sst2', ('sentence',), (0,), 0),
        ('mnli', ('index', 'other', *PAIR, 'gold_label'), ('id', 'x', 0, 1, 'hidden'), 7),
        ('snli', ('gold_label', *PAIR), ('-', 0, 1), 0),  # no annotators need agree
        ('scitail', None, (0, 1, 'neutral'), 0),
        ('scitail', None, (0, 1), 0),
        ('qqp', ('id', 'question1', 'question2'), ('id', 0, 1), 7),
    ],
)
def test_a_table_needs_no_more_than_the_texts(tmp_path, name, header, row, first):
    """row: the numbers of the texts, 'id' and other cells."""
    cells = [dict(enumerate(pair[:2])) | {'id': first + i} for i, pair in enumerate(PAIRS)]
    rows = [[found.get(cell, cell) for cell in row] for found in cells]
    path = official.tsv(tmp_path / 'rows', rows, header)
    n = tasks.get(name).n_texts
    expected = [Example(str(first + i), pair[:n]) for i, pair in enumerate(PAIRS)]
    assert read(name, path) == expected


def test_stories_need_no_right_ending(tmp_path):
    story = official.STORIES[3]
    labelled = official.story_cloze(tmp_path / 'labelled.csv')
    rows = labelled.read_text().splitlines()
    (tmp_path / 'not.csv').write_text('\n'.join(row.rpartition(',')[0] for row in rows))
    found = read('story_cloze', labelled)
    assert found == read('story_cloze', tmp_path / 'not.csv')
    assert found[3] == Example('id-3', (' '.join(story[:4]),), story[4:6])


def test_a_passage_needs_no_answers(tmp_path, monkeypatch):
    passage = {**official.PASSAGES['middle'][0]}
    del passage['answers'], passage['id']
    path = tmp_path / 'one.txt'
    path.write_text(json.dumps(passage))
    monkeypatch.chdir(tmp_path)
    one = read('race', 'one.txt')
    assert one == read('race', path) == read('race', './one.txt')
    assert [e.id for e in one] == [f'{tmp_path.name}/one.txt/{i}' for i in range(3)]


def test_rows_in_memory_may_have_the_columns_of_a_set_of_your_own():
    rows = list(csv.DictReader(FIVE_ROWS.splitlines()))
    assert unlabelled.given(five(), rows) == FIVE_UNLABELLED
    assert unlabelled.given(five(), BY_TEXTS) == FIVE_UNLABELLED
    assert (
        refusal(unlabelled.given, five(), [*rows, {'passage': 'Dogs.'}])
        == 'row 2: no question, only passage'
    )
    texts = own.task('a.csv', **RATING | {'text': 'texts'})
    for good in ('Good.', {'texts': 'Good.'}, {'texts': ['Good.']}, {'texts': 'Good.', 'n': 1}):
        assert unlabelled.given(texts, [good]) == [Example('0', ('Good.',))]


@pytest.mark.parametrize(
    'rows, message',
    [
        ([], 'rows is an empty list, must have a row'),
        (['Good.', ''], "row 1: texts and choices are ('',), must be texts that are not empty"),
        (['Good.', None], 'row 1: texts and choices are (None,), must be texts that are not empty'),
        ([{'texts': 'Good.'}], 'row 0: texts is not a list of texts'),
    ],
)
def test_a_fault_of_rows_in_memory_is_named(rows, message):
    assert refusal(unlabelled.given, tasks.get('sst2'), rows) == message


def test_rows_in_memory_may_be_a_table():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame({'text': ['Good.', 'Bad.'], 'n': [1, None]}, index=[7, 8])
    found = unlabelled.given(RATED, frame)
    assert found == [Example('0', ('Good.',)), Example('1', ('Bad.',))]
    assert found[0].record == {'text': 'Good.', 'n': 1.0}
    assert unlabelled.given(RATED, pyarrow.table({'text': ['Good.', 'Bad.']})) == found


@pytest.mark.parametrize(
    'name, header, task',
    [('new.csv', 'text', RATED), ('new.tsv', 'sentence', tasks.get('sst2'))],
    ids=['csv', 'tsv'],
)
def test_blank_lines_of_a_table_are_no_rows(tmp_path, name, header, task):
    path = tmp_path / name
    path.write_text(f'{header}\nGood.\n\nBad.\n\n')
    found = unlabelled.read(task, path)
    assert found == [Example('0', ('Good.',)), Example('1', ('Bad.',))]


@pytest.mark.parametrize(
    'name, content, text',
    [
        ('new.csv', 'id;text\n7;"A ""b""."\n', 'A "b".'),
        ('new.tsv', 'id\ttext\n7\t"A" b.\n', '"A" b.'),
        ('new.txt', 'id,text\n7,"A, b."\n', 'A, b.'),
        ('new.tsv', 'text\nWell, good.\n', 'Well, good.'),
    ],
)
def test_a_file_may_have_another_separator_and_quoting_than_that_of_training(
    tmp_path, name, content, text
):
    (tmp_path / name).write_text(content)
    assert unlabelled.read(RATED, tmp_path / name) == [Example('0', (text,))]


BY_COLUMNS = [
    dict(zip(('id', *FIVE['text'], *'abcde'), (e.id, *e.texts, *e.choices, '')))
    for e in FIVE_EXAMPLES
]


WITHOUT_LABELS = '\n'.join(row.rpartition(',')[0] for row in FIVE_ROWS.splitlines())


@pytest.mark.parametrize(
    'name, content',
    [
        ('new.csv', WITHOUT_LABELS),
        ('new.jsonl', lines(BY_COLUMNS)),
        ('new.json', json.dumps(BY_COLUMNS)),
        ('new.json', json.dumps([row | {'label': 'unread'} for row in BY_TEXTS])),
    ],
)
def test_a_set_of_your_own_by_its_columns_or_by_texts(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert unlabelled.read(five(), tmp_path / name) == FIVE_UNLABELLED


def test_json_lines_of_a_published_set(tmp_path):
    path = tmp_path / 'new.jsonl'
    for records, ids in (
        ([{'texts': ['A.', 'B.'], 'id': 5}, {'texts': ['A.', 'B.']}], '51'),
        ([{'sentence1': 'A.', 'sentence2': 'B.', 'index': 5}], '5'),
    ):
        path.write_text(lines(records))
        assert read('rte', path) == [Example(i, ('A.', 'B.')) for i in ids]


@pytest.mark.parametrize(
    'name, ending, text, message',
    [
        ('rte', 'tsv', 'index\tsentence1\tsentence2\n0\tA.\n', 'row 2: 2 columns, expected 3'),
        (
            'cola',
            'tsv',
            'A sentence alone.\n',
            'row 1: 1 columns, expected 4 (source, label, star, sentence)',
        ),
        ('rte', 'jsonl', '{"texts": ["A."]}\n', 'line 1: 1 texts, expected 2'),
        (
            'rte',
            'jsonl',
            '{"texts": ["A.", "B."]}\n{"texts": ["A.", 1]}\n',
            "line 2: texts and choices are ('A.', 1), must be texts",
        ),
        (
            'race',
            'jsonl',
            '{"texts": ["A.", "B."], "choices": ["C."]}\n',
            'line 1: 1 choices, expected 2 to 4',
        ),
        ('rte', 'jsonl', '{"texts": ["A.", "B."], "id": null}\n', 'line 1: id is empty'),
        (
            'race',
            'txt',
            '{"article": "A.", "questions": ["B?"], "options": [["C.", "D."]]}',
            'question 1: 2 options, exp',
        ),
        ('word_order', 'tsv', 'before\tbeginning\nA.\tB.\n', 'row 2: no id'),
    ],
)
def test_a_bad_row_or_file_is_named(tmp_path, name, ending, text, message):
    path = tmp_path / f'new.{ending}'
    path.write_text(text)
    assert refusal(read, name, path).startswith(f'{path}: {message}')
