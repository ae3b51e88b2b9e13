"""The figures of the reports as PNG files, from plain rows; nothing here trains or scores. Needs no display."""
import pathlib
from collections.abc import Sequence

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402
from matplotlib.transforms import ScaledTranslation  # noqa: E402

# One meaning, one colour, in every figure; told apart by colour-blind readers too (Okabe and Ito).
COLOURS = {'pretrained': '#0072B2', 'scratch': '#D55E00', 'baseline': '#7F7F7F', 'train': '#56B4E9', 'valid': '#0072B2',
           'chance': '#B0B0B0', 'race': '#009E73', 'mnli': '#332288', 'sst2': '#CC79A7', 'dpr': '#E69F00',
           'cola': '#000000', 'order': '#44AA99'}
MARKERS = {'race': 'o', 'mnli': 's', 'sst2': '^', 'dpr': 'D', 'cola': 'v', 'order': 'o'}  # without colours, too
OTHER = ('#7F7F7F', 'X')  # a task that the paper's figures do not have
STYLE = {'figure.dpi': 150, 'font.size': 10, 'axes.spines.top': False, 'axes.spines.right': False, 'axes.grid': True,
         'grid.color': '#E6E6E6', 'axes.axisbelow': True, 'legend.frameon': False}
PERCENT = FuncFormatter(lambda value, _: f'{100 * value:.0f}')
COUNT = FuncFormatter(lambda value, _: f'{value:,.0f}')


def save(figure: Figure, path: str | pathlib.Path) -> None:
    """Write a PNG file and close the figure."""
    figure.savefig(path, bbox_inches='tight', format='png')
    plt.close(figure)


def losses(path: str | pathlib.Path, rows: Sequence[dict], title: str = 'Pretraining') -> None:
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


def comparison(path: str | pathlib.Path, panels: Sequence[dict],
               title: str = 'Fine-tuning, test accuracy with 95% intervals') -> None:
    """A panel for each task: one point with its interval for each row, on a common axis in percent.

    panels: [{'title', 'chance': fraction or None, 'scores': [{'name', 'colour': 'pretrained' | 'scratch' | 'baseline',
    'value', 'low', 'high'}]}], all fractions.
    """
    with plt.rc_context(STYLE):
        rows = max(len(panel['scores']) for panel in panels)
        size = (4.6 * len(panels), 1.3 + 0.42 * rows)
        figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharex=True)
        for axes, panel in zip(grid[0], panels):
            names = [score['name'] for score in panel['scores']]
            for height, score in enumerate(panel['scores']):
                value, colour = score['value'], COLOURS[score['colour']]
                interval = [[value - score['low']], [score['high'] - value]]
                axes.errorbar(value, height, xerr=interval, fmt='o', color=colour, capsize=3, linewidth=1.8)
                axes.annotate(f'{100 * value:.1f}', (value, height), (0, 7), textcoords='offset points', ha='center',
                              fontsize=9, color=colour, bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 0.5})
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


def zero_shot(path: str | pathlib.Path, points: Sequence[dict], chance: float = 0.5,
              title: str = 'Zero-shot accuracy') -> None:
    """Accuracy without fine-tuning against pretraining updates (log scale), with its 95% interval as a band.

    points: [{'step', 'value', 'low', 'high'}], fractions; step 0 (before training) stands left of the log scale.
    """
    with plt.rc_context(STYLE):
        points = sorted(points, key=lambda point: point['step'])
        steps, values, lows, highs = ([point[name] for point in points] for name in ('step', 'value', 'low', 'high'))
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        log_scale(axes, steps)
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


def log_scale(axes, steps) -> None:
    """Logarithmic x axis; where steps begin with 0, linear from there to the first saved step, as log(0) has no place.
    """
    if 0 in steps:
        first = min([step for step in steps if step > 0], default=1)
        axes.set_xscale('symlog', linthresh=first, linscale=0.5)
    else:
        axes.set_xscale('log')


def labelled_steps(steps: Sequence[int], most: int = 12) -> list[int]:
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


