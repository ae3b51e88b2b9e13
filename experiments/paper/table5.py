"""Table 5 (Section 5): without pretraining, without the auxiliary objective, with an LSTM.

The models with and without pretraining also run at every setting of config.grid. The table has
another row for the best setting of each.
"""

import itertools
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from experiments.lib import run_list
from experiments.lib.run_list import Run
from experiments.paper import numbers, scores
from gpt1_jax import rules
from gpt1_jax.metrics.bootstrap import mean
from gpt1_jax.runs.markdown import bullets, table

GRID = ('full', 'no_pretraining')  # the conditions that run at every setting of the grid
ROWS = tuple(numbers.TABLE5)
TASKS = tuple(
    dict.fromkeys(score.task for several in numbers.COLUMNS.values() for score in several)
)
DETAIL = (
    'row',
    'column',
    'ours',
    '95% interval',
    'range of seeds',
    'seeds',
    'n',
    'split',
    'parameters',
    'best on dev (optimistic)',
)

Columns = Mapping[str, tuple]  # the part of numbers.COLUMNS that has any result


def specs(config: ConfigDict, settings: bool = True) -> list[Run]:
    """Returns the runs of the table's rows, and with `settings` also the runs of the grid."""
    found = [
        run
        for condition in ROWS
        for task in TASKS
        for run in run_list.finetune_runs(config, task, condition)
    ]
    return found + [run for task in TASKS * settings for run in grid_specs(config, task)]


def grid_specs(config: ConfigDict, task: str) -> list[Run]:
    return [
        run
        for setting, values in grid(config).items()
        for condition in GRID
        for run in run_list.finetune_runs(
            config, task, f'{condition}@{setting}', values, config.grid_seeds
        )
    ]


def grid(config: ConfigDict) -> dict[str, dict]:
    """Returns every setting of config.grid, as {'peak_rate=0.001,epochs=3':
    {'optimizer.peak_rate': 0.001, 'train.epochs': 3}}."""
    fields = rules.flatten(config.grid.to_dict())
    settings = {}
    for values in itertools.product(*fields.values()) if fields else ():
        setting = dict(zip(fields, values))
        settings[
            ','.join(f'{field.split(".")[-1]}={value:g}' for field, value in setting.items())
        ] = setting
    return settings


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    columns = {
        name: several
        for name, several in numbers.COLUMNS.items()
        if any(scores.column(runs, several, row) for row in ROWS)
    }
    if not columns:
        return [
            '# Table 5: ablations',
            '',
            *bullets([*scores.state(runs), 'no column has any result']),
            '',
        ]
    best = {condition: best_setting(config, runs, condition, columns) for condition in GRID}
    body = []
    detail = []
    for condition in ROWS:
        body += [
            _ours(runs, condition, columns, f'{numbers.NAMES[condition]}, ours'),
            [
                f'{numbers.NAMES[condition]}, paper (test)',
                *_mean_first(
                    [numbers.TABLE5[condition][name] for name in columns],
                    statistics.fmean,
                    '{:.1f}'.format,
                ),
            ],
        ]
        detail += _details(runs, condition, columns)
        if best.get(condition):
            at = f'{condition}@{best[condition]}'
            label = f'{numbers.NAMES[condition]}, ours, best of the grid ({best[condition]})'
            body.append(_ours(runs, at, columns, label))
            detail += _details(runs, at, columns)
    header = ('', 'Avg', *columns)
    return [
        '# Table 5: ablations',
        '',
        'Ours: split dev, parameters "final" (the last step of the fixed schedule). The '
        "paper's rows are on the test sets.",
        '',
        *table(header, body + _baselines(config, columns, runs)),
        '## Differences',
        '',
        *table(header, _differences(runs, columns, best)),
        '## Every score',
        '',
        *table(DETAIL, detail),
        scores.READING,
        '',
        *bullets([*notes(config, runs, columns, best), *scores.state(runs)]),
    ]


def best_setting(
    config: ConfigDict, runs: Sequence[Run], condition: str, columns: Columns
) -> str | None:
    """Returns the setting of the grid with the highest average over the columns. None unless two or
    more settings have all columns."""
    averages = {}
    for setting in grid(config):
        found = [
            scores.column(runs, several, f'{condition}@{setting}') for several in columns.values()
        ]
        if all(found):
            averages[setting] = mean(found).value
    return max(averages, key=averages.get) if len(averages) > 1 else None


