"""Draws learning curves for Section 5's claim: fine-tuning with and without pretraining.

python -m experiments.learning_curves --config=configs/overnight_cpu.py \\
    --config.pretrained=novels --config.data=DATA \\
    --config.out=runs/curves [--dry_run]
python -m experiments.learning_curves --draw=experiments/results/ten_minutes_gpu

The curves are over the number of training rows. Each condition of config.curves.conditions trains
at its rate of config.curves.rates on each number of rows of config.curves.rows, or on all rows if
the set has fewer, and is scored on dev. A logistic regression of n-grams (scikit-learn) is trained
on the same rows.

The program writes learning_curves.json, .md and .png in config.out, and sets.png. sets.png shows
each set with all of its rows, the best baseline without a model, and the paper's result. The
baseline comes from baselines.json, if experiments.baselines has written it there. Rerun an
interrupted command to resume it. --draw=DIR writes all files but the JSON again.
"""

import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from absl import flags
from ml_collections import ConfigDict

from experiments import baselines
from experiments.benchmarks import record
from experiments.lib import bootstrap, figures, run_list, runner
from experiments.lib.run_list import Run
from experiments.paper import numbers, scores
from gpt1_jax import cli, storage
from gpt1_jax.cli import config_file
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.runs.markdown import table
from gpt1_jax.training.transfer import EPOCHS

SCORES = {
    score.task: score
    for score in reversed(numbers.TABLE2 + numbers.TABLE3 + numbers.TABLE4)
    if score.group is None
}
CONDITIONS = {
    'full': 'pretrained',
    'no_pretraining': 'from scratch',
    'no_aux': 'without the auxiliary LM',
}


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Train, write the curves, and return the lines of learning_curves.md.

    A dry run returns no lines. Sets without data are named and left out. UserError for a mistake in
    the config, and, after the curves are written, if runs failed.
    """
    run_list.check(config)
    baselines.need_sklearn()  # now, because n-grams run last
    config = with_data(config)
    runs = runner.carry_out(config, curve_runs(config), dry_run)
    if dry_run:
        return []
    path = pathlib.Path(config.out) / 'learning_curves.json'
    record.write(str(path), {'points': list(points(config, runs))})
    text = publish(path)
    print('\n'.join(text))
    if failed := [run.name for run in runs if run.status == 'failed']:
        raise UserError(f'{len(failed)} runs failed: {", ".join(failed)}')
    return text


def publish(path: pathlib.Path) -> list[str]:
    """Write the page and the figures next to a learning_curves.json, and return the page's
    lines."""
    points = storage.read_json(path)['points']
    draw(path.with_suffix('.png'), points)
    known = scores.baselines(path.with_name(scores.BASELINES_FILE))
    draw_sets(path.with_name('sets.png'), points, known)
    text = lines(points, known)
    path.with_suffix('.md').write_text('\n'.join(text).rstrip() + '\n', encoding='utf-8')
    return text


def with_data(config: ConfigDict) -> ConfigDict:
    """Return a copy of the config with only the sets that exist. UserError if there are none."""
    config = config.copy_and_resolve_references()
    there = []
    told = []
    for task in config.curves.tasks:
        place = run_list.directory(config, task)
        if run_list.has_train_and_dev(task, place):
            there.append(task)
        else:
            told.append(f'{task}: no data in {place}')
    if not there:
        raise UserError('; '.join(told) or 'config.curves.tasks is empty')
    for line in told:
        print(line, flush=True)
    config.curves.tasks = tuple(there)
    return config


def curve_runs(config: ConfigDict) -> list[Run]:
    """Return the runs of every point, all runs of a seed before the next seed."""
    return [
        run
        for seed in config.curves.seeds
        for task in config.curves.tasks
        for rows in rows_of(config, task)
        for condition in config.curves.conditions
        for run in runs_on(config, task, condition, rows, seed)
    ]


def rows_of(config: ConfigDict, task: str) -> tuple[int, ...]:
    """Return the numbers of training rows of a task's points, at most all its rows."""
    n = len(baselines.read(task, run_list.directory(config, task), 'train', None))
    return tuple(dict.fromkeys(min(rows, n) for rows in config.curves.rows))


