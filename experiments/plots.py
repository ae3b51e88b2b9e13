"""Figures as PNG files, from plain rows; nothing here trains or scores. Needs no display.

python -m experiments.plots runs/gpt1 runs/lstm --out=runs.png

draws runs side by side, finished or not: loss, rate, held-out perplexity and throughput of each one's metrics.jsonl.
"""
import argparse
import itertools
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402
from matplotlib.transforms import ScaledTranslation  # noqa: E402

from gpt1_jax import results, storage  # noqa: E402
from gpt1_jax.errors import UserError, about, shown  # noqa: E402

# One meaning, one colour, in every figure; told apart by colour-blind readers too (Okabe and Ito).
COLOURS = {'pretrained': '#0072B2', 'scratch': '#D55E00', 'baseline': '#7F7F7F', 'train': '#56B4E9', 'valid': '#0072B2',
           'chance': '#B0B0B0', 'race': '#009E73', 'mnli': '#332288', 'sst2': '#CC79A7', 'dpr': '#E69F00',
           'cola': '#000000', 'source': '#44AA99'}
MARKERS = {'race': 'o', 'mnli': 's', 'sst2': '^', 'dpr': 'D', 'cola': 'v', 'source': 'o'}  # without colours, too
OTHER = ('#7F7F7F', 'X')  # a task that the paper's figures do not have
STYLE = {'figure.dpi': 150, 'font.size': 10, 'axes.spines.top': False, 'axes.spines.right': False, 'axes.grid': True,
         'grid.color': '#E6E6E6', 'axes.axisbelow': True, 'legend.frameon': False}
PANELS = {'loss': 'training loss (nats)', 'learning_rate': 'learning rate',  # of `runs`: fields of metrics.jsonl
          'valid_perplexity': 'held-out perplexity', 'tokens_per_s': 'tokens a second'}
PERCENT = FuncFormatter(lambda value, _: f'{100 * value:.0f}')
COUNT = FuncFormatter(lambda value, _: f'{value:,.0f}')


def save(figure, path):
    with about(path):
        figure.savefig(path, bbox_inches='tight', format='png')
    plt.close(figure)