def layers_transferred(path: str | pathlib.Path, curves: Sequence[dict],
                       title: str = 'Figure 2 (left): layers transferred') -> None:
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
            line = {'linestyle': '--', 'markerfacecolor': 'white'}
            if curve['split'] != 'train':
                line = {'linestyle': '-', 'markerfacecolor': colour}
                axes.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, values, color=colour, marker=MARKERS.get(curve['task'], OTHER[1]), markersize=5, linewidth=1.6,
                      label=f'{curve["name"]} {curve["split"].capitalize()}', **line)
        axes.set_xticks(ticks, ['none' if tick < 0 else str(tick) for tick in ticks])
        axes.yaxis.set_major_formatter(PERCENT)
        axes.set(title=title, ylabel='accuracy (%)',
                 xlabel='# of layers transferred (none: no weights at all, 0: the embeddings alone)')
        axes.legend(ncols=2, loc='upper center', bbox_to_anchor=(0.5, -0.16))
        save(figure, path)


def zero_shot_tasks(path: str | pathlib.Path, curves: Sequence[dict],
                    title: str = 'Figure 2 (right): zero-shot performance') -> None:
    """Figure 2, right: tasks without fine-tuning against pretraining updates, 0 a random guess, 1 the state of the art.

    curves: [{'task', 'name': 'sentiment analysis', 'model': 'Transformer' | 'LSTM', 'points': [{'step', 'value', 'low',
    'high'}]}], normalised. The Transformer is solid, the LSTM dashed; beside each curve's last point stands its 95%
    interval. Step 0 (before training) stands left of the log scale.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.8, 4.6))
        steps = sorted({point['step'] for curve in curves for point in curve['points']})
        log_scale(axes, steps)
        for number, curve in enumerate(curves):
            # One interval a curve, side by side: bands would hide each other and the curves.
            shift = ScaledTranslation((8 + 5 * number) / 72, 0, figure.dpi_scale_trans)
            _zero_shot_curve(axes, curve, axes.transData + shift)
        _zero_shot_limits(axes, curves)
        ticks = labelled_steps(steps)
        axes.set_xticks(ticks, [f'{step:,}' for step in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        if len(ticks) > 6:
            plt.setp(axes.get_xticklabels(), rotation=45, ha='right')
        axes.set(title=title, xlabel='# of pre-training updates (log scale)',
                 ylabel='relative task performance\n(0: random guess, 1: state of the art)')
        axes.legend(handles=_zero_shot_legend(curves), loc='center left', bbox_to_anchor=(1.06, 0.5))
        save(figure, path)


def _zero_shot_curve(axes, curve, beside):
    """One task of one model, and the interval of its last point, drawn with the transform `beside`."""
    points = sorted(curve['points'], key=lambda point: point['step'])
    x = [point['step'] for point in points]
    values = [point['value'] for point in points]
    colour = COLOURS.get(curve['task'], OTHER[0])
    marker = MARKERS.get(curve['task'], OTHER[1])
    if curve['model'] == 'Transformer':
        line, face, interval = '-', colour, '-'
    else:
        line, face, interval = '--', 'white', (0, (2, 1))
    axes.plot(x, values, color=colour, marker=marker, markersize=4, linewidth=1.5, linestyle=line, markerfacecolor=face)
    axes.vlines(x[-1], points[-1]['low'], points[-1]['high'], color=colour, linewidth=1.5, linestyle=interval,
                transform=beside, clip_on=False)


def _zero_shot_limits(axes, curves):
    """Limits of the y axis, and lines at 0 and, unless all curves are far below it, at 1."""
    shown = []
    for curve in curves:
        for point in curve['points']:
            shown += [point['value'], point['low'], point['high']]
    axes.axhline(0, color='#808080', linestyle=':', linewidth=1)
    if max(shown) > 0.5:  # not for a small model: all its curves would lie flat at the bottom
        axes.axhline(1, color='#808080', linestyle=':', linewidth=1)
        shown.append(1)
    pad = 0.04 * (max(shown) - min(shown)) + 1e-3
    axes.set_ylim(min(shown) - pad, max(shown) + pad)


def _zero_shot_legend(curves):
    """A handle for each task (colour and marker) and each model (solid or dashed)."""
    handles = []
    for task, name in {curve['task']: curve['name'] for curve in curves}.items():
        handles.append(Line2D([], [], color=COLOURS.get(task, OTHER[0]), marker=MARKERS.get(task, OTHER[1]),
                              markersize=5, label=name))
    for model in dict.fromkeys(curve['model'] for curve in curves):
        handles.append(Line2D([], [], color='#404040', label=model, linestyle='-' if model == 'Transformer' else '--'))
    return handles
