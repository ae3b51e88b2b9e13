"""Section 5: what the paper concludes from Figure 2 and Table 5, against what is measured here.

python -m experiments.claims --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.lstm=runs/lstm \\
    --config.data=DATA --config.out=runs/paper [--dry_run]

A claim holds where the 95% interval of its difference lies above 0 and every seed's difference does too, does not hold
where all lie below it, and is undecided otherwise. A claim about every one of several differences holds where that is
so of all of them and none is missing, and does not hold where one lies below 0 at Bonferroni's level for so many.
"""
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from ml_collections import ConfigDict

from experiments import figure2_layers, figure2_zero_shot
from experiments.lib import bootstrap, paper, run_list, runner, tables
from experiments.lib.bootstrap import Estimate
from experiments.lib.markdown import bullets, table
from experiments.lib.run_list import RunSpec
from experiments.lib.runner import Outcome

HOLDS, FAILS, UNDECIDED = 'holds', 'does not hold', 'undecided'
# NLI sets and QQP: where the paper sees the auxiliary objective help. Table 5 has no run without it on SNLI.
HELPED = ('MNLI (acc)', 'QNLI (acc)', 'RTE (acc)', 'QQP (F1)')
HEADER = ('claim', 'paper (test)', 'measured', 'difference, points', '95% interval', 'range of seeds', 'seeds', 'n',
          'split', 'parameters', 'verdict')


@dataclasses.dataclass(frozen=True, eq=False)
class Claim:
    """A claim and its evidence.

    text: in our words. paper: its difference, as text. measured: {what: difference}, each above 0 if the claim is true;
    empty where a run or its data is missing. about: which differences these are. wanted: how many the claim is about.
    split, parameters: what was evaluated. described: too weak a measure for a verdict.
    """
    text: str
    paper: str
    measured: dict[str, Estimate]
    about: str
    wanted: int = 1
    split: str = 'dev'
    parameters: str = 'final'
    described: bool = False


def verdict(claim: Claim) -> str:
    """HOLDS, FAILS or UNDECIDED, with what limits it in brackets; n/a without any difference."""
    found = list(claim.measured.values())
    if not found:
        return tables.NA
    limits = [f'{len(found)} of {claim.wanted} there'] if len(found) < claim.wanted else []
    said = UNDECIDED
    if claim.described:
        limits.append('described only')
    elif all(above(one, one.interval()) for one in found):
        said = UNDECIDED if limits else HOLDS
    elif any(above(negative(one), negative(one).interval(len(found))) for one in found):
        said = FAILS
    if min(len(one.seeds) for one in found) < 2 and not claim.described:
        limits.append('1 seed')
    return f'{said} ({", ".join(limits)})' if limits else said


def above(one: Estimate, interval: tuple[float, float]) -> bool:
    """Whether a difference is above 0 in its interval and for every seed."""
    return interval[0] > 0 and one.range[0] > 0


