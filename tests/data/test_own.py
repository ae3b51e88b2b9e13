"""A table of a user's own by the names of its columns: labels, scores and choices, the part that is
held out, and the messages about mistakes."""

import collections
import dataclasses
import json
import math
import os
import sys
import unicodedata

import numpy
import pytest

import hub_parquet
from fake_hub import in_place_of_the_hub
from gpt1_jax.data.tasks import own, unlabelled
from gpt1_jax.data.tasks.example import Example
from own_sets import FIVE, FIVE_EXAMPLES, FIVE_ROWS, RATING, SENTIMENT, lines
from refusal import refusal


def whole(path, on_bad=None, **columns):
    """(the Task of a table, the Examples of all its rows)."""
    task = own.task(str(path), **columns)
    return task, own.whole(task).read(str(path), 'train', *filter(None, [on_bad]))


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def table(path, separator=',', labels=('b', 'a')):
    rows = [
        separator.join([f'text {i}', f'more {i}', labels[i % len(labels)], str(i % 5)])
        for i in range(30)
    ]
    return write(path, '\n'.join([separator.join(['one', 'two', 'topic', 'stars']), *rows]))


def test_a_table_is_read_once_for_labels_training_and_dev(tmp_path):
    path = table(tmp_path / 'my.csv')
    opened = []
    sys.addaudithook(lambda event, given: event == 'open' and given[0] == path and opened.append(1))
    task = own.task(path, ['one', 'two'], 'topic')
    assert (task.name, task.head, task.labels, task.n_texts) == ('my', 'classify', ('a', 'b'), 2)
    train, dev, again = (task.read(path, split) for split in ('train', 'dev', 'train'))
    assert (len(train), len(dev)) == (26, 4) and train == again
    assert train[0].texts == ('text 0', 'more 0')
    assert {one.id for one in train}.isdisjoint(one.id for one in dev)
    assert own.task(path, ['one', 'two'], 'topic') is task and len(opened) == 1
    table(tmp_path / 'my.csv', labels=('c', 'd'))
    os.utime(path, ns=(0, 0))
    assert own.task(path, 'one', 'topic').labels == ('c', 'd')


@pytest.mark.parametrize(
    'labels, columns, expected',
    [
        (('10', '9', '-1'), dict(label='topic'), ('-1', '9', '10')),  # in the order of numbers
        (('b', 'a'), dict(label='stars', score=['0', '4']), tuple('01234')),
        (('A', 'b'), dict(text='stars', choices=['one', 'two'], label='topic'), ('A', 'B')),
        (('1', '2'), dict(text='stars', choices=['one', 'two'], label='topic'), ('1', '2')),
    ],
)
def test_labels_scores_and_answers_are_recognised(tmp_path, labels, columns, expected):
    task, found = whole(table(tmp_path / 'a.csv', labels=labels), **{'text': 'one'} | columns)
    assert task.labels == expected and (task.head == 'choice') == ('choices' in columns)
    assert task.metrics == (('pearson', 'spearman') if task.score else ('accuracy',))
    assert 'choices' not in columns or [one.label for one in found[:2]] == [0, 1]


def test_answers_that_are_choices_themselves_are_not_their_places(tmp_path):
    rows = 'q,a,b,right\n' + ''.join(f'x{i},2,1,{1 + i % 2}\n' for i in range(8))
    path = write(tmp_path / 'a.csv', rows)
    _, found = whole(path, text='q', choices=['a', 'b'], label='right')
    assert all(one.choices[one.label] == str(1 + int(one.texts[0][1:]) % 2) for one in found)


def test_choices_are_columns_of_which_the_last_may_be_empty_or_lists(tmp_path):
    assert whole(write(tmp_path / 'a.csv', FIVE_ROWS), **FIVE)[1] == FIVE_EXAMPLES
    records = [
        dict(zip(FIVE['text'], e.texts), choices=list(e.choices), answer='ABCDE'[e.label])
        for e in FIVE_EXAMPLES
    ]
    table = [r | {'choices': json.dumps(r['choices'])} for r in records]
    table = '\n'.join('|'.join(row) for row in (table[0], *(row.values() for row in table)))
    for name, content in (('a.jsonl', lines(records)), ('b.csv', table)):
        path = write(tmp_path / name, content)
        assert whole(path, **FIVE | {'choices': ('choices',)})[1] == FIVE_EXAMPLES


