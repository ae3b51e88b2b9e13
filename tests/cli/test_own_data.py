"""Fine-tuning on one's own file by --data, --text and --label: what is read from the file itself."""
import types

import pytest

from gpt1_jax import configs  # noqa: F401
from gpt1_jax.cli import own_data
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import own_file
from gpt1_jax.runs import fine_tuning
from refusal import refusal
from tiny import load_config

GIVEN = dict(data=None, text=[], label=None, choices=[], score=[], init_from=None)


def config_of(monkeypatch, **given):
    monkeypatch.setattr(own_data.flags, 'FLAGS', types.SimpleNamespace(**GIVEN | given))
    config = own_data.filled(load_config('custom', 'own'))
    fine_tuning._read_labels(config.custom, config.data.dir)
    return config


def table(path, separator=',', labels=('b', 'a')):
    rows = [separator.join([f'text {i}', f'more {i}', labels[i % len(labels)], str(i % 5)]) for i in range(30)]
    path.write_text('\n'.join([separator.join(['one', 'two', 'topic', 'stars']), *rows]))
    return str(path)


def test_labels_and_a_held_out_part_are_taken_from_the_file(tmp_path, monkeypatch):
    config = config_of(monkeypatch, data=table(tmp_path / 'my.csv'), text=['one', 'two'], label='topic',
                       init_from='novels')
    task = tasks.of(config.to_dict())
    assert (task.name, task.head, task.labels, config.init_from) == ('my', 'classify', ('a', 'b'), 'novels')
    train, dev = (task.read(config.data.dir, split) for split in ('train', 'dev'))
    assert len(train) == 27 and len(dev) == 3 and train[0].texts == ('text 0', 'more 0')
    assert {example.id for example in train}.isdisjoint(example.id for example in dev)


@pytest.mark.parametrize('separator', [';', '\t', '|'])
def test_a_separator_is_recognised(tmp_path, monkeypatch, separator):
    config = config_of(monkeypatch, data=table(tmp_path / 'a.csv', separator), text=['one'], label='topic')
    assert tasks.of(config.to_dict()).read(config.data.dir, 'dev')[0].texts[0].startswith('text ')


@pytest.mark.parametrize('labels, given, field, expected', [
    (('10', '9', '-1'), dict(label='topic'), 'labels', ('-1', '9', '10')),  # in the order of numbers
    (('b', 'a'), dict(label='stars', score=['0', '4']), 'score', (0, 4)),
    *[(answers, dict(text=['stars'], choices=['one', 'two'], label='topic'), 'answer', kind) for answers, kind in (
        (('A', 'b'), 'letter'), (('0', '1'), 'index0'), (('1', '2'), 'index1'), (('text 0', 'more 0'), 'text'))]])
def test_labels_scores_and_answers_are_recognised(tmp_path, monkeypatch, labels, given, field, expected):
    config = config_of(monkeypatch, **{'data': table(tmp_path / 'a.csv', labels=labels), 'text': ['one']} | given)
    assert config.custom[field] == expected
    assert (tasks.of(config.to_dict()).head == 'choice') == (field == 'answer')


def test_a_directory_has_the_splits_by_their_names(tmp_path, monkeypatch):
    for name in ('train.csv', 'validation.csv', 'test.csv', 'notes.txt'):
        table(tmp_path / name)
    config = config_of(monkeypatch, data=str(tmp_path), text=['one'], label='topic')
    assert config.custom.files.to_dict() == {'train': 'train.csv', 'dev': 'validation.csv', 'test': 'test.csv',
                                             'unlabelled': None}


@pytest.mark.parametrize('given, message', [
    (dict(text=['three'], label='topic'), "a.csv: no column 'three' (columns: one, two, topic, stars)"),
    (dict(text=['one'], label='topics'), "no column 'topics', did you mean 'topic'?"),
    (dict(text=['two'], label='one'), "column 'one' has 30 different labels in 30 rows; of a score give"),
    (dict(text=['one'], label='topic', MOST_LABELS=1), "column 'topic' has 2 different labels in 30 rows; of a score"),
    (dict(text=['one']), 'give --text=COLUMN and --label=COLUMN beside --data=FILE'),
    (dict(data=None, label='topic'), '--label goes with --data=FILE'),
    (dict(data='a.xlsx', text=['one'], label='two'), 'a.xlsx: must end in one of .csv, .tsv, .jsonl, .json'),
    (dict(text=['one'], label='topic', score=['low', 'high']), '--score=low,high: must be LOW,HIGH, two numbers')])
def test_what_does_not_fit_is_one_line(tmp_path, monkeypatch, given, message):
    """MOST_LABELS: no more are read than memory holds targets of."""
    given = {'data': table(tmp_path / 'a.csv'), 'MOST_LABELS': own_file.MOST_LABELS} | given
    monkeypatch.setattr(own_file, 'MANY_LABELS', 5)
    monkeypatch.setattr(own_file, 'MOST_LABELS', given.pop('MOST_LABELS'))
    assert message in refusal(config_of, monkeypatch, **given)
