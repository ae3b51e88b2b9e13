"""Section 4, Tables 2 to 4: the metrics of a predictions file, as a program.

    python -m gpt1_jax.metrics runs/cola/predictions_dev.jsonl

prints every metric that applies, with its 95% bootstrap interval.
Degenerate inputs: no items, or a correlation with a constant, gives nan. F1 without positives in gold and predictions,
and Matthews with an empty row or column, give 0, as in scikit-learn.
"""
import argparse
import sys
from collections.abc import Sequence

from gpt1_jax import metrics
from gpt1_jax.errors import UserError


def main(arguments: Sequence[str]) -> int:
    """Print the metrics of a predictions file, one a line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog='python -m gpt1_jax.metrics', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('predictions', help="a run's predictions_SPLIT.jsonl")
    parser.add_argument('--positive', type=int, help='the label that f1 counts, by its index; default 1, of two')
    given = parser.parse_args(arguments)
    path = given.predictions
    try:
        _, gold, scores = metrics.read_predictions(path)
        n = scores.shape[1]
        if given.positive is not None and not (n > 1 and 0 <= given.positive < n):
            raise UserError(f'--positive={given.positive}: is no label of {path}, whose rows have {n} score(s)')
        names = metrics.applicable(gold, scores)
        if given.positive is not None and names and 'f1' not in names:
            names.append('f1')
        if not names:
            raise UserError(f'{path}: gold is not whole numbers but a row has {scores.shape[1]} scores, '
                            'so no metric applies')
    except UserError as error:
        print(f'error: {error}', file=sys.stderr)
        return 1
    for name, value in metrics.compute(names, gold, scores, given.positive).items():
        low, high = metrics.bootstrap_interval(name, gold, scores, positive=given.positive)
        print(f'{name:<9} {value:.4f}  n {len(gold)}  95% interval {low:.4f} to {high:.4f}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