def test_rows_of_another_file_have_the_labels_of_the_run(tmp_path):
    path = write(tmp_path / 'new.csv', 'topic;one\n0;A.\n1;B.\n')
    task = own.whole(own.task('gone.csv', 'one', 'topic', labels=('0', '1', '2')))
    assert [one.label for one in task.read(path, 'test')] == [0, 1]


@pytest.mark.parametrize('labels, answer', [('AB', 'b'), ('01', '1'), ('12', '2'), ('12', 'right')])
def test_answers_of_another_file_are_the_choices_of_the_run(tmp_path, labels, answer):
    task = own.task('gone.csv', 'q', 'y', choices=['a', 'b'], labels=tuple(labels))
    path = write(tmp_path / 'new.csv', f'q,a,b,y\nx,wrong,right,{answer}\n')
    assert own.whole(task).read(path, 'test')[0].label == 1


@pytest.mark.parametrize(
    'name, rows',
    [
        ('a.csv', 't,l\nA,1\nB,1.0\nC,2.00\nD,2\n'),
        (
            'a.jsonl',
            lines({'t': text, 'l': label} for text, label in zip('ABCD', (1, 1.0, 2.0, 2))),
        ),
    ],
)
def test_whole_numbers_with_and_without_decimals_are_one_label(tmp_path, name, rows):
    task, found = whole(write(tmp_path / name, rows), text='t', label='l')
    assert task.labels == ('1', '2') and [one.label for one in found] == [0, 0, 1, 1]


def part(texts, directory, **fields):
    path = write(directory / 'a.csv', 'text,score\n' + ''.join(f'{text},1\n' for text in texts))
    task = dataclasses.replace(own.task(path, **RATING), **fields)
    return [[one.texts[0] for one in task.read(path, split)] for split in ('train', 'dev')]


def test_a_share_of_the_training_rows_becomes_dev_whatever_their_order(tmp_path):
    texts = [f'text {i}' for i in range(40)]
    train, dev = part(texts, tmp_path, dev_fraction=0.25)
    assert len(dev) == 10 and sorted(train + dev) == sorted(texts) and not set(train) & set(dev)
    assert part(texts[::-1], tmp_path, dev_fraction=0.25) == [train[::-1], dev[::-1]]
    assert set(part(texts, tmp_path, dev_fraction=0.25, dev_seed=4)[1]) != set(dev)
    # Equal texts stay together
    train, dev = part([f'text {i % 10}' for i in range(40)], tmp_path, dev_fraction=0.25)
    assert len(train) + len(dev) == 40 and not set(train) & set(dev)
    assert '40 rows leave none for train' in refusal(part, ['same'] * 40, tmp_path)
    assert '1 rows leave none for train, of which dev takes 0.1' in refusal(part, ['A'], tmp_path)


def test_dev_has_a_share_of_each_label_of_several_rows(tmp_path):
    def counts(*labels):
        rows = ''.join(f'text {i},{label}\n' for i, label in enumerate(labels))
        path = write(tmp_path / 'a.csv', f'text,label\n{rows}')
        task = own.task(path, **SENTIMENT)
        examples = (task.read(path, split) for split in ('train', 'dev'))
        return [collections.Counter(task.labels[one.label] for one in found) for found in examples]

    labels = ['common'] * 40 + ['rare', 'rare', 'single']
    train = {'common': 36, 'rare': 1, 'single': 1}
    assert counts(*labels) == [train, {'common': 4, 'rare': 1}]
    assert '2 rows leave none for dev' in refusal(counts, 'negative', 'positive')


def test_a_set_is_called_as_the_link_to_its_file(tmp_path, monkeypatch):
    """As in the Hub's cache."""
    table(tmp_path / '4f2a9c')
    (tmp_path / 'reviews.csv').symlink_to('4f2a9c')
    assert own.task(str(tmp_path / 'reviews.csv'), 'one', 'topic').name == 'reviews'
    monkeypatch.chdir(tmp_path)
    assert own.name('.') == tmp_path.name and own.name('hf:me/stars@main') == 'stars'


def test_a_directory_has_the_splits_by_their_names(tmp_path, capsys):
    for name in ('train.csv', 'val.csv', 'test.csv', 'notes.csv'):
        table(tmp_path / name)
    task = own.task(str(tmp_path), 'one', 'topic')
    for split, name in (('train', 'train.csv'), ('dev', 'val.csv'), ('test', 'test.csv')):
        assert task.files(tmp_path, split) == [f'{tmp_path}/{name}']
        assert len(task.read(tmp_path, split)) == 30
    warning = 'notes.csv is not read: the splits are train.csv, val.csv, test.csv'
    assert capsys.readouterr().err.count(warning) == 1
    table(tmp_path / 'train.tsv', '\t')
    assert 'holds train.csv and train.tsv' in refusal(own.task, str(tmp_path), 'one', 'topic')


