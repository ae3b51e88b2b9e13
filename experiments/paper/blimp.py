"""BLiMP without fine-tuning, of the Transformer and the LSTM, with published models.

Every saved update is scored. This is not in the paper, but drawn like its Figure 2 (right).
gpt1_jax/evaluation/minimal_pairs.py describes the scores.
"""

import pathlib
from collections.abc import Mapping, Sequence

from matplotlib.ticker import EngFormatter, NullFormatter
from ml_collections import ConfigDict

from experiments.lib import figures, run_list
from experiments.lib.figures import COLOURS, plt
from experiments.lib.run_list import Run
from experiments.paper import blimp_published, scores
from experiments.paper.numbers import MODELS
from gpt1_jax import metrics
from gpt1_jax.data.tasks.blimp import PHENOMENA
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import minimal_pairs
from gpt1_jax.metrics import bootstrap
from gpt1_jax.runs import workdir
from gpt1_jax.runs.markdown import bullets, table

# How each metric differs from the first, for the reader.
METRICS = {
    'accuracy': 'ties half, mean of the 67 sets',
    'accuracy_ties_right': 'ties right (lm-evaluation-harness)',
}
ABOUT = (
    'Percent of minimal pairs whose good sentence has the higher log-probability: the sum over all '
    'tokens of the sentence, after a line break, in float32; ties count half; mean of the sets. '
    'Intervals are 95% percentile intervals over resamples of the pairs inside each set; they do '
    'not cover the spread between runs, about a point: differences of single runs below two points '
    'mean little.'
)

STYLES = {
    'Transformer': {'color': COLOURS['pretrained'], 'linestyle': '-', 'marker': 'o'},
    'LSTM': {
        'color': COLOURS['scratch'],
        'linestyle': '--',
        'marker': 's',
        'markerfacecolor': 'white',
    },
}
# Published models that have figures of each phenomenon
LINES = {'LSTM': '--', 'Transformer-XL': ':'}

Rows = Mapping[int, Mapping[tuple, dict]]  # {step: {(group, metric): row of results.jsonl}}


def specs(config: ConfigDict) -> list[Run]:
    return [
        run for condition in MODELS for run in run_list.zero_shot_runs(config, 'blimp', condition)
    ]


def points(runs: Sequence[Run]) -> dict[str, Rows]:
    """Returns {condition: a model's rows by step, then by (group, metric)}, steps ascending."""
    found: dict[str, dict] = {condition: {} for condition in MODELS}
    for run in runs:
        for row in sorted(run.rows, key=lambda row: row['step']):
            found[run.condition].setdefault(row['step'], {})[row['group'], row['metric']] = row
    return found


def tokens_per_update(config: ConfigDict) -> dict[str, int | None]:
    """Returns {condition: the tokens that an update of its pretraining reads}, None for imported
    weights."""
    found = {}
    for condition, path in (('full', config.pretrained), ('lstm', config.lstm)):
        of_run = workdir.load(path).config if path else {}
        size = of_run.get('batch', {}).get('size')
        found[condition] = size * of_run['model']['n_ctx'] if size else None
    return found


def draw(config: ConfigDict, runs: Sequence[Run], path: pathlib.Path) -> None:
    tokens = tokens_per_update(config)
    if drawn := curves(points(runs), tokens):
        draw_curves(path, drawn, tokens['full'])


