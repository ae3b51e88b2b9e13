"""Looks for probable mistakes in a labelled set as a whole, after its rows are read.

Each function takes rows that are read already, so that no file is read twice, and returns warnings
of one line each.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tasks.example import SEVERAL, Task
from gpt1_jax.errors import shown

MISSING = frozenset(('nan', 'na', 'n/a', '#n/a', 'none', 'null', 'nil'))
NAMED = 5  # the most labels that a line names
REMEDY = 'mend the file, or name the right ones in a Python file (gpt1 help tasks)'


def warnings(
    task: Task, train: Sequence[Encoded], dev: Sequence[Encoded], column: str = ''
) -> list[str]:
    """Lines on probable mistakes in the training and dev rows of a task.

    column: the column of labels that were read from a table, '' if the task states its labels.
    """
    found = copies(train, dev)
    if task.head == 'choice' or task.score:
        return found
    counts = {
        split: Counter(row.label for row in rows)
        for split, rows in (('training', train), ('dev', dev))
    }
    if not column:  # the task states its labels
        return found + one_sided(task.labels, counts)
    total = counts['training'] + counts['dev']
    by_name = {name: total[index] for index, name in enumerate(task.labels)}
    return (
        found
        + missing(by_name)
        + header(by_name, column)
        + alike(by_name)
        + combined(by_name)
        + one_sided(task.labels, counts)
    )


def copies(train: Sequence[Encoded], dev: Sequence[Encoded]) -> list[str]:
    """A line on dev rows that are also training rows, compared by their tokens."""

    def key(row):
        return tuple(map(tuple, row.sequences))

    keys = list(map(key, dev))
    trained = set(keys).intersection(map(key, train))
    n = sum(key in trained for key in keys)
    if not n:
        return []
    return [
        f'{n:,} of {len(dev):,} dev rows are training rows as well: their score is not that of '
        'unseen rows'
    ]


def missing(counts: dict[str, int]) -> list[str]:
    """Lines on labels that are words for a missing value. counts: {label: rows}."""
    names = [name for name in counts if name.strip().lower() in MISSING]
    return [f'label {_rows(name, counts)} looks like a missing value: {REMEDY}' for name in names]


def header(counts: dict[str, int], column: str) -> list[str]:
    """A line if a label is the name of its column, because a header is repeated between rows."""
    if column not in counts:
        return []
    return [
        f'label {_rows(column, counts)} is the name of its column, as in a repeated header: '
        f'{REMEDY}'
    ]


def alike(counts: dict[str, int]) -> list[str]:
    """Lines on labels that differ only in case, in spaces or in their Unicode form."""
    groups = defaultdict(list)
    for name in counts:
        groups[' '.join(unicodedata.normalize('NFKC', name).casefold().split())].append(name)
    return [
        f'labels {" and ".join(_rows(name, counts) for name in names[:NAMED])} differ in case, '
        f'spaces or Unicode form only: {REMEDY}'
        for names in groups.values()
        if len(names) > 1
    ]


def combined(counts: dict[str, int]) -> list[str]:
    """A line if a label is a list of other labels, because rows have several labels."""
    for name in counts:
        parts = re.split(r'\s*[,;|/+]\s*', name)
        if len(parts) > 1 and all(part in counts for part in parts):
            return [f'label {_rows(name, counts)} holds other labels: {SEVERAL}']
    return []


def one_sided(labels: Sequence[str], counts: dict[str, Counter]) -> list[str]:
    """Lines on labels that only one split has. counts: {split: {index of a label: rows}}."""
    lines = []
    for split, other in (('training', 'dev'), ('dev', 'training')):
        names = [
            shown(name)
            for index, name in enumerate(labels)
            if not counts[split][index] and counts[other][index]
        ]
        if names:
            more = f' and {len(names) - NAMED} more' if len(names) > NAMED else ''
            lines.append(f'no {split} row has label {", ".join(names[:NAMED])}{more}')
    return lines


def _rows(name, counts):
    n = counts[name]
    return f'{shown(name)} ({n:,} row{"s" if n != 1 else ""})'