def sentiment(path, n=40):
    """Writes a Parquet file of texts and of numbers whose names are in the schema, as the Hub's."""
    rows = [(f'text {i}', i % 3 - 1) for i in range(n)]  # -1: without a label
    hub_parquet.write(path, {'text': 'string', 'stars': ['bad', 'good']}, rows)
    return str(path)


def test_labelled_parquet_is_read_by_the_names_of_its_labels(tmp_path):
    path = sentiment(tmp_path / 'x.parquet')
    task = own.task(path, 'text', 'stars')
    assert task.labels == ('bad', 'good')
    bad = []
    found = [one for split in ('train', 'dev') for one in task.read(path, split, bad.append)]
    assert len(found) == 26 and {*bad} == {f'{path}: row {i}: no label' for i in range(0, 40, 3)}
    assert all(int(one.id) % 3 == 1 + one.label for one in found)
    assert unlabelled.read(task, path)[0].record == {'text': 'text 0', 'stars': ''}


def test_a_set_on_the_hub_is_read_by_the_names_of_its_splits(tmp_path, monkeypatch):
    place = tmp_path / 'set' / 'data'
    sentiment(place / 'train-00000-of-00001.parquet')
    sentiment(place / 'validation-00000-of-00001-0a1b.parquet', 12)
    table(place / 'notes.csv')
    with in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as hub:
        hub.add('me/stars', tmp_path / 'set', 'dataset')
        hub.add('me/none', {'README.md': b''}, 'dataset')
        task = own.task('hf:me/stars', 'text', 'stars')
        assert task.name == 'stars' and len(hub.asked) == 2
        assert len(task.read('hf:me/stars', 'dev', [].append)) == 8
        assert 'hf:me/none: no train.csv, ' in refusal(own.task, 'hf:me/none', 'text', 'stars')


def test_a_table_in_memory_is_a_file_that_stays(tmp_path, monkeypatch):
    pandas = pytest.importorskip('pandas')
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path))
    frame = pandas.DataFrame({'t': ['A "b"\nc'] * 20, 'l': [1, 0] * 10, 'n': [1.5, math.nan] * 10})
    path = own.saved(frame)
    assert path == own.saved(frame.copy()) != own.saved(frame.head(4))
    task, found = whole(path, text='t', label='l')
    assert task.labels == ('0', '1') and found[0].texts == ('A "b"\nc',)
    lists = pandas.DataFrame({'c': [numpy.array(['a', 'b'])], 'n': [1]})
    assert own.records_of(lists) == [{'c': ['a', 'b'], 'n': 1}]


def test_a_misspelt_column_is_told_with_the_columns_that_are_there(tmp_path, monkeypatch):
    pandas = pytest.importorskip('pandas')
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path))
    frame = pandas.DataFrame({'text': ['A', '', *'B' * 38], 'label': [1, 0] * 20})
    paths = [tmp_path / f'a.{kind}' for kind in ('csv', 'jsonl', 'parquet')]
    frame.to_csv(paths[0])
    frame.to_json(paths[1], orient='records', lines=True)
    frame.to_parquet(paths[2])
    saved = own.saved(frame)
    for path in (*map(str, paths), saved):
        for given, wrong in ((('txet', 'label'), 'txet'), (('text', 'lable'), 'lable')):
            said = refusal(own.task, path, *given)
            assert said.startswith(f'{path}: no column {wrong!r}, did you mean')
            assert 'text, label)' in said
    said = refusal(own.task(saved, 'text', 'label').read, saved, 'train')
    assert said == f'{saved}: row 1: text is empty'


@pytest.mark.parametrize(
    'encoding, separator, word',
    [
        ('cp1252', ';', 'é\xa0É'),
        ('shift_jis', '\t', '\u8868'),  # has a backslash's byte
        ('utf-16', ';', 'é\xa0É'),
    ],
)
def test_a_table_is_read_in_the_encoding_that_is_named(tmp_path, encoding, separator, word):
    rows = [[f'{word} {i}', f'"{word}"', f'{word}{i % 2}'] for i in range(20)]
    text = '\n'.join(map(separator.join, [[f'a{word}', 'b', 'l'], *rows]))
    path = write(tmp_path / 'my.csv', text.encode(encoding))
    task, found = whole(path, text=[f'a{word}', 'b'], label='l', encoding=encoding)
    assert task.labels == (f'{word}0', f'{word}1')
    assert [one.texts for one in found] == [(f'{word} {i}', word) for i in range(20)]


