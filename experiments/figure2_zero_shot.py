"""Section 5, Figure 2 (right): tasks without fine-tuning at every saved update, of the Transformer and of the LSTM.

python -m experiments.figure2_zero_shot --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm --config.data=DATA --config.out=runs/paper [--dry_run]

WSC273 is beyond the paper: in the tables, not in the figure.
"""
import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from experiments.lib import bootstrap, run_list, runner, tables
from experiments.lib.bootstrap import Estimate
from experiments.lib.markdown import bullets, table
from experiments.lib.paper import MODELS, SCALES, normalised
from experiments.lib.run_list import RunSpec
from experiments.lib.runner import Outcome
from gpt1_jax.data import tasks

PNG = 'figure2_zero_shot.png'
# As in the paper's legend, and the set that stands for it.
NAMES = {'sst2': ('sentiment analysis', 'SST-2'), 'dpr': ('winograd schema resolution', 'DPRD'),
         'cola': ('linguistic acceptability', 'CoLA'), 'race': ('question answering', 'RACE'),
         'wsc273': ('winograd schemas', 'WSC273')}
ABOUT = ('A task\'s metric in percent (Matthews correlation times 100), and "relative": where it lies between a random '
         'guess (0) and the state of the art (1), not clipped. No fine-tuning; the prompts and scores are those of '
         'gpt1_jax/evaluation/zero_shot_heuristics.py.')


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Score every saved step; write OUT/figure2_zero_shot.png and .md; returns its lines, none in a dry run."""
    outcomes = runner.of_script(config, specs, dry_run)
    if dry_run:
        return []
    found = {}
    for condition in MODELS:
        for task in names(config):
            found[condition, task] = points(outcomes, condition, task)
    drawn = curves(found)
    text = runner.write(config, 'figure2_zero_shot.md', lines(config, outcomes, found, bool(drawn)))
    if drawn:
        from experiments.lib import figures  # matplotlib, which the runs themselves do without
        figures.zero_shot_tasks(pathlib.Path(config.out) / PNG, drawn)
    runner.raise_failures(outcomes)
    return text


def specs(config: ConfigDict) -> list[RunSpec]:
    """Every saved step of each model on each task."""
    found = []
    for condition in MODELS:
        for task in names(config):
            found += run_list.zero_shot_specs(config, task, condition)
    return found


def names(config: ConfigDict) -> list[str]:
    """The tasks in the order of the paper's legend."""
    return [task for task in NAMES if task in config.zero_shot_tasks]


def metric_of(task: str) -> str:
    """The metric that the figure shows of a task."""
    return SCALES[task].metric if task in SCALES else tasks.get(task).metrics[0]


def points(outcomes: Sequence[Outcome], condition: str, task: str) -> dict[int, tuple[Estimate, dict]]:
    """{step: (Estimate, row of results.jsonl)} of what is there."""
    metric = metric_of(task)
    rows = {}
    for outcome in outcomes:
        if (outcome.spec.kind, outcome.spec.task, outcome.spec.condition) != ('zero_shot', task, condition):
            continue
        for row in outcome.rows:
            if row['metric'] == metric and row.get('group') is None:
                rows[row['step']] = row
    return {step: (bootstrap.of_rows([rows[step]]), rows[step]) for step in sorted(rows)}


def curves(found: Mapping[tuple[str, str], Mapping[int, tuple[Estimate, dict]]]) -> list[dict]:
    """What figures.zero_shot_tasks draws, normalised. found: {(condition, task): points}."""
    drawn = []
    for (condition, task), estimates in found.items():
        if not estimates or task not in SCALES:
            continue
        points = []
        for step, (one, _) in estimates.items():
            value, low, high = (normalised(task, 100 * x) for x in (one.value, *one.interval()))
            points.append({'step': step, 'value': value, 'low': low, 'high': high})
        drawn.append({'task': task, 'name': NAMES[task][0], 'model': MODELS[condition], 'points': points})
    return drawn


