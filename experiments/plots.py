"""Draws the pretraining curves of several runs to a PNG file, without a display.

python -m experiments.plots runs/gpt1 runs/lstm --out=runs.png

The curves are loss, learning rate, held-out perplexity and throughput, from each run's
metrics.jsonl. The runs need not be finished.
"""

import argparse
import itertools
import math
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from experiments.lib.figures import COLOURS, COUNT, STYLE, log_ticks, save
from gpt1_jax import storage
from gpt1_jax.errors import UserError, os_line
from gpt1_jax.runs import results

# Fields of metrics.jsonl
PANELS = {
    'loss': 'training loss (nats)',
    'learning_rate': 'learning rate',
    'valid_perplexity': 'held-out perplexity',
    'tokens_per_s': 'tokens a second',
}


def training_curves(
    path: str | pathlib.Path, curves: Mapping[str, Mapping[str, Sequence[tuple]]]
) -> None:
    """Draw several runs on the same axes against updates, with a panel for each of PANELS. curves:
    {label: `read_curves` of the run}."""
    colours = [
        COLOURS[name] for name in ('pretrained', 'scratch', 'race', 'sst2', 'dpr', 'train', 'cola')
    ]
    styles = [
        {'color': colour, 'linestyle': line} for line in ('-', '--', ':') for colour in colours
    ]
    styles = dict(zip(curves, itertools.cycle(styles)))
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 2, figsize=(11, 7), sharex=True)
        for axes, (field, title) in zip(grid.flat, PANELS.items()):
            drawn = {label: one[field] for label, one in curves.items() if one[field]}
            _panel(axes, field, drawn, styles)
            axes.set(title=title)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.xaxis.set_major_formatter(COUNT)
        for axes in grid[1]:
            axes.set(xlabel='updates')
        figure.tight_layout()
        handles = [Line2D([], [], label=label, **style) for label, style in styles.items()]
        figure.legend(
            handles=handles,
            loc='upper center',
            bbox_to_anchor=(0.5, 0.02),
            ncols=min(3, len(styles)),
        )
        save(figure, path)


def _panel(axes, field, drawn, styles):
    """Draw a field of metrics.jsonl. drawn: {label: [(step, value), ...]} of the runs that have
    the field."""
    if not drawn:
        axes.set_yticks([])
        axes.annotate(
            'none in these runs', (0.5, 0.5), xycoords='axes fraction', ha='center', color='#808080'
        )
        return
    marker = 'o' if field == 'valid_perplexity' else ''
    for label, points in drawn.items():
        axes.plot(*zip(*points), linewidth=1.2, marker=marker, markersize=4, **styles[label])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.8g}'))
    values = [value for points in drawn.values() for _, value in points if value > 0]
    # Also for throughput, if one run is on a CPU and another on an accelerator.
    if values and (
        field == 'valid_perplexity' or field == 'tokens_per_s' and max(values) > 20 * min(values)
    ):
        axes.set_yscale('log')
        log_ticks(axes.yaxis)
    elif field != 'loss':
        axes.set_ylim(bottom=0)


def read_curves(run: pathlib.Path) -> dict[str, list[tuple]]:
    """Return {field: [(step, value), ...]} of PANELS from a run's metrics.jsonl.

    A step has one point, the last that was written. Values that are not finite are left out.
    UserError if there are no rows.
    """
    path = run / 'metrics.jsonl'
    rows = results.read(path, results.OF_A_STEP)
    if not rows:
        raise UserError(f'{path}: no rows: not a run, or one that has logged nothing yet')
    return {
        field: sorted(
            {
                row['step']: row[field]
                for row in rows
                if isinstance(row.get(field), (int, float)) and math.isfinite(row[field])
            }.items()
        )
        for field in PANELS
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog='python -m experiments.plots',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('runs', nargs='+', metavar='RUN', help='a work directory')
    parser.add_argument('--out', default='runs.png', help='the PNG file (default: runs.png)')
    chosen = parser.parse_args(arguments)
    try:
        names = {storage.absolute(run): run for run in chosen.runs}  # a repeated run is drawn once
        training_curves(chosen.out, {name: read_curves(path) for path, name in names.items()})
    except (UserError, OSError) as error:
        print(f'error: {os_line(error) if isinstance(error, OSError) else error}', file=sys.stderr)
        return 1
    print(os.path.abspath(chosen.out))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
