"""experiments.claims: verdicts on what the paper concludes, of figures worked out by hand."""
import numpy as np
import pytest

from experiments import claims
from experiments.lib import bootstrap
from experiments.lib.runner import Outcome, RunSpec
from outcomes import HARD, Made
from tiny import predictions

pytestmark = pytest.mark.full


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / 'runs')


def estimate(value, low, high, seeds=()):
    draws = np.linspace(low, high, 2001)
    return bootstrap.Estimate(value, draws, 10, {i: (one, draws) for i, one in enumerate(seeds or (value, value))}, 'x')


def claim(*found, wanted=None, **fields):
    return claims.Claim('', '', dict(enumerate(found)), '', wanted or len(found), **fields)


@pytest.mark.parametrize('measured, expected', [
    ([(.1, .01, .2)], claims.HOLDS), ([(-.1, -.2, -.01)], claims.FAILS), ([(.1, -.1, .2)], claims.UNDECIDED),
    ([(.1, .01, .2), (.1, .01, .2)], claims.HOLDS), ([(.1, .01, .2), (.1, -.1, .2)], claims.UNDECIDED),
    ([(.1, .01, .2), (-.1, -.2, -.01)], claims.FAILS), ([], 'n/a')])
def test_a_verdict_is_read_off_the_intervals(measured, expected):
    assert claims.verdict(claim(*(estimate(*one) for one in measured))) == expected


def test_a_verdict_needs_every_seed_to_agree_and_names_a_single_one():
    assert claims.verdict(claim(estimate(.1, .01, .2, (.2, -.01)))) == claims.UNDECIDED
    assert claims.verdict(claim(estimate(-.1, -.2, -.01, (-.2, .01)))) == claims.UNDECIDED
    assert claims.verdict(claim(estimate(.1, .01, .2, (.1,)))) == 'holds (1 seed)'


def test_a_claim_about_every_difference_is_open_while_one_is_missing():
    assert claims.verdict(claim(estimate(.1, .01, .2), wanted=3)) == 'undecided (1 of 3 there)'
    assert claims.verdict(claim(estimate(-.1, -.2, -.01), wanted=3)) == 'does not hold (1 of 3 there)'
    assert claims.verdict(claim(estimate(.1, .01, .2), described=True)) == 'undecided (described only)'


def test_a_slope_is_over_the_logarithm_of_the_updates():
    points = {10: estimate(.5, .5, .5), 100: estimate(.6, .6, .6), 1000: estimate(.7, .7, .7)}
    one = claims.slope(points)
    assert one.value == pytest.approx(.1) and one.interval() == pytest.approx((.1, .1))
    flat = claims.slope({step: estimate(.516, .4, .6) for step in (50, 100, 200, 400, 800, 1600, 3000)})
    assert flat.value == 0 and claims.verdict(claim(flat)) == claims.UNDECIDED


def test_many_differences_need_bonferronis_level_to_fail():
    draws = np.concatenate([np.full(1980, -.1), np.full(20, .1)])  # 1% above 0
    one = bootstrap.Estimate(-.1, draws, 10, {0: (-.1, draws), 1: (-.1, draws)}, 'x')
    assert claims.verdict(claim(one)) == claims.FAILS
    assert claims.verdict(claim(one, *[estimate(.1, .01, .2)] * 8)) == claims.UNDECIDED


def zero_shot(made, task, metric, condition, curve):
    rows = []
    for step, right in curve.items():
        path = made.directory / f'zs-{task}-{condition}-{step}.jsonl'
        rows.append({'kind': 'zero_shot', 'task': task, 'split': 'dev', 'group': None, 'n': HARD, 'metric': metric,
                     'value': right / HARD, 'step': step, 'predictions': predictions(path, right, HARD)})
    made.outcomes.append(Outcome(RunSpec(f'{task}-{condition}', task, condition, 0, 'zero_shot', None, ('dev',)),
                                 'ran', tuple(rows)))


def test_claims_are_listed_with_difference_interval_and_verdict(made):
    layers = {-1: 'no_pretraining', 0: 'layers_0', 1: 'layers_1', 2: 'full'}
    for seed in (0, 1):
        for n, right in ((-1, 400), (0, 500), (1, 600), (2, 600)):
            made.add('mnli', layers[n], seed, right, n=HARD)
        made.add('mnli', 'no_aux', seed, 650, n=HARD)
    made.add('sst2', 'full', 0, 900, n=HARD)  # fine-tuned: no point of a zero-shot curve
    zero_shot(made, 'sst2', 'accuracy', 'full', {10: 500, 100: 550, 1000: 600})
    zero_shot(made, 'sst2', 'accuracy', 'lstm', {10: 500, 100: 700, 1000: 500})
    found = {line.split(' | ')[0][2:]: line.split(' | ') for line in claims.lines(made.outcomes, layers, ['a note'])
             if line.startswith('| ')}

    def cells(start):
        (line,) = [line for name, line in found.items() if name.startswith(start)]
        return line[3], line[-1].rstrip(' |')
    assert cells('Transferring the embeddings alone is better than transferring nothing (MultiN') == ('+10.0', 'holds')
    assert cells('Each further layer that is transferred adds something (MultiNLI') == ('+0.0 (2 − 1)', 'undecided')
    assert cells('All layers together bring much more than the embeddings alone (MultiNLI') == ('+10.0', 'holds')
    assert cells('Transferring the embeddings alone is better than transferring nothing (RACE') == ('n/a', 'n/a')
    assert cells('The longer the pretraining, the better without fine-tuning (SST-2') == ('+5.0', 'holds (1 seed)')
    assert cells("The LSTM's scores without fine-tuning vary more") == (  # sd of 20, -20: 20; of 5, 5: 0
        '+20.0', 'undecided (described only)')
    assert cells('The auxiliary objective helps on MNLI') == ('-5.0', 'does not hold')
    assert cells('Without pretraining every task is worse') == ('+20.0', 'undecided (1 of 8 there)')
    assert cells('... and on average') == ('+20.0', 'holds')
    assert cells('The LSTM is ahead on MRPC') == ('n/a', 'n/a')
    (line,) = [line for name, line in found.items() if name.startswith('... and on average')]
    assert line[1:3] == ['+6.1', 'full − no pretraining, mean of MNLI (acc)']  # the paper's over the same column
    assert line[5:10] == ['+20.0 to +20.0', '2', '1,000', 'dev', 'final']


def test_the_papers_side_of_a_claim_is_its_table_5():
    told = {claim.text: claim.paper for claim in claims.of_ablations([])}
    assert told['An LSTM in place of the Transformer is worse on average.'] == '+5.6'
    assert told['... and on average.'] == '+14.8' and told['The LSTM is ahead on MRPC.'] == '+0.9'
    assert told['Without pretraining every task is worse.'] == '+2.2'  # RTE, the smallest
    assert told['The auxiliary objective helps on QQP (F1).'] == '+0.5'
