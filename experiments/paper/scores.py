"""The scores of a list of runs over seeds and conditions, and their text in tables.

If the labels of the paper's test split are public, the tables have the test result of the
parameters that were best on dev. Otherwise they have the dev result of the last step of the fixed
schedule. Another column then has the parameters that were best on dev. It is optimistic, because
the same rows chose them.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from gpt1_jax.configs import experiments
from ml_collections import ConfigDict

from experiments.lib import bootstrap, run_list
from experiments.lib.run_list import Run
from experiments.paper.numbers import MODELS, Score
from gpt1_jax import rules, storage
from gpt1_jax.metrics.bootstrap import Estimate, mean
from gpt1_jax.metrics.bootstrap import interval as interval_of

NA = 'n/a'
NOT_RUN = 'not run'
# Names and labels of experiments.baselines
BASELINES = {
    'constant': 'constant answer',
    'overlap': 'shared words',
    'words': 'n-grams',
    'probe': 'frozen model',
    'random': 'frozen random weights',
    'joined': 'frozen model, texts joined',
    'likelihood': 'log-probabilities',
    'likelihood_random': 'log-probabilities, random weights',
}
CONTROLS = ('random', 'likelihood_random')  # to compare a frozen model with
WITHOUT_MODEL = ('constant', 'overlap', 'words')  # the others need a pretrained run
BASELINES_FILE = 'baselines.json'  # in config.out
READING = (
    'All results are in percent (correlations times 100). With several seeds a result is the '
    'median, and the range is that of the seeds. "final": the parameters of the last step of the '
    f'fixed schedule; "best": those that were best on dev. {bootstrap.INTERVALS}'
)


def find(
    runs: Sequence[Run],
    score: Score,
    condition: str = 'full',
    selection: str = 'final',
    split: str | None = None,
) -> Estimate | None:
    """Returns the Estimate of a score over its seeds from the runs' rows, or None without rows.
    split: default the score's."""
    wanted = split or score.split, score.metric, score.group, selection
    rows = [
        row
        for run in runs
        if (run.task, run.condition) == (score.task, condition)
        for row in run.rows
        if (row['split'], row['metric'], row.get('group'), row.get('selection')) == wanted
    ]
    return bootstrap.of_rows(rows) if rows else None


def shown(
    runs: Sequence[Run], score: Score, condition: str = 'full'
) -> tuple[Estimate | None, str, str]:
    """Returns (estimate, split, selection) for a score of the paper, by the rule above."""
    if score.task in run_list.LABELLED_TEST and (
        found := find(runs, score, condition, 'best', 'test')
    ):
        return found, 'test', 'best'
    return find(runs, score, condition), score.split, 'final'


def absent(runs: Sequence[Run], task: str, condition: str = 'full') -> str:
    """Returns the cell of a missing result: 'n/a', or 'n/a (not run)' if its runs were left out."""
    left_out = any(
        (run.status, run.task, run.condition) == ('left out', task, condition) for run in runs
    )
    return f'{NA} ({NOT_RUN})' if left_out else NA


def no_lstm(config: ConfigDict) -> list[str]:
    """Returns a line that says why the LSTM has no row, or [] if it has a row."""
    return [] if config.lstm else [f'LSTM: {NA}, no --config.lstm=DIR was given.']


def measured(found: Estimate) -> list[str]:
    """Returns cells: value, interval, range of seeds, seeds and n."""
    return [*pair(found), spread(found), str(len(found.by_seed) or ''), f'{found.n:,}']


def spread(found: Estimate, sign: str = '') -> str:
    """Returns the cell of the range of several seeds, '' for one seed."""
    return span(*found.range, sign) if len(found.by_seed) > 1 else ''


