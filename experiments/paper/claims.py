"""The paper's conclusions from Figure 2 and Table 5 (Section 5), tested with our measurements.

A claim holds if the 95% interval of its difference and every seed's difference lie above 0. It does
not hold if all lie below 0, and is undecided otherwise. A claim about several differences holds if
each difference does so and none is missing. It does not hold if a difference lies below 0 at
Bonferroni's level for their number. A claim about a mean is undecided if a difference is missing.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from ml_collections import ConfigDict

from experiments.lib import bootstrap
from experiments.lib.run_list import Run
from experiments.paper import figure2_layers, numbers, scores, table5
from gpt1_jax.metrics.bootstrap import Estimate, mean
from gpt1_jax.runs.markdown import bullets, table

HOLDS = 'holds'
FAILS = 'does not hold'
UNDECIDED = 'undecided'
# NLI sets and QQP, on which the paper sees the auxiliary objective help. Table 5 has no run without
# it on SNLI.
HELPED = ('MNLI (acc)', 'QNLI (acc)', 'RTE (acc)', 'QQP (F1)')
COLUMNS = tuple(numbers.COLUMNS)
ABLATIONS = (  # (claim, a, b, columns, whether it is about their mean): a is better than b
    *(
        (f'The auxiliary objective helps on {name}.', 'full', 'no_aux', (name,), False)
        for name in HELPED
    ),
    ('Larger sets gain from the auxiliary objective.', 'full', 'no_aux', numbers.LARGE, True),
    ('Smaller sets do not: without it they are better.', 'no_aux', 'full', numbers.SMALL, True),
    ('An LSTM in place of the Transformer is worse on average.', 'full', 'lstm', COLUMNS, True),
    ('The LSTM is ahead on MRPC.', 'lstm', 'full', ('MRPC (F1)',), False),
    (
        '... and nowhere else.',
        'full',
        'lstm',
        tuple(name for name in COLUMNS if name != 'MRPC (F1)'),
        False,
    ),
    ('Without pretraining every task is worse.', 'full', 'no_pretraining', COLUMNS, False),
    ('... and on average.', 'full', 'no_pretraining', COLUMNS, True),
)
HEADER = (
    'claim',
    'paper (test)',
    'measured',
    'difference, points',
    '95% interval',
    'range of seeds',
    'seeds',
    'n',
    'verdict',
)


@dataclasses.dataclass(frozen=True, eq=False)
class Claim:
    """A claim and its evidence.

    text: the claim in our words. paper: the paper's difference, as text. measured: {name:
    difference}, each above 0 if the claim is true, and empty if a run or its data is missing.
    about: names the differences. wanted: how many differences the claim is about. averaged: if
    `measured` is a mean, the number of its differences.
    """

    text: str
    paper: str
    measured: dict[str, Estimate]
    about: str
    wanted: int = 1
    averaged: int | None = None


def verdict(claim: Claim) -> str:
    """Returns HOLDS, FAILS or UNDECIDED, with its limits in brackets. n/a without differences."""
    found = list(claim.measured.values())
    if not found:
        return scores.NA
    there = claim.averaged or len(found)
    limits = [f'{there} of {claim.wanted} there'] if there < claim.wanted else []
    said = UNDECIDED
    if all(each.interval()[0] > 0 and each.range[0] > 0 for each in found):
        said = UNDECIDED if limits else HOLDS
    elif any(each.interval(len(found))[1] < 0 and each.range[1] < 0 for each in found):
        # The mean of all may lie on the other side
        said = UNDECIDED if limits and claim.averaged else FAILS
    if min(len(each.by_seed) for each in found) < 2:
        limits.append('1 seed')
    return f'{said} ({", ".join(limits)})' if limits else said


def specs(config: ConfigDict) -> list[Run]:
    """Returns the runs of Figure 2, left, and of Table 5 without its grid."""
    return [*figure2_layers.specs(config), *table5.specs(config, settings=False)]


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    layers = {task: figure2_layers.points(config, runs, task) for task in figure2_layers.NAMES}
    depth = figure2_layers.depth(config)
    body = [
        [claim.text, claim.paper, claim.about, *weakest(claim), verdict(claim)]
        for claim in (*of_layers(layers, depth), *of_ablations(runs))
    ]
    rule = ' '.join(__doc__.split('\n\n')[1].split())
    return [
        '# Claims of Section 5',
        '',
        *table(HEADER, body),
        'A difference is stated so that it is above 0 if the claim is true; of several, the '
        f'smallest is shown. {rule} "1 seed": the spread between runs is not known. Verdicts are '
        'on the sign of a difference, not its size. All are on dev, with the parameters of the '
        'last step.',
        '',
        scores.READING,
        '',
        *bullets([*scores.state(runs), *scores.no_lstm(config), *scores.settings(config, runs)]),
    ]


def weakest(claim: Claim) -> list[str]:
    """Returns the cells of the smallest difference: value, interval, range of seeds, seeds, n."""
    if not claim.measured:
        return [scores.NA, *[''] * 4]
    name, least = min(claim.measured.items(), key=lambda item: item[1].value)
    value, interval = scores.pair(least, '+')
    return [
        value + (f' ({name})' if len(claim.measured) > 1 else ''),
        interval,
        scores.spread(least, '+'),
        str(len(least.by_seed)),
        f'{least.n:,}',
    ]


def of_layers(layers: Mapping[str, Mapping[int, Estimate]], depth: int) -> list[Claim]:
    """Returns the claims on Figure 2, left. layers: {task: {number transferred: accuracy}}. depth:
    the pretrained model's layers."""
    claims = []
    for task, measured in layers.items():
        name = figure2_layers.NAMES[task]
        steps = list(itertools.pairwise(range(depth + 1)))
        claims += [
            Claim(
                f'Transferring the embeddings alone is better than transferring nothing ({name}).',
                'higher (plot)',
                between(measured, [(-1, 0)]),
                'embeddings − nothing',
            ),
            Claim(
                f'Each further layer that is transferred adds something ({name}).',
                'each higher (plot)',
                between(measured, steps),
                'n layers − one fewer, every n',
                len(steps),
            ),
            Claim(
                f'All layers together bring much more than the embeddings alone ({name}).',
                'up to 9' if task == 'mnli' else 'higher (plot)',
                between(measured, [(0, depth)]),
                f'all {depth} layers − embeddings',
            ),
        ]
    return claims


