"""The figures of the reports as PNG files, drawn from plain rows, without a display.

A point is {'step' or 'layers', 'value', 'low', 'high'}. Values and their 95% intervals are
fractions unless a function says otherwise.
"""

import contextlib
import io
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.axis import Axis  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

from gpt1_jax import storage  # noqa: E402
from gpt1_jax.metrics.bootstrap import Estimate, interval  # noqa: E402

# Each colour has the same meaning in every figure. Colour-blind readers can distinguish them (Okabe
# and Ito).
COLOURS = {
    'pretrained': '#0072B2',
    'scratch': '#D55E00',
    'baseline': '#7F7F7F',
    'train': '#56B4E9',
    'packaged': '#117733',
    'no_aux': '#882255',
    'chance': '#B0B0B0',
    'race': '#009E73',
    'mnli': '#332288',
    'sst2': '#CC79A7',
    'dpr': '#E69F00',
    'cola': '#000000',
}
MARKERS = {'race': 'o', 'mnli': 's', 'sst2': '^', 'dpr': 'D', 'cola': 'v'}
OTHER = ('#7F7F7F', 'X')  # a task that the paper's figures do not have
GREY = '#707070'
STYLE = {
    'figure.dpi': 150,
    'font.size': 10,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.grid': True,
    'grid.color': '#E6E6E6',
    'axes.axisbelow': True,
    'legend.frameon': False,
}
PERCENT = FuncFormatter(lambda value, _: f'{100 * value:.0f}')
COUNT = FuncFormatter(lambda value, _: f'{value:,.0f}')
UPDATES = '# of pre-training updates (log scale)'
VALUES = ('value', 'low', 'high')  # of a point


def save(figure: Figure, path: str | pathlib.Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, bbox_inches='tight', format='png')
    plt.close(figure)
    storage.write(path, picture.getvalue())


def point(found: Estimate) -> dict[str, float]:
    """Returns {'value', 'low', 'high'} of an estimate."""
    return dict(zip(VALUES, (found.value, *interval(found.draws))))


@contextlib.contextmanager
def panel(path: str | pathlib.Path, size: tuple[float, float], **labels: str) -> Iterator[Axes]:
    """Gives the axes of a figure with one panel, and writes the figure at the end. labels: title,
    xlabel, ylabel."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=size)
        yield axes
        axes.set(**labels)
        save(figure, path)


def forest(
    axes: Axes,
    names: Sequence[str],
    series: Mapping[str, tuple[Mapping, Sequence[Mapping | None]]],
    at: float | None = None,
) -> None:
    """Draws a line for each name, from the top, with a point of each series and its interval.

    series: {label: (style of the points, a point or None for each name)}. A point may have only a
    value. at: a value for a dashed line. A point whose interval contains it is hollow.
    """
    if at is not None:
        axes.axvline(at, color=GREY, linestyle='--', linewidth=1)
    for label, (style, points) in series.items():
        for height, found in enumerate(points):
            if not found:
                continue
            value = found['value']
            low = found.get('low', value)
            high = found.get('high', value)
            hollow = {'markerfacecolor': 'white'} if at is not None and low <= at <= high else {}
            interval = {'xerr': [[value - low], [high - value]], 'capsize': 3} if low < high else {}
            axes.errorbar(value, height, label=label, **{**style, **interval, **hollow})
            label = None
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis='y', visible=False)


def comparison(path: str | pathlib.Path, panels: Mapping[str, Sequence[tuple]]) -> None:
    """Draws accuracies of tasks with two labels. panels: {title: [(name, colour, point)]}."""
    with plt.rc_context(STYLE):
        size = 4 * len(panels), 2.4
        figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharex=True)
        for axes, (title, rows) in zip(grid[0], panels.items()):
            series = {
                name: ({'fmt': 'o', 'color': COLOURS[colour]}, [None] * height + [found])
                for height, (name, colour, found) in enumerate(rows)
            }
            forest(axes, list(series), series, 0.5)
            axes.xaxis.set_major_formatter(PERCENT)
            axes.set(title=title, xlabel='test accuracy (%), dashed: chance')
        figure.tight_layout()
        save(figure, path)


def zero_shot(
    path: str | pathlib.Path,
    title: str,
    points: Mapping[int, Estimate],
    beside: Mapping[str, tuple[str, float]],
) -> None:
    """Draws the accuracy of choosing between two without fine-tuning, against pretraining updates.

    beside: {name: (colour, accuracy)} of models with a single value, each drawn as a line across.
    """
    with panel(path, (6.4, 3.8), title=title, xlabel=UPDATES, ylabel='accuracy (%)') as axes:
        draw_curve(
            axes,
            [{'step': step, **point(found)} for step, found in points.items()],
            color=COLOURS['pretrained'],
            marker='o',
            markersize=4,
        )
        axes.axhline(0.5, color=GREY, linestyle='--', linewidth=1, label='chance')
        for name, (colour, accuracy) in beside.items():
            axes.axhline(accuracy, color=COLOURS[colour], linestyle=':', label=name)
        scale_updates(axes, points)
        axes.yaxis.set_major_formatter(PERCENT)
        axes.legend()


def draw_curve(
    axes: Axes, points: Sequence[dict], field: str = 'step', band: float = 0.2, **style: Any
) -> None:
    """Draws the points, sorted, and a band of their intervals. band: its opacity, 0 for no band."""
    points = sorted(points, key=lambda point: point[field])
    x, values = ([point[name] for point in points] for name in (field, 'value'))
    if band:
        lows, highs = ([point[name] for point in points] for name in ('low', 'high'))
        axes.fill_between(x, lows, highs, color=style['color'], alpha=band, linewidth=0)
        if len(points) == 1:  # a band has no width there
            axes.vlines(x, lows, highs, color=style['color'], alpha=band)
    axes.plot(x, values, **style)


def of_task(task: str) -> tuple[str, str]:
    """Returns a task's (colour, marker), the same in every figure."""
    return COLOURS.get(task, OTHER[0]), MARKERS.get(task, OTHER[1])


def log_ticks(axis: Axis, subs: Sequence[int] = (1, 2, 5)) -> None:
    """Labels an axis at these multiples of the powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(COUNT)
    axis.set_minor_formatter(NullFormatter())


def scale_updates(axes: Axes, steps: Collection[int], subs: Sequence[int] = (1, 2, 5)) -> None:
    """Makes the x axis a log scale of updates.

    Imported weights have step 0. With it, the scale is linear up to the first other step. If all
    steps are within a factor of ten, the first and the last are labelled.
    """
    if 0 in steps:
        axes.set_xscale('symlog', linthresh=min(filter(None, steps), default=1), linscale=0.5)
        axes.set_xticks(sorted(steps))
        axes.xaxis.set_major_formatter(COUNT)
        return
    axes.set_xscale('log')
    log_ticks(axes.xaxis, subs)
    if max(steps) < 10 * min(steps):
        axes.set_xticks(sorted({min(steps), max(steps)}))