def settings(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    """Returns lines on the settings that differ from the paper's, and on the models."""
    tuned = (
        f'Settings of fine-tuning: {changes(config.finetune, experiments.get_config().finetune)}'
    )
    for task in config.tasks:
        tuned += f'; {task}: {listed(rules.flatten(config.tasks[task].to_dict()))}'
    models = {
        row['config']['model']['kind']: row['config']['model']
        for run in runs
        for row in run.rows[:1]
        if 'model' in row.get('config', {})
    }
    return [
        f'{tuned}.',
        pretrained(config),
        *(
            f'Model {kind}: '
            + listed(
                {
                    name: value
                    for name, value in sorted(model.items())
                    if name not in ('kind', 'unroll', 'remat', 'kernels', 'precision')
                }
            )
            + '.'
            for kind, model in sorted(models.items())
        ),
    ]


def changes(ours: ConfigDict, papers: ConfigDict) -> str:
    """Returns how a config differs: "the paper's but for batch.size 8, train.epochs 5"."""
    theirs = rules.flatten(papers.to_dict())
    differs = {
        name: value
        for name, value in rules.flatten(ours.to_dict()).items()
        if value != theirs.get(name)
    }
    return "the paper's" + (f' but for {listed(differs)}' if differs else '')


def listed(fields: Mapping) -> str:
    """Returns 'batch.size 8, train.epochs 5'."""
    return ', '.join(f'{name} {value}' for name, value in fields.items())


def pretrained(config: ConfigDict) -> str:
    """Returns a line with the pretrained runs that the results start from.

    A run that was imported by name is called 'packaged/novels-DIGEST' or
    'hub/USER--NAME/REVISION', wherever this machine has it.
    """

    def named(directory):
        path = pathlib.Path(directory)
        cache = storage.cache('')
        return str(path.relative_to(cache) if path.is_relative_to(cache) else directory)

    return f'Pretrained: {named(config.pretrained)}' + (
        f'; LSTM: {named(config.lstm)}.' if config.lstm else '.'
    )


def state(runs: Sequence[Run]) -> list[str]:
    """Returns lines on runs without results: a line for all runs that were left out, and a line for
    each task without data and each failed run."""
    no_data = {
        f'{NA}, no data: {each.task} ({each.error})' for each in runs if each.status == 'no data'
    }
    left_out = sorted({each.name for each in runs if each.status == 'left out'})
    failed = [f'FAILED: {each.name}: {each.error}' for each in runs if each.status == 'failed']
    return [
        *([f'{NA} ({NOT_RUN}): {", ".join(left_out)}'] if left_out else []),
        *sorted(no_data),
        *failed,
    ]


def difference(runs: Sequence[Run], scores: Sequence[Score], a: str, b: str) -> Estimate | None:
    """Returns condition a - condition b of a column of Table 5, or None. A column is the mean of
    the scores that both have."""
    found = []
    for score in scores:
        of_a, *where_a = shown(runs, score, a)
        of_b, *where_b = shown(runs, score, b)
        # A run that was stopped between two splits has its score only on dev, another run on test.
        if (
            of_a is not None
            and of_b is not None
            and where_a == where_b
            and of_a.by_seed.keys() & of_b.by_seed.keys()
        ):
            found.append(bootstrap.minus(of_a, of_b))
    return mean(found) if found else None


def contrasts(models: Mapping[str, Mapping], minus: Callable, what: str) -> list[str]:
    """Returns lines that compare each model's last step with its first, and the models.

    The models are compared at the last step that both have. models: {condition: {step: result}}.
    minus: (result, result) -> their difference, paired over `what`.
    """

    def line(name, a, b):
        return f'{name}: {signed(minus(a, b))[:-1]}, paired over the same {what}).'

    text = [
        line(
            f'{MODELS[condition]}, from update {min(steps):,} to {max(steps):,}',
            steps[max(steps)],
            steps[min(steps)],
        )
        for condition, steps in models.items()
        if len(steps) > 1
    ]
    shared = set.intersection(*map(set, models.values())) if len(models) == len(MODELS) else ()
    if shared:
        both = ' − '.join(MODELS[condition] for condition in models)
        text.append(
            line(
                f'{both} at update {max(shared):,}',
                *(steps[max(shared)] for steps in models.values()),
            )
        )
    return text


def column(runs: Sequence[Run], scores: Sequence[Score], condition: str) -> Estimate | None:
    """Returns a column of Table 5 on dev, the mean of its scores that exist, or None."""
    found = [find(runs, score, condition) for score in scores]
    return mean(list(filter(None, found))) if any(found) else None


def baselines(path: str | pathlib.Path) -> list[dict]:
    """Returns the rows of a file that experiments.baselines wrote, or [] if it does not exist."""
    path = pathlib.Path(path)
    return storage.read_json(path)['rows'] if path.exists() else []


def baseline_rows(
    rows: Sequence[dict], score: Score, split: str | None = None, found: Estimate | None = None
) -> dict[str, dict]:
    """Returns {baseline: its row} of the baselines that are defined for a score.

    split: default the score's. found: our result. If it is given, baselines with another number of
    evaluated rows do not count.
    """
    wanted = score.task, split or score.split, score.group, score.metric
    return {
        row['baseline']: row
        for row in rows
        if (row['task'], row['split'], row['group'], row['metric']) == wanted
        and row['value'] is not None
        and (found is None or row['n'] == found.n)
    }


def best_baseline(
    config: ConfigDict, score: Score, found: Estimate | None, split: str | None = None
) -> str:
    """Returns the cell '75.1 (n-grams)' of the highest baseline except CONTROLS. If our result is
    below it, the cell ends in '; ours is below'."""
    known = baselines(pathlib.Path(config.out) / BASELINES_FILE)
    rows = [
        row
        for name, row in baseline_rows(known, score, split, found).items()
        if name not in CONTROLS
    ]
    best = max(rows, key=lambda row: row['value'], default=None)
    if best is None:
        return ''
    below = '; ours is below' if found is not None and found.value < best['value'] else ''
    return f'{percent(best["value"])} ({BASELINES[best["baseline"]]}){below}'


def number(value: float | None) -> str:
    """Returns a value that is in percent already as text."""
    return '' if value is None else f'{value:.1f}'


def percent(value: float, sign: str = '') -> str:
    """Returns a fraction in percent, 'undefined' for nan. sign: '+' to show a plus sign."""
    return 'undefined' if value != value else f'{100 * value:{sign}.1f}'


def interval(found: Estimate, sign: str = '') -> str:
    """Returns the 95% interval in percent, '' without resamples."""
    return span(*interval_of(found.draws), sign)


def span(low: float, high: float, sign: str = '') -> str:
    """Returns '12.0 to 15.0' of two fractions."""
    return '' if low != low else f'{percent(low, sign)} to {percent(high, sign)}'


def pair(found: Estimate | None, sign: str = '') -> list[str]:
    """Returns two cells, the value and its 95% interval, with n/a for None."""
    return [NA, ''] if found is None else [percent(found.value, sign), interval(found, sign)]


def signed(difference: Estimate) -> str:
    """Returns '+3.0 (+1.0 to +5.0)'."""
    return f'{percent(difference.value, "+")} ({interval(difference, "+")})'
