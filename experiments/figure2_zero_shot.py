"""Section 5, Figure 2 (right): tasks without fine-tuning at every saved update, of the Transformer and of the LSTM.

python -m experiments.figure2_zero_shot --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm --config.data=DATA --config.out=runs/paper [--dry_run]

WSC273 is beyond the paper: in the tables, not in the figure.
"""
import pathlib

from experiments import estimates, tables
from experiments import run as runs
from experiments.figure2_constants import SCALES, normalised
from experiments.report import table

PNG = 'figure2_zero_shot.png'
# As in the paper's legend, and the set that stands for it.
NAMES = {'sst2': ('sentiment analysis', 'SST-2'), 'dpr': ('winograd schema resolution', 'DPRD'),
         'cola': ('linguistic acceptability', 'CoLA'), 'race': ('question answering', 'RACE'),
         'wsc273': ('winograd schemas', 'WSC273')}
MODELS = {'full': 'Transformer', 'lstm': 'LSTM'}
BEYOND = {'wsc273': 'accuracy'}  # the paper has no constants for it
ABOUT = ('A task\'s metric in percent (Matthews correlation times 100), and "relative": where it lies between a random '
         'guess (0) and the state of the art (1), not clipped. No fine-tuning; the prompts and scores are those of '
         'gpt1_jax/heuristics.py.')


def run(config, dry_run=False):
    """Score every saved update; write OUT/figure2_zero_shot.png and .md; returns its lines, none in a dry run."""
    runs.check(config)
    outcomes = runs.carry_out(config, plans(config), dry_run)
    if dry_run:
        runs.raise_failures(outcomes)
        return []
    found = {(condition, task): points(outcomes, condition, task) for condition in MODELS for task in names(config)}
    curves = [{'task': task, 'name': NAMES[task][0], 'model': MODELS[condition], 'points': [
        {'step': step, **{name: normalised(task, 100 * value) for name, value in zip(
            ('value', 'low', 'high'), (one.value, *one.interval()))}} for step, (one, _) in several.items()]}
        for (condition, task), several in found.items() if several and task in SCALES]
    text = runs.write(config, 'figure2_zero_shot.md', lines(config, outcomes, found, bool(curves)))
    if curves:
        from experiments import plots  # matplotlib, which the runs themselves do without
        plots.zero_shot_tasks(pathlib.Path(config.out) / PNG, curves)
    runs.raise_failures(outcomes)
    return text


def plans(config):
    """Every saved update of each model on each task."""
    return [one for condition in MODELS for task in names(config)
            for one in runs.zero_shot_plan(config, task, condition)]


def names(config):
    """The tasks in the order of the paper's legend."""
    return [task for task in NAMES if task in config.zero_shot_tasks or task in BEYOND]


def metric_of(task):
    return SCALES[task].metric if task in SCALES else BEYOND[task]


def points(outcomes, condition, task):
    """{update: (Estimate, row of results.jsonl)} of what is there."""
    metric = metric_of(task)
    wanted = ('zero_shot', task, condition)
    found = {row['step']: row for outcome in outcomes for row in outcome.rows
             if (outcome.planned.kind, outcome.planned.task, outcome.planned.condition) == wanted
             and row['metric'] == metric and row.get('group') is None}
    return {step: (estimates.of_rows([found[step]]), found[step]) for step in sorted(found)}


def lines(config, outcomes, found, drawn):
    """The Markdown: a table a task, the models side by side, and the constants. found: {(condition, task): points}."""
    text = ['# Figure 2 (right): zero-shot performance', '', ABOUT, '']
    text += [f'![relative performance against updates]({PNG})', ''] if drawn else []
    for task in names(config):
        text += [f'## {NAMES[task][1]}: {NAMES[task][0]}', '', *section(task, {
            condition: found[condition, task] for condition in MODELS})]
    absent = [] if config.lstm else [tables.no_lstm(config)]
    return [*text, '## Constants', '', *table(
        ('task', 'metric', 'random guess', 'state of the art', 'source', 'verified'),
        [[NAMES[task][1], scale.metric, f'{scale.chance:g}', f'{scale.sota:g}', scale.source,
          'yes' if scale.verified else 'no: from notes'] for task, scale in SCALES.items()]),
        'The state of the art is that of a single model in June 2018; the paper prints neither constant.', '',
        f'{estimates.INTERVALS} There is one pretraining run a model.',
        '', *tables.bullets([*absent, *tables.state(outcomes), f'Pretrained: {config.pretrained}'
                             + (f'; LSTM: {config.lstm}' if config.lstm else '') + '.'])]


def section(task, models):
    """The table of one task, and what changed from the first update to the last. models: {condition: points}."""
    steps = sorted({step for several in models.values() for step in several})
    if not steps:
        return [tables.NA, '']
    (split,) = {row['split'] for several in models.values() for _, row in several.values()}
    about = f'Split {split}, {metric_of(task)}' + ('; the threshold is chosen on train.' if task == 'cola' else '.')
    details = ['threshold'] if task == 'cola' else []
    header = ['updates', 'n', *(f'{MODELS[condition]}{column}' for condition in models for column in (
        '', ': 95% interval', *([': relative'] if task in SCALES else []), *(f': {name}' for name in details)))]
    body = []
    for step in steps:
        n = {several[step][0].n for several in models.values() if step in several}
        cells = [f'{step:,}', ' / '.join(f'{one:,}' for one in sorted(n))]
        for several in models.values():
            cells += measured(task, *several[step], details) if step in several else [tables.NA, *[''] * (
                len(details) + (2 if task in SCALES else 1))]
        body.append(cells)
    return [about, '', *table(header, body), *tables.bullets(contrasts(models))]


def measured(task, one, row, details):
    relative = [f'{normalised(task, 100 * one.value):.2f}'] if task in SCALES else []
    return [tables.percent(one.value), tables.interval(one), *relative, *(f'{row[name]:.3f}' for name in details)]


def contrasts(models):
    """The last update against the first of each model, and the models at the last one that both have; paired."""
    text = []
    for condition, several in models.items():
        if len(several) > 1:
            first, last = min(several), max(several)
            gain = estimates.minus(several[last][0], several[first][0])
            text.append(f'{MODELS[condition]}, from update {first:,} to {last:,}: {_signed(gain)}.')
    shared = set.intersection(*(set(several) for several in models.values()))
    if shared:
        step = max(shared)
        difference = estimates.minus(*(several[step][0] for several in models.values()))
        text.append(f'{" − ".join(MODELS[condition] for condition in models)} at update {step:,}: '
                    f'{_signed(difference)}.')
    return text


def _signed(difference):
    return f'{tables.percent(difference.value, "+")} ({tables.interval(difference, "+")}, paired over the same rows)'


if __name__ == '__main__':
    runs.command(run)
