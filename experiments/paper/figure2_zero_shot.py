"""Figure 2, right (Section 5): tasks without fine-tuning at every saved update of both models."""

import pathlib
from collections.abc import Mapping, Sequence

from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy
from ml_collections import ConfigDict

from experiments.lib import bootstrap, figures, run_list
from experiments.lib.run_list import Run
from experiments.paper import scores
from experiments.paper.numbers import MODELS, SCALES, normalised
from gpt1_jax.metrics.bootstrap import Estimate
from gpt1_jax.runs.markdown import bullets, table

# The names in the paper's legend, and the set that stands for each.
NAMES = {
    'sst2': ('sentiment analysis', 'SST-2'),
    'dpr': ('winograd schema resolution', 'DPRD'),
    'cola': ('linguistic acceptability', 'CoLA'),
    'race': ('question answering', 'RACE'),
}
ABOUT = (
    'A task\'s metric in percent (Matthews correlation times 100), and "relative": where it lies '
    'between a random guess (0) and the state of the art (1), not clipped. No fine-tuning; the '
    'prompts and scores are those of gpt1_jax/evaluation/zero_shot_heuristics.py.'
)

LINES = {'Transformer': '-', 'LSTM': '--'}

Points = Mapping[int, tuple[Estimate, dict]]  # {step: (estimate, row of results.jsonl)}


def specs(config: ConfigDict) -> list[Run]:
    """Returns the runs that score every saved step of each model on each task."""
    return [
        run
        for condition in MODELS
        for task in names(config)
        for run in run_list.zero_shot_runs(config, task, condition)
    ]


def names(config: ConfigDict) -> list[str]:
    """Returns the tasks in the order of the paper's legend."""
    return [task for task in NAMES if task in config.zero_shot_tasks]


def points(runs: Sequence[Run], condition: str, task: str) -> Points:
    """Returns the results of a model on a task, steps ascending."""
    rows = {
        row['step']: row
        for run in runs
        for row in run.rows
        if (run.kind, run.task, run.condition) == ('zero_shot', task, condition)
        and row['metric'] == SCALES[task].metric
        and row.get('group') is None
    }
    return {step: (bootstrap.of_rows([rows[step]]), rows[step]) for step in sorted(rows)}