def negative(one: Estimate) -> Estimate:
    """The difference with its sides exchanged."""
    by_seed = {seed: (-value, -draws) for seed, (value, draws) in one.by_seed.items()}
    return Estimate(-one.value, -one.draws, one.n, by_seed, one.items)


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Do the runs of every claim and write OUT/claims.md; returns its lines, none in a dry run."""
    outcomes = runner.of_script(config, specs, dry_run)
    if dry_run:
        return []
    notes = [*tables.no_lstm(config), *tables.settings(config, outcomes)]
    return runner.write(config, 'claims.md', lines(outcomes, figure2_layers.conditions(config), notes), outcomes)


def specs(config: ConfigDict) -> list[RunSpec]:
    """The layers of Figure 2 (left), Table 5 without its grid, and the scoring of Figure 2 (right)."""
    found = figure2_layers.specs(config)
    for condition in paper.TABLE5:
        for scores in paper.COLUMNS.values():
            for task in dict.fromkeys(score.task for score in scores):
                found += run_list.finetune_specs(config, task, condition)
    for task in sorted({*config.zero_shot_tasks} & {*paper.SCALES}):
        for condition in ('full', 'lstm'):
            found += run_list.zero_shot_specs(config, task, condition)
    return found


def lines(outcomes: Sequence[Outcome], layers: Mapping[int, str], notes: Sequence[str] = ()) -> list[str]:
    """The Markdown of the claims from the outcomes of `specs`. layers: {number transferred: its condition}."""
    body = [[claim.text, claim.paper, claim.about, *weakest(claim), verdict(claim)]
            for claim in (*of_layers(outcomes, layers), *of_zero_shot(outcomes), *of_ablations(outcomes))]
    rule = ' '.join(__doc__.split('\n\n')[2].split())
    return ['# Claims of Section 5', '', *table(HEADER, body),
            'A difference is stated so that it is above 0 if the claim is true; of several, the smallest is shown. '
            f'{rule} "1 seed": the spread between runs is not known. Verdicts are on the sign of a difference, not its '
            'size.', '', tables.READING, '', *bullets([*tables.state(outcomes), *notes])]


def weakest(claim: Claim) -> list[str]:
    """Cells of the smallest difference: value, interval, range of seeds, seeds, n, split, parameters."""
    if not claim.measured:
        return [tables.NA, *[''] * 6]
    name, one = min(claim.measured.items(), key=lambda item: item[1].value)
    value = tables.percent(one.value, '+')
    if len(claim.measured) > 1:
        value += f' ({name})'
    spread = ''
    if len(one.seeds) > 1:
        low, high = one.range
        spread = f'{tables.percent(low, "+")} to {tables.percent(high, "+")}'
    return [value, tables.interval(one, '+'), spread, str(len(one.seeds) or ''), f'{one.n:,}' if one.n else '',
            claim.split, claim.parameters]


def of_layers(outcomes: Sequence[Outcome], layers: Mapping[int, str]) -> list[Claim]:
    """Figure 2, left: from the points that its table shows."""
    claims = []
    depth = max(layers, default=0)
    for task, name in figure2_layers.NAMES.items():
        measured = figure2_layers.points(outcomes, task, 'dev', layers)
        steps = list(itertools.pairwise(range(depth + 1)))
        claims.append(Claim(f'Transferring the embeddings alone is better than transferring nothing ({name}).',
                            'higher (plot)', between(measured, [(-1, 0)]), 'embeddings − nothing'))
        claims.append(Claim(f'Each further layer that is transferred adds something ({name}).', 'each higher (plot)',
                            between(measured, steps), 'n layers − one fewer, every n', len(steps)))
        claims.append(Claim(f'All layers together bring much more than the embeddings alone ({name}).',
                            'up to 9' if task == 'mnli' else 'higher (plot)',
                            between(measured, [(0, depth)] if depth else []), f'all {depth} layers − embeddings'))
    return claims


def between(measured: Mapping[int, Estimate], pairs: Sequence[tuple[int, int]]) -> dict[str, Estimate]:
    """{'3 − 2': difference} of numbers of layers (lower, higher) that are both there."""
    return {f'{b} − {a}': bootstrap.minus(measured[b], measured[a]) for a, b in pairs if {a, b} <= measured.keys()}


def of_zero_shot(outcomes: Sequence[Outcome]) -> list[Claim]:
    """Figure 2, right: from the points that its table shows."""
    claims = []
    gaps = []  # for each task, how much more the LSTM's score jumps from step to step than the Transformer's
    for task in paper.SCALES:
        points = {condition: figure2_zero_shot.points(outcomes, condition, task) for condition in ('full', 'lstm')}
        split = next((row['split'] for curve in points.values() for _, row in curve.values()), '')
        trained = {}  # without step 0
        for condition, curve in points.items():
            trained[condition] = {step: one for step, (one, _) in curve.items() if step > 0}
        enough = len(trained['full']) > 2
        claims.append(Claim(
            f'The longer the pretraining, the better without fine-tuning ({figure2_zero_shot.NAMES[task][1]}, '
            f'{figure2_zero_shot.metric_of(task)}).', 'higher (plot)',
            {'slope': slope(trained['full'])} if enough else {},
            'slope over the logarithm of the updates, points for ten times as many', split=split,
            parameters='each saved update'))
        if enough and trained['full'].keys() == trained['lstm'].keys():
            gap = spread(trained['lstm']) - spread(trained['full'])
            gaps.append(Estimate(gap, np.full(1, np.nan), 0, {}, ''))
    claims.append(Claim("The LSTM's scores without fine-tuning vary more.", 'more (plot)',
                        {'LSTM − Transformer': bootstrap.mean(gaps)} if gaps else {},
                        'standard deviation of the changes between saved updates, mean of '
                        f'{len(gaps)} tasks: LSTM − Transformer', parameters='each saved update', described=True))
    return claims


def slope(points: Mapping[int, Estimate]) -> Estimate:
    """Slope of the least-squares line of a metric over log10(updates), in each resample. points: {updates: Estimate}.
    """
    steps = sorted(points)
    x = np.log10(steps) - np.mean(np.log10(steps))
    weights = x / np.sum(x * x)
    first = points[steps[0]]
    # Relative to the first point, so that a curve which never moves has a slope of exactly 0.
    draws = weights @ np.stack([points[step].draws - first.draws for step in steps])
    value = float(weights @ [points[step].value - first.value for step in steps])
    return Estimate(value, draws, first.n, {seed: (value, draws) for seed in first.by_seed}, first.items)


def spread(points: Mapping[int, Estimate]) -> float:
    """The standard deviation of the changes from one saved step to the next."""
    return float(np.std(np.diff([points[step].value for step in sorted(points)])))


def of_ablations(outcomes: Sequence[Outcome]) -> list[Claim]:
    """Table 5."""
    columns = list(paper.COLUMNS)
    but_mrpc = [name for name in columns if name != 'MRPC (F1)']
    aux, lstm, scratch = 'full − no auxiliary LM', 'full − LSTM', 'full − no pretraining'
    claims = [_every_column(outcomes, f'The auxiliary objective helps on {name}.', 'full', 'no_aux', [name], aux)
              for name in HELPED]
    claims += [
        _mean_of_columns(outcomes, 'Larger sets gain from the auxiliary objective.', 'full', 'no_aux', paper.LARGE,
                         aux),
        _mean_of_columns(outcomes, 'Smaller sets do not: without it they are better.', 'no_aux', 'full', paper.SMALL,
                         'no auxiliary LM − full'),
        _mean_of_columns(outcomes, 'An LSTM in place of the Transformer is worse on average.', 'full', 'lstm', columns,
                         lstm),
        _every_column(outcomes, 'The LSTM is ahead on MRPC.', 'lstm', 'full', ['MRPC (F1)'], 'LSTM − full'),
        _every_column(outcomes, '... and nowhere else.', 'full', 'lstm', but_mrpc, f'{lstm} but on MRPC'),
        _every_column(outcomes, 'Without pretraining every task is worse.', 'full', 'no_pretraining', columns, scratch),
        _mean_of_columns(outcomes, '... and on average.', 'full', 'no_pretraining', columns, scratch)]
    return claims


def _every_column(outcomes, text, a, b, names, about):
    """The Claim that condition a is better than b in every one of the columns; the paper's smallest difference."""
    smallest = min(paper.difference(a, b, name) for name in names)
    if len(names) > 1:
        about += ', every column'
    return Claim(text, f'{smallest:+.1f}', _differences(outcomes, a, b, names), about, len(names))


def _mean_of_columns(outcomes, text, a, b, names, about):
    """The Claim that condition a is better than b on average, the paper's side and ours over the columns that we have.
    """
    found = _differences(outcomes, a, b, names)
    shared = [name for name in names if name in found] or names
    if len(shared) == len(paper.COLUMNS) and a == 'full':
        theirs = paper.TABLE5_AVERAGE[a] - paper.TABLE5_AVERAGE[b]  # as printed
    else:
        theirs = np.mean([paper.difference(a, b, name) for name in shared])
    measured = {'mean': bootstrap.mean(list(found.values()))} if found else {}
    return Claim(text, f'{theirs:+.1f}', measured, f'{about}, mean of {", ".join(shared)}')


def _differences(outcomes, a, b, names):
    """{column: condition a - condition b} of those columns that are there."""
    found = {name: tables.difference(outcomes, paper.COLUMNS[name], a, b) for name in names}
    return {name: one for name, one in found.items() if one is not None}


if __name__ == '__main__':
    runner.command(run)
