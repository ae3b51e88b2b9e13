"""Section 4.2: a task's metrics over all rows of a split and over each of its groups (RACE-m and RACE-h)."""
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpt1_jax import metrics
from gpt1_jax.data.tasks.example import Task


def compute(task: Task, gold: ArrayLike, scores: np.ndarray) -> dict[str, float]:
    """{metric: fraction} of a task's metrics; F1 counts the positive label. gold, scores: see metrics.compute."""
    positive = task.positive if task.score is None and 'f1' in task.metrics else None
    return metrics.compute(task.metrics, gold, scores, positive)


def rows(task: Task, split: str, ids: Sequence[str], gold: Sequence, scores: np.ndarray) -> Iterator[dict]:
    """Yield {'task', 'split', 'group', 'n', 'metric', 'value'} of each metric over all rows, whose group is None, and
    over each group of the task that has rows."""
    labels = np.array(gold)
    for group in (None, *task.groups):
        chosen = [i for i, name in enumerate(ids) if group is None or name.startswith(f'{group}/')]
        if not chosen:
            continue
        for metric, value in compute(task, labels[chosen], scores[chosen]).items():
            yield {'task': task.name, 'split': split, 'group': group, 'n': len(chosen), 'metric': metric,
                   'value': value}
