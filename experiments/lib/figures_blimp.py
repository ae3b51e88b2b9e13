"""The figure of BLiMP: accuracy over all sets and of each phenomenon, beside published models."""
import pathlib
from collections.abc import Sequence

from matplotlib.ticker import FuncFormatter, NullFormatter

from experiments.lib import blimp_published as published
from experiments.lib.figures import COLOURS, COUNT, GREY, STYLE, UPDATES, draw_curve, label_updates, plt, save
from gpt1_jax.data.tasks.blimp import PHENOMENA

MODELS = {'Transformer': {'color': COLOURS['pretrained'], 'linestyle': '-', 'marker': 'o'},
          'LSTM': {'color': COLOURS['scratch'], 'linestyle': '--', 'marker': 's', 'markerfacecolor': 'white'}}
LINES = {'LSTM': '--', 'Transformer-XL': ':'}  # published models that have figures of each phenomenon


def draw(path: str | pathlib.Path, curves: Sequence[dict], tokens_per_update: int | None = None) -> None:
    """BLiMP overall, and a panel for each of its phenomena, against pretraining updates, beside published models.

    curves: {'group': None or a phenomenon, 'model': 'Transformer' | 'LSTM', 'points'} each, in percent.
    tokens_per_update: adds a scale of tokens, and the published decoder that was measured along its training.
    """
    steps = sorted({point['step'] for curve in curves for point in curve['points']})
    decoder = []  # [(update, accuracy)] after as many tokens, as far as the curves reach
    if tokens_per_update and 0 not in steps:
        decoder = [(tokens / tokens_per_update, value) for tokens, value in published.DECODER_POINTS
                   if tokens / tokens_per_update <= 1.05 * steps[-1]]
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(11, 12.5))
        grid = figure.add_gridspec(5, 4, height_ratios=(1, 1, 1.05, 1.05, 1.05), hspace=0.55, wspace=0.18)
        axes = figure.add_subplot(grid[:2, :3])
        _overall(axes, [curve for curve in curves if curve['group'] is None], steps, tokens_per_update, decoder)
        axes.set_title('BLiMP, zero-shot', pad=34 if tokens_per_update else 8)
        figure.legend(*axes.get_legend_handles_labels(), loc='upper center', bbox_to_anchor=(0.5, 0.085), ncols=3)
        lowest = min([20, *(point['low'] for curve in curves if curve['group'] for point in curve['points'])])
        first = None
        for number, (group, name) in enumerate(PHENOMENA.items()):
            panel = figure.add_subplot(grid[2 + number // 4, number % 4], sharey=first)
            first = first or panel
            for value, line in zip(published.BY_PHENOMENON[group], LINES.values(), strict=True):
                panel.axhline(value, color=GREY, linewidth=0.9, linestyle=line)
            _curves(panel, [curve for curve in curves if curve['group'] == group], steps, 3, marker_size=3)
            panel.set_title(name, fontsize=10)
            panel.tick_params(labelleft=number % 4 == 0)
            panel.set_ylim(lowest, 100)
        save(figure, path)


def _overall(axes, curves, steps, tokens_per_update, decoder):
    raised = {'LSTM': 5, 'Transformer-XL': -5}  # labels, in points: the two lines are 0.2 apart
    for one in published.PAPER:
        axes.axhline(one.sets, color=GREY, linewidth=0.9, linestyle=LINES.get(one.name, '-.'),
                     label=f'{one.name}, published' if one.name in LINES else None)
        text = f'{one.name} {one.sets:.1f}' + (f' ({one.text})' if one.text else '')
        axes.annotate(text, (1, one.sets), (5, raised.get(one.name, 0)), xycoords=('axes fraction', 'data'),
                      textcoords='offset points', va='center', fontsize=8, color=GREY)
    _curves(axes, curves, steps, 12)
    if tokens_per_update and 0 not in steps:
        above = axes.secondary_xaxis('top', functions=(lambda updates: updates * tokens_per_update,
                                                       lambda tokens: tokens / tokens_per_update))
        above.set_xlabel('tokens read', fontsize=9)
        above.xaxis.set_major_formatter(FuncFormatter(_millions))
        above.xaxis.set_minor_formatter(NullFormatter())
    if decoder:
        axes.plot(*zip(*decoder), color=GREY, marker='D', markersize=5, linestyle='none', label=published.DECODER)
    axes.set(xlabel=UPDATES, ylabel='accuracy (%)')
    axes.set_ylim(min([48, *(point['low'] for curve in curves for point in curve['points'])]) - 1, 92)


def _curves(axes, curves, steps, most, marker_size=4):
    """Chance, and each model's curve with its band."""
    axes.axhline(50, color=COLOURS['chance'], linewidth=1.2, label='chance')
    for curve in curves:
        draw_curve(axes, curve['points'], band=0.18, linewidth=1.5, markersize=marker_size,
                   label=f'{curve["model"]}, ours', **MODELS[curve['model']])
    label_updates(axes, steps, most, fontsize=8)
    axes.yaxis.set_major_formatter(COUNT)


def _millions(value, _):
    if value >= 1e9:
        return f'{value / 1e9:g}B'
    return f'{value / 1e6:g}M' if value >= 1e6 else f'{value:,.0f}'
