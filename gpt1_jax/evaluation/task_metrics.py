"""Section 4.2: a task's metrics over a split and over each of its groups (RACE-m and RACE-h)."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpt1_jax import metrics
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.errors import one_line

MOST_LABELS = 12  # of a confusion matrix that is printed


def compute(task: Task, gold: ArrayLike, scores: np.ndarray) -> dict[str, float]:
    """Computes {metric: fraction} of a task's metrics. F1 counts the positive label.

    gold, scores: see metrics.compute.
    """
    return metrics.compute(task.metrics, gold, scores, task.positive)


def summary(task: Task, gold: Sequence, scores: np.ndarray) -> list[str]:
    """Lines to compare a classifier's metrics with.

    They are the metrics of always predicting the most frequent label, and the confusion matrix.
    """
    if task.score is not None:
        return []
    labels = np.asarray(gold)
    constant = int(np.bincount(labels).argmax())
    always = compute(task, labels, np.eye(scores.shape[1])[np.full(len(labels), constant)])
    lines = [
        f'always {task.labels[constant]!r}: '
        + ', '.join(f'{name} {value:.4f}' for name, value in always.items())
    ]
    if task.head == 'choice' or len(task.labels) > MOST_LABELS:
        return lines
    table = np.zeros((len(task.labels), len(task.labels)), int)
    np.add.at(table, (labels, scores.argmax(-1)), 1)
    names = list(map(one_line, task.labels))
    cells = [
        ['true \\ predicted', *names],
        *([name, *map(str, row)] for name, row in zip(names, table)),
    ]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return lines + ['  '.join(map(str.rjust, row, widths)) for row in cells]


def rows(
    task: Task, split: str, ids: Sequence[str], gold: Sequence, scores: np.ndarray
) -> Iterator[dict]:
    """Yields {'task', 'split', 'group', 'n', 'metric', 'value'} of each metric.

    First over all rows, whose group is None, then over each group of the task that has rows.
    """
    labels = np.array(gold)
    for group in (None, *task.groups):
        chosen = [i for i, name in enumerate(ids) if group is None or name.startswith(f'{group}/')]
        if not chosen:
            continue
        for metric, value in compute(task, labels[chosen], scores[chosen]).items():
            yield {
                'task': task.name,
                'split': split,
                'group': group,
                'n': len(chosen),
                'metric': metric,
                'value': value,
            }
