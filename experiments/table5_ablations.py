"""Section 5, Table 5: without pretraining, without the auxiliary objective, with an LSTM.

python -m experiments.table5_ablations --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm --config.data=DATA --config.out=runs/paper [--dry_run]

The models with and without pretraining also run at every setting of config.grid; each one's best is a row of its own.
"""
import itertools

from experiments import estimates, paper, tables
from experiments import run as runs
from experiments.report import table
from gpt1_jax import workdir

GRID = ('full', 'no_pretraining')  # the conditions that run at every setting of the grid
ROWS = tuple(paper.TABLE5)
TASKS = tuple(dict.fromkeys(figure.task for figures in paper.COLUMNS.values() for figure in figures))


def run(config, dry_run=False):
    """Do the runs of every row and write OUT/table5.md; returns its lines, none in a dry run."""
    runs.check(config)
    outcomes = runs.carry_out(config, plans(config), dry_run)
    if dry_run:
        runs.raise_failures(outcomes)
        return []
    return runs.write(config, 'table5.md', lines(config, outcomes), outcomes)


def plans(config):
    """The rows of the table, then the grid."""
    first = [one for condition in ROWS for task in TASKS for one in runs.plans(config, task, condition)]
    return first + [one for setting, values in grid(config).items() for condition in GRID for task in TASKS
                    for one in runs.plans(config, task, f'{condition}@{setting}', values, config.grid_seeds)]


def grid(config):
    """{'peak_rate=0.001,epochs=3': {'optimizer.peak_rate': 0.001, 'train.epochs': 3}}: every setting of config.grid."""
    fields = workdir.flatten(config.grid.to_dict())
    combinations = itertools.product(*fields.values()) if fields else ()
    settings = [dict(zip(fields, values)) for values in combinations]
    return {','.join(f'{name.split(".")[-1]}={value:g}' for name, value in one.items()): one for one in settings}


def lines(config, outcomes):
    """The Markdown of the table from the outcomes of `plans`."""
    columns = {name: figures for name, figures in paper.COLUMNS.items()
               if any(tables.on_dev(outcomes, figure, row) is not None for figure in figures for row in ROWS)}
    absent = [name for name in paper.COLUMNS if name not in columns]
    if not columns:
        return ['# Table 5: ablations', '', *tables.bullets([*tables.state(outcomes), 'no column has any figure']), '']
    best = {condition: best_setting(config, outcomes, condition, columns) for condition in GRID}
    body, detail, differences = [], [], []
    for condition in ROWS:
        body.append(cells(config, outcomes, condition, columns, f'{paper.NAMES[condition]}, ours'))
        body.append(paper_cells(condition, columns))
        detail += details(outcomes, condition, columns)
        if condition in GRID and best[condition]:
            at = f'{condition}@{best[condition]}'
            label = f'{paper.NAMES[condition]}, ours, best of the grid ({best[condition]})'
            body.append(cells(config, outcomes, at, columns, label))
            detail += details(outcomes, at, columns)
    for condition in ROWS[1:]:
        differences.append(difference_cells(outcomes, 'full', condition, columns,
                                            f'full − {paper.NAMES[condition]}, ours'))
        differences.append([f'full − {paper.NAMES[condition]}, paper (test)', *mean_first(
            [paper.difference('full', condition, name) for name in columns], '+')])
    if all(best.values()):
        differences.append(difference_cells(
            outcomes, *(f'{condition}@{best[condition]}' for condition in GRID), columns,
            'full − no pretraining, ours, each at its best of the grid'))
    optimistic = [cells(config, outcomes, condition, columns, f'{paper.NAMES[condition]}, ours', 'best')
                  for condition in ROWS]
    header = ('', 'Avg', *columns)
    return [
        '# Table 5: ablations', '', 'Ours: split dev, parameters "final" (the last step of the fixed schedule). The '
        "paper's rows are on the test sets.", '', *table(header, body),
        '## Differences', '', *table(header, differences),
        '## Best on dev (optimistic)', '', 'The same runs with the parameters that were best on the rows reported.', '',
        *table(header, optimistic),
        '## Every figure', '', *table(('row', 'column', 'ours', '95% interval', 'range of seeds', 'seeds', 'n', 'split',
                                       'parameters', 'best on dev (optimistic)'), detail),
        tables.READING, '', *tables.bullets([*notes(config, outcomes, columns, absent, best),
                                             *tables.state(outcomes)])]


