"""ablation.statistics and the ledger's rules, against scipy, by hand, and by simulated searches."""

import numpy as np
import pytest
from scipy import special, stats

from gpt1_jax.ablation import ledger, statistics

LEAST = 0.005


def test_paired_differences_are_scipys():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 5))
    found = statistics.paired(a, b)
    expected = stats.ttest_rel(a, b)
    np.testing.assert_allclose((found.low, found.high), expected.confidence_interval(), rtol=1e-9)
    assert found.p == pytest.approx(stats.ttest_rel(a, b, alternative='less').pvalue)
    assert found.mean == pytest.approx(np.mean(a - b))
    assert found.sd == pytest.approx(np.std(a - b, ddof=1))
    assert statistics.quantile(5) == pytest.approx(2.776, abs=5e-4)  # of any table


def test_levels_are_those_of_the_paper_by_hand():
    """SAFFRON's formula for p-values one at a time: levels depend on candidates and rejections."""
    gamma = [j**-1.6 / special.zeta(1.6) for j in range(1, 10)]
    w0 = 0.9 * 0.05
    p_values = [0.3, 0.9, 1e-6, 0.8, 1e-6, 0.4]
    found = [level for (level,) in statistics.levels([[p] for p in p_values])]
    first = 0.05 - w0
    expected = [
        w0 * gamma[0],
        w0 * gamma[0],  # the test before is a candidate, which costs nothing
        w0 * gamma[1],
        w0 * gamma[1] + first * gamma[0],
        w0 * gamma[2] + first * gamma[1],
        w0 * gamma[2] + first * gamma[1] + 0.05 * gamma[0],
    ]
    assert found == pytest.approx([0.5 * level for level in expected])


def test_no_level_depends_on_its_own_batch():
    for p in (1e-9, 0.9):
        ((first, second), (third,)) = statistics.levels([[p, 0.2], [0.2]])
        assert second == pytest.approx(first / 2**1.6)
    assert statistics.levels([]) == []


@pytest.mark.parametrize(
    'values, said',
    [
        ([-0.1, -0.11, -0.1], 'better'),
        ([0.1, 0.11, 0.1], 'worse'),
        ([-0.0011, -0.0012, -0.001], 'no difference that matters'),
        ([0.0] * 3, 'no difference that matters: equal in each seed'),
        ([0.1, -0.05, 0.13], 'cannot tell; 13 seeds would'),
        ([1.0, -1.0001], 'nor would 1,000 seeds'),
        ([0.1], 'cannot tell from one seed'),
    ],
)
def test_a_verdict_for_every_interval(values, said):
    found = statistics.paired(values, [0.0] * len(values))
    assert said in ledger.verdict(found, LEAST)


# Searches


def trial(seed, loss, tokens_per_s=1000.0, **more):
    text = {'digest': 't', 'tokenizer': 'a'}
    bits = loss / 2
    curve = [(50, loss + 0.1, bits + 0.05), (100, loss, bits)]
    return {
        'key': f'{seed}/{loss}',
        'seed': seed,
        'loss': loss,
        'bits_per_byte': bits,
        'text': text,
        'curve': curve,
        'updates': 100,
        'tokens': 100_000,
        'tokens_per_s': tokens_per_s,
    } | more


# Simulated searches: agents that confirm ideas that change nothing, and act on what is believed

NOISE = 0.015  # nats, of a trial
SEEDS = 7


def p_of(generator, effects, baseline=None):
    """The p-values of confirmations on fresh seeds, whose ideas share their baseline's trials."""
    baseline = generator.normal(3, NOISE, SEEDS) if baseline is None else baseline
    found = []
    for effect in effects:
        losses = 3 + effect + generator.normal(0, NOISE, SEEDS)
        difference = statistics.paired(losses, baseline)
        found.append(1.0 if difference.within(LEAST) else difference.p)
    return found


def rejections(batches):
    levels = statistics.levels(batches)
    return [[p <= level for p, level in zip(*pair)] for pair in zip(batches, levels)]


def one_at_a_time(generator, effects=(0.0,) * 60):
    """Adopts what is believed at once, and goes on; also with the best under other names."""
    return rejections([p_of(generator, [effect]) for effect in effects])


def all_together(generator):
    """A screen's ideas in one confirmation."""
    return rejections([p_of(generator, [0.0] * 30)])


def stops_at_the_first(generator):
    """Other seeds, or another small change, until one is believed."""
    found = one_at_a_time(generator)
    return [[any(map(any, found))]]


@pytest.mark.parametrize('agent', [one_at_a_time, all_together, stops_at_the_first])
def test_one_in_twenty_of_the_believed_is_false_whatever_the_agent_does(agent):
    """All ideas change nothing, so each belief is false."""
    generator = np.random.default_rng(7)
    false = [any(map(any, agent(generator))) for _ in range(300)]
    share = np.mean(false)
    assert share <= ledger.SHARE + 2 * np.sqrt(ledger.SHARE / len(false))


def test_useful_ideas_are_believed_and_one_in_twenty_of_the_believed_is_false():
    """Forty ideas one at a time, half of which bring 0.03 nats, at noise of 0.015 a trial."""
    generator = np.random.default_rng(8)
    shares = []
    power = []
    for _ in range(150):
        useful = generator.permutation(np.arange(40) % 2).astype(bool)
        found = np.ravel(one_at_a_time(generator, np.where(useful, -0.03, 0.0)))
        shares.append((found & ~useful).sum() / max(1, found.sum()))
        power.append(found[useful].mean())
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) <= ledger.SHARE + 2 * error
    assert np.mean(power) > 0.6


