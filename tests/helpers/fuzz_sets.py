"""Fuzz targets for labelled sets: a few rows of each, laid out as by its publisher, and the
expected results."""

import contextlib
import json
import math
import pathlib
import tempfile

import numpy as np

import official
import sets
from fuzz_files import Target, is_one_line
from gpt1_jax import metrics
from gpt1_jax.data import inspection, splits, tasks
from gpt1_jax.data.tasks import own, unlabelled
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import zero_shot_heuristics as heuristics
from gpt1_jax.runs import results
from own_sets import FIVE, FIVE_ROWS, RATING, SENTIMENT, lines


def checked_examples(task, directory, split, n_texts, vocabulary):
    """Reads a split strictly and with bad rows left out.

    Both must agree, and every example must be valid.
    """
    skipped = []
    strict = None
    error = None
    try:
        strict = task.read(directory, split)
    except UserError as caught:
        error = caught
    found = task.read(directory, split, skipped.append)
    if error is None:
        assert found == strict and skipped == []
    else:  # refused for a row that is left out now
        assert skipped and skipped[0] == str(error)
    assert found and all(map(is_one_line, skipped))
    assert len({example.id for example in found}) == len(found)
    for example in found:
        assert type(example) is Example and isinstance(example.id, str)
        assert len(example.texts) == n_texts and isinstance(example.texts, tuple)
        assert all(isinstance(text, str) for text in example.texts + example.choices)
        assert (
            all(text.strip() for text in example.choices)
            and ''.join(example.texts + example.choices).strip()
        )
        assert (len(example.choices) >= 2) == (task.head == 'choice')
        check_label(task, split, example)
    shown = [e for e in found if len(''.join(e.texts + e.choices)) < 2000][:2]
    if shown:
        lay_out(shown, task, vocabulary)
    labels = [example.label for example in found]
    if None not in labels:  # ids come back from a run's predictions
        path = pathlib.Path(directory).parent / 'predictions.jsonl'
        results.write_predictions(
            path, [e.id for e in found], labels, np.zeros((len(found), max(map(width, found))))
        )
        assert metrics.read_predictions(path)[:2] == ([e.id for e in found], labels)


def lay_out(examples, task, vocabulary):
    """Does with examples what entry points do before they compute.

    Examples that do not fit are a UserError.
    """
    with contextlib.suppress(UserError):  # none of them fits
        left = []
        encoded = splits.encode_all(examples, task, vocabulary, 64, left.append)
        assert len(encoded) + len(left) == len(examples) and all(map(is_one_line, left))
        assert all(
            0 <= i < vocabulary.vocab_size + 3
            for row in encoded
            for ids in row.sequences
            for i in ids
        )
        assert all(
            isinstance(line, str)
            for line in inspection.lines(task, examples, encoded, vocabulary, 64)
        )
    if task.name in heuristics.HEURISTICS:
        with contextlib.suppress(UserError):
            left = []
            heuristics.encode_all(
                heuristics.get(task.name), examples, vocabulary, 64, task.name, left.append
            )
            assert all(map(is_one_line, left))


def width(example):
    return (
        1 if isinstance(example.label, float) else max(2, len(example.choices), example.label + 1)
    )


def check_label(task, split, example):
    label = example.label
    if split in task.unlabelled:
        assert label is None
    elif task.score:
        low, high = task.score
        assert type(label) is float and math.isfinite(label) and low <= label <= high
    else:
        n = len(example.choices) or len(task.labels)
        assert type(label) is int and 0 <= label < n


def of_set(name, vocabulary, write=None):
    """Targets for a published set's splits, as its publisher writes them.

    write: directory -> the targets of other files.
    """
    task = tasks.get(name)
    found = []
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        folder = root / 'set'
        write(folder) if write else sets.write(name, 'official', folder)
        for split in (*task.splits, *task.unlabelled):
            with contextlib.suppress(UserError, FileNotFoundError):  # not written
                files = {
                    str(pathlib.Path(file).relative_to(root)): pathlib.Path(file).read_bytes()
                    # AX lies beside the folder
                    for file in task.files(folder, split)
                    if split != 'ax'
                }
                if files:
                    found.append(target(task, split, files, vocabulary, 'set'))
    assert found
    return found


def target(task, split, files, vocabulary, folder='.'):
    return Target(
        f'{task.name} {split}',
        files,
        lambda directory: checked_examples(
            task, directory / folder, split, task.n_texts, vocabulary
        ),
    )


def tables(world):
    """GLUE's files, SNLI's and SciTail's."""
    return [found for name in sets.TABLES for found in of_set(name, world.vocabulary)]


def other_sets(world):
    """Story Cloze, RACE, the pronouns, SNLI's and the quickstart's JSON lines."""

    def json_lines(name, file, rows):
        def write(folder):
            folder.mkdir()
            (folder / file).write_text(lines(rows))

        return of_set(name, world.vocabulary, write)

    rows = [
        {
            'id': str(i),
            'text': 'A text.',
            'before': 'A.',
            'beginning': 'text.',
            'ending1': 'One.',
            'ending2': 'Two.',
            'label': i % 2 + 1,
        }
        for i in range(4)
    ]
    return [
        *(found for name in sets.EXPECTED for found in of_set(name, world.vocabulary)),
        *of_set(
            'story_cloze',
            world.vocabulary,
            lambda folder: official.story_cloze(
                folder / 'cloze_test_val__spring2016.csv', official.STORIES * 19
            ),
        ),
        *json_lines('continuation', 'continuation_dev.jsonl', rows),
        *json_lines('pronoun', 'pronoun_dev.jsonl', [row | {'label': 'he'} for row in rows]),
        *json_lines(
            'snli',
            'snli_1.0_test.jsonl',
            [dict(zip(('sentence1', 'sentence2', 'gold_label'), pair)) for pair in sets.PAIRS],
        ),
    ]


TABLES = [  # columns, the name of a file and its rows
    (FIVE, 'train.csv', FIVE_ROWS),
    (RATING, 'train.csv', 'text,score\n' + ''.join(f'"Text, {i}",{i + 1.5}\n' for i in range(5))),
    (SENTIMENT, 'train.tsv', 'text\tlabel\nA\tno\nB "\tyes\n"C"\tno\nD\tyes\nE\tno\n'),
    (SENTIMENT, 'train.json', json.dumps({'text': [*'abcde'], 'label': [0, 1, 0, 1, 0]})),
    (
        {'text': 'q', 'choices': 'c', 'label': 'y'},
        'train.jsonl',
        lines({'q': f'Q{i}', 'c': ['one', 'two', 3], 'y': i} for i in (1, 2, 3)),
    ),
    (
        {'text': ('a', 'b'), 'score': (-0.5, 1.5), 'label': 'y'},
        'train.jsonl',
        lines({'a': f'A{i}', 'b': 'B', 'y': i / 4} for i in range(4)),
    ),
]


def custom_sets(world):
    """Tables that the names of columns fit."""

    def reads(name, columns):
        def read(directory):
            task = own.task(str(directory / name), **columns)
            examples = checked_examples(
                own.whole(task), directory / name, 'train', task.n_texts, world.vocabulary
            )
            assert unlabelled.read(task, directory / name, [].append) or examples

        return read

    return [
        Target(f'table {i} {name}', {name: rows.encode()}, reads(name, columns))
        for i, (columns, name, rows) in enumerate(TABLES)
    ]
