"""Draws learning curves for Section 5's claim: fine-tuning with and without pretraining.

python -m experiments.learning_curves --config=configs/overnight_cpu.py \\
    --config.pretrained=novels --config.data=DATA \\
    --config.out=runs/curves [--dry_run]
python -m experiments.learning_curves --draw=experiments/results/ten_minutes_gpu

The curves are over the number of training rows. First each condition of config.curves.conditions
has its own search: every (rate, updates) of config.curves.trials trains on config.curves.trial_rows
rows and is scored on other rows of the training file. A single trial needs no search. With the best
trial, the condition then trains on each number of rows of config.curves.rows, or on all rows if the
set has fewer, and is scored on dev. A logistic regression of n-grams (scikit-learn) is trained on
the same rows.

The program writes learning_curves.json, .md and .png in config.out, and sets.png. sets.png shows
each set with all of its rows, the best baseline without a model, and the paper's result. The
baseline comes from baselines.json, if experiments.baselines has written it there. Rerun an
interrupted command to resume it. --draw=DIR writes all files but the JSON again.
"""

import importlib.util
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
from gpt1_jax.data.tokens import permutation
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
HELD_OUT = 1000  # rows of a training file that score its trials
# The names in sets.png
LEGEND = ('from scratch', 'pretrained', 'best word-count baseline', 'the paper, 117M (test)')
SINGLE = 'give a single one, --config.curves.trials="((RATE,UPDATES),)"'
NO_HEADER = ('cola', 'scitail')  # sets whose training file begins with a row
Trial = tuple[float, int]  # (peak rate, updates)


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Search, train, write the curves, and return the lines of learning_curves.md.

    A dry run returns no lines. Sets without data are named and left out. UserError for a mistake in
    the config, and, after the curves are written, if runs failed.
    """
    run_list.check(config)
    if importlib.util.find_spec('sklearn') is None:  # checked now, because n-grams run last
        raise UserError("the n-grams need scikit-learn: pip install 'gpt1_jax[baselines]'")
    config = with_data(config)
    trials = runner.carry_out(config, trial_runs(config), dry_run)
    if dry_run and any(not run.rows for run in trials):
        print('then, with the best of the trials, here the first:')
        trials = []
    chosen = {
        (task, condition): best_trial(config, trials, task, condition)
        for task in config.curves.tasks
        for condition in config.curves.conditions
    }
    runs = runner.carry_out(config, curve_runs(config, chosen), dry_run)
    if dry_run:
        return []
    found = {'trials': [trial_row(run) for run in trials], 'points': list(points(config, runs))}
    path = pathlib.Path(config.out) / 'learning_curves.json'
    record.write(str(path), found)
    text = publish(path)
    print('\n'.join(text))
    if failed := [run.name for run in runs if run.status == 'failed']:
        raise UserError(f'{len(failed)} runs failed: {", ".join(failed)}')
    return text


def publish(path: pathlib.Path) -> list[str]:
    """Write the page and the figures next to a learning_curves.json, and return the page's
    lines."""
    found = storage.read_json(path)
    draw(path.with_suffix('.png'), found['points'])
    known = scores.baselines(path.with_name(scores.BASELINES_FILE))
    draw_sets(path.with_name('sets.png'), found['points'], known)
    text = lines(found, known)
    path.with_suffix('.md').write_text('\n'.join(text).rstrip() + '\n', encoding='utf-8')
    return text


def with_data(config: ConfigDict) -> ConfigDict:
    """Return a copy of the config with only the sets that exist. UserError if there are none."""
    config = config.copy_and_resolve_references()
    directories = {task: run_list.directory(config, task) for task in config.curves.tasks}
    config.curves.tasks = tuple(
        task for task in directories if run_list.has_train_and_dev(task, directories[task])
    )
    told = '; '.join(
        f'{task}: no data in {directory}'
        for task, directory in directories.items()
        if task not in config.curves.tasks
    )
    if not config.curves.tasks:
        raise UserError(told or 'config.curves.tasks is empty')
    if told:
        print(told, flush=True)
    return config


def trial_runs(config: ConfigDict) -> list[Run]:
    """Return a run of seed 0 for each task, condition and trial, on a part of the training rows.
    There are no runs for a single trial."""
    if len(config.curves.trials) == 1:
        return []
    config = config.copy_and_resolve_references()
    parts = pathlib.Path(config.out) / 'parts'
    for task in config.curves.tasks:
        divide(task, run_list.directory(config, task), parts / task)
        config.directories[task] = task
    config.data = str(parts)
    return [
        run
        for task in config.curves.tasks
        for rows in rows_of(config, task, (config.curves.trial_rows,))
        for condition in config.curves.conditions
        for trial in config.curves.trials
        for run in with_trial(config, task, f'{condition}@trial', trial, rows, (0,))
    ]


def curve_runs(config: ConfigDict, chosen: Mapping[tuple[str, str], Trial]) -> list[Run]:
    """Return the runs of every point, all runs of a seed before the next seed."""
    return [
        run
        for seed in config.curves.seeds
        for task in config.curves.tasks
        for rows in rows_of(config, task, config.curves.rows)
        for condition in config.curves.conditions
        for run in with_trial(
            config, task, f'{condition}@rows', chosen[task, condition], rows, (seed,)
        )
    ]


def rows_of(config: ConfigDict, task: str, wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of training rows of a task's points: the wanted numbers, or at most all
    its rows."""
    n = len(baselines.read(task, run_list.directory(config, task), 'train', None))
    return tuple(dict.fromkeys(min(rows, n) for rows in wanted))


