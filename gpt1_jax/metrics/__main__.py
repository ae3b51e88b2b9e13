"""Section 4, Tables 2 to 4: the metrics of a predictions file.

    gpt1 metrics runs/cola/predictions_dev.jsonl

prints every metric that applies, with its 95% bootstrap interval.
Degenerate inputs: nan without items, and for a correlation with a constant. As in scikit-learn, F1 is 0 without
positives in gold and predictions, and Matthews is 0 if a row or column of the confusion table is empty.
"""
import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from gpt1_jax import metrics, storage
from gpt1_jax.errors import UserError, os_errors_in_one_line


class Parser(argparse.ArgumentParser):
    """Whose errors are one line, as those of all programs."""

    def error(self, message: str) -> NoReturn:
        print(f'error: {message}', file=sys.stderr)
        sys.exit(2)


def main(arguments: Sequence[str]) -> int:
    """Print the metrics of a predictions file, one a line. Returns the exit status."""
    parser = Parser(prog='gpt1 metrics', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('predictions', help="a run's predictions_SPLIT.jsonl")
    parser.add_argument('--positive', type=int, help='index of the label that f1 counts (default: 1 of two labels)')
    given = parser.parse_args(arguments)
    try:
        with os_errors_in_one_line():
            _print_metrics(given.predictions, given.positive)
    except UserError as error:
        print(f'error: {error}', file=sys.stderr)
        return 1
    return 0


def _print_metrics(path, positive):
    _, gold, scores = metrics.read_predictions(storage.path(path))
    n_labels = scores.shape[1]
    if positive is not None and not (n_labels > 1 and 0 <= positive < n_labels):
        raise UserError(f'--positive={positive}: not a label of {path}, whose rows have {n_labels} score(s)')
    names = metrics.applicable(gold, scores, positive)
    if not names:
        raise UserError(f'{path}: no metric applies: gold has fractions, but rows have {n_labels} scores')
    for name, value in metrics.compute(names, gold, scores, positive).items():
        low, high = metrics.bootstrap_interval(name, gold, scores, positive=positive)
        print(f'{name:<9} {value:.4f}  n {len(gold)}  95% interval {low:.4f} to {high:.4f}')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