def between(
    measured: Mapping[int, Estimate], pairs: Sequence[tuple[int, int]]
) -> dict[str, Estimate]:
    """Returns {'3 − 2': difference} of pairs (lower, higher) of layers with results."""
    return {
        f'{b} − {a}': bootstrap.minus(measured[b], measured[a])
        for a, b in pairs
        if {a, b} <= measured.keys()
    }


def of_ablations(runs: Sequence[Run]) -> list[Claim]:
    """Returns the claims on Table 5. Means, the paper's and ours, are over the columns we have."""
    claims = []
    for text, a, b, names, on_average in ABLATIONS:
        about = f'{numbers.NAMES[a]} − {numbers.NAMES[b]}'
        measured = {name: scores.difference(runs, numbers.COLUMNS[name], a, b) for name in names}
        measured = {name: each for name, each in measured.items() if each}
        theirs = {name: numbers.difference(a, b, name) for name in measured or names}
        if not on_average:
            smallest = min(numbers.difference(a, b, name) for name in names)
            about += ', every column' if len(names) > 1 else ''
            claims.append(Claim(text, f'{smallest:+.1f}', measured, about, len(names)))
            continue
        value = np.mean(list(theirs.values()))
        if tuple(theirs) == COLUMNS:
            value = numbers.TABLE5_AVERAGE[a] - numbers.TABLE5_AVERAGE[b]  # as printed
        average = {'mean': mean(list(measured.values()))} if measured else {}
        claims.append(
            Claim(
                text,
                f'{value:+.1f}',
                average,
                f'{about}, mean of {", ".join(theirs)}',
                len(names),
                len(measured),
            )
        )
    return claims