def losses(path, rows: Sequence[dict], title: str = 'Pretraining'):
    """Training and validation loss (nats a token) against updates.

    rows: of metrics.jsonl: {'step', 'loss'} and {'step', 'valid_loss'} in any mix; other fields don't matter.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        lines = {'loss': {'label': 'training', 'color': COLOURS['train'], 'linewidth': 1.2},
                 'valid_loss': {'label': 'validation', 'color': COLOURS['valid'], 'marker': 'o', 'markersize': 4}}
        for field, line in lines.items():
            points = [(row['step'], row[field]) for row in rows if row.get(field) is not None]
            if points:
                axes.plot(*zip(*points), **line)
                if field == 'valid_loss':
                    axes.annotate(f'{points[-1][1]:.2f}', points[-1], (0, 8), textcoords='offset points', ha='center')
        axes.set(title=title, xlabel='updates', ylabel='loss (nats per token)')
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(COUNT)
        axes.legend()
        save(figure, path)


def comparison(path, panels: Sequence[dict], title: str = 'Fine-tuning, test accuracy with 95% intervals'):
    """A panel a task: one point with its interval for each run, on a common axis in percent.

    panels: [{'title', 'chance': fraction or None, 'figures': [{'name', 'kind': 'pretrained' | 'scratch' | 'baseline',
    'value', 'low', 'high'}]}], all fractions.
    """
    with plt.rc_context(STYLE):
        rows = max(len(panel['figures']) for panel in panels)
        size = (4.6 * len(panels), 1.3 + 0.42 * rows)
        figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharex=True)
        for axes, panel in zip(grid[0], panels):
            names = [figure_['name'] for figure_ in panel['figures']]
            for height, one in enumerate(panel['figures']):
                axes.errorbar(one['value'], height, xerr=[[one['value'] - one['low']], [one['high'] - one['value']]],
                              fmt='o', color=COLOURS[one['kind']], capsize=3, linewidth=1.8)
                axes.annotate(f'{100 * one["value"]:.1f}', (one['value'], height), (0, 7), textcoords='offset points',
                              ha='center', fontsize=9, color=COLOURS[one['kind']],
                              bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 0.5})
            if panel.get('chance') is not None:
                axes.axvline(panel['chance'], color=COLOURS['chance'], linestyle='--', linewidth=1)
                axes.annotate('chance', (panel['chance'], 0), (3, 2), xycoords=('data', 'axes fraction'),
                              textcoords='offset points', va='bottom', fontsize=8, color='#808080')
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.4, -0.8)
            axes.grid(axis='y', visible=False)
            axes.xaxis.set_major_formatter(PERCENT)
            axes.set(title=panel['title'], xlabel='accuracy (%)')
        figure.suptitle(title)
        figure.tight_layout()
        save(figure, path)


def zero_shot(path, points: Sequence[dict], chance: float = 0.5, title: str = 'Zero-shot acceptability'):
    """Accuracy without fine-tuning against pretraining updates (log scale), with its 95% interval as a band.

    points: [{'step', 'value', 'low', 'high'}], fractions; step 0 (before training) stands left of the log scale.
    """
    with plt.rc_context(STYLE):
        points = sorted(points, key=lambda point: point['step'])
        steps, values, lows, highs = ([point[name] for point in points] for name in ('step', 'value', 'low', 'high'))
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        first = min([step for step in steps if step > 0], default=1)
        # Linear from 0 to the first saved step, where a logarithm has no place for 0; logarithmic beyond.
        axes.set_xscale('symlog', linthresh=first, linscale=0.5) if steps[0] == 0 else axes.set_xscale('log')
        axes.fill_between(steps, lows, highs, color=COLOURS['pretrained'], alpha=0.2, linewidth=0, label='95% interval')
        axes.plot(steps, values, color=COLOURS['pretrained'], marker='o', markersize=4, label='right pairs')
        axes.annotate(f'{100 * values[-1]:.1f}', (steps[-1], values[-1]), (0, 8), textcoords='offset points',
                      ha='center')
        axes.axhline(chance, color='#808080', linestyle='--', linewidth=1, label='chance')
        axes.set_xticks(steps, [f'{step:,}' for step in steps])
        axes.xaxis.set_minor_locator(NullLocator())
        if len(steps) > 7:
            plt.setp(axes.get_xticklabels(), rotation=45, ha='right')
        axes.yaxis.set_major_formatter(PERCENT)
        axes.set_ylim(min(chance - 0.08, *lows) - 0.01, max(*highs, 0) + 0.06)
        axes.set(title=title, xlabel='pretraining updates (log scale)', ylabel='accuracy (%)')
        axes.legend(loc='upper left')
        save(figure, path)


def apart(steps: Sequence[int], most: int = 12) -> list[int]:
    """Those of the ascending steps that have room for a label on a log scale, the last one among them."""
    positive = [step for step in steps if step > 0]
    if not positive:
        return list(steps)
    ratio = (positive[-1] / positive[0]) ** (1 / most)
    kept = [positive[-1]]
    for step in reversed(positive[:-1]):
        if step * ratio < kept[-1] * 1.001:
            kept.append(step)
    return [step for step in steps if step <= 0] + kept[::-1]


def layers_transferred(path, curves: Sequence[dict], title: str = 'Figure 2 (left): layers transferred'):
    """Figure 2, left: accuracy after fine-tuning against the pretrained layers that it began with.

    curves: [{'task': 'mnli' | 'race', 'name': 'MultiNLI', 'split': 'dev' | 'test' | 'train', 'points': [{'layers',
    'value', 'low', 'high'}]}], fractions; layers is -1 for nothing, 0 for the embeddings, n for the first n blocks.
    Train is dashed, the others are solid with a band of their 95% intervals.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 4.2))
        ticks = sorted({point['layers'] for curve in curves for point in curve['points']})
        for curve in curves:
            points = sorted(curve['points'], key=lambda point: point['layers'])
            x, values, lows, highs = ([point[name] for point in points] for name in ('layers', 'value', 'low', 'high'))
            colour = COLOURS.get(curve['task'], OTHER[0])
            if curve['split'] != 'train':
                axes.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, values, color=colour, marker=MARKERS.get(curve['task'], OTHER[1]), markersize=5, linewidth=1.6,
                      linestyle='--' if curve['split'] == 'train' else '-',
                      markerfacecolor='white' if curve['split'] == 'train' else colour,
                      label=f'{curve["name"]} {curve["split"].capitalize()}')
        axes.set_xticks(ticks, ['none' if tick < 0 else str(tick) for tick in ticks])
        axes.yaxis.set_major_formatter(PERCENT)
        axes.set(title=title, ylabel='accuracy (%)',
                 xlabel='# of layers transferred (none: no weights at all, 0: the embeddings alone)')
        axes.legend(ncols=2, loc='upper center', bbox_to_anchor=(0.5, -0.16))
        save(figure, path)


