"""Pretraining curves of several runs side by side, as one PNG file. Needs no display.

python -m experiments.plots runs/gpt1 runs/lstm --out=runs.png

Loss, learning rate, held-out perplexity and throughput from each run's metrics.jsonl, finished or not.
"""
import argparse
import itertools
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.lib.figures import COLOURS, COUNT, STYLE, save
from gpt1_jax import storage
from gpt1_jax.errors import UserError, os_line, shown
from gpt1_jax.runs import results

PANELS = {'loss': 'training loss (nats)', 'learning_rate': 'learning rate',  # fields of metrics.jsonl
          'valid_perplexity': 'held-out perplexity', 'tokens_per_s': 'tokens a second'}


def training_curves(path: str | pathlib.Path, curves: Mapping[str, Mapping[str, Sequence[tuple]]]) -> None:
    """Draw several runs on the same axes against updates, a panel for each of PANELS. curves: {label: `read_curves` of
    that run}."""
    colours = [COLOURS[name] for name in ('pretrained', 'scratch', 'race', 'sst2', 'dpr', 'train', 'cola')]
    styles = [{'color': colour, 'linestyle': line} for line in ('-', '--', ':') for colour in colours]
    styles = dict(zip(curves, itertools.cycle(styles)))
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 2, figsize=(11, 7), sharex=True)
        for axes, (field, title) in zip(grid.flat, PANELS.items()):
            drawn = {label: one[field] for label, one in curves.items() if one[field]}
            _panel(axes, field, drawn, styles)
            axes.set(title=title)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_formatter(COUNT)
        for axes in grid[1]:
            axes.set(xlabel='updates')
        figure.tight_layout()
        handles = [Line2D([], [], label=label, **style) for label, style in styles.items()]
        figure.legend(handles=handles, loc='upper center', bbox_to_anchor=(0.5, 0.02), ncols=min(3, len(styles)))
        save(figure, path)


def _panel(axes, field, drawn, styles):
    """One field of metrics.jsonl. drawn: {label: [(step, value), ...]}, of the runs that have it."""
    if not drawn:
        axes.set_yticks([])
        axes.annotate('none in these runs', (0.5, 0.5), xycoords='axes fraction', ha='center', color='#808080')
        return
    marker = 'o' if field == 'valid_perplexity' else ''
    for label, points in drawn.items():
        axes.plot(*zip(*points), linewidth=1.2, marker=marker, markersize=4, **styles[label])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.8g}'))
    values = [value for points in drawn.values() for _, value in points if value > 0]
    if not values:
        return
    # Throughput on a log scale where a run on a CPU stands beside one on an accelerator.
    wide = field == 'tokens_per_s' and max(values) > 20 * min(values)
    if field == 'valid_perplexity' or wide:
        axes.set_yscale('log')
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(COUNT)
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif field != 'loss':
        axes.set_ylim(bottom=0)


def read_curves(run: pathlib.Path) -> dict[str, list[tuple]]:
    """{field: [(step, value), ...]} of PANELS from a run's metrics.jsonl: one point a step, the last that was written,
    without values that are not finite. UserError where there are no rows, or a field is not a number."""
    path = run / 'metrics.jsonl'
    rows = results.read(path)
    if not rows:
        raise UserError(f'{path}: no rows: not a run, or one that has logged nothing yet')
    curves = {field: {} for field in PANELS}
    for number, row in enumerate(rows, 1):
        for field in ('step', *(field for field in PANELS if field in row)):
            if not isinstance(row.get(field), (int, float)):
                raise UserError(f'{path}: line {number}: {field} is {shown(row.get(field))}, must be a number')
            if field in PANELS and abs(row[field]) < 1e300 and row['step'] < 1e15:
                curves[field][row['step']] = row[field]
    return {field: sorted(points.items()) for field, points in curves.items()}


def labels(paths: Sequence[str | pathlib.Path]) -> list[str]:
    """The shortest ends of the paths that are all different: 'a/run', 'b/run'."""
    parts = [pathlib.PurePath(path).parts for path in paths]
    for n in range(1, max(map(len, parts)) + 1):
        if len({one[-n:] for one in parts}) == len(parts):
            break
    return ['/'.join(one[-n:]) for one in parts]


def main(arguments: Sequence[str]) -> int:
    """Draw the runs; returns the exit status."""
    parser = argparse.ArgumentParser(prog='python -m experiments.plots', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('runs', nargs='+', metavar='RUN', help='a work directory')
    parser.add_argument('--out', default='runs.png', help='the PNG file (default: runs.png)')
    chosen = parser.parse_args(arguments)
    try:
        paths = list(dict.fromkeys(storage.absolute(run) for run in chosen.runs))  # one given twice is drawn once
        training_curves(chosen.out, dict(zip(labels(paths), map(read_curves, paths))))
    except (UserError, OSError) as error:
        print(f'error: {os_line(error) if isinstance(error, OSError) else error}', file=sys.stderr)
        return 1
    print(os.path.abspath(chosen.out))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
