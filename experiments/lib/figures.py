"""The figures of the reports as PNG files, drawn from plain rows. Needs no display.

A curve is {'points': [{'step' or 'layers', 'value', 'low', 'high'}], ...}; values and their 95% intervals are fractions
unless a function says otherwise.
"""
import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402
from matplotlib.transforms import ScaledTranslation  # noqa: E402

from gpt1_jax.metrics.bootstrap import Estimate, interval  # noqa: E402

# One colour for one meaning in every figure, distinguishable by colour-blind readers (Okabe and Ito).
COLOURS = {'pretrained': '#0072B2', 'scratch': '#D55E00', 'baseline': '#7F7F7F', 'train': '#56B4E9', 'valid': '#0072B2',
           'chance': '#B0B0B0', 'race': '#009E73', 'mnli': '#332288', 'sst2': '#CC79A7', 'dpr': '#E69F00',
           'cola': '#000000'}
MARKERS = {'race': 'o', 'mnli': 's', 'sst2': '^', 'dpr': 'D', 'cola': 'v'}
OTHER = ('#7F7F7F', 'X')  # a task that the paper's figures do not have
GREY = '#707070'
STYLE = {'figure.dpi': 150, 'font.size': 10, 'axes.spines.top': False, 'axes.spines.right': False, 'axes.grid': True,
         'grid.color': '#E6E6E6', 'axes.axisbelow': True, 'legend.frameon': False}
PERCENT = FuncFormatter(lambda value, _: f'{100 * value:.0f}')
COUNT = FuncFormatter(lambda value, _: f'{value:,.0f}')
UPDATES = '# of pre-training updates (log scale)'
VALUES = ('value', 'low', 'high')  # of a point


def save(figure: Figure, path: str | pathlib.Path) -> None:
    """Write a PNG file and close the figure."""
    figure.savefig(path, bbox_inches='tight', format='png')
    plt.close(figure)


def point(found: Estimate) -> dict[str, float]:
    """{'value', 'low', 'high'} of an estimate."""
    return dict(zip(VALUES, (found.value, *interval(found.draws))))


@contextlib.contextmanager
def _panel(path: str | pathlib.Path, size: tuple[float, float], **labels: str) -> Iterator[Axes]:
    """The axes of a figure of one panel, which is written at the end. labels: title, xlabel, ylabel."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=size)
        yield axes
        axes.set(**labels)
        save(figure, path)


def losses(path: str | pathlib.Path, rows: Sequence[dict], title: str = 'Pretraining') -> None:
    """Training and validation loss (nats a token) against updates, from rows of metrics.jsonl."""
    with _panel(path, (6.4, 3.8), title=title, xlabel='updates', ylabel='loss (nats per token)') as axes:
        lines = {'loss': {'label': 'training', 'color': COLOURS['train'], 'linewidth': 1.2},
                 'valid_loss': {'label': 'validation', 'color': COLOURS['valid'], 'marker': 'o', 'markersize': 4}}
        for field, line in lines.items():
            points = [(row['step'], row[field]) for row in rows if row.get(field) is not None]
            if points:
                axes.plot(*zip(*points), **line)
                if field == 'valid_loss':
                    _label(axes, f'{points[-1][1]:.2f}', *points[-1])
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(COUNT)
        axes.legend()


def learning_curves(path: str | pathlib.Path, rows: Sequence[dict]) -> None:
    """A panel for each task: its metric against training rows, a line for each condition.

    rows: {'task', 'rows', 'condition': 'pretrained', 'from scratch' or 'n-grams', 'value', and 'low', 'high'}.
    """
    styles = {'pretrained': ('pretrained', '-'), 'from scratch': ('scratch', '-'), 'n-grams': ('baseline', '--')}
    names = list(dict.fromkeys(row['task'] for row in rows))
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(1, len(names), figsize=(4.6 * len(names), 3.6), squeeze=False)
        for axes, name in zip(grid[0], names):
            for condition, (colour, line) in styles.items():
                points = [row for row in rows if (row['task'], row['condition']) == (name, condition)]
                x, values = [row['rows'] for row in points], [row['value'] for row in points]
                axes.plot(x, values, line, color=COLOURS[colour], marker='o', markersize=4, label=condition)
                if points and 'low' in points[0]:
                    axes.fill_between(x, [row['low'] for row in points], [row['high'] for row in points],
                                      color=COLOURS[colour], alpha=0.15, linewidth=0)
            axes.set(title=name, xlabel='training rows (log scale)', ylabel='dev (percent)', xscale='log')
            axes.set_xticks(sorted({row['rows'] for row in rows}))
            axes.xaxis.set_major_formatter(COUNT)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(PERCENT)
            axes.legend()
        save(figure, path)


def comparison(path: str | pathlib.Path, panels: Sequence[dict],
               title: str = 'Fine-tuning, test accuracy with 95% intervals') -> None:
    """A panel for each task: one point with its interval for each row, on a common axis in percent.

    panels: [{'title', 'chance': fraction or None, 'scores': [{'name', 'colour': 'pretrained' | 'scratch' | 'baseline',
    'value', 'low', 'high'}]}].
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
                _label(axes, f'{100 * value:.1f}', value, height, color=colour, fontsize=9,
                       bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 0.5})
            if panel.get('chance') is not None:
                axes.axvline(panel['chance'], color=COLOURS['chance'], linestyle='--', linewidth=1)
                axes.annotate('chance', (panel['chance'], 0), (3, 2), xycoords=('data', 'axes fraction'),
                              textcoords='offset points', va='bottom', fontsize=8, color=GREY)
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.4, -0.8)
            axes.grid(axis='y', visible=False)
            axes.xaxis.set_major_formatter(PERCENT)
            axes.set(title=panel['title'], xlabel='accuracy (%)')
        figure.suptitle(title)
        figure.tight_layout()
        save(figure, path)