def zero_shot_tasks(path, curves: Sequence[dict], title: str = 'Figure 2 (right): zero-shot performance'):
    """Figure 2, right: tasks without fine-tuning against pretraining updates, 0 a random guess, 1 the state of the art.

    curves: [{'task', 'name': 'sentiment analysis', 'model': 'Transformer' | 'LSTM', 'points': [{'step', 'value', 'low',
    'high'}]}], normalised. The Transformer is solid, the LSTM dashed; beside each curve's last point stands its 95%
    interval. Step 0 (before training) stands left of the log scale.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.8, 4.6))
        steps = sorted({point['step'] for curve in curves for point in curve['points']})
        # Linear from 0 to the first saved step, where a logarithm has no place for 0; logarithmic beyond.
        first = min([step for step in steps if step > 0], default=1)
        axes.set_xscale('symlog', linthresh=first, linscale=0.5) if 0 in steps else axes.set_xscale('log')
        for number, curve in enumerate(curves):
            points = sorted(curve['points'], key=lambda point: point['step'])
            x, values = ([point[name] for point in points] for name in ('step', 'value'))
            solid, colour = curve['model'] == 'Transformer', COLOURS.get(curve['task'], OTHER[0])
            axes.plot(x, values, color=colour, marker=MARKERS.get(curve['task'], OTHER[1]), markersize=4, linewidth=1.5,
                      linestyle='-' if solid else '--', markerfacecolor=colour if solid else 'white')
            # One interval a curve, side by side: bands would hide each other and the curves.
            beside = axes.transData + ScaledTranslation((8 + 5 * number) / 72, 0, figure.dpi_scale_trans)
            axes.vlines(x[-1], points[-1]['low'], points[-1]['high'], color=colour, linewidth=1.5, transform=beside,
                        linestyle='-' if solid else (0, (2, 1)), clip_on=False)
        axes.axhline(0, color='#808080', linestyle=':', linewidth=1)
        shown = [value for curve in curves for point in curve['points'] for value in (point['value'], point['low'],
                                                                                      point['high'])]
        if max(shown) > 0.5:  # not for a small model: all its curves would lie flat below
            axes.axhline(1, color='#808080', linestyle=':', linewidth=1)
            shown.append(1)
        pad = 0.04 * (max(shown) - min(shown)) + 1e-3
        axes.set_ylim(min(shown) - pad, max(shown) + pad)
        ticks = apart(steps)
        axes.set_xticks(ticks, [f'{step:,}' for step in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        if len(ticks) > 6:
            plt.setp(axes.get_xticklabels(), rotation=45, ha='right')
        axes.set(title=title, xlabel='# of pre-training updates (log scale)',
                 ylabel='relative task performance\n(0: random guess, 1: state of the art)')
        named = {curve['task']: curve['name'] for curve in curves}
        handles = [Line2D([], [], color=COLOURS.get(task, OTHER[0]), marker=MARKERS.get(task, OTHER[1]), markersize=5,
                          label=name)
                   for task, name in named.items()]
        models = dict.fromkeys(curve['model'] for curve in curves)
        handles += [Line2D([], [], color='#404040', label=model, linestyle='-' if model == 'Transformer' else '--')
                    for model in models]
        axes.legend(handles=handles, loc='center left', bbox_to_anchor=(1.06, 0.5))
        save(figure, path)


def runs(path, curves: Mapping[str, Mapping[str, Sequence[tuple]]]):
    """Several runs on the same axes against updates: a panel for each of PANELS. {label: curves_of that run}."""
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 2, figsize=(11, 7), sharex=True)
        colours = [COLOURS[name] for name in ('pretrained', 'scratch', 'race', 'sst2', 'dpr', 'train', 'cola')]
        styles = [{'color': colour, 'linestyle': line} for line in ('-', '--', ':') for colour in colours]
        styles = dict(zip(curves, itertools.cycle(styles)))
        for axes, (field, title) in zip(grid.flat, PANELS.items()):
            drawn = {label: one[field] for label, one in curves.items() if one[field]}
            for label, points in drawn.items():
                axes.plot(*zip(*points), linewidth=1.2, marker='o' if field == 'valid_perplexity' else '', markersize=4,
                          **styles[label])
            values = [value for points in drawn.values() for _, value in points if value > 0]
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.8g}'))
            # Throughput by its logarithm where a run on a CPU stands beside one on an accelerator.
            if values and (field == 'valid_perplexity' or field == 'tokens_per_s' and max(values) > 20 * min(values)):
                axes.set_yscale('log')
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter(COUNT)
                axes.yaxis.set_minor_formatter(NullFormatter())
            elif values and field != 'loss':
                axes.set_ylim(bottom=0)
            if not drawn:
                axes.set_yticks([])
                axes.annotate('none in these runs', (0.5, 0.5), xycoords='axes fraction', ha='center', color='#808080')
            axes.set(title=title)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_formatter(COUNT)
        for axes in grid[1]:
            axes.set(xlabel='updates')
        figure.tight_layout()
        figure.legend(handles=[Line2D([], [], label=label, **style) for label, style in styles.items()],
                      loc='upper center', bbox_to_anchor=(0.5, 0.02), ncols=min(3, len(styles)))
        save(figure, path)


def curves_of(run) -> dict[str, list[tuple]]:
    """{field: [(step, value), ...]} of PANELS from a run's metrics.jsonl, a point a step, the last one written; what is
    not finite is left out. UserError where there are no rows, or one holds something else than numbers."""
    path = run / 'metrics.jsonl'
    with about(path):
        rows = results.read(path)
    if not rows:
        raise UserError(f'{path}: no rows: not a run, or one that has logged nothing yet')
    found = {field: {} for field in PANELS}
    for number, row in enumerate(rows, 1):
        for name in ('step', *(found.keys() & row.keys())):
            if not isinstance(row.get(name), (int, float)) or name == 'step' and not 0 <= row[name] < 1e15:
                raise UserError(f'{path}: line {number}: {name} is {shown(row.get(name))}, which is none')
        for field in found.keys() & row.keys():
            if abs(row[field]) < 1e300:
                found[field][row['step']] = row[field]
    return {field: sorted(points.items()) for field, points in found.items()}


def labels(paths: Sequence) -> list[str]:
    """As much of the end of each path as tells them all apart."""
    parts = [pathlib.PurePath(path).parts for path in paths]
    for n in range(1, max(map(len, parts)) + 1):
        if len({one[-n:] for one in parts}) == len(parts):
            break
    return ['/'.join(one[-n:]) for one in parts]


def main(arguments) -> int:
    """Draw the runs; the exit status."""
    parser = argparse.ArgumentParser(prog='python -m experiments.plots', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('runs', nargs='+', metavar='RUN', help='a work directory')
    parser.add_argument('--out', default='runs.png', help='the PNG file (default: runs.png)')
    chosen = parser.parse_args(arguments)
    try:
        paths = list(dict.fromkeys(storage.absolute(run) for run in chosen.runs))  # one given twice is drawn once
        runs(chosen.out, dict(zip(labels(paths), map(curves_of, paths))))
    except UserError as error:
        print(f'error: {error}', file=sys.stderr)
        return 1
    print(os.path.abspath(chosen.out))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
