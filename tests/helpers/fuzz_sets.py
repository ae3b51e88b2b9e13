"""Fuzz targets for labelled sets: a few rows of each, laid out as by its publisher, and the
expected results."""

import contextlib
import json

import sets
from fuzz_files import Target, is_one_line, target
from gpt1_jax.data import inspection, splits, tasks
from gpt1_jax.data.tasks import own, unlabelled
from gpt1_jax.errors import UserError
from own_sets import FIVE, FIVE_ROWS, RATING, SENTIMENT, lines
from refusal import refusal


def checked_examples(task, directory, split, vocabulary):
    """Reads a split with bad rows left out and strictly.

    Both must agree, and every example must be valid.
    """
    skipped = []
    found = task.read(directory, split, skipped.append)
    assert all(map(is_one_line, skipped))
    if skipped:
        assert refusal(task.read, directory, split) == skipped[0]
    else:
        assert found == task.read(directory, split)
    assert len({example.id for example in found}) == len(found) > 0
    for example in found:
        check(task, split, example)
    lay_out(found, task, vocabulary)


def check(task, split, example):
    texts = example.texts + example.choices
    assert len(example.texts) == task.n_texts and ''.join(texts).strip()
    assert all(isinstance(text, str) for text in texts)
    assert all(text.strip() for text in example.choices)
    label = example.label
    if split in task.unlabelled:
        assert label is None
    elif task.score:
        low, high = task.score
        assert type(label) is float and low <= label <= high
    else:
        assert type(label) is int and 0 <= label < (len(example.choices) or len(task.labels))


def lay_out(examples, task, vocabulary):
    """Does with a few examples what entry points do before they compute.

    Examples that do not fit are a UserError.
    """
    shown = [e for e in examples if len(''.join(e.texts + e.choices)) < 2000][:2]
    left = []
    with contextlib.suppress(UserError):  # none of them fits
        encoded = splits.encode_all(shown, task, vocabulary, 64, left.append)
        assert len(encoded) + len(left) == len(shown)
        ids = [i for row in encoded for sequence in row.sequences for i in sequence]
        assert 0 <= min(ids) <= max(ids) < vocabulary.vocab_size + 3
        shown_lines = inspection.lines(task, shown, encoded, vocabulary, 64)
        assert all(line.isprintable() for line in shown_lines)
    assert all(map(is_one_line, left))


def of_set(name, root, vocabulary):
    """The targets of a published set's splits that are in root/set."""
    task = tasks.get(name)
    for split in (*task.splits, *task.unlabelled):

        def read(directory, split=split):
            checked_examples(task, directory / 'set', split, vocabulary)

        with contextlib.suppress(UserError, FileNotFoundError):  # not written
            files = task.files(root / 'set', split)
            yield Target(root, read, [file.removeprefix(f'{root}/') for file in files])


def tables(root, world, names=sets.TABLES):
    """GLUE's files, SNLI's and SciTail's."""
    for name in names:
        sets.write(name, 'official', root / name / 'set')
        yield from of_set(name, root / name, world.vocabulary)


def other_sets(root, world):
    """Story Cloze, RACE and the pronouns."""
    yield from tables(root, world, sets.OFFICIAL)


CHOICES = [{'q': f'Q{i}', 'c': ['one', 'two', 3], 'y': i} for i in (1, 2, 3)]
VALUES = [{'a': f'A{i}', 'b': 'B', 'y': i / 4} for i in range(4)]
TABLES = [  # columns, the name of a file and its rows
    (FIVE, 'train.csv', FIVE_ROWS),
    (RATING, 'train.csv', 'text,score\n' + ''.join(f'"Text, {i}",{i + 1.5}\n' for i in range(5))),
    (SENTIMENT, 'train.tsv', 'text\tlabel\nA\tno\nB "\tyes\n"C"\tno\nD\tyes\nE\tno\n'),
    (SENTIMENT, 'train.json', json.dumps({'text': [*'abcde'], 'label': [0, 1, 0, 1, 0]})),
    ({'text': 'q', 'choices': 'c', 'label': 'y'}, 'train.jsonl', lines(CHOICES)),
    ({'text': ('a', 'b'), 'score': (-0.5, 1.5), 'label': 'y'}, 'train.jsonl', lines(VALUES)),
]


def custom_sets(root, world):
    """Tables that the names of columns fit."""
    for number, (columns, name, rows) in enumerate(TABLES):

        def read(directory, name=name, columns=columns):
            task = own.whole(own.task(str(directory / name), **columns))
            checked_examples(task, directory / name, 'train', world.vocabulary)
            unlabelled.read(task, directory / name, [].append)

        (root / str(number)).mkdir(parents=True)
        (root / str(number) / name).write_text(rows)
        yield target(root / str(number), read)
