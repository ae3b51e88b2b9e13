"""The gain by pretraining: pretrained minus from scratch, set by set and on average, paired.

The table has every set of Tables 2 to 4 under each condition of Table 5.
"""

from collections.abc import Sequence

from ml_collections import ConfigDict

from experiments.lib import run_list
from experiments.lib.run_list import Run
from experiments.paper import numbers, scores
from gpt1_jax.metrics.bootstrap import mean
from gpt1_jax.runs.markdown import bullets, table

SCORES = [
    score
    for score in dict.fromkeys([*numbers.TABLE2, *numbers.TABLE3, *numbers.TABLE4])
    if score.group is None
]
HEADER = (
    'task',
    *(numbers.NAMES[condition] for condition in run_list.CONDITIONS),
    'best baseline',
    'full − no pretraining',
    '95% interval',
    'n',
)


def specs(config: ConfigDict) -> list[Run]:
    return [
        run
        for task in dict.fromkeys(score.task for score in SCORES)
        for condition in run_list.CONDITIONS
        for run in run_list.finetune_runs(config, task, condition)
    ]


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    """Returns the table, and a line on whether the mean difference's interval includes zero."""
    found = {}
    rows = []
    for score in SCORES:
        row = [f'{score.label} ({score.metric})']
        for condition in run_list.CONDITIONS:
            each, _, _ = scores.shown(runs, score, condition)
            row.append(
                scores.percent(each.value) if each else scores.absent(runs, score.task, condition)
            )
        full, split, _ = scores.shown(runs, score)
        gain = scores.difference(runs, [score], 'full', 'no_pretraining')
        if gain:
            found[score.label] = gain
        rows.append(
            [
                *row,
                scores.best_baseline(config, score, full, split),
                *scores.pair(gain, '+'),
                f'{gain.n:,}' if gain else '',
            ]
        )
    verdict = []
    if found:
        average = mean(list(found.values()))
        rows.append(
            ['mean of the differences', *[''] * 5, *scores.pair(average, '+'), f'{average.n:,}']
        )
        low, high = average.interval()
        unclear = [label for label, gain in found.items() if not gain.interval()[0] > 0]
        side = 'excludes' if low > 0 or high < 0 else 'includes'
        each = (
            f'It is not above zero on its own for: {", ".join(unclear)}.'
            if unclear
            else "Each one's is above zero."
        )
        verdict = [f'The interval of the mean over {len(found)} scores {side} zero. {each}', '']
    return [
        '# Does pretraining help?',
        '',
        *table(HEADER, rows),
        *verdict,
        scores.READING,
        '',
        *bullets(scores.state(runs)),
    ]
