"""ablation.statistics and the ledger's rules, against scipy, by hand, and by simulated searches."""

import numpy as np
import pytest
from scipy import stats

from gpt1_jax.ablation import ledger, statistics

LEAST = 0.005


def test_paired_differences_are_scipys_and_the_table_of_students_t():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 5))
    found = statistics.paired(a, b)
    expected = stats.ttest_rel(a, b)
    np.testing.assert_allclose((found.low, found.high), expected.confidence_interval(), rtol=1e-9)
    assert found.p == pytest.approx(stats.ttest_rel(a, b, alternative='less').pvalue)
    several_looks = statistics.paired(a - 1, b, looks=3).p
    assert several_looks == pytest.approx(3 * stats.ttest_rel(a - 1, b, alternative='less').pvalue)
    assert found.mean == pytest.approx(np.mean(a - b))
    assert found.sd == pytest.approx(np.std(a - b, ddof=1))
    # Of any table, with n - 1 degrees of freedom
    for n, value in ((2, 12.706), (3, 4.303), (5, 2.776), (31, 2.042)):
        assert statistics.quantile(n) == pytest.approx(value, abs=5e-4)


def test_intervals_of_a_search_that_stops_early_hold_together():
    """Seeds are added until the interval is narrow, at most 7 times: under no difference at most 5%
    exclude zero."""
    generator = np.random.default_rng(1)
    wrong = 0
    for _ in range(1000):
        differences = generator.normal(size=10)
        for n in range(3, 11):
            found = statistics.paired(differences[:n], np.zeros(n), looks=8)
            if found.high - found.low < 4:
                break
        wrong += found.excludes_zero
    assert 0 < wrong <= 50


def test_what_is_believed_is_scipys_false_discovery_control():
    generator = np.random.default_rng(2)
    assert statistics.believed([]) == []
    for n in (1, 2, 7, 60):
        p_values = generator.uniform(size=n) ** 4
        expected = stats.false_discovery_control(p_values, method='bh') <= 0.05
        assert statistics.believed(p_values) == list(expected)


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
    text = {'bytes': 100, 'tokenizer': 'a'}
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


def row(stage, name, effect, spread, seeds, generator, baseline):
    """A row of the ledger for an idea with a known effect. `spread`: of a trial's loss."""
    losses = baseline + effect + generator.normal(0, spread, len(seeds))
    found = statistics.paired(losses, baseline)
    return {
        'key': f'{stage} {name}',
        'stage': stage,
        'idea': name,
        'least': LEAST,
        'differences': list(losses - baseline),
        'p': 1.0 if found.within(LEAST) else found.p,
    }


@pytest.mark.parametrize('useful', [0, 6])
def test_of_simulated_searches_one_winner_in_twenty_is_false(useful):
    """Sixty ideas, some useful. All share the baseline's trials, so their errors are dependent."""
    generator = np.random.default_rng(useful)
    shares = []
    true = []
    ratchet = []  # how many useless ideas are lower with their first seed
    for _ in range(400):
        effects = np.where(np.arange(60) < useful, -0.12, 0.0)
        spreads = generator.choice([0.01, 0.05], 60)
        rows = []
        baseline = generator.normal(3, 0.05, 2)
        for i in range(60):
            rows.append(row('screen', i, effects[i], spreads[i], (0, 1), generator, baseline))
        ratchet.append(sum(rows[i]['differences'][0] < 0 for i in range(useful, 60)))
        baseline = generator.normal(3, 0.05, 5)
        for screened in rows[:]:
            if ledger.looks_better(screened):
                i = screened['idea']
                rows.append(
                    row('confirm', i, effects[i], spreads[i], range(5), generator, baseline)
                )
        winners = [key.split()[1] for key in ledger.believed(rows)]
        false = sum(int(i) >= useful for i in winners)
        shares.append(false / max(1, len(winners)))
        true.append(len(winners) - false)
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) <= ledger.SHARE + 2 * error
    assert np.mean(true) >= 0.8 * useful
    assert np.mean(ratchet) == pytest.approx((60 - useful) / 2, rel=0.1)


def test_every_confirmation_of_the_ledger_counts():
    """An idea that is confirmed again after an edit pays for it, and failures do not count."""
    rows = [{'stage': 'confirm', 'key': str(i), 'p': p} for i, p in enumerate((0.02, 0.9, None))]
    assert ledger.believed(rows) == {'0'}
    rows.append({'stage': 'confirm', 'key': '3', 'p': 0.9})
    assert ledger.believed(rows) == set()  # 0.05 / 3 < 0.02


@pytest.mark.parametrize(
    'differences, expected',
    [([-0.01, -0.02], True), ([-0.03, 0.001], False), ([-0.004, -0.004], False), (None, False)],
)
def test_what_looks_better(differences, expected):
    assert ledger.looks_better({'differences': differences, 'least': LEAST}) == expected


class Named:
    """Enough of an Idea for a row of the ledger."""

    changes = {}
    code = {}

    def __init__(self, name):
        self.name = name
        self.config = type('Config', (), {})()
        self.config.train = type('Train', (), {'steps': 100})()


def compared(pairs):
    return ledger.row_of('screen', Named('a'), Named('b'), pairs, 'base', 1, LEAST)


def test_an_idea_of_another_speed_is_compared_at_equal_time_by_hand():
    """Half as fast: the baseline's curve goes on from (50, 3.1), (100, 3.0) to 2.9 at 200. Twice as
    fast: the baseline is at 3.1 after 50. The slower trial of each side does not count."""
    slow = [
        (trial(0, 2.95, tokens_per_s=500.0), trial(0, 3.0)),
        (trial(1, 2.97, tokens_per_s=450.0), trial(1, 3.0, tokens_per_s=900.0)),
    ]
    found = compared(slow)
    assert found['speed'] == pytest.approx(0.5)
    assert found['equal_time'] == pytest.approx((2.95 + 2.97) / 2 - 2.9)
    fast = [(trial(i, 3.05, tokens_per_s=2000.0), trial(i, 3.0)) for i in (0, 1)]
    assert compared(fast)['equal_time'] == pytest.approx(3.05 - 3.1)
    same = [(trial(i, 3.05, tokens_per_s=1020.0), trial(i, 3.0)) for i in (0, 1)]
    assert compared(same)['equal_time'] is None
    # The times of the idea differ, or those of the two overlap: the machine may be the reason
    fast[1] = (trial(1, 3.05, tokens_per_s=1500.0), trial(1, 3.0))
    assert compared(fast)['speed'] == 2 and compared(fast)['equal_time'] is None
    close = [
        (trial(0, 3.05, tokens_per_s=1150.0), trial(0, 3.0)),
        (trial(1, 3.05, tokens_per_s=1000.0), trial(1, 3.0, tokens_per_s=1050.0)),
    ]
    assert compared(close)['speed'] > 1.05 and compared(close)['equal_time'] is None


def test_other_tokenizers_are_compared_in_bits_and_other_texts_not_at_all():
    other = {'bytes': 100, 'tokenizer': 'b'}
    pairs = [(trial(i, 2.9 + i / 100, text=other), trial(i, 3.0)) for i in (0, 1)]
    found = compared(pairs)
    assert found['nats'] is None and found['least'] == pytest.approx(LEAST / 2)
    assert found['differences'] == pytest.approx([-0.05, -0.045])
    pairs = [(trial(i, 2.9, text={'bytes': 99, 'tokenizer': 'a'}), trial(i, 3.0)) for i in (0, 1)]
    assert compared(pairs)['differences'] is None and compared(pairs)['p'] is None
    assert 'another validation text' in compared(pairs)['verdict']