@pytest.mark.parametrize('form', ['NFC', 'NFD'])
def test_the_unicode_form_of_a_column_does_not_matter(tmp_path, form):
    rows = [{unicodedata.normalize(form, 'réponse'): text, 'l': text} for text in 'AB']
    found = whole(write(tmp_path / 'a.jsonl', lines(rows)), text='réponse', label='l')[1]
    assert [one.texts for one in found] == [('A',), ('B',)]


def test_bad_rows_are_left_out_and_told_where_a_list_is_given(tmp_path):
    skipped = []
    path = write(tmp_path / 'a.csv', 'text,score\nA,1\n,2\nB,9\nC,3,4\nD,5\n')
    found = whole(path, skipped.append, **RATING)[1]
    assert found == [Example('0', ('A',), (), 1.0), Example('4', ('D',), (), 5.0)]
    assert [line.split(': ')[1] for line in skipped] == ['row 3', 'row 4', 'row 5']


RECORD = {'passage': 'P', 'question': 'Q', 'a': ['x', 'y'], 'answer': 'A'}
LISTED = FIVE | {'choices': ('a',)}


@pytest.mark.parametrize(
    'columns, content, cause',
    [
        (RATING, 'text,score\nA,8\n', 'row 2: label is 8, must be a number from 1 to 7'),
        (FIVE, FIVE_ROWS + 'q,P,Q,x,,y,,,A\n', 'row 4: choice 2 is empty'),
        (FIVE, FIVE_ROWS + 'q,P,Q,x,y,z,,,E\n', "row 4: label 'E' is not one of A, B, C"),
        (LISTED, [RECORD, RECORD | {'a': ['x', ' ']}], 'line 2: choice 2 is empty'),
        (LISTED, [RECORD, RECORD | {'passage': ['P']}], "line 2: passage: ['P'] is not a text"),
        (LISTED, [RECORD, {'passage': 'P'}], 'line 2: no question'),
        (SENTIMENT, 'text,label\n', 'no rows'),
        (SENTIMENT, 'text,label\nA.,x\nB.,x\n', "1 different label(s) in column 'label', at least"),
        (
            SENTIMENT,
            [{'text': 'A', 'label': label} for label in ('a', ['a', 'b'], 'b')],
            'column \'label\' has lists, such as ["a", "b"]: a row has several labels; one label',
        ),
        (
            SENTIMENT,
            "text,label\nA,\"['a', 'b']\"\nB,[]\n",
            "column 'label' has lists, such as ['a', 'b']: a row has several labels; one label",
        ),
        (
            SENTIMENT,
            'text,label\n' + ''.join(f'A,{i / 7}\n' for i in range(80)),
            "column 'label' has 80 different labels in 80 rows; of a score give --score=LOW,HIGH",
        ),
        (
            SENTIMENT,
            'text,label\n' + ''.join(f'A,name{i}\n' for i in range(80)),
            'few rows share a label, or',
        ),
        (
            SENTIMENT,
            'text,label\n' + ''.join(f'A,c{i}\n' for i in range(1001)) * 2,
            'has 1,001 different labels in 2,002 rows: few rows share a label, or there are more than',
        ),
    ],
)
def test_a_bad_row_or_table_is_named_with_its_cause(tmp_path, columns, content, cause):
    if isinstance(content, str):
        path = write(tmp_path / 'a.csv', content)
    else:
        path = write(tmp_path / 'a.jsonl', lines(content))
    message = refusal(whole, path, **columns)
    assert message.startswith(path) and cause in message


@pytest.mark.parametrize(
    'fields, message',
    [
        ({'data': 'a.xlsx'}, 'a.xlsx: must end in one of .csv, .tsv, .jsonl, .json, .parquet'),
        ({'label': ''}, 'give --text=COLUMN and --label=COLUMN'),
        ({'text': ('t', 'l')}, "column 'l' is given twice"),
        ({'score': (4, 1)}, 'score is (4, 1), must be LOW,HIGH, two numbers'),
        ({'lable': 'l'}, "config.custom: got an unexpected keyword argument 'lable'"),
        ({'score': (1, 4), 'choices': ('a',)}, 'choices and score are both given'),
    ],
)
def test_names_that_do_not_fit_together_are_one_line(fields, message):
    given = {'data': 'a.csv', 'text': ('t',), 'label': 'l'} | fields
    assert refusal(own.of, given, None).startswith(message)