def lines(config: ConfigDict, outcomes: Sequence[Outcome],
          found: Mapping[tuple[str, str], Mapping[int, tuple[Estimate, dict]]], drawn: bool) -> list[str]:
    """The Markdown: a table for each task, the models side by side, and the constants. found: {(condition, task):
    points}. drawn: whether there is a picture."""
    text = ['# Figure 2 (right): zero-shot performance', '', ABOUT, '']
    if drawn:
        text += [f'![relative performance against updates]({PNG})', '']
    for task in names(config):
        models = {condition: found[condition, task] for condition in MODELS}
        text += [f'## {NAMES[task][1]}: {NAMES[task][0]}', '', *section(task, models)]
    constants = [[NAMES[task][1], scale.metric, f'{scale.chance:g}', f'{scale.sota:g}', scale.source,
                  'yes' if scale.verified else 'no: from notes'] for task, scale in SCALES.items()]
    return [*text, '## Constants', '',
            *table(('task', 'metric', 'random guess', 'state of the art', 'source', 'verified'), constants),
            'The state of the art is that of a single model in June 2018; the paper prints neither constant.', '',
            f'{bootstrap.INTERVALS} There is one pretraining run a model.', '',
            *bullets([*tables.no_lstm(config), *tables.state(outcomes), tables.pretrained(config)])]


def section(task: str, models: Mapping[str, Mapping[int, tuple[Estimate, dict]]]) -> list[str]:
    """The table of one task, and what changed from the first step to the last. models: {condition: points}."""
    steps = sorted({step for points in models.values() for step in points})
    if not steps:
        return [tables.NA, '']
    (split,) = {row['split'] for points in models.values() for _, row in points.values()}
    columns = ['', ': 95% interval']
    if task in SCALES:
        columns.append(': relative')
    about = f'Split {split}, {metric_of(task)}.'
    if task == 'cola':
        columns.append(': threshold')
        about = f'Split {split}, {metric_of(task)}; the threshold is chosen on train.'
    header = ['updates', 'n', *(f'{MODELS[condition]}{column}' for condition in models for column in columns)]
    body = []
    for step in steps:
        n = sorted({points[step][0].n for points in models.values() if step in points})
        cells = [f'{step:,}', ' / '.join(f'{one:,}' for one in n)]
        for points in models.values():
            if step in points:
                cells += measured(task, *points[step])
            else:
                cells += [tables.NA, *[''] * (len(columns) - 1)]
        body.append(cells)
    return [about, '', *table(header, body), *bullets(contrasts(models))]


def measured(task: str, one: Estimate, row: Mapping) -> list[str]:
    """The cells of a task, model and step: value, interval, relative performance, threshold."""
    cells = [tables.percent(one.value), tables.interval(one)]
    if task in SCALES:
        cells.append(f'{normalised(task, 100 * one.value):.2f}')
    if task == 'cola':
        cells.append(f'{row["threshold"]:.3f}')
    return cells


def contrasts(models: Mapping[str, Mapping[int, tuple[Estimate, dict]]]) -> list[str]:
    """The last step against the first of each model, and the models at the last step that both have; paired."""
    text = []
    for condition, points in models.items():
        if len(points) > 1:
            first, last = min(points), max(points)
            gain = bootstrap.minus(points[last][0], points[first][0])
            text.append(f'{MODELS[condition]}, from update {first:,} to {last:,}: {_signed(gain)}.')
    shared = set.intersection(*(set(points) for points in models.values()))
    if shared:
        step = max(shared)
        difference = bootstrap.minus(*(points[step][0] for points in models.values()))
        both = ' − '.join(MODELS[condition] for condition in models)
        text.append(f'{both} at update {step:,}: {_signed(difference)}.')
    return text


def _signed(difference):
    return f'{tables.percent(difference.value, "+")} ({tables.interval(difference, "+")}, paired over the same rows)'


if __name__ == '__main__':
    runner.command(run)
