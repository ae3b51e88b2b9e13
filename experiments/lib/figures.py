"""The figures of the reports as PNG files, drawn from plain rows. Needs no display.

A point is {'step' or 'layers', 'value', 'low', 'high'}; values and their 95% intervals are fractions unless a function
says otherwise.
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
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402

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
def panel(path: str | pathlib.Path, size: tuple[float, float], **labels: str) -> Iterator[Axes]:
    """The axes of a figure of one panel, which is written at the end. labels: title, xlabel, ylabel."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=size)
        yield axes
        axes.set(**labels)
        save(figure, path)


def losses(path: str | pathlib.Path, rows: Sequence[dict]) -> None:
    """Training and validation loss (nats a token) against updates, from rows of metrics.jsonl."""
    with panel(path, (6.4, 3.8), title='Pretraining', xlabel='updates', ylabel='loss (nats per token)') as axes:
        lines = {'loss': {'label': 'training', 'color': COLOURS['train'], 'linewidth': 1.2},
                 'valid_loss': {'label': 'validation', 'color': COLOURS['valid'], 'marker': 'o', 'markersize': 4}}
        for field, line in lines.items():
            points = [(row['step'], row[field]) for row in rows if row.get(field) is not None]
            if points:
                axes.plot(*zip(*points), **line)
                if field == 'valid_loss':
                    label(axes, f'{points[-1][1]:.2f}', *points[-1])
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(COUNT)
        axes.legend()


def comparison(path: str | pathlib.Path, panels: Sequence[dict]) -> None:
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
                label(axes, f'{100 * value:.1f}', value, height, color=colour, fontsize=9,
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
        figure.suptitle('Fine-tuning, test accuracy with 95% intervals')
        figure.tight_layout()
        save(figure, path)


def zero_shot(path: str | pathlib.Path, points: Sequence[dict], title: str) -> None:
    """Accuracy in choosing one of two without fine-tuning, against pretraining updates."""
    with panel(path, (6.4, 3.8), title=title, xlabel='pretraining updates (log scale)', ylabel='accuracy (%)') as axes:
        x, values = draw_curve(axes, points, color=COLOURS['pretrained'], marker='o', markersize=4, label='right pairs')
        label_updates(axes, x, most=1000)
        label(axes, f'{100 * values[-1]:.1f}', x[-1], values[-1])
        axes.axhline(0.5, color=GREY, linestyle='--', linewidth=1, label='chance')
        axes.yaxis.set_major_formatter(PERCENT)
        axes.set_ylim(min(0.42, *(point['low'] for point in points)) - 0.01,
                      max(0, *(point['high'] for point in points)) + 0.06)
        axes.legend(loc='upper left')


def draw_curve(axes: Axes, points: Sequence[dict], field: str = 'step', band: float = 0.2,
               **style: Any) -> tuple[list, list]:
    """Draws points, sorted, with a band of their intervals (its opacity; 0: none); returns x and y."""
    points = sorted(points, key=lambda point: point[field])
    x, values = ([point[name] for point in points] for name in (field, 'value'))
    if band:
        lows, highs = ([point[name] for point in points] for name in ('low', 'high'))
        axes.fill_between(x, lows, highs, color=style['color'], alpha=band, linewidth=0)
    axes.plot(x, values, **style)
    return x, values


def label(axes: Axes, text: str, x: float, y: float, **style: Any) -> None:
    """Text above a point."""
    axes.annotate(text, (x, y), (0, 8), textcoords='offset points', ha='center', **style)


def of_task(task: str) -> tuple[str, str]:
    """(colour, marker), the same in every figure."""
    return COLOURS.get(task, OTHER[0]), MARKERS.get(task, OTHER[1])


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
