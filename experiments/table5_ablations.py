"""Section 5, Table 5: without pretraining, without the auxiliary objective, with an LSTM.

python -m experiments.table5_ablations --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm --config.data=DATA --config.out=runs/paper [--dry_run]

The models with and without pretraining also run at every setting of config.grid; each one's best is a row of its own.
"""
import itertools
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from experiments.lib import bootstrap, paper, run_list, runner, tables
from experiments.lib.markdown import bullets, table
from experiments.lib.run_list import RunSpec
from experiments.lib.runner import Outcome
from gpt1_jax.runs import workdir

GRID = ('full', 'no_pretraining')  # the conditions that run at every setting of the grid
ROWS = tuple(paper.TABLE5)
TASKS = tuple(dict.fromkeys(score.task for scores in paper.COLUMNS.values() for score in scores))


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Do the runs of every row and write OUT/table5.md; returns its lines, none in a dry run."""
    outcomes = runner.of_script(config, specs, dry_run)
    if dry_run:
        return []
    return runner.write(config, 'table5.md', lines(config, outcomes), outcomes)


def specs(config: ConfigDict) -> list[RunSpec]:
    """The runs of the table's rows, then those of the grid."""
    found = []
    for condition in ROWS:
        for task in TASKS:
            found += run_list.finetune_specs(config, task, condition)
    for setting, values in grid(config).items():
        for condition in GRID:
            for task in TASKS:
                found += run_list.finetune_specs(config, task, f'{condition}@{setting}', values, config.grid_seeds)
    return found


def grid(config: ConfigDict) -> dict[str, dict]:
    """{'peak_rate=0.001,epochs=3': {'optimizer.peak_rate': 0.001, 'train.epochs': 3}}: every setting of config.grid."""
    fields = workdir.flatten(config.grid.to_dict())
    settings = {}
    for values in itertools.product(*fields.values()) if fields else ():
        setting = dict(zip(fields, values))
        name = ','.join(f'{field.split(".")[-1]}={value:g}' for field, value in setting.items())
        settings[name] = setting
    return settings


def lines(config: ConfigDict, outcomes: Sequence[Outcome]) -> list[str]:
    """The Markdown of the table from the outcomes of `specs`."""
    columns = {name: scores for name, scores in paper.COLUMNS.items()
               if any(tables.on_dev(outcomes, score, row) is not None for score in scores for row in ROWS)}
    if not columns:
        return ['# Table 5: ablations', '', *bullets([*tables.state(outcomes), 'no column has any result']), '']
    best = {condition: best_setting(config, outcomes, condition, columns) for condition in GRID}
    body, detail = [], []
    for condition in ROWS:
        body.append(cells(config, outcomes, condition, columns, f'{paper.NAMES[condition]}, ours'))
        body.append(paper_cells(condition, columns))
        detail += details(outcomes, condition, columns)
        if best.get(condition):
            at = f'{condition}@{best[condition]}'
            label = f'{paper.NAMES[condition]}, ours, best of the grid ({best[condition]})'
            body.append(cells(config, outcomes, at, columns, label))
            detail += details(outcomes, at, columns)
    body += baseline_rows(config, columns)
    optimistic = [cells(config, outcomes, condition, columns, f'{paper.NAMES[condition]}, ours', 'best')
                  for condition in ROWS]
    header = ('', 'Avg', *columns)
    return [
        '# Table 5: ablations', '', 'Ours: split dev, parameters "final" (the last step of the fixed schedule). The '
        "paper's rows are on the test sets.", '', *table(header, body),
        '## Differences', '', *table(header, differences(outcomes, columns, best)),
        '## Best on dev (optimistic)', '', 'The same runs with the parameters that were best on the rows reported.', '',
        *table(header, optimistic),
        '## Every score', '', *table(('row', 'column', 'ours', '95% interval', 'range of seeds', 'seeds', 'n', 'split',
                                       'parameters', 'best on dev (optimistic)'), detail),
        tables.READING, '',
        *bullets([*notes(config, outcomes, columns, best), *tables.state(outcomes)])]


def differences(outcomes: Sequence[Outcome], columns: Mapping[str, tuple], best: Mapping[str, str | None]) -> list:
    """Rows of 'full' minus each other condition, ours and the paper's, then both ends of the grid at their best."""
    rows = []
    for condition in ROWS[1:]:
        label = f'full − {paper.NAMES[condition]}'
        rows.append(difference_cells(outcomes, 'full', condition, columns, f'{label}, ours'))
        theirs = [paper.difference('full', condition, name) for name in columns]
        rows.append([f'{label}, paper (test)', *mean_first(theirs, '+')])
    if all(best.values()):
        full, scratch = (f'{condition}@{best[condition]}' for condition in GRID)
        rows.append(difference_cells(outcomes, full, scratch, columns,
                                     'full − no pretraining, ours, each at its best of the grid'))
    return rows