def forest(path: str | pathlib.Path, rows: Sequence[dict], xlabel: str) -> None:
    """Differences with their intervals around zero, in the order of their values.

    rows: [{'name', 'value', 'low', 'high': nan where there is none, 'clear': whether the interval excludes zero}].
    """
    rows = sorted(rows, key=lambda row: row['value'])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 1.2 + 0.27 * len(rows)))
        axes.axvline(0, color=GREY, linewidth=1)
        for height, row in enumerate(rows):
            better = row['value'] < 0
            colour = COLOURS['pretrained' if better else 'scratch'] if row['clear'] else COLOURS['baseline']
            axes.plot([row['low'], row['high']], [height] * 2, color=colour, linewidth=1.8)
            axes.plot(row['value'], height, 'o', color=colour, markersize=5,
                      markerfacecolor=colour if row['clear'] else 'white')
        axes.set_yticks(range(len(rows)), [row['name'] for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis='y', visible=False)
        axes.set(xlabel=f'{xlabel}\n(left: better; hollow: the interval contains zero)')
        save(figure, path)


def zero_shot(path: str | pathlib.Path, points: Sequence[dict], chance: float = 0.5,
              title: str = 'Zero-shot acceptability') -> None:
    """Accuracy without fine-tuning against pretraining updates, with its 95% interval as a band."""
    with _panel(path, (6.4, 3.8), title=title, xlabel='pretraining updates (log scale)', ylabel='accuracy (%)') as axes:
        x, values = draw_curve(axes, points, color=COLOURS['pretrained'], marker='o', markersize=4, label='right pairs')
        label_updates(axes, x, most=1000)
        _label(axes, f'{100 * values[-1]:.1f}', x[-1], values[-1])
        axes.axhline(chance, color=GREY, linestyle='--', linewidth=1, label='chance')
        axes.yaxis.set_major_formatter(PERCENT)
        axes.set_ylim(min(chance - 0.08, *(point['low'] for point in points)) - 0.01,
                      max(0, *(point['high'] for point in points)) + 0.06)
        axes.legend(loc='upper left')


def layers_transferred(path: str | pathlib.Path, curves: Sequence[dict],
                       title: str = 'Figure 2 (left): layers transferred') -> None:
    """Figure 2, left: accuracy after fine-tuning against the pretrained layers that it began with.

    curves: {'task': 'mnli' | 'race', 'name': 'MultiNLI', 'split': 'dev' | 'test' | 'train', 'points'} each; layers is
    -1 for nothing, 0 for the embeddings, n for the first n blocks. Train is dashed, without a band.
    """
    about = '# of layers transferred (none: no weights at all, 0: the embeddings alone)'
    with _panel(path, (6.4, 4.2), title=title, xlabel=about, ylabel='accuracy (%)') as axes:
        for curve in curves:
            colour, marker = _of_task(curve['task'])
            train = curve['split'] == 'train'
            draw_curve(axes, curve['points'], 'layers', band=0 if train else 0.15, color=colour, marker=marker,
                       markersize=5, linewidth=1.6, linestyle='--' if train else '-',
                       markerfacecolor='white' if train else colour,
                       label=f'{curve["name"]} {curve["split"].capitalize()}')
        ticks = sorted({point['layers'] for curve in curves for point in curve['points']})
        axes.set_xticks(ticks, ['none' if tick < 0 else str(tick) for tick in ticks])
        axes.yaxis.set_major_formatter(PERCENT)
        axes.legend(ncols=2, loc='upper center', bbox_to_anchor=(0.5, -0.16))


def zero_shot_tasks(path: str | pathlib.Path, curves: Sequence[dict],
                    title: str = 'Figure 2 (right): zero-shot performance') -> None:
    """Figure 2, right: tasks without fine-tuning against pretraining updates, 0 a random guess, 1 the state of the art.

    curves: {'task', 'name': 'sentiment analysis', 'model': 'Transformer' | 'LSTM', 'points'} each, normalised. The
    Transformer is solid, the LSTM dashed; each curve's last interval is beside it, as bands would hide the curves.
    """
    about = 'relative task performance\n(0: random guess, 1: state of the art)'
    with _panel(path, (6.8, 4.6), title=title, xlabel=UPDATES, ylabel=about) as axes:
        for number, curve in enumerate(curves):
            colour, marker = _of_task(curve['task'])
            solid = curve['model'] == 'Transformer'
            x, _ = draw_curve(axes, curve['points'], band=0, color=colour, marker=marker, markersize=4, linewidth=1.5,
                              linestyle='-' if solid else '--', markerfacecolor=colour if solid else 'white')
            last = max(curve['points'], key=lambda point: point['step'])
            beside = axes.transData + ScaledTranslation((8 + 5 * number) / 72, 0, axes.figure.dpi_scale_trans)
            axes.vlines(x[-1], last['low'], last['high'], color=colour, linewidth=1.5, transform=beside, clip_on=False,
                        linestyle='-' if solid else (0, (2, 1)))
        shown = [point[name] for curve in curves for point in curve['points'] for name in ('value', 'low', 'high')]
        for height in (0, 1):
            if height == 0 or max(shown) > 0.5:  # a small model's curves would all lie flat at the bottom
                axes.axhline(height, color=GREY, linestyle=':', linewidth=1)
                shown.append(height)
        pad = 0.04 * (max(shown) - min(shown)) + 1e-3
        axes.set_ylim(min(shown) - pad, max(shown) + pad)
        label_updates(axes, steps_of(curves))
        names = {curve['task']: curve['name'] for curve in curves}
        handles = [Line2D([], [], color=_of_task(task)[0], marker=_of_task(task)[1], markersize=5, label=name)
                   for task, name in names.items()]
        handles += [Line2D([], [], color='#404040', label=model, linestyle='-' if model == 'Transformer' else '--')
                    for model in dict.fromkeys(curve['model'] for curve in curves)]
        axes.legend(handles=handles, loc='center left', bbox_to_anchor=(1.06, 0.5))


def draw_curve(axes: Axes, points: Sequence[dict], field: str = 'step', band: float = 0.2,
               **style: Any) -> tuple[list, list]:
    """Draws points, sorted, with a band of their intervals (its opacity; 0: none); returns x and y."""
    points = sorted(points, key=lambda point: point[field])
    x, values, lows, highs = ([point[name] for point in points] for name in (field, 'value', 'low', 'high'))
    if band:
        axes.fill_between(x, lows, highs, color=style['color'], alpha=band, linewidth=0)
    axes.plot(x, values, **style)
    return x, values


def _label(axes, text, x, y, **style):
    axes.annotate(text, (x, y), (0, 8), textcoords='offset points', ha='center', **style)


def _of_task(task):
    return COLOURS.get(task, OTHER[0]), MARKERS.get(task, OTHER[1])


def steps_of(curves: Sequence[dict]) -> list[int]:
    """The updates at which any of the curves has a point."""
    return sorted({point['step'] for curve in curves for point in curve['points']})


def label_updates(axes: Axes, steps: Sequence[int], most: int = 12, **style: Any) -> None:
    """A log scale of updates with labels at saved steps, `most` of them at most. Where steps begin with 0 it is linear
    up to the first saved step."""
    if 0 in steps:
        axes.set_xscale('symlog', linthresh=min([step for step in steps if step > 0], default=1), linscale=0.5)
    else:
        axes.set_xscale('log')
    axes.autoscale_view()  # margins on the new scale
    ticks = labelled_steps(steps, most)
    axes.set_xticks(ticks, [f'{step:,.0f}' for step in ticks], **style)
    axes.xaxis.set_minor_locator(NullLocator())
    if len(ticks) > 8:
        plt.setp(axes.get_xticklabels(), rotation=45, ha='right')


def labelled_steps(steps: Sequence[int], most: int = 12) -> list[int]:
    """The ascending steps that have room for a label on a log scale, including the last one."""
    positive = [step for step in steps if step > 0]
    if not positive:
        return list(steps)
    ratio = (positive[-1] / positive[0]) ** (1 / most)
    kept = [positive[-1]]
    for step in reversed(positive[:-1]):
        if step * ratio < kept[-1] * 1.001:
            kept.append(step)
    return [step for step in steps if step <= 0] + kept[::-1]
