"""Section 5: what the paper concludes from Figure 2 and Table 5, against what is measured here.

python -m experiments.claims --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.lstm=runs/lstm \\
    --config.data=DATA --config.out=runs/paper [--dry_run]

A claim holds where the 95% interval of its difference lies above 0, does not hold where it lies below, and is undecided
otherwise. A claim about every one of several differences holds where all their intervals lie above 0, and does not hold
where one lies below it at Bonferroni's level for so many.
"""
import dataclasses
import itertools

import numpy as np

from experiments import estimates, figure2_layers, paper, tables
from experiments import run as runs
from experiments.estimates import Estimate
from experiments.report import table

HOLDS, FAILS, UNDECIDED = 'holds', 'does not hold', 'undecided'
RACE = paper.Figure('RACE', 'race', 'accuracy', 59.0)
LAYERS = {'mnli': paper.MNLI, 'race': RACE}
# NLI sets and QQP: where the paper sees the auxiliary objective help. Table 5 has no run without it on SNLI.
HELPED = ('MNLI (acc)', 'QNLI (acc)', 'RTE (acc)', 'QQP (F1)')
SCORED = {'cola': 'matthews', 'sst2': 'accuracy', 'race': 'accuracy', 'dpr': 'accuracy'}


@dataclasses.dataclass(frozen=True, eq=False)
class Claim:
    """A claim and its evidence.

    text: in our words. paper: its figure for the difference, as text. measured: {what: difference}, each above 0 if the
    claim is true; empty where a run or its data is missing. about: which differences these are.
    """
    text: str
    paper: str
    measured: dict[str, Estimate]
    about: str


def verdict(measured) -> str:
    """HOLDS, FAILS or UNDECIDED of {what: difference}; n/a without any."""
    found = list(measured.values())
    if not found:
        return tables.NA
    if all(one.interval()[0] > 0 for one in found):
        return HOLDS
    return FAILS if any(one.interval(len(found))[1] < 0 for one in found) else UNDECIDED


def run(config, dry_run=False):
    """Do the runs of every claim and write OUT/claims.md; returns its lines, none in a dry run."""
    runs.check(config)
    outcomes = runs.carry_out(config, plans(config), dry_run)
    if dry_run:
        runs.raise_failures(outcomes)
        return []
    layers = {n: figure2_layers.condition(config, n) for n in figure2_layers.layers(config)}
    return runs.write(config, 'claims.md', lines(outcomes, layers), outcomes)


def plans(config):
    """The layers of Figure 2 (left), Table 5 without its grid, and the scoring of Figure 2 (right)."""
    ablations = [one for condition in paper.TABLE5 for figures in paper.COLUMNS.values()
                 for task in dict.fromkeys(figure.task for figure in figures)
                 for one in runs.plans(config, task, condition)]
    scored = [one for task in config.zero_shot_tasks for condition in ('full', 'lstm')
              for one in runs.zero_shot_plan(config, task, condition)]
    return figure2_layers.plans(config) + ablations + scored


def lines(outcomes, layers) -> list[str]:
    """The Markdown of the claims from the outcomes of `plans`. layers: {number transferred: its condition}."""
    body = []
    for claim in (*of_layers(outcomes, layers), *of_zero_shot(outcomes), *of_ablations(outcomes)):
        body.append([claim.text, claim.paper, claim.about, *weakest(claim.measured), verdict(claim.measured)])
    return ['# Claims of Section 5', '', *table(
        ('claim', 'paper (test)', 'measured', 'difference, points', '95% interval', 'n', 'verdict'), body),
        'A difference is stated so that it is above 0 if the claim is true; of several, the smallest is shown. ' +
        ' '.join(__doc__.split('\n\n')[2].split()) + ' Verdicts are on the sign of a difference, not its size.', '',
        tables.READING, '', *tables.bullets(tables.state(outcomes))]


def weakest(measured) -> list[str]:
    """Cells of the smallest difference: value, interval, n."""
    if not measured:
        return [tables.NA, '', '']
    name, one = min(measured.items(), key=lambda item: item[1].value)
    return [tables.percent(one.value, '+') + (f' ({name})' if len(measured) > 1 else ''), tables.interval(one, '+'),
            f'{one.n:,}']


def of_layers(outcomes, layers) -> list[Claim]:
    """Figure 2, left."""
    claims = []
    for task, figure in LAYERS.items():
        measured = {n: tables.shown(outcomes, figure, condition)[0] for n, condition in layers.items()}
        depths = [n for n in sorted(measured) if measured[n] is not None]
        claims.append(Claim(f'Transferring the embeddings alone is better than transferring nothing ({figure.label}).',
                            'higher (plot)', between(measured, [(-1, 0)]), 'embeddings − nothing'))
        steps = [pair for pair in itertools.pairwise(depths) if pair[0] >= 0]
        claims.append(Claim(f'Each further layer that is transferred adds something ({figure.label}).', 'each higher '
                            '(plot)', between(measured, steps), 'n layers − one step fewer, every n'))
        claims.append(Claim(f'All layers together bring much more than the embeddings alone ({figure.label}).',
                            'up to 9' if task == 'mnli' else 'higher (plot)',
                            between(measured, [(0, depths[-1])] if depths and depths[-1] > 0 else []),
                            'all layers − embeddings'))
    return claims