def cells(config: ConfigDict, outcomes: Sequence[Outcome], condition: str, columns: Mapping[str, tuple], label: str,
          selection: str = 'final') -> list[str]:
    """[label, Avg, columns...]: Avg only where every column is there."""
    found = [tables.column(outcomes, scores, condition, selection) for scores in columns.values()]
    average = tables.percent(bootstrap.mean(found).value) if all(found) else tables.NA
    row = [label, average]
    for one, scores in zip(found, columns.values()):
        if one:
            row.append(tables.percent(one.value))
        elif condition == 'lstm' and 'pretrain_lstm' in config.out_of_time:
            row.append(f'{tables.NA} ({runner.BUDGET})')
        else:
            row.append(tables.absent(outcomes, scores[0].task, condition))
    return row


def paper_cells(condition: str, columns: Mapping[str, tuple]) -> list[str]:
    """The paper's row of a condition: [label, Avg over these columns, columns...]."""
    values = [paper.column(condition, name) for name in columns]
    return [f'{paper.NAMES[condition]}, paper (test)', *mean_first(values)]


def baseline_rows(config: ConfigDict, columns: Mapping[str, tuple]) -> list[list[str]]:
    """A row for each baseline of OUT/baselines.json: [label, Avg if every column has one, columns...]."""
    rows = tables.baselines_of(config)
    text = []
    for name, label in tables.BASELINES.items():
        values = []
        for scores in columns.values():
            found = [tables.baseline_values(rows, score).get(name) for score in scores]
            found = [value for value in found if value is not None]
            values.append(sum(found) / len(found) if found else None)
        if any(value is not None for value in values):
            average = None if None in values else sum(values) / len(values)
            text.append([f'baseline: {label}', *('' if value is None else tables.percent(value)
                                                 for value in (average, *values))])
    return text


def mean_first(values: Sequence[float], sign: str = '') -> list[str]:
    """Cells of the mean of values in percent, then of each."""
    return [f'{value:{sign}.1f}' for value in (sum(values) / len(values), *values)]


def difference_cells(outcomes: Sequence[Outcome], a: str, b: str, columns: Mapping[str, tuple],
                     label: str) -> list[str]:
    """[label, Avg, columns...] of condition a - condition b with 95% intervals."""
    found = [tables.difference(outcomes, scores, a, b) for scores in columns.values()]
    average = bootstrap.mean(found) if all(found) else None
    row = [label]
    for one in (average, *found):
        row.append(f'{tables.percent(one.value, "+")} ({tables.interval(one, "+")})' if one else tables.NA)
    return row


def details(outcomes: Sequence[Outcome], condition: str, columns: Mapping[str, tuple]) -> list[list[str]]:
    """A row for each score that is behind the columns, MNLI's two sets apart."""
    name, _, setting = condition.partition('@')
    label = paper.NAMES[name] + (f' at {setting}' if setting else '')
    rows = []
    for score in itertools.chain(*columns.values()):
        found = tables.on_dev(outcomes, score, condition)
        if found is not None:
            best = tables.on_dev(outcomes, score, condition, 'best')
            rows.append([label, f'{score.label} ({score.metric})', *tables.measured(found), score.split, 'final',
                         tables.percent(best.value) if best else ''])
    return rows


def best_setting(config: ConfigDict, outcomes: Sequence[Outcome], condition: str,
                 columns: Mapping[str, tuple]) -> str | None:
    """The setting of the grid with the highest average over the columns; None unless two or more have all of them."""
    averages = {}
    for setting in grid(config):
        found = [tables.column(outcomes, scores, f'{condition}@{setting}') for scores in columns.values()]
        if all(found):
            averages[setting] = bootstrap.mean(found).value
    return max(averages, key=averages.get) if len(averages) > 1 else None


def notes(config: ConfigDict, outcomes: Sequence[Outcome], columns: Mapping[str, tuple],
          best: Mapping[str, str | None]) -> list[str]:
    """What the rows are and what is missing."""
    averages = ', '.join(f'{value} ({paper.NAMES[row]})' for row, value in paper.TABLE5_AVERAGE.items())
    found = ['Avg is the plain mean of the columns; MNLI is the mean of matched and mismatched. The paper prints '
             f'{averages}.']
    absent = [name for name in paper.COLUMNS if name not in columns]
    if absent:
        found.append(f'Missing here: {", ".join(absent)}; Avg of ours and of the paper is over the other '
                     f'{len(columns)} columns.')
    missing = [score.label for score in itertools.chain(*columns.values()) if tables.on_dev(outcomes, score) is None]
    if missing:
        found.append(f'Missing within a column: {", ".join(missing)}; ours is the mean of the rest of that column, the '
                     "paper's is as printed.")
    found += tables.no_lstm(config)
    settings = grid(config)
    if any(best.values()):
        chosen = ', '.join(f'{paper.NAMES[row]} at {best[row] or tables.NA}' for row in GRID)
        seeds = f' Seeds of its runs: {", ".join(map(str, config.grid_seeds))}.' if config.grid_seeds else ''
        found.append(f'The grid, the same with and without pretraining: {"; ".join(settings)}. The best is the one '
                     f'setting with the highest Avg on dev: {chosen}. As dev chose it, it is optimistic.{seeds}')
    found.append('Without pretraining the auxiliary objective stays on; the paper does not say.')
    return found + tables.settings(config, outcomes)


if __name__ == '__main__':
    runner.command(run)
