"""BLiMP against pretraining updates as a PNG file, in the manner of Figure 2 (right); from plain rows."""
import pathlib
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from experiments.lib import blimp_published as published
from experiments.lib.figures import COLOURS, COUNT, STYLE, labelled_steps, log_scale, save
from gpt1_jax.data.tasks.blimp import PHENOMENA

MODELS = {'Transformer': {'color': COLOURS['pretrained'], 'linestyle': '-', 'marker': 'o'},
          'LSTM': {'color': COLOURS['scratch'], 'linestyle': '--', 'marker': 's', 'markerfacecolor': 'white'}}
LINES = {'LSTM': '--', 'Transformer-XL': ':'}  # published models that have figures of each phenomenon
RAISED = {'LSTM': 5, 'Transformer-XL': -5}  # labels, in points: the two lines are 0.2 apart
GREY = '#707070'


def accuracies(path: str | pathlib.Path, curves: Sequence[dict], tokens_per_update: int | None = None,
               title: str = 'BLiMP, zero-shot') -> None:
    """BLiMP overall, and a panel for each of its phenomena, against pretraining updates, beside published models.

    curves: [{'group': None or a phenomenon, 'model': 'Transformer' | 'LSTM', 'points': [{'step', 'value', 'low',
    'high'}]}], in percent. Bands are 95% intervals. tokens_per_update: adds a scale of tokens, and the published
    decoder that was measured along its training.
    """
    steps = sorted({point['step'] for curve in curves for point in curve['points']})
    decoder = _decoder(steps, tokens_per_update)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(11, 12.5))
        grid = figure.add_gridspec(5, 4, height_ratios=(1, 1, 1.05, 1.05, 1.05), hspace=0.55, wspace=0.18)
        axes = figure.add_subplot(grid[:2, :3])
        _overall(axes, [curve for curve in curves if curve['group'] is None], steps, tokens_per_update, decoder)
        axes.set_title(title, pad=34 if tokens_per_update else 8)
        models = list(dict.fromkeys(curve['model'] for curve in curves))
        figure.legend(handles=_legend(models, decoder), loc='upper center', bbox_to_anchor=(0.5, 0.085),
                      ncols=3)
        lowest = min([20, *(point['low'] for curve in curves if curve['group'] for point in curve['points'])])
        first = None
        for number, (group, name) in enumerate(PHENOMENA.items()):
            panel = figure.add_subplot(grid[2 + number // 4, number % 4], sharey=first)
            first = first or panel
            _phenomenon(panel, group, [curve for curve in curves if curve['group'] == group], steps)
            panel.set_title(name, fontsize=10)
            panel.tick_params(labelleft=number % 4 == 0)
            panel.set_ylim(lowest, 100)
        save(figure, path)


def _decoder(steps, tokens_per_update):
    """[(update, accuracy)] of the published decoder after as many tokens, as far as the curves go."""
    if not tokens_per_update or 0 in steps:
        return []
    points = [(tokens / tokens_per_update, value) for tokens, value in published.DECODER_POINTS]
    return [point for point in points if point[0] <= 1.05 * steps[-1]]


def _overall(axes, curves, steps, tokens_per_update, decoder):
    log_scale(axes, steps)
    for one in published.PAPER:
        axes.axhline(one.sets, color=GREY, linewidth=0.9, linestyle=LINES.get(one.name, '-.'))
        text = f'{one.name} {one.sets:.1f}' + (f' ({one.text})' if one.text else '')
        axes.annotate(text, (1, one.sets), (5, RAISED.get(one.name, 0)), xycoords=('axes fraction', 'data'),
                      textcoords='offset points', va='center', fontsize=8, color=GREY)
    _draw(axes, curves)
    if tokens_per_update and 0 not in steps:
        _tokens_read(axes, tokens_per_update)
    if decoder:
        axes.plot(*zip(*decoder), color=GREY, marker='D', markersize=5, linestyle='none')
    _ticks(axes, steps, 12)
    axes.set(xlabel='# of pre-training updates (log scale)', ylabel='accuracy (%)')
    values = [value for curve in curves for point in curve['points'] for value in (point['low'], point['high'])]
    axes.set_ylim(min([48, *values]) - 1, 92)


def _tokens_read(axes, tokens_per_update):
    """A scale of tokens above."""
    functions = (lambda updates: updates * tokens_per_update, lambda tokens: tokens / tokens_per_update)
    above = axes.secondary_xaxis('top', functions=functions)
    above.set_xlabel('tokens read', fontsize=9)
    above.xaxis.set_major_formatter(FuncFormatter(_millions))
    above.xaxis.set_minor_formatter(NullFormatter())


def _phenomenon(axes, group, curves, steps):
    log_scale(axes, steps)
    for value, line in zip(published.BY_PHENOMENON[group], LINES.values(), strict=True):
        axes.axhline(value, color=GREY, linewidth=0.9, linestyle=line)
    _draw(axes, curves, marker_size=3)
    _ticks(axes, steps, 3)


def _draw(axes, curves, marker_size=4):
    """Chance, and each model's curve with its band."""
    axes.axhline(50, color=COLOURS['chance'], linewidth=1.2)
    for curve in curves:
        points = sorted(curve['points'], key=lambda point: point['step'])
        x, values, lows, highs = ([point[name] for point in points] for name in ('step', 'value', 'low', 'high'))
        style = MODELS[curve['model']]
        axes.fill_between(x, lows, highs, color=style['color'], alpha=0.18, linewidth=0)
        axes.plot(x, values, linewidth=1.5, markersize=marker_size, **style)


def _ticks(axes, steps, most):
    ticks = labelled_steps(steps, most)
    axes.set_xticks(ticks, [f'{step:,.0f}' for step in ticks], fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(COUNT)
    if most > 6 and len(ticks) > 8:
        plt.setp(axes.get_xticklabels(), rotation=45, ha='right')


def _legend(models, decoder):
    handles = [Line2D([], [], markersize=5, label=f'{model}, ours', **MODELS[model]) for model in models]
    for name, line in LINES.items():
        handles.append(Line2D([], [], color=GREY, linestyle=line, linewidth=0.9, label=f'{name}, published'))
    if decoder:
        handles.append(Line2D([], [], color=GREY, marker='D', linestyle='none', markersize=5, label=published.DECODER))
    return [*handles, Line2D([], [], color=COLOURS['chance'], label='chance')]


def _millions(value, _):
    if value >= 1e9:
        return f'{value / 1e9:g}B'
    return f'{value / 1e6:g}M' if value >= 1e6 else f'{value:,.0f}'
