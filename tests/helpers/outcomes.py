"""What tables and claims are made of: outcomes of runs, with predictions files of a few or many items."""
from experiments.lib.runner import Outcome, RunSpec
from tiny import predictions

HARD = 1000  # items of a fixture set


class Made:
    """Outcomes with predictions files behind them."""

    def __init__(self, directory):
        self.directory, self.outcomes = directory, []

    def add(self, task, condition, seed, right, n=10, split='dev', metric='accuracy', selections=('final', 'best'),
            value=None, group=None):
        """right: the number of items that are right, the first ones."""
        rows = []
        for selection in selections:
            path = self.directory / f'{task}-{condition}-{seed}-{split}-{selection}.jsonl'
            where = predictions(path, right, n)
            rows.append({'kind': 'finetune', 'task': task, 'split': split, 'group': group, 'n': n, 'metric': metric,
                         'value': right / n if value is None else value, 'selection': selection,
                         'seed': seed, 'step': 10_000, 'predictions': where})
        self.outcomes.append(Outcome(RunSpec(f'{task}-{condition}-{seed}', task, condition, seed, 'finetune', None,
                                             (split,)), 'ran', tuple(rows)))