def between(measured, pairs):
    """{'3 − 2': difference} of depths (lower, higher) that are both there."""
    return {f'{b} − {a}': estimates.minus(measured[b], measured[a]) for a, b in pairs
            if measured.get(a) is not None and measured.get(b) is not None}


def of_zero_shot(outcomes) -> list[Claim]:
    """Figure 2, right."""
    claims, wobbles = [], []
    for task, metric in SCORED.items():
        curves = {condition: curve(outcomes, task, metric, condition) for condition in ('full', 'lstm')}
        first_last = curves['full'][:1] + curves['full'][-1:] if len(curves['full']) > 1 else []
        claims.append(Claim(
            f'The longer the pretraining, the better without fine-tuning ({task}, {metric}).', 'higher (plot)',
            {'last − first': estimates.minus(first_last[1], first_last[0])} if first_last else {},
            'last − first saved update'))
        if all(len(points) > 2 for points in curves.values()) and len(curves['full']) == len(curves['lstm']):
            wobbles.append(estimates.minus(wobble(curves['lstm']), wobble(curves['full'])))
    claims.append(Claim("The LSTM's figures without fine-tuning vary more.", 'more (plot)',
                        {'LSTM − Transformer': estimates.mean(wobbles)} if wobbles else {},
                        f'standard deviation of the changes between saved updates, mean of {len(wobbles)} tasks: '
                        'LSTM − Transformer'))
    return claims


def curve(outcomes, task, metric, condition) -> list[Estimate]:
    """The figures of the saved updates, in order."""
    rows = {row['step']: row for o in outcomes if o.planned.kind == 'zero_shot'
            and (o.planned.task, o.planned.condition) == (task, condition) for row in o.rows
            if row['metric'] == metric and row.get('group') is None}
    return [estimates.of_rows([rows[step]]) for step in sorted(rows)]


def wobble(points) -> Estimate:
    """The standard deviation of the changes from one point to the next."""
    values = np.diff([point.value for point in points])
    draws = np.diff(np.stack([point.draws for point in points]), axis=0)
    return Estimate(float(values.std()), draws.std(axis=0), points[0].n, {}, points[0].items)


def of_ablations(outcomes) -> list[Claim]:
    """Table 5."""
    def differences(a, b, names):
        found = {name: tables.difference(outcomes, paper.COLUMNS[name], a, b) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    def average(a, b, names):
        found = differences(a, b, names)
        where = 'Avg' if len(found) == len(paper.COLUMNS) else ', '.join(found)
        return {where: estimates.mean(list(found.values()))} if found else {}

    def points(a, b, names, kind):
        found = [paper.difference(a, b, name) for name in names]
        return f'{kind(found):+.1f}'

    def mean(values):
        return sum(values) / len(values)

    def printed(condition):
        return f'{paper.TABLE5_AVERAGE["full"] - paper.TABLE5_AVERAGE[condition]:+.1f}'

    every, but_mrpc = list(paper.COLUMNS), [name for name in paper.COLUMNS if not name.startswith('MRPC')]
    aux, scratch, lstm = differences('full', 'no_aux', HELPED), differences('full', 'no_pretraining', every), \
        differences('full', 'lstm', but_mrpc)
    over = ' over the columns that are there'
    return [
        *(Claim(f'The auxiliary objective helps on {name}.', points('full', 'no_aux', [name], min),
                {name: aux[name]} if name in aux else {}, 'full − no auxiliary LM') for name in HELPED),
        Claim('Larger sets gain from the auxiliary objective.', points('full', 'no_aux', paper.LARGE, mean),
              average('full', 'no_aux', paper.LARGE), f'full − no auxiliary LM, mean of {", ".join(paper.LARGE)}'),
        Claim('Smaller sets do not.', points('no_aux', 'full', paper.SMALL, mean),
              average('no_aux', 'full', paper.SMALL), f'no auxiliary LM − full, mean of {", ".join(paper.SMALL)}'),
        Claim('An LSTM in place of the Transformer is worse on average.', printed('lstm'),
              average('full', 'lstm', every), f'full − LSTM, mean{over}'),
        Claim('The LSTM is ahead on MRPC.', points('lstm', 'full', ['MRPC (F1)'], min),
              differences('lstm', 'full', ['MRPC (F1)']), 'LSTM − full'),
        Claim('... and nowhere else.', points('full', 'lstm', but_mrpc, min), lstm,
              'full − LSTM, every column but MRPC'),
        Claim('Without pretraining every task is worse.', points('full', 'no_pretraining', every, min), scratch,
              'full − no pretraining, every column'),
        Claim('... and on average.', printed('no_pretraining'),
              average('full', 'no_pretraining', every), f'full − no pretraining, mean{over}')]


if __name__ == '__main__':
    runs.command(run)
