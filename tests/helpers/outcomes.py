"""Runs to make tables of, with predictions files of a few or many items behind them."""

from experiments.lib.run_list import Run
from tiny import predictions

HARD = 1000  # items of a fixture set


class Made:
    """outcomes: of the runs that were added."""

    def __init__(self, directory):
        self.directory = directory
        self.outcomes = []

    def add(
        self,
        task,
        condition,
        seed,
        right,
        n=10,
        split='dev',
        metric='accuracy',
        selections=('final', 'best'),
        value=None,
        group=None,
    ):
        """right: the number of items that are right. The first items are."""
        rows = []
        for selection in selections:
            path = self.directory / f'{task}-{condition}-{seed}-{split}-{selection}.jsonl'
            where = predictions(path, right, n)
            rows.append(
                {
                    'kind': 'finetune',
                    'task': task,
                    'split': split,
                    'group': group,
                    'n': n,
                    'metric': metric,
                    'value': right / n if value is None else value,
                    'selection': selection,
                    'seed': seed,
                    'step': 10_000,
                    'predictions': where,
                }
            )
        self._append(f'{task}-{condition}-{seed}', task, condition, seed, 'finetune', rows)

    def zero_shot(self, task, condition, curve, metric='accuracy', **fields):
        """curve: {step: how many of HARD items are right, as many of either label}."""
        rows = []
        for step, right in curve.items():
            path = self.directory / f'zero_shot-{task}-{condition}-{step}.jsonl'
            rows.append(
                {
                    'kind': 'zero_shot',
                    'task': task,
                    'split': 'dev',
                    'group': None,
                    'n': HARD,
                    'metric': metric,
                    'value': right / HARD if metric == 'accuracy' else 2 * right / HARD - 1,
                    'step': step,
                    'predictions': predictions(path, right, HARD),
                }
                | fields
            )
        self._append(f'{task}-zero_shot-{condition}', task, condition, 0, 'zero_shot', rows)

    def _append(self, name, task, condition, seed, kind, rows):
        self.outcomes.append(
            Run(name, task, condition, seed, kind, None, status='ran', rows=tuple(rows))
        )