def _mean_first(found, mean, text, gaps=itertools.repeat(scores.NA)):
    """Returns the cells of the mean, if all are there, and then of each. Missing cells come from
    `gaps`."""
    average = None if any(each is None for each in found) else mean(found)
    return [gap if each is None else text(each) for each, gap in zip((average, *found), gaps)]


def _ours(runs, condition, columns, label):
    """Returns [label, Avg if every column is there, columns...]."""
    found = [scores.column(runs, several, condition) for several in columns.values()]
    gaps = [
        scores.NA,
        *(scores.absent(runs, several[0].task, condition) for several in columns.values()),
    ]
    return [label, *_mean_first(found, mean, lambda each: scores.percent(each.value), gaps)]


def _baselines(config, columns, runs):
    """Returns a row for each baseline of OUT/baselines.json: [label, Avg if every column has a
    value, columns...]."""
    rows = scores.baselines(pathlib.Path(config.out) / scores.BASELINES_FILE)
    of = {
        score: scores.baseline_rows(rows, score, found=scores.find(runs, score))
        for several in columns.values()
        for score in several
    }
    text = []
    for name, label in scores.BASELINES.items():
        values = []
        for several in columns.values():
            there = [of[score][name]['value'] for score in several if name in of[score]]
            values.append(statistics.fmean(there) if there else None)
        if any(value is not None for value in values):
            cells = _mean_first(values, statistics.fmean, scores.percent, itertools.repeat(''))
            text.append([f'baseline: {label}', *cells])
    return text


def _differences(runs, columns, best):
    """Returns rows of 'full' minus each other condition, ours and the paper's. A last row compares
    the best settings of the grid."""

    def ours(label, a, b):
        found = [scores.difference(runs, several, a, b) for several in columns.values()]
        return [label, *_mean_first(found, mean, scores.signed)]

    rows = []
    for condition in ROWS[1:]:
        label = f'full − {numbers.NAMES[condition]}'
        theirs = [numbers.difference('full', condition, name) for name in columns]
        rows += [
            ours(f'{label}, ours', 'full', condition),
            [f'{label}, paper (test)', *_mean_first(theirs, statistics.fmean, '{:+.1f}'.format)],
        ]
    if all(best.values()):
        rows.append(
            ours(
                'full − no pretraining, ours, each at its best of the grid',
                *(f'{condition}@{best[condition]}' for condition in GRID),
            )
        )
    return rows


def _details(runs, condition, columns):
    """Returns a row for each score behind the columns, with MNLI's two sets apart."""
    name, _, setting = condition.partition('@')
    label = numbers.NAMES[name] + (f' at {setting}' if setting else '')
    rows = []
    for score in itertools.chain(*columns.values()):
        found, best = (
            scores.find(runs, score, condition, selection) for selection in ('final', 'best')
        )
        if found:
            rows.append(
                [
                    label,
                    f'{score.label} ({score.metric})',
                    *scores.measured(found),
                    score.split,
                    'final',
                    scores.percent(best.value) if best else '',
                ]
            )
    return rows


def notes(
    config: ConfigDict, runs: Sequence[Run], columns: Columns, best: Mapping[str, str | None]
) -> list[str]:
    averages = ', '.join(
        f'{value} ({numbers.NAMES[row]})' for row, value in numbers.TABLE5_AVERAGE.items()
    )
    found = [
        'Avg is the plain mean of the columns; MNLI is the mean of matched and mismatched. The '
        f'paper prints {averages}.'
    ]
    absent = [name for name in numbers.COLUMNS if name not in columns]
    if absent:
        found.append(
            f'Missing here: {", ".join(absent)}; Avg of ours and of the paper is over the other '
            f'{len(columns)} columns.'
        )
    missing = [
        score.label
        for score in itertools.chain(*columns.values())
        if scores.find(runs, score) is None
    ]
    if missing:
        found.append(
            f'Missing within a column: {", ".join(missing)}; ours is the mean of the rest of that '
            'column, the '
            "paper's is as printed."
        )
    found += scores.no_lstm(config)
    if any(best.values()):
        chosen = ', '.join(f'{numbers.NAMES[row]} at {best[row] or scores.NA}' for row in GRID)
        seeds = (
            f' Seeds of its runs: {", ".join(map(str, config.grid_seeds))}.'
            if config.grid_seeds
            else ''
        )
        found.append(
            f'The grid, the same with and without pretraining: {"; ".join(grid(config))}. The best '
            f'is the one setting with the highest Avg on dev: {chosen}. As dev chose it, it is '
            f'optimistic.{seeds}'
        )
    found.append('Without pretraining the auxiliary objective stays on; the paper does not say.')
    return found + scores.settings(config, runs)
