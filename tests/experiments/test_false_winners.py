"""experiments.false_winners: what each rule keeps, counted by hand, and ideas that change nothing."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments import false_winners
from experiments.ideas import nothing
from gpt1_jax.models import ops


def row(stage, idea, differences, p=None):
    seeds = [1000 * (stage == 'confirm') + i for i in range(len(differences))]
    return {
        'key': f'{stage} {idea} {len(seeds)}',
        'stage': stage,
        'idea': idea,
        'baseline': 'x',
        'planned': 'plan',
        'least': 0.005,
        'p': p,
        'differences': differences,
        'seeds': seeds,
        'runs': [[f'{idea} {seed}', f'baseline {seed}'] for seed in seeds],
    }


def test_what_each_rule_keeps_by_hand():
    rows = [
        row('screen', 'width 96', [-0.1, -0.2]),
        row('screen', 'another seed 1', [-0.1, -0.01]),
        row('screen', 'half the batch', [0.1, 0.1]),
        {'stage': 'planned', 'key': 'plan', 'ideas': {'width 96': {}, 'another seed 1': {}}},
        row('confirm', 'width 96', [-0.1, -0.12, -0.11], 0.0001),
        row('confirm', 'another seed 1', [-0.1, 0.1, 0.05], 0.6),
        row('screen', 'width 96', [-0.1, -0.2, -0.1]),
        row('screen', 'another seed 1', [-0.1, -0.01, 0.2]),
        row('screen', 'half the batch', [0.1, 0.1, -0.4]),
    ]
    found = false_winners.count(rows)
    kept = {
        rule: [point['idea'] for point in counted['ideas'] if point['kept']]
        for rule, counted in found['rules'].items()
    }
    assert kept == {
        'one run': ['width 96', 'another seed 1'],
        'mean': ['width 96', 'half the batch'],
        'confirmed': ['width 96'],
    }
    trials = {rule: counted['trials'] for rule, counted in found['rules'].items()}
    # Four runs of each seed; a confirmation's nine are twice as long
    assert trials == {'one run': 4, 'mean': 12, 'confirmed': 8 + 2 * 9}
    table = false_winners.lines(found)
    assert table[2:5] == [
        '| lower in one run | 4 | 2 | 1 of 6 | 1 | 1 |',
        '| lower in the mean of 3 runs | 12 | 2 | 1 of 6 | 1 | 1 |',
        '| screened with two runs, then confirmed on fresh seeds | 26 | 1 | 1 of 6 | 0 | 0 |',
    ]


def test_sixty_ideas_change_nothing_but_the_rounding():
    names = nothing.nothings()
    assert len(names) == 60 and len({*names.values()}) == 60
    key = jax.random.key(0)
    x = jax.random.normal(key, (2, 3, 4, 16))
    kernel = jax.random.normal(key, (4, 16, 8))
    bias = jnp.ones(8)
    exact = ops.dense(x, kernel, bias)
    for k in (2, 16):
        found = getattr(nothing, f'dense_{k}')(x, kernel, bias)
        assert (found != exact).any()
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
        gelu = jax.jit(getattr(nothing, f'gelu_{k}'))(x)
        assert (gelu != jax.jit(ops.gelu)(x)).any()
        np.testing.assert_allclose(gelu, ops.gelu(x), atol=1e-5)
