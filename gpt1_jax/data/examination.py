"""Looks for probable mistakes in a labelled set as a whole, after its rows are read.

Each function takes rows that are read already, so that no file is read twice, and returns warnings
of one line each.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.errors import shown

MISSING = frozenset(('nan', 'na', 'n/a', '#n/a', 'none', 'null', 'nil'))
NAMED = 5  # the most labels that a line names
REMEDY = 'mend the file, or name the right ones in a Python file (gpt1 help tasks)'


def warnings(
    task: Task, train: Sequence[Encoded], dev: Sequence[Encoded], read: bool = False
) -> list[str]:
    """Lines on probable mistakes in the training and dev rows of a task.

    read: whether the labels were read from a table. Otherwise the task states its labels.
    """
    found = copies(train, dev)
    if task.head == 'choice' or task.score:
        return found
    counts = {
        split: Counter(row.label for row in rows)
        for split, rows in (('training', train), ('dev', dev))
    }
    if read:
        total = counts['training'] + counts['dev']
        by_name = {name: total[index] for index, name in enumerate(task.labels)}
        found += missing(by_name) + alike(by_name)
    return found + one_sided(task.labels, counts)


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