def draw(config: ConfigDict, runs: Sequence[Run], path: pathlib.Path) -> None:
    """Draws tasks against updates, from a random guess (0) to the state of the art (1).

    The Transformer is solid and the LSTM dashed. Only the last point of a curve has its interval,
    drawn left of it, because bands would hide the curves.
    """
    curves = {
        (task, model): [
            {'step': step}
            | {name: normalised(task, 100 * value) for name, value in figures.point(each).items()}
            for step, (each, _) in points(runs, condition, task).items()
        ]
        for condition, model in MODELS.items()
        for task in names(config)
    }
    curves = {key: there for key, there in curves.items() if there}
    if not curves:
        return
    about = 'relative task performance\n(0: random guess, 1: state of the art)'
    with figures.panel(
        path,
        (6.8, 4.6),
        title='Figure 2 (right): zero-shot performance',
        xlabel=figures.UPDATES,
        ylabel=about,
    ) as axes:
        for number, ((task, model), there) in enumerate(curves.items(), 1):
            style = {'color': figures.of_task(task)[0], 'linewidth': 1.5, 'linestyle': LINES[model]}
            figures.draw_curve(
                axes,
                there,
                band=0,
                marker=figures.of_task(task)[1],
                markersize=4,
                markerfacecolor=style['color'] if model == 'Transformer' else 'white',
                **style,
            )
            step, low, high = (there[-1][name] for name in ('step', 'low', 'high'))
            # Side by side
            beside = offset_copy(axes.transData, axes.figure, x=-4 * number, units='points')
            axes.vlines(step, low, high, transform=beside, **style)
            axes.update_datalim([(step, low), (step, high)])  # an offset leaves them out
        highest = max(point['value'] for there in curves.values() for point in there)
        # A small model's curves would all lie flat at the bottom
        for height in (0, 1) if highest > 0.5 else (0,):
            axes.axhline(height, color=figures.GREY, linestyle=':', linewidth=1)
        figures.scale_updates(axes, {point['step'] for there in curves.values() for point in there})
        handles = []
        for task in dict.fromkeys(task for task, _ in curves):
            colour, marker = figures.of_task(task)
            style = {'color': colour, 'marker': marker, 'markersize': 5}
            handles.append(Line2D([], [], label=NAMES[task][0], **style))
        for model in dict.fromkeys(model for _, model in curves):
            style = {'color': '#404040', 'linestyle': LINES[model]}
            handles.append(Line2D([], [], label=model, **style))
        axes.legend(handles=handles, loc='center left', bbox_to_anchor=(1, 0.5))


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    """Returns the Markdown: a table for each task with both models, and the constants."""
    text = []
    picture = []
    for task in names(config):
        models = {condition: points(runs, condition, task) for condition in MODELS}
        text += [f'## {NAMES[task][1]}: {NAMES[task][0]}', '', *section(task, models)]
        if any(models.values()):
            picture = ['![relative performance against updates](figure2_zero_shot.png)', '']
    constants = [
        [
            NAMES[task][1],
            scale.metric,
            f'{scale.chance:g}',
            f'{scale.sota:g}',
            scale.source,
            'yes' if scale.verified else 'no: from notes',
        ]
        for task, scale in SCALES.items()
    ]
    return [
        '# Figure 2 (right): zero-shot performance',
        '',
        ABOUT,
        '',
        *picture,
        *text,
        '## Constants',
        '',
        *table(
            ('task', 'metric', 'random guess', 'state of the art', 'source', 'verified'), constants
        ),
        'The state of the art is that of a single model in June 2018; the paper prints neither '
        'constant.',
        '',
        f'{bootstrap.INTERVALS} There is one pretraining run a model.',
        '',
        *bullets([*scores.no_lstm(config), *scores.state(runs), scores.pretrained(config)]),
    ]


def section(task: str, models: Mapping[str, Points]) -> list[str]:
    """Returns the table of a task, and the change from the first step to the last. models:
    {condition: points}."""
    steps = sorted({step for there in models.values() for step in there})
    if not steps:
        return [scores.NA, '']
    (split,) = {row['split'] for there in models.values() for _, row in there.values()}
    threshold = task == 'cola'
    columns = ['', ': 95% interval', ': relative', *[': threshold'] * threshold]
    about = f'Split {split}, {SCALES[task].metric}' + (
        '; the threshold is chosen on train.' if threshold else '.'
    )
    body = []
    for step in steps:
        n = sorted({there[step][0].n for there in models.values() if step in there})
        body.append([f'{step:,}', ' / '.join(f'{each:,}' for each in n)])
        for there in models.values():
            body[-1] += (
                cells(task, *there[step])
                if step in there
                else [scores.NA, *[''] * (len(columns) - 1)]
            )
    header = [
        'updates',
        'n',
        *(f'{MODELS[condition]}{column}' for condition in models for column in columns),
    ]
    estimates = {
        condition: {step: each for step, (each, _) in there.items()}
        for condition, there in models.items()
    }
    notes = ['0 updates: imported weights, however long they were trained'] if 0 in steps else []
    return [
        about,
        '',
        *table(header, body),
        *bullets(notes + scores.contrasts(estimates, bootstrap.minus, 'rows')),
    ]


def cells(task: str, found: Estimate, row: Mapping) -> list[str]:
    """Returns a result's cells: value, interval, relative performance, and for cola threshold."""
    threshold = [f'{row["threshold"]:.3f}'] if task == 'cola' else []
    return [*scores.pair(found), f'{normalised(task, 100 * found.value):.2f}', *threshold]