def with_trial(
    config: ConfigDict, task: str, condition: str, trial: Trial, rows: int, seeds: Sequence[int]
) -> list[Run]:
    """Return fine-tuning runs of a trial on `rows` rows. They last the paper's three epochs, or
    more if the trial's updates need more."""
    rate, updates = trial
    if rows < config.finetune.batch.size:
        raise UserError(
            f'{task}: {rows} training rows are fewer than a batch, {config.finetune.batch.size}'
        )
    epochs = max(EPOCHS, math.ceil(updates / (rows // config.finetune.batch.size)))
    settings = {
        'optimizer.peak_rate': rate,
        'train.epochs': epochs,
        'train.evaluate_every': epochs,
        'data.train_rows': rows,
        'eval.selections': ('final',),
    }
    return run_list.finetune_runs(
        config, task, f'{condition}={rows},{rate:g},{epochs}', settings, seeds
    )


def divide(task: str, directory: str, part: pathlib.Path) -> None:
    """Write PART/train.tsv and dev.tsv, both from a set's training file with one row a line.

    UserError if the training rows are not a single, separate text file (RACE, Story Cloze, TFDS,
    Parquet).
    """
    train, dev = (tasks.get(task).files(directory, split) for split in ('train', 'dev'))
    if len(train) > 1 or train == dev or directory.startswith(run_list.SOURCES):
        raise UserError(
            f'{task}: its training rows are not one text file of their own, so that no part of '
            f'them can score trials: {SINGLE}'
        )
    names = [pathlib.Path(files[0]) for files in (train, dev)]
    with names[0].open(encoding='utf-8', newline='\n') as file:
        # Str.splitlines would also split at characters inside a row, as U+2028
        rows = file.readlines()
    header = '' if task in NO_HEADER or names[0].suffix == '.jsonl' else rows.pop(0)
    if len(rows) <= HELD_OUT:
        raise UserError(
            f'{names[0]}: {len(rows)} rows leave none to train on beside the {HELD_OUT:,} that '
            f'score trials: {SINGLE}'
        )
    dev = set(permutation(1, 0, len(rows))[:HELD_OUT].tolist())
    part.mkdir(parents=True, exist_ok=True)
    for name, held_out in zip(names, (False, True)):
        chosen = [row for i, row in enumerate(rows) if (i in dev) == held_out]
        (part / name.name).write_text(header + ''.join(chosen), encoding='utf-8', newline='')


def best_trial(config: ConfigDict, trials: Sequence[Run], task: str, condition: str) -> Trial:
    """Return the trial with the highest metric on the held-out rows, the first of equal trials."""
    if not trials:
        return config.curves.trials[0]
    own = [run for run in trials if (run.task, run.condition.split('@')[0]) == (task, condition)]
    for run in own:
        if not run.rows:
            raise UserError(
                f'{task}, {CONDITIONS[condition]}: a trial without a result ({run.status}): none '
                'can be chosen'
            )

    def value(pair):
        found = result(pair[1])['value']
        return -math.inf if math.isnan(found) else found

    return max(zip(config.curves.trials, own), key=value)[0]


def result(run: Run) -> dict:
    """Return the row of results.jsonl with the task's first metric on dev."""
    metric = tasks.get(run.task).metrics[0]
    return next(
        row
        for row in run.rows
        if (row['metric'], row['split'], row['group']) == (metric, 'dev', None)
    )


def trial_row(run: Run) -> dict:
    tuned = run.config
    return {
        'task': run.task,
        'condition': CONDITIONS[run.condition.split('@')[0]],
        'rate': tuned.optimizer.peak_rate,
        'rows': tuned.data.train_rows,
        'epochs': tuned.train.epochs,
        'value': result(run)['value'],
    }


def points(config: ConfigDict, runs: Sequence[Run]) -> Iterator[dict]:
    """Yield every point that has results.

    A point is {'task', 'rows', 'condition', 'value', 'low', 'high', 'seeds', 'n'}. Conditions other
    than 'pretrained' also have 'difference': [value, low, high], pretrained minus the condition,
    over the same items and seeds. The n-grams are trained on the same rows, and have no interval.
    """
    for task in config.curves.tasks:
        for rows in dict.fromkeys(run.config.data.train_rows for run in runs if run.task == task):
            found = {}
            for condition in config.curves.conditions:
                own = [
                    result(run)
                    for run in runs
                    if run.rows
                    and run.config.data.train_rows == rows
                    and (run.task, run.condition.split('@')[0]) == (task, condition)
                ]
                if own:
                    found[condition] = bootstrap.of_rows(own)
            full = found.get('full')
            for condition, estimate in found.items():
                more = {}
                if condition != 'full' and full and full.by_seed.keys() & estimate.by_seed.keys():
                    more['difference'] = list(
                        figures.point(bootstrap.minus(full, estimate)).values()
                    )
                yield {
                    'task': task,
                    'rows': rows,
                    'condition': CONDITIONS[condition],
                    **figures.point(estimate),
                    'n': estimate.n,
                    'seeds': {str(seed): value for seed, (value, _) in estimate.by_seed.items()},
                    **more,
                }
            (run,) = with_trial(config, task, 'full@words', (1.0, 1), rows, (0,))
            row = next(
                row for row in baselines.of_task(run, 'words', None) if row['split'] == 'dev'
            )
            yield {
                'task': task,
                'rows': rows,
                'condition': 'n-grams',
                'value': row['value'],
                'n': row['n'],
            }


def best_rows(points: Sequence[dict], known: Sequence[dict]) -> list[dict]:
    """Return a row for each set, from its points with the most training rows, largest gain first.

    known: the rows of baselines.json. A row has 'task', 'rows', 'pretrained' and 'scratch'
    (points), 'baseline' (the highest value of a baseline without a model, and its name, or None)
    and 'paper' (a fraction, or None).
    """
    found = []
    for task in dict.fromkeys(point['task'] for point in points):
        most = max(point['rows'] for point in points if point['task'] == task)
        own = {
            point['condition']: point
            for point in points
            if (point['task'], point['rows']) == (task, most)
        }
        pretrained = own.get(CONDITIONS['full'])
        scratch = own.get(CONDITIONS['no_pretraining'])
        if pretrained is None or scratch is None:
            continue
        score = SCORES[task]  # run_list knows no other sets
        simple = [
            (row['value'], name)
            for name, row in scores.baseline_rows(known, score).items()
            if name in scores.WITHOUT_MODEL and row['n'] == pretrained['n']
        ]
        found.append(
            {
                'task': task,
                'rows': most,
                'pretrained': pretrained,
                'scratch': scratch,
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
    scratch_colour = figures.COLOURS['scratch']
    colour = figures.COLOURS['pretrained']
    with figures.plt.rc_context(figures.STYLE | {'font.size': 13}):
        figure, axes = figures.plt.subplots(figsize=(10, 0.48 * len(rows) + 1.5))
        for height, row in enumerate(rows):
            before = row['scratch']
            after = row['pretrained']
            axes.plot(
                [before['value'], after['value']],
                [height, height],
                color=colour,
                alpha=0.35,
                linewidth=5,
                solid_capstyle='butt',
                zorder=1,
            )
            for found, shade, name in (
                (before, scratch_colour, LEGEND[0]),
                (after, colour, LEGEND[1]),
            ):
                reach = [[found['value'] - found['low']], [found['high'] - found['value']]]
                axes.errorbar(
                    found['value'],
                    height,
                    xerr=reach,
                    fmt='o',
                    color=shade,
                    markersize=8,
                    capsize=3,
                    elinewidth=1.2,
                    label=name if height == 0 else None,
                    zorder=2,
                )
            if row['baseline']:
                axes.plot(
                    row['baseline'][0],
                    height,
                    marker='|',
                    color='black',
                    markersize=20,
                    markeredgewidth=2.5,
                    linestyle='none',
                    label=LEGEND[2] if height == 0 else None,
                    zorder=3,
                )
            if row['paper'] is not None:
                axes.plot(
                    row['paper'],
                    height,
                    marker='D',
                    color=figures.GREY,
                    markerfacecolor='white',
                    markersize=9,
                    linestyle='none',
                    label=LEGEND[3] if height == 0 else None,
                    zorder=2,
                )
        axes.set_yticks(range(len(rows)), [with_metric(row) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(figures.PERCENT)
        axes.set_xlabel('dev score (%)')
        axes.grid(axis='y', visible=False)
        handles, names = axes.get_legend_handles_labels()
        by_name = dict(zip(names, handles))
        shown = [name for name in LEGEND if name in by_name]
        axes.legend(
            [by_name[name] for name in shown],
            shown,
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
        rows.setdefault(label(row), set()).add(row['rows'])
    names = [name for name, numbers in rows.items() if len(numbers) > 1] or list(rows)
    with figures.plt.rc_context(figures.STYLE):
        figure, grid = figures.plt.subplots(
            1, len(names), figsize=(4.6 * len(names), 3.6), squeeze=False
        )
        for axes, name in zip(grid[0], names):
            for condition, (colour, line, band) in styles.items():
                own = [row for row in points if (label(row), row['condition']) == (name, condition)]
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


def label(row: Mapping) -> str:
    """Return the paper's name for the task of a point or trial."""
    return SCORES[row['task']].label if row['task'] in SCORES else row['task']


def with_metric(row: Mapping) -> str:
    """Return the name of a set with its metric, except accuracy: 'QQP (F1)'."""
    metric = SCORES[row['task']].metric
    shown = {'accuracy': '', 'f1': ' (F1)'}.get(metric, f' ({metric.capitalize()})')
    return f'{label(row)}{shown}'


def set_table(rows: Sequence[dict]) -> list[str]:
    """Return the lines of the table of `best_rows`."""
    cells = []
    for row in rows:
        seeds = [len(row[name]['seeds']) for name in ('pretrained', 'scratch')]
        gain = row['scratch'].get('difference')
        best = ''
        if row['baseline']:
            value, name = row['baseline']
            best = f'{scores.percent(value)} ({scores.BASELINES[name]})'
        cells.append(
            [
                with_metric(row),
                f'{row["rows"]:,}',
                ', '.join(map(str, seeds)),
                _spanned(row['pretrained']),
                _spanned(row['scratch']),
                _spanned(dict(zip(figures.VALUES, gain)), '+') if gain else '',
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
            'best baseline',
            'the paper (test)',
        ),
        cells,
    )


def lines(found: dict, known: Sequence[dict]) -> list[str]:
    """Return the page's lines. found: the contents of learning_curves.json. known: the rows of
    baselines.json."""
    pretrained, *others = CONDITIONS.values()
    others = [name for name in others if any(row['condition'] == name for row in found['points'])]
    header = ['task', 'training rows', pretrained]
    body = []
    for name in others:
        header += [name, 'difference']
    for task, rows in dict.fromkeys((row['task'], row['rows']) for row in found['points']):
        of = {
            row['condition']: row
            for row in found['points']
            if (row['task'], row['rows']) == (task, rows)
        }
        cells = [_spanned(of.get(pretrained))]
        for name in others:
            cells.append(_spanned(of.get(name)))
            gain = of.get(name, {}).get('difference')
            cells.append(_spanned(dict(zip(figures.VALUES, gain)), '+') if gain else '')
        body.append(
            [label(of['n-grams']), f'{rows:,}', *cells, scores.percent(of['n-grams']['value'])]
        )
    trials = [
        [
            label(row),
            row['condition'],
            f'{row["rate"]:g}',
            f'{row["rows"]:,}',
            row['epochs'],
            scores.percent(row['value']),
        ]
        for row in found['trials']
    ]
    searched = trials and [
        '## Trials',
        '',
        f'Scored on up to {HELD_OUT:,} other rows of the training file; seed 0.',
        '',
        *table(
            ('task', 'condition', 'peak rate', 'training rows', 'epochs', 'held-out rows'), trials
        ),
    ]
    seeds = max((len(row.get('seeds', ())) for row in found['points']), default=0)
    return [
        '# Learning curves',
        '',
        f'Dev sets in percent: the median of up to {seeds} seeds, with 95% intervals over the '
        'items, which leave out the spread between seeds. Every point of a condition has the '
        'setting that its own search chose. Each difference is the pretrained score minus the '
        'score to its left.',
        '',
        *table((*header, 'n-grams'), body),
        '## Each set with its most rows',
        '',
        *set_table(best_rows(found['points'], known)),
        *searched,
    ]


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