def runs_on(config: ConfigDict, task: str, condition: str, rows: int, seed: int) -> list[Run]:
    """Return the fine-tuning run of a condition on `rows` rows. It lasts the paper's three epochs,
    or more if config.curves.updates need more."""
    batch = config.finetune.batch.size
    if rows < batch:
        raise UserError(f'{task}: {rows} training rows are fewer than a batch, {batch}')
    rate = config.curves.rates[condition]
    epochs = max(EPOCHS, math.ceil(config.curves.updates / (rows // batch)))
    settings = {
        'optimizer.peak_rate': rate,
        'train.epochs': epochs,
        'train.evaluate_every': epochs,
        'data.train_rows': rows,
        'eval.selections': ('final',),
    }
    return run_list.finetune_runs(
        config, task, f'{condition}@rows={rows},{rate:g},{epochs}', settings, (seed,)
    )


def result(run: Run) -> dict:
    """Return the row of results.jsonl with the task's first metric on dev."""
    metric = tasks.get(run.task).metrics[0]
    return next(
        row
        for row in run.rows
        if (row['metric'], row['split'], row['group']) == (metric, 'dev', None)
    )


def points(config: ConfigDict, runs: Sequence[Run]) -> Iterator[dict]:
    """Yield every point that has results.

    A point is {'task', 'rows', 'condition', 'value', 'low', 'high', 'seeds', 'n'}. Conditions other
    than 'pretrained' also have 'difference': [value, low, high], pretrained minus the condition,
    over the same items and seeds. The n-grams are trained on the same rows, and have no interval.
    """
    of_place: dict[tuple, dict[str, list]] = {}
    for run in runs:
        found = of_place.setdefault((run.task, run.config.data.train_rows), {})
        if run.rows:
            found.setdefault(run.condition.split('@')[0], []).append(result(run))
    for (task, rows), found in of_place.items():
        estimates = {
            condition: bootstrap.of_rows(found[condition])
            for condition in config.curves.conditions
            if condition in found
        }
        full = estimates.get('full')
        for condition, estimate in estimates.items():
            more = {}
            if condition != 'full' and full and full.by_seed.keys() & estimate.by_seed.keys():
                difference = bootstrap.minus(full, estimate)
                more['difference'] = list(figures.point(difference).values())
            yield {
                'task': task,
                'rows': rows,
                'condition': CONDITIONS[condition],
                **figures.point(estimate),
                'n': estimate.n,
                'seeds': {str(seed): value for seed, (value, _) in estimate.by_seed.items()},
                **more,
            }
        (run,) = runs_on(config, task, 'full', rows, 0)
        of_words = baselines.of_task(run, 'words', None)
        row = next(row for row in of_words if row['split'] == 'dev')
        yield {
            'task': task,
            'rows': rows,
            'condition': 'n-grams',
            'value': row['value'],
            'n': row['n'],
        }


def by_place(points: Sequence[dict]) -> dict[tuple[str, int], dict[str, dict]]:
    """Return {(task, training rows): {condition: point}}."""
    found: dict[tuple[str, int], dict] = {}
    for point in points:
        found.setdefault((point['task'], point['rows']), {})[point['condition']] = point
    return found


def best_rows(points: Sequence[dict], known: Sequence[dict]) -> list[dict]:
    """Return a row for each set, from its points with the most training rows, largest gain first.

    known: the rows of baselines.json. A row has 'task', 'rows', 'pretrained' and 'scratch'
    (points), 'baseline' (the highest value of a baseline without a model, and its name, or None)
    and 'paper' (a fraction, or None).
    """
    found = []
    places = by_place(points)
    for (task, rows), own in places.items():
        if rows < max(most for other, most in places if other == task):
            continue
        pretrained = own.get(CONDITIONS['full'])
        scratch = own.get(CONDITIONS['no_pretraining'])
        if pretrained is None or scratch is None:
            continue
        score = SCORES[task]
        simple = [
            (row['value'], name)
            for name, row in scores.baseline_rows(known, score).items()
            if name in scores.WITHOUT_MODEL and row['n'] == pretrained['n']
        ]
        found.append(
            {
                'task': task,
                'rows': rows,
                'pretrained': pretrained,
                'scratch': scratch,
                'constant': dict((name, value) for value, name in simple).get('constant'),
                'baseline': max(simple, default=None),
                'paper': None if score.paper is None else score.paper / 100,
            }
        )
    return sorted(found, key=lambda row: row['scratch']['value'] - row['pretrained']['value'])


def draw_sets(path: pathlib.Path, points: Sequence[dict], known: Sequence[dict]) -> None:
    """Draw a line for each set, from scratch to pretrained, with the best baseline and the paper.
    known: as in best_rows."""
    rows = best_rows(points, known)
    if not rows:
        return
    scratch, pretrained = (
        {'color': figures.COLOURS[name], 'fmt': 'o', 'markersize': 8, 'elinewidth': 1.2}
        for name in ('scratch', 'pretrained')
    )
    baseline = {'color': 'black', 'fmt': '|', 'markersize': 20, 'markeredgewidth': 2.5}
    paper = {'color': figures.GREY, 'fmt': 'D', 'markersize': 9, 'markerfacecolor': 'white'}
    series = {
        'from scratch': (scratch, [row['scratch'] for row in rows]),
        'pretrained': (pretrained, [row['pretrained'] for row in rows]),
        'best word-count baseline': (
            baseline,
            [row['baseline'] and {'value': row['baseline'][0]} for row in rows],
        ),
        'the paper, 117M (test)': (
            paper,
            [row['paper'] and {'value': row['paper']} for row in rows],
        ),
    }
    with figures.plt.rc_context(figures.STYLE | {'font.size': 13}):
        figure, axes = figures.plt.subplots(figsize=(10, 0.48 * len(rows) + 1.5))
        for height, row in enumerate(rows):
            axes.hlines(
                height,
                row['scratch']['value'],
                row['pretrained']['value'],
                color=figures.COLOURS['pretrained'],
                alpha=0.35,
                linewidth=5,
            )
        figures.forest(axes, [with_metric(row) for row in rows], series)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(figures.PERCENT)
        axes.set_xlabel('dev score (%)')
        axes.legend(
            loc='lower center',
            bbox_to_anchor=(0.42, 1.0),
            ncols=4,
            fontsize=12,
            handletextpad=0.4,
            columnspacing=1.2,
        )
        figures.save(figure, path)


def draw(path: pathlib.Path, points: Sequence[dict]) -> None:
    """Draw a panel for each task that has several points: its metric against training rows, with a
    line for each condition."""
    styles = {
        'pretrained': ('pretrained', '-', 0.15),
        'from scratch': ('scratch', '-', 0.15),
        'without the auxiliary LM': ('no_aux', '-', 0),
        'n-grams': ('baseline', '--', 0),
    }
    rows: dict[str, set[int]] = {}
    for row in points:
        rows.setdefault(SCORES[row['task']].label, set()).add(row['rows'])
    names = [name for name, numbers in rows.items() if len(numbers) > 1] or list(rows)
    with figures.plt.rc_context(figures.STYLE):
        figure, grid = figures.plt.subplots(
            1, len(names), figsize=(4.6 * len(names), 3.6), squeeze=False
        )
        for axes, name in zip(grid[0], names):
            for condition, (colour, line, band) in styles.items():
                own = []
                for (task, _), of in by_place(points).items():
                    if SCORES[task].label == name and condition in of:
                        own.append(of[condition])
                figures.draw_curve(
                    axes,
                    own,
                    'rows',
                    band,
                    color=figures.COLOURS[colour],
                    linestyle=line,
                    marker='o',
                    markersize=4,
                    label=condition,
                )
            axes.set(
                title=name, xlabel='training rows (log scale)', ylabel='dev (percent)', xscale='log'
            )
            figures.log_ticks(axes.xaxis)
            axes.yaxis.set_major_formatter(figures.PERCENT)
            axes.legend()
        figures.save(figure, path)


def with_metric(row: Mapping) -> str:
    """Return the name of a set with its metric, except accuracy: 'QQP (F1)'."""
    metric = SCORES[row['task']].metric
    shown = {'accuracy': '', 'f1': ' (F1)'}.get(metric, f' ({metric.capitalize()})')
    return f'{SCORES[row["task"]].label}{shown}'


def set_table(rows: Sequence[dict]) -> list[str]:
    """Return the lines of the table of `best_rows`."""
    cells = []
    for row in rows:
        best = ''
        if row['baseline']:
            value, name = row['baseline']
            best = f'{scores.percent(value)} ({scores.BASELINES[name]})'
        cells.append(
            [
                with_metric(row),
                f'{row["rows"]:,}',
                ', '.join(f'{len(row[name]["seeds"])}' for name in ('pretrained', 'scratch')),
                _spanned(row['pretrained']),
                *_with_difference(row['scratch']),
                '' if row['constant'] is None else scores.percent(row['constant']),
                best,
                '' if row['paper'] is None else scores.percent(row['paper']),
            ]
        )
    return table(
        (
            '',
            'training rows',
            'seeds',
            'pretrained',
            'from scratch',
            'difference',
            'constant answer',
            'best baseline',
            'the paper (test)',
        ),
        cells,
    )


def lines(points: Sequence[dict], known: Sequence[dict]) -> list[str]:
    """Return the page's lines. points: of learning_curves.json. known: the rows of
    baselines.json."""
    pretrained, *others = CONDITIONS.values()
    others = [name for name in others if any(row['condition'] == name for row in points)]
    header = ['task', 'training rows', pretrained]
    for name in others:
        header += [name, 'difference']
    body = []
    for (task, rows), of in by_place(points).items():
        cells = [SCORES[task].label, f'{rows:,}', _spanned(of.get(pretrained))]
        for name in others:
            cells += _with_difference(of.get(name))
        body.append([*cells, scores.percent(of['n-grams']['value'])])
    seeds = max((len(row.get('seeds', ())) for row in points), default=0)
    return [
        '# Learning curves',
        '',
        f'Dev sets in percent: the median of up to {seeds} seeds, with 95% intervals over the '
        'items, which leave out the spread between seeds. Each condition has its own rate. '
        'Each difference is the pretrained score minus the score to its left.',
        '',
        *table((*header, 'n-grams'), body),
        '## Each set with its most rows',
        '',
        *set_table(best_rows(points, known)),
    ]


def _with_difference(row):
    """Return two cells of a point: its value, and the pretrained value minus it."""
    gain = (row or {}).get('difference')
    return [_spanned(row), _spanned(dict(zip(figures.VALUES, gain)), '+') if gain else '']


def _spanned(row, sign=''):
    """Return a point's value with its interval, n/a without a point."""
    if row is None:
        return scores.NA
    return f'{scores.percent(row["value"], sign)} ({scores.span(row["low"], row["high"], sign)})'


def _define_flags():
    config_file.define('experiments', 'Runs and settings; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_bool('dry_run', False, 'Print the runs and the tokens to process, and stop.')
    flags.DEFINE_string(
        'draw', None, 'Only write the page and the figures of DIR/learning_curves.json again.'
    )


def main() -> None:
    if flags.FLAGS.draw:
        publish(pathlib.Path(flags.FLAGS.draw) / 'learning_curves.json')
        return
    run_list.find_models(flags.FLAGS.config)
    run(flags.FLAGS.config, flags.FLAGS.dry_run)


if __name__ == '__main__':
    cli.run(main, _define_flags)