def draw_curves(
    path: str | pathlib.Path, curves: Sequence[dict], tokens_per_update: int | None = None
) -> None:
    """Draws a panel for all sets and a panel for each phenomenon, against updates.

    Published models are lines. curves: the result of `curves`. tokens_per_update: adds a scale of
    tokens and the published decoder.
    """
    steps = {point['step'] for curve in curves for point in curve['points']}
    with plt.rc_context(figures.STYLE):
        figure = plt.figure(figsize=(11, 12.5))
        grid = figure.add_gridspec(
            5, 4, height_ratios=(1, 1, 1.05, 1.05, 1.05), hspace=0.55, wspace=0.18
        )
        axes = figure.add_subplot(grid[:2, :3])
        _curves(axes, [curve for curve in curves if curve['group'] is None], steps)
        _beside_published(axes, tokens_per_update if min(steps) else None)
        axes.set_title('BLiMP, zero-shot', pad=34 if tokens_per_update else 8)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc='upper center',
            bbox_to_anchor=(0.5, 0.085),
            ncols=3,
        )
        lowest = min(
            [20, *(point['low'] for curve in curves if curve['group'] for point in curve['points'])]
        )
        for number, (group, name) in enumerate(PHENOMENA.items()):
            panel = figure.add_subplot(grid[2 + number // 4, number % 4])
            for value, line in zip(
                blimp_published.BY_PHENOMENON[group], LINES.values(), strict=True
            ):
                panel.axhline(value, color=figures.GREY, linewidth=0.9, linestyle=line)
            _curves(panel, [curve for curve in curves if curve['group'] == group], steps, (1,), 3)
            panel.set_title(name, fontsize=10)
            panel.tick_params(labelleft=number % 4 == 0)
            panel.set_ylim(lowest, 100)
        figures.save(figure, path)


def _curves(axes, curves, steps, subs=(1, 2, 5), marker_size=4):
    """Draws chance, and each model's curve with its band."""
    axes.axhline(50, color=COLOURS['chance'], linewidth=1.2, label='chance')
    for curve in curves:
        figures.draw_curve(
            axes,
            curve['points'],
            band=0.18,
            linewidth=1.5,
            markersize=marker_size,
            label=f'{curve["model"]}, ours',
            **STYLES[curve['model']],
        )
    figures.scale_updates(axes, steps, subs)
    axes.tick_params(axis='x', labelsize=8)
    axes.yaxis.set_major_formatter(figures.COUNT)


def _beside_published(axes, tokens_per_update):
    """Draws a line for each published model. If tokens are known, it also draws the decoder that
    was measured along its training."""
    raised = {'LSTM': 5, 'Transformer-XL': -5}  # labels, in points: the two lines are 0.2 apart
    for one in blimp_published.PAPER:
        axes.axhline(
            one.sets,
            color=figures.GREY,
            linewidth=0.9,
            linestyle=LINES.get(one.name, '-.'),
            label=f'{one.name}, published' if one.name in LINES else None,
        )
        text = f'{one.name} {one.sets:.1f}' + (f' ({one.text})' if one.text else '')
        axes.annotate(
            text,
            (1, one.sets),
            (5, raised.get(one.name, 0)),
            xycoords=('axes fraction', 'data'),
            textcoords='offset points',
            va='center',
            fontsize=8,
            color=figures.GREY,
        )
    if tokens_per_update:
        above = axes.secondary_xaxis(
            'top',
            functions=(
                lambda updates: updates * tokens_per_update,
                lambda tokens: tokens / tokens_per_update,
            ),
        )
        above.set_xlabel('tokens read', fontsize=9)
        above.xaxis.set_major_formatter(EngFormatter(sep=''))
        above.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(axes.get_xlim())  # as far as the curves reach
        updates, values = zip(
            *(
                (tokens / tokens_per_update, value)
                for tokens, value in blimp_published.DECODER_POINTS
            )
        )
        seen = min(updates) <= axes.get_xlim()[1]
        axes.plot(
            updates,
            values,
            'D',
            color=figures.GREY,
            markersize=5,
            label=blimp_published.DECODER if seen else None,
        )
    axes.set(xlabel=figures.UPDATES, ylabel='accuracy (%)')


def curves(found: Mapping[str, Rows], tokens: Mapping[str, int | None]) -> list[dict]:
    """Returns [{'group': None or a phenomenon, 'model', 'points'}], in percent.

    The LSTM's updates are scaled to the Transformer's updates that read as many tokens. found:
    {condition: rows}. tokens: {condition: tokens an update}.
    """
    drawn = []
    for condition, steps in found.items():
        scale = tokens[condition] / tokens['full'] if tokens[condition] and tokens['full'] else 1
        for group in (None, *PHENOMENA):
            there = [
                {'step': step * scale}
                | {name: 100 * rows[group, 'accuracy'][name] for name in figures.VALUES}
                for step, rows in steps.items()
                if (group, 'accuracy') in rows
            ]
            if there:
                drawn.append({'group': group, 'model': MODELS[condition], 'points': there})
    return drawn


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    """Returns the Markdown: overall accuracy at each step, each convention and phenomenon at the
    last step, and published accuracies."""
    found = points(runs)
    tokens = tokens_per_update(config)
    models = {condition: steps for condition, steps in found.items() if steps}
    text = ['# BLiMP, zero-shot', '', ABOUT, '']
    if models:
        text += [
            '![BLiMP accuracy against updates](figure_blimp.png)',
            '',
            '## Overall',
            '',
            *_overall(models, tokens),
            *bullets(contrasts(models, tokens)),
        ]
        last = [steps[max(steps)] for steps in models.values()]
        columns = [
            '',
            *(f'{MODELS[each]}{column}' for each in models for column in ('', ': 95% interval')),
        ]
        conventions = _at_last(last, {(None, metric): [about] for metric, about in METRICS.items()})
        text += ['## Conventions, at the last update', '', *table(columns, conventions)]
        phenomena = _at_last(
            last,
            {
                (group, 'accuracy'): [
                    name,
                    *(f'{value:.1f}' for value in blimp_published.BY_PHENOMENON[group]),
                ]
                for group, name in PHENOMENA.items()
            },
        )
        text += [
            '## Phenomena, at the last update',
            '',
            *table(
                [*columns, 'LSTM, 83M words (published)', 'Transformer-XL, 103M words (published)'],
                phenomena,
            ),
        ]
    else:
        text += ['## Overall', '', scores.NA, '']
    return [
        *text,
        '## Published',
        '',
        _published(),
        '',
        *bullets([*scores.no_lstm(config), *scores.state(runs), scores.pretrained(config)]),
    ]


def _overall(models, tokens):
    header = [
        'updates',
        *(
            f'{MODELS[each]}{column}'
            for each in models
            for column in (': tokens', '', ': 95% interval')
        ),
    ]
    body = []
    for step in sorted(set().union(*models.values())):
        body.append([f'{step:,}'])
        for condition, steps in models.items():
            read = f'{step * tokens[condition]:,}' if tokens[condition] else ''
            body[-1] += [read, *_measured(steps.get(step, {}).get((None, 'accuracy')))]
    return table(header, body)


def _at_last(last, wanted):
    """Returns rows of a table: the first given cell, each model's cells at its last step, and the
    other given cells. wanted: {(group, metric): the given cells}."""
    rows = []
    for key, (name, *others) in wanted.items():
        if any(key in row for row in last):
            rows.append(
                [name, *(cell for row in last for cell in _measured(row.get(key))), *others]
            )
    return rows


def _measured(row):
    if row is None:
        return [scores.NA, '']
    return [scores.percent(row['value']), scores.span(row['low'], row['high'])]


def _published():
    """Return one line with the mean of the sets of every published model."""
    named = [
        f'{each.name}{f" ({each.text})" if each.text else ""} {each.sets:.1f}'
        for each in (*blimp_published.CONTROLS, *blimp_published.PAPER)
    ]
    read = ', '.join(
        f'{value:.1f} after {tokens / 1e6:,.0f}M tokens'
        for tokens, value in blimp_published.DECODER_POINTS
    )
    return f'Mean of the sets: {"; ".join(named)}; {blimp_published.DECODER}: {read}.'


def contrasts(models: Mapping[str, Rows], tokens: Mapping[str, int | None]) -> list[str]:
    """Returns lines on differences over the updates. If an update reads as many tokens in both
    models, the lines also compare the models."""
    text = scores.contrasts(models, difference, 'sentences')
    return text if len(set(tokens.values())) == 1 else [each for each in text if '−' not in each]


def difference(a: Mapping[tuple, dict], b: Mapping[tuple, dict]) -> bootstrap.Estimate:
    """Returns a's overall accuracy minus b's, by resampling pairs that both have scored."""
    ids, _, ours = metrics.read_predictions(a[None, 'accuracy']['predictions'])
    others, _, theirs = metrics.read_predictions(b[None, 'accuracy']['predictions'])
    if ids != others:
        raise UserError('a difference of BLiMP scores that are not of the same pairs')
    apart = minimal_pairs.outcomes(ours) - minimal_pairs.outcomes(theirs)
    return bootstrap.mean(minimal_pairs.set_means(ids, apart).values())