def cells(config, outcomes, condition, columns, label, selection='final'):
    """[label, Avg, columns...]: Avg only where every column is there."""
    found = [tables.column(outcomes, figures, condition, selection) for figures in columns.values()]
    average = tables.percent(estimates.mean(found).value) if all(found) else tables.NA
    left_out = condition == 'lstm' and not config.lstm and not config.start
    return [label, average, *(tables.percent(one.value) if one else tables.NO_BUDGET if left_out else
                              tables.absent(outcomes, figures[0].task, condition)
                              for one, figures in zip(found, columns.values()))]


def paper_cells(condition, columns):
    return [f'{paper.NAMES[condition]}, paper (test)',
            *mean_first([paper.column(condition, name) for name in columns])]


def mean_first(values, sign=''):
    return [f'{value:{sign}.1f}' for value in (sum(values) / len(values), *values)]


def difference_cells(outcomes, a, b, columns, label):
    """[label, Avg, columns...] of a - b with 95% intervals."""
    found = [tables.difference(outcomes, figures, a, b) for figures in columns.values()]
    average = estimates.mean(found) if all(found) else None
    return [label, *(f'{tables.percent(one.value, "+")} ({tables.interval(one, "+")})' if one else tables.NA
                     for one in (average, *found))]


def details(outcomes, condition, columns):
    """A line for each figure that is behind the columns, MNLI's two apart."""
    name, _, setting = condition.partition('@')
    label, found = paper.NAMES[name] + (f' at {setting}' if setting else ''), []
    for figure in (figure for figures in columns.values() for figure in figures):
        one = tables.on_dev(outcomes, figure, condition)
        if one is not None:
            best = tables.on_dev(outcomes, figure, condition, 'best')
            found.append([label, f'{figure.label} ({figure.metric})', *tables.measured(one), figure.split, 'final',
                          tables.percent(best.value) if best else ''])
    return found


def best_setting(config, outcomes, condition, columns):
    """The setting of the grid with the highest average over the columns; None where there is none with all of them."""
    averages = {}
    for setting in grid(config):
        found = [tables.column(outcomes, figures, f'{condition}@{setting}') for figures in columns.values()]
        if all(found):
            averages[setting] = estimates.mean(found).value
    return max(averages, key=averages.get) if averages else None


def notes(config, outcomes, columns, absent, best):
    """What the rows are and what is missing."""
    names = [f'{figure.label}' for figures in columns.values() for figure in figures
             if tables.on_dev(outcomes, figure) is None]
    found = ['Avg is the plain mean of the columns; MNLI is the mean of matched and mismatched. The paper prints '
             + ', '.join(f'{value} ({paper.NAMES[row]})' for row, value in paper.TABLE5_AVERAGE.items()) + '.']
    if absent:
        found.append(f'Missing here: {", ".join(absent)}; Avg of ours and of the paper is over the other '
                     f'{len(columns)} columns.')
    if names:
        found.append(f'Missing within a column: {", ".join(names)}; ours is the mean of the rest of that column, the '
                     "paper's is as printed.")
    if not config.lstm:
        found.append(tables.no_lstm(config))
    settings = grid(config)
    if settings:
        chosen = ', '.join(f'{paper.NAMES[row]} at {best[row] or tables.NA}' for row in GRID)
        found.append('The grid, the same with and without pretraining: ' + '; '.join(settings) + '. The best is the '
                     f'one setting with the highest Avg on dev: {chosen}. As dev chose it, it is optimistic.'
                     + (f' Seeds of its runs: {", ".join(map(str, config.grid_seeds))}.' if config.grid_seeds else ''))
    found.append('Without pretraining the auxiliary objective stays on; the paper does not say.')
    return found + tables.settings(config, outcomes)


if __name__ == '__main__':
    runs.command(run)
