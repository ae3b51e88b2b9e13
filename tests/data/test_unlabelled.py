"""Rows to be answered: from files in each task's own layout, with labels or without, and from JSON
lines."""

import csv
import dataclasses
import json

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


def read(name, path, on_bad=fail):
    return unlabelled.read(tasks.get(name), path, on_bad)


@pytest.mark.parametrize(
    'name, header, row, ids',
    [
        # As train.tsv and dev.tsv
        ('cola', None, lambda i, p: ('gj04', p[4], '', p[0]), False),
        ('cola', ('index', 'sentence'), lambda i, p: (i + 7, p[0]), True),  # as test.tsv
        ('sst2', ('sentence',), lambda i, p: p[:1], False),
        (
            'mnli',
            ('index', 'other', *PAIR, 'gold_label'),
            lambda i, p: (i + 7, 'x', *p[:2], 'hidden'),
            True,
        ),
        # No annotators need agree
        ('snli', ('gold_label', *PAIR), lambda i, p: ('-', *p[:2]), False),
        ('scitail', None, lambda i, p: (*p[:2], 'neutral'), False),
        ('scitail', None, lambda i, p: p[:2], False),
        ('qqp', ('id', 'question1', 'question2'), lambda i, p: (i + 7, *p[:2]), True),
    ],
)
def test_a_table_needs_no_more_than_the_texts(tmp_path, name, header, row, ids):
    path = official.tsv(tmp_path / 'rows', [row(i, pair) for i, pair in enumerate(PAIRS)], header)
    n = tasks.get(name).n_texts
    assert read(name, path) == [Example(str(i + 7 * ids), pair[:n]) for i, pair in enumerate(PAIRS)]


def test_stories_need_no_right_ending(tmp_path):
    stories = official.STORIES
    labelled = official.story_cloze(tmp_path / 'labelled.csv')
    lines = labelled.read_text().splitlines()
    (tmp_path / 'not.csv').write_text('\n'.join(line.rpartition(',')[0] for line in lines))
    found = read('story_cloze', labelled)
    assert found == read('story_cloze', tmp_path / 'not.csv') and len(found) == len(stories)
    assert found[3] == Example('id-3', (' '.join(stories[3][:4]),), stories[3][4:6])


def test_a_passage_or_a_folder_of_them_needs_no_answers(tmp_path, monkeypatch):
    official.race(tmp_path / 'RACE', 'test')
    whole = read('race', tmp_path / 'RACE' / 'test')
    labelled = tasks.get('race').read(tmp_path / 'RACE', 'test', [].append)
    assert sorted(e.id for e in whole) == sorted(e.id for e in labelled) and {
        e.label for e in whole
    } == {None}
    assert {e.id: (e.texts, e.choices) for e in whole} == {
        e.id: (e.texts, e.choices) for e in labelled
    }
    passage = official.PASSAGES['middle'][0]
    path = tmp_path / 'one.txt'
    path.write_text(
        json.dumps({name: passage[name] for name in ('article', 'questions', 'options')})
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'sub').mkdir()
    one = read('race', 'one.txt')
    assert one == read('race', path) == read('race', 'sub/../one.txt')
    assert [e.texts[1] for e in one] == [question.strip() for question in passage['questions']]
    assert [e.id for e in one] == [f'{tmp_path.name}/one.txt/{i}' for i in range(3)]


def test_rows_in_memory_may_have_the_columns_of_a_set_of_your_own():
    rows = list(csv.DictReader(FIVE_ROWS.splitlines()))
    task = five()
    assert unlabelled.given(task, rows) == FIVE_UNLABELLED
    by_texts = [{'id': e.id, 'texts': e.texts, 'choices': e.choices} for e in FIVE_EXAMPLES]
    assert unlabelled.given(task, by_texts) == FIVE_UNLABELLED
    assert refusal(unlabelled.given, task, [*rows, {'passage': 'Dogs.'}]) == 'row 2: no question'
    texts = own.task('a.csv', **RATING | {'text': 'texts'})
    for good in ('Good.', {'texts': 'Good.'}, {'texts': ['Good.']}, {'texts': 'Good.', 'n': 1}):
        assert unlabelled.given(texts, [good]) == [Example('0', ('Good.',))]


@pytest.mark.parametrize(
    'rows, message',
    [
        ([], 'rows is an empty list, must have a row'),
        (['Good.', ''], 'row 1: text 1 is empty'),
        (['Good.', None], 'row 1: text 1 is None, no text'),
        ([{'texts': 'Good.'}], 'row 0: texts is not a list of texts'),
    ],
)
def test_a_fault_of_rows_in_memory_is_named(rows, message):
    assert refusal(unlabelled.given, tasks.get('sst2'), rows) == message


def test_rows_in_memory_may_be_a_table():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame({'text': ['Good.', 'Bad.'], 'n': [1, None]}, index=[7, 8])
    expected = [Example('0', ('Good.',)), Example('1', ('Bad.',))]
    found = unlabelled.given(RATED, frame)
    assert found == expected and found[0].record == {'text': 'Good.', 'n': 1.0}
    pyarrow = pytest.importorskip('pyarrow')
    assert unlabelled.given(RATED, pyarrow.table({'text': ['Good.', 'Bad.']})) == expected