def planned(key, *p_values):
    """The lines of a confirmation of several ideas. None: not finished."""
    names = [f'{key}{number}' for number in range(len(p_values))]
    plan = {'stage': 'planned', 'key': key, 'ideas': dict.fromkeys(names)}
    rows = [
        {'stage': 'confirm', 'key': name, 'idea': name, 'planned': key, 'p': p}
        for name, p in zip(names, p_values)
        if p is not None
    ]
    return [plan, *rows]


def test_every_confirmation_that_was_begun_counts_and_what_is_believed_stays_so():
    assert ledger.believed(planned('a', 0.009)) == {'a0'}
    assert ledger.believed(planned('b', 0.9) + planned('a', 0.009)) == set()
    assert ledger.believed(planned('b', None) + planned('a', 0.009)) == set()
    assert ledger.believed(planned('a', 0.009) + planned('b', 0.9, 0.9, 0.9)) == {'a0'}
    assert len(ledger.tests(planned('a', 0.009) + planned('b', 0.9, None))) == 3


@pytest.mark.parametrize(
    'differences, expected',
    [([-0.01, -0.02], True), ([-0.03, 0.001], False), ([-0.004, -0.004], False), (None, False)],
)
def test_what_looks_better(differences, expected):
    assert ledger.looks_better({'differences': differences, 'least': LEAST}) == expected


def test_the_best_of_a_screen_is_confirmed_first():
    rows = [
        {
            'stage': 'screen',
            'idea': name,
            'baseline': 'base',
            'changes': {'field': name},
            'code': {},
            'differences': differences,
            'least': LEAST,
        }
        for name, differences in [('some', [-0.02]), ('most', [-0.05]), ('worse', [0.01])]
    ]
    assert list(ledger.to_confirm(rows, 'base')) == ['most', 'some']


class Named:
    """Enough of an Idea for a row of the ledger."""

    changes = {}
    code = {}

    def __init__(self, name):
        self.name = name
        self.config = type('Config', (), {})()
        self.config.train = type('Train', (), {'steps': 100})()


def compared(pairs):
    return ledger.row_of('screen', Named('a'), pairs, 'base', LEAST, None)


@pytest.mark.parametrize(
    'loss, speeds, baseline, speed, equal_time',
    [
        # Half as fast: the baseline's curve goes on from (50, 3.1), (100, 3.0) to 2.9 at 200
        (2.95, (500.0, 450.0), (1000.0, 900.0), 0.5, 2.95 - 2.9),
        (3.05, (2000.0, 2000.0), (1000.0, 1000.0), 2, 3.05 - 3.1),  # the baseline after 50
        (3.05, (1020.0, 1020.0), (1000.0, 1000.0), 1.02, None),
        # The times of the idea differ, or those of the two overlap: the machine may be the reason
        (3.05, (2000.0, 1500.0), (1000.0, 1000.0), 2, None),
        (3.05, (1150.0, 1000.0), (1000.0, 1050.0), 1150 / 1050, None),
    ],
)
def test_an_idea_of_another_speed_is_compared_at_equal_time_by_hand(
    loss, speeds, baseline, speed, equal_time
):
    """The slower trial of each side does not count."""
    found = compared(
        [
            (trial(seed, loss, tokens_per_s=ours), trial(seed, 3.0, tokens_per_s=theirs))
            for seed, ours, theirs in zip((0, 1), speeds, baseline)
        ]
    )
    assert found['speed'] == pytest.approx(speed)
    assert found['equal_time'] == (equal_time and pytest.approx(equal_time))


def test_other_tokenizers_are_compared_in_bits_and_other_texts_not_at_all():
    other = {'digest': 't', 'tokenizer': 'b'}
    pairs = [(trial(i, 2.9 + i / 100, text=other), trial(i, 3.0)) for i in (0, 1)]
    found = compared(pairs)
    assert found['nats'] is None and found['least'] == pytest.approx(LEAST / 2)
    assert found['differences'] == pytest.approx([-0.05, -0.045])
    pairs = [(trial(i, 2.9, text={'digest': 'u', 'tokenizer': 'a'}), trial(i, 3.0)) for i in (0, 1)]
    assert compared(pairs)['differences'] is None and compared(pairs)['p'] is None
    assert 'another validation text' in compared(pairs)['verdict']


@pytest.mark.parametrize(
    'losses, warning, said',
    [
        ([2.8, 2.81, 2.79, 4.0], None, 'cannot tell: seed 3 diverged'),
        ([2.8, 2.81, 2.79, 2.8], 'too short', 'cannot tell: the trials are too short'),
        ([2.8, 2.81, 2.79, 2.8], None, 'better'),
    ],
)
def test_what_a_t_test_must_not_decide_is_not_believed(losses, warning, said):
    pairs = [(trial(i, loss), trial(i, 3.0)) for i, loss in enumerate(losses)]
    found = ledger.row_of('confirm', Named('a'), pairs, 'base', LEAST, warning)
    assert found['verdict'] == said
    assert (found['p'] == 1.0) == (said != 'better')


def test_a_gain_of_more_than_a_nat_has_a_warning():
    pairs = [(trial(i, 1.8 + i / 100), trial(i, 3.0)) for i in range(3)]
    assert 'more than any honest idea' in compared(pairs)['verdict']
