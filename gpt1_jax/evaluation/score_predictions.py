"""Section 4, Tables 2 to 4: the metrics of a predictions file.

    gpt1 metrics --predictions=runs/cola/predictions_dev.jsonl

prints every metric that applies, with its 95% bootstrap interval.

Degenerate inputs: a correlation with a constant is nan. As in scikit-learn, F1 is 0 without
positives in gold and predictions, and Matthews is 0 if a row or column of the confusion table is
empty.
"""

from absl import flags

from gpt1_jax import cli, metrics, storage
from gpt1_jax.errors import UserError


def run(path: str | storage.Path, positive: int | None = None) -> list[str]:
    """Returns a line for each metric of a predictions file. positive: the label that F1 counts."""
    _, gold, scores = metrics.read_predictions(storage.path(path))
    n_labels = scores.shape[1]
    if positive is not None and not (n_labels > 1 and 0 <= positive < n_labels):
        raise UserError(
            f'--positive={positive}: not a label of {path}, whose rows have {n_labels} score(s)'
        )
    names = metrics.applicable(gold, scores, positive)
    if not names:
        raise UserError(
            f'{path}: no metric applies: gold has fractions, but rows have {n_labels} scores'
        )
    lines = []
    for name, value in metrics.compute(names, gold, scores, positive).items():
        low, high = metrics.bootstrap_interval(name, gold, scores, positive=positive)
        lines.append(f'{name:<9} {value:.4f}  n {len(gold)}  95% interval {low:.4f} to {high:.4f}')
    return lines


def _define_flags():
    flags.DEFINE_string('predictions', None, "a run's predictions_SPLIT.jsonl", required=True)
    flags.DEFINE_integer(
        'positive', None, 'index of the label that f1 counts (default: 1 of two labels)'
    )


def main() -> None:
    print('\n'.join(run(flags.FLAGS.predictions, flags.FLAGS.positive)))


if __name__ == '__main__':
    cli.run(main, _define_flags, ends_with_output=True)