def test_a_set_of_your_own_by_its_columns(tmp_path):
    path = tmp_path / 'new.csv'
    path.write_text(''.join(row.rpartition(',')[0] + '\n' for row in FIVE_ROWS.splitlines()))
    assert unlabelled.read(five(), path) == FIVE_UNLABELLED
    path.write_text('text\nGood.\n\nBad.\n\n')
    found = unlabelled.read(RATED, path)
    assert [(e.id, e.texts) for e in found] == [('0', ('Good.',)), ('1', ('Bad.',))]
    path = tmp_path / 'new.tsv'
    path.write_text('sentence\nGood.\n\nBad.\n\n')
    assert read('sst2', path) == found
    path.write_text('text\nWell, good.\n"Bad," he said.\n')
    assert [e.texts for e in unlabelled.read(RATED, path)] == [
        ('Well, good.',),
        ('"Bad," he said.',),
    ]


@pytest.mark.parametrize(
    'name, content, text',
    [
        ('new.csv', 'id;text\n7;"A ""b""."\n', 'A "b".'),
        ('new.tsv', 'id\ttext\n7\t"A" b.\n', '"A" b.'),
        ('new.txt', 'id,text\n7,"A, b."\n', 'A, b.'),
        ('new.csv', 'id,text\n7,"A, b."\n', 'A, b.'),
    ],
)
def test_a_file_may_have_another_separator_and_quoting_than_that_of_training(
    tmp_path, name, content, text
):
    (tmp_path / name).write_text(content)
    assert unlabelled.read(RATED, tmp_path / name) == [Example('0', (text,))]


@pytest.mark.parametrize(
    'records',
    [
        [
            {
                'id': e.id,
                'passage': e.texts[0],
                'question': e.texts[1],
                **dict(zip('abcde', (*e.choices, ''))),
            }
            for e in FIVE_EXAMPLES
        ],
        [
            {'id': e.id, 'texts': e.texts, 'choices': e.choices, 'label': 'unread'}
            for e in FIVE_EXAMPLES
        ],
    ],
)
@pytest.mark.parametrize('write', [lines, lambda records: json.dumps(records, indent=1)])
def test_json_records_by_columns_and_by_texts(tmp_path, records, write):
    (tmp_path / 'new.json').write_text(write(records))
    assert unlabelled.read(five(), tmp_path / 'new.json') == FIVE_UNLABELLED


@pytest.mark.parametrize(
    'fields, row, text', [({'text': 'texts'}, {'texts': 'A.'}, 'A.'), ({}, {'texts': ['A.']}, 'A.')]
)
def test_the_layout_is_that_of_the_first_record_that_can_be_read(tmp_path, fields, row, text):
    """A column may be called `texts`, and the first line be broken."""
    path = tmp_path / 'new.jsonl'
    bad = []
    path.write_text('{"texts": \n' + lines([row]))
    found = unlabelled.read(own.task('a.csv', **RATING | fields), path, bad.append)
    assert [example.texts for example in found] == [(text,)] and len(bad) == 1


@pytest.mark.parametrize(
    'records, ids',
    [
        ([{'texts': ['A.', 'B.'], 'id': 5}, {'texts': ['A.', 'B.']}], '51'),
        ([{'sentence1': 'A.', 'sentence2': 'B.', 'index': 5}], '5'),
    ],
)
def test_json_lines_of_a_published_set(tmp_path, records, ids):
    (tmp_path / 'new.jsonl').write_text(lines(records))
    assert read('rte', tmp_path / 'new.jsonl') == [Example(i, ('A.', 'B.')) for i in ids]


@pytest.mark.parametrize(
    'name, ending, text, message',
    [
        ('rte', 'tsv', 'index\tsentence1\tsentence2\n0\tA.\n', 'row 2: 2 columns, expected 3'),
        ('cola', 'tsv', 'A sentence alone.\n', "no column 'sentence'"),
        ('rte', 'tsv', '', 'empty'),
        ('rte', 'jsonl', '{"texts": ["A."]}\n', 'line 1: 1 texts, expected 2'),
        (
            'rte',
            'jsonl',
            '{"texts": ["A.", "B."]}\n{"texts": ["A.", 1]}\n',
            'line 2: text 2 is 1, no text',
        ),
        ('sst2', 'jsonl', '{"texts": "A."}\n', 'line 1: texts is not a list of texts'),
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
        ('cola', 'parquet', 'PAR1', 'cannot be read (Parquet file size is 4 bytes'),
        ('continuation', 'tsv', 'before\tbeginning\nA.\tB.\n', 'row 2: no id'),
    ],
)
def test_a_bad_row_or_file_is_named(tmp_path, name, ending, text, message):
    path = tmp_path / f'new.{ending}'
    path.write_text(text)
    assert refusal(read, name, path).startswith(f'{path}: {message}')
