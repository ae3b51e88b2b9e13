"""Section 5: what the paper concludes from Figure 2 and Table 5, against what is measured here.

python -m experiments.claims --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.lstm=runs/lstm \\
    --config.data=DATA --config.out=runs/paper [--dry_run]

A claim holds where the 95% interval of its difference lies above 0 and every seed's difference does too, does not hold
where all lie below it, and is undecided otherwise. A claim about every one of several differences holds where that is
so of all of them and none is missing, and does not hold where one lies below 0 at Bonferroni's level for so many.
"""
import dataclasses
import itertools

import numpy as np

from experiments import estimates, figure2_layers, figure2_zero_shot, paper, tables
from experiments import run as runs
from experiments.estimates import Estimate
from experiments.report import table

HOLDS, FAILS, UNDECIDED = 'holds', 'does not hold', 'undecided'
# NLI sets and QQP: where the paper sees the auxiliary objective help. Table 5 has no run without it on SNLI.
HELPED = ('MNLI (acc)', 'QNLI (acc)', 'RTE (acc)', 'QQP (F1)')
HEADER = ('claim', 'paper (test)', 'measured', 'difference, points', '95% interval', 'range of seeds', 'seeds', 'n',
          'split', 'parameters', 'verdict')


@dataclasses.dataclass(frozen=True, eq=False)
class Claim:
    """A claim and its evidence.

    text: in our words. paper: its figure for the difference, as text. measured: {what: difference}, each above 0 if the
    claim is true; empty where a run or its data is missing. about: which differences these are. wanted: how many the
    claim is about. split, parameters: what was evaluated. described: too weak a measure for a verdict.
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


def above(one, interval):
    """Whether a difference is above 0 in its interval and for every seed."""
    return interval[0] > 0 and one.range[0] > 0


def negative(one):
    return Estimate(-one.value, -one.draws, one.n, {seed: (-value, -draws) for seed, (value, draws) in
                                                    one.by_seed.items()}, one.items)


def run(config, dry_run=False):
    """Do the runs of every claim and write OUT/claims.md; returns its lines, none in a dry run."""
    runs.check(config)
    outcomes = runs.carry_out(config, plans(config), dry_run)
    if dry_run:
        runs.raise_failures(outcomes)
        return []
    absent = [] if config.lstm else [tables.no_lstm(config)]
    text = lines(outcomes, figure2_layers.conditions(config), [*absent, *tables.settings(config, outcomes)])
    return runs.write(config, 'claims.md', text, outcomes)


def plans(config):
    """The layers of Figure 2 (left), Table 5 without its grid, and the scoring of Figure 2 (right)."""
    ablations = [one for condition in paper.TABLE5 for figures in paper.COLUMNS.values()
                 for task in dict.fromkeys(figure.task for figure in figures)
                 for one in runs.plans(config, task, condition)]
    scored = [one for task in config.zero_shot_tasks for condition in ('full', 'lstm')
              for one in runs.zero_shot_plan(config, task, condition)]
    return figure2_layers.plans(config) + ablations + scored


def lines(outcomes, layers, notes=()) -> list[str]:
    """The Markdown of the claims from the outcomes of `plans`. layers: {number transferred: its condition}."""
    body = [[claim.text, claim.paper, claim.about, *weakest(claim), verdict(claim)]
            for claim in (*of_layers(outcomes, layers), *of_zero_shot(outcomes), *of_ablations(outcomes))]
    return ['# Claims of Section 5', '', *table(HEADER, body),
            'A difference is stated so that it is above 0 if the claim is true; of several, the smallest is shown. ' +
            ' '.join(__doc__.split('\n\n')[2].split()) + ' "1 seed": the spread between runs is not known. Verdicts '
            'are on the sign of a difference, not its size.', '',
            tables.READING, '', *tables.bullets([*tables.state(outcomes), *notes])]


def weakest(claim) -> list[str]:
    """Cells of the smallest difference: value, interval, range of seeds, seeds, n, split, parameters."""
    if not claim.measured:
        return [tables.NA, *[''] * 6]
    name, one = min(claim.measured.items(), key=lambda item: item[1].value)
    low, high = one.range
    spread = f'{tables.percent(low, "+")} to {tables.percent(high, "+")}' if len(one.seeds) > 1 else ''
    return [tables.percent(one.value, '+') + (f' ({name})' if len(claim.measured) > 1 else ''),
            tables.interval(one, '+'), spread, str(len(one.seeds) or ''), f'{one.n:,}' if one.n else '', claim.split,
            claim.parameters]


def of_layers(outcomes, layers) -> list[Claim]:
    """Figure 2, left: from the points that its table shows."""
    claims, depth = [], max(layers, default=0)
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


def between(measured, pairs):
    """{'3 − 2': difference} of depths (lower, higher) that are both there."""
    return {f'{b} − {a}': estimates.minus(measured[b], measured[a]) for a, b in pairs if {a, b} <= measured.keys()}


def of_zero_shot(outcomes) -> list[Claim]:
    """Figure 2, right: from the points that its table shows."""
    claims, changes = [], []
    for task in figure2_zero_shot.SCALES:
        curves = {condition: figure2_zero_shot.points(outcomes, condition, task) for condition in ('full', 'lstm')}
        split = next((row['split'] for points in curves.values() for _, row in points.values()), '')
        figures = {condition: {step: one for step, (one, _) in points.items() if step > 0}
                   for condition, points in curves.items()}
        claims.append(Claim(
            f'The longer the pretraining, the better without fine-tuning ({figure2_zero_shot.NAMES[task][1]}, '
            f'{figure2_zero_shot.metric_of(task)}).', 'higher (plot)',
            {'slope': slope(figures['full'])} if len(figures['full']) > 2 else {},
            'slope over the logarithm of the updates, points for ten times as many', split=split, parameters='each '
            'saved update'))
        if len(figures['full']) > 2 and figures['full'].keys() == figures['lstm'].keys():
            changes.append([spread(figures[condition]) for condition in ('lstm', 'full')])
    several = [Estimate(lstm - gpt, np.full(1, np.nan), 0, {}, '') for lstm, gpt in changes]
    claims.append(Claim("The LSTM's figures without fine-tuning vary more.", 'more (plot)',
                        {'LSTM − Transformer': estimates.mean(several)} if several else {},
                        'standard deviation of the changes between saved updates, mean of '
                        f'{len(several)} tasks: LSTM − Transformer', parameters='each saved update', described=True))
    return claims


def slope(points) -> Estimate:
    """Of the least-squares line of a figure over log10(updates), draw by draw. points: {updates: Estimate}."""
    steps = sorted(points)
    x = np.log10(steps) - np.mean(np.log10(steps))
    weights, one = x / np.sum(x * x), points[steps[0]]
    # Over the first point, so that a curve which never moves has a slope of 0 to the bit.
    draws = weights @ np.stack([points[step].draws - one.draws for step in steps])
    value = float(weights @ [points[step].value - one.value for step in steps])
    return Estimate(value, draws, one.n, {seed: (value, draws) for seed in one.by_seed}, one.items)


def spread(points) -> float:
    """The standard deviation of the changes from one saved update to the next."""
    return float(np.std(np.diff([points[step].value for step in sorted(points)])))


def of_ablations(outcomes) -> list[Claim]:
    """Table 5."""
    def differences(a, b, names):
        found = {name: tables.difference(outcomes, paper.COLUMNS[name], a, b) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    def every(text, a, b, names, about):
        smallest = min(paper.difference(a, b, name) for name in names)
        return Claim(text, f'{smallest:+.1f}', differences(a, b, names), f'{about}, every column' if len(names) > 1 else
                     about, len(names))

    def mean(text, a, b, names, about):
        """The paper's side and ours over the same columns, and which these are."""
        found = differences(a, b, names)
        shared = [name for name in names if name in found] or names
        theirs = np.mean([paper.difference(a, b, name) for name in shared])
        if len(shared) == len(paper.COLUMNS) and a == 'full':
            theirs = paper.TABLE5_AVERAGE[a] - paper.TABLE5_AVERAGE[b]  # as printed
        return Claim(text, f'{theirs:+.1f}', {'mean': estimates.mean(list(found.values()))} if found else {},
                     f'{about}, mean of {", ".join(shared)}')

    columns, but_mrpc = list(paper.COLUMNS), [name for name in paper.COLUMNS if not name.startswith('MRPC')]
    aux, lstm, scratch = 'full − no auxiliary LM', 'full − LSTM', 'full − no pretraining'
    return [
        *(every(f'The auxiliary objective helps on {name}.', 'full', 'no_aux', [name], aux) for name in HELPED),
        mean('Larger sets gain from the auxiliary objective.', 'full', 'no_aux', paper.LARGE, aux),
        mean('Smaller sets do not: without it they are better.', 'no_aux', 'full', paper.SMALL,
             'no auxiliary LM − full'),
        mean('An LSTM in place of the Transformer is worse on average.', 'full', 'lstm', columns, lstm),
        every('The LSTM is ahead on MRPC.', 'lstm', 'full', ['MRPC (F1)'], 'LSTM − full'),
        every('... and nowhere else.', 'full', 'lstm', but_mrpc, f'{lstm} but on MRPC'),
        every('Without pretraining every task is worse.', 'full', 'no_pretraining', columns, scratch),
        mean('... and on average.', 'full', 'no_pretraining', columns, scratch)]


if __name__ == '__main__':
    runs.command(run)
