"""Runs to make tables of, with predictions files of a few or many items behind them."""

from experiments.lib.run_list import Run
from tiny import predictions

HARD = 1000  # items of a fixture set


def row(**fields):
    """A row of results.jsonl of a fine-tuned run."""
    usual = {'kind': 'finetune', 'split': 'dev', 'group': None, 'metric': 'accuracy', 'seed': 0}
    return usual | {'selection': 'final'} | fields


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
    ):
        """right: the number of items that are right. The first items are."""
        rows = []
        for selection in selections:
            path = self.directory / f'{task}-{condition}-{seed}-{split}-{selection}.jsonl'
            of_run = {'task': task, 'split': split, 'metric': metric, 'seed': seed}
            of_run |= {'selection': selection, 'predictions': predictions(path, right, n), 'n': n}
            rows.append(row(**of_run, value=right / n if value is None else value))
        self._append(f'{task}-{condition}-{seed}', task, condition, seed, 'finetune', rows)

    def zero_shot(self, task, condition, curve, metric='accuracy', **fields):
        """curve: {step: how many of HARD items are right, as many of either label}."""
        rows = []
        for step, right in curve.items():
            path = self.directory / f'zero_shot-{task}-{condition}-{step}.jsonl'
            of_step = {'task': task, 'metric': metric, 'step': step, 'n': HARD}
            of_step |= {'kind': 'zero_shot', 'selection': None}
            of_step['value'] = right / HARD if metric == 'accuracy' else 2 * right / HARD - 1
            rows.append(row(**of_step, predictions=predictions(path, right, HARD), **fields))
        self._append(f'{task}-zero_shot-{condition}', task, condition, 0, 'zero_shot', rows)

    def _append(self, name, task, condition, seed, kind, rows):
        self.outcomes.append(
            Run(name, task, condition, seed, kind, None, status='ran', rows=tuple(rows))
        )
