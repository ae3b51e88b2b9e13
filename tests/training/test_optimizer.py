import jax
import jax.numpy as jnp
import numpy as np
import optax
import paper_in_one_page as page
import pytest

from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.training import optimizer, optimizer_config
from meshes import shapes

# A tree with every kind of leaf; biases and gains of the blocks are stacked over two layers. The
# gradients of one leaf are so small that epsilon counts, and those of the first updates so large
# that they are clipped.
SHAPES = {
    'backbone': {
        'embed': {'tokens': (5, 4), 'specials': (3, 4), 'positions': (2, 4)},
        'blocks': {
            'ln_1': {'scale': (2, 4), 'bias': (2, 4)},
            'fc': {'kernel': (2, 4, 3), 'bias': (2, 3)},
        },
    },
    'classifier': {'kernel': (4, 2), 'bias': (2,)},
}


def draw(seed, scale=1.0):
    generator = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: (generator.normal(size=shape) * scale).astype(np.float32),
        SHAPES,
        is_leaf=lambda x: isinstance(x, tuple),
    )


def gradients(t):
    tree = draw(100 + t, 3.0 if t < 5 else 0.05)
    tree['backbone']['embed']['positions'] *= np.float32(1e-6)
    return tree


def on_the_page(params, schedule, peak, warmup, total, updates):
    """The parameters after some updates by tests/paper_in_one_page.py."""
    moments = (jax.tree.map(np.zeros_like, params),) * 2
    update = jax.jit(page.adam)
    for t in range(updates):
        rate = page.rate(t, peak, warmup, total)
        if schedule == 'linear':
            rate = peak * min(t / warmup, 1) * (1 - t / total)
        params, moments = update(params, moments, gradients(t), t, rate)
    return params


@pytest.mark.parametrize('schedule', ['cosine', 'linear'])
def test_the_first_50_updates_equal_the_released_formula(schedule):
    peak = 0.3
    warmup = 7
    total = 60
    params = draw(0)
    expected = named_leaves(on_the_page(params, schedule, peak, warmup, total, 50))
    squares = [[np.sum(leaf**2) for leaf in jax.tree.leaves(gradients(t))] for t in range(50)]
    norms = [sum(one) ** 0.5 for one in squares]
    assert max(norms[5:]) < 1 < min(norms[:5])  # some updates are clipped, some are not
    adam = optimizer.adam()
    rate = getattr(optimizer, f'warmup_{schedule}')(peak, warmup, total)

    @jax.jit
    def update(params, state, grads, step):
        updates, state = adam.update(grads, state, params, learning_rate=rate(step))
        return optax.apply_updates(params, updates), state

    found = params
    state = adam.init(params)
    for t in range(50):
        found, state = update(found, state, gradients(t), t)
    for name, leaf in named_leaves(found).items():
        moved = np.abs(expected[name] - named_leaves(params)[name]).max()
        assert moved > 0.05, name
        # float32: 1 - 0.999^t alone is off by up to 3e-5 of itself in the first updates.
        np.testing.assert_allclose(leaf, expected[name], atol=1e-5 * moved, rtol=1e-5, err_msg=name)


def test_decay_touches_weights_and_embeddings_but_no_bias_and_no_gain_of_the_stacked_model():
    config = GPTConfig(vocab_size=5, n_special=3, n_ctx=4, n_embd=4, n_layer=2, n_head=2, n_inner=3)
    model = TaskModel(GPT(config), 'choice', 1)
    params = jax.tree.map(lambda x: jnp.ones(x.shape), shapes(model, 2))
    adam = optimizer.adam()
    zero = jax.tree.map(jnp.zeros_like, params)
    updates, _ = jax.jit(adam.update)(zero, adam.init(params), params, learning_rate=1.0)
    decayed = {name for name, update in named_leaves(updates).items() if update.any()}
    assert decayed == {
        'backbone/embed/tokens',
        'backbone/embed/specials',
        'backbone/embed/positions',
        'backbone/blocks/attn/qkv/kernel',
        'backbone/blocks/attn/out/kernel',
        'backbone/blocks/mlp/fc/kernel',
        'backbone/blocks/mlp/proj/kernel',
        'classifier/kernel',
    }
    # Which the released rule, rank above 1, would decay.
    assert params['backbone']['blocks']['attn']['qkv']['bias'].ndim == 4


@pytest.mark.parametrize(
    'name, rates',
    [
        (
            'cosine',
            {0: 0.0, 1: 0.5, 2: 1.0, 3: 0.79389263, 5: 0.5, 9: 0.02447174, 10: 0.0, 12: 0.0},
        ),
        ('linear', {0: 0.0, 1: 0.45, 2: 0.8, 3: 0.7, 5: 0.5, 9: 0.1, 10: 0.0, 12: 0.0}),
        ('constant', {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.0, 10: 1.0, 12: 1.0}),
        (
            'stable_decay',
            {0: 0.0, 1: 0.5, 2: 1.0, 6: 1.0, 7: 0.75, 8: 0.5, 9: 0.25, 10: 0.0, 12: 0.0},
        ),
    ],
)
def test_schedules_by_hand(name, rates):
    """Two of ten updates of warm-up. The cosine is that of the whole run, so it starts below the
    peak; stable_decay falls over the last four."""
    schedule = optimizer_config.schedule(name)
    hyper = {'peak': 4.0, 'warmup': 2, 'total': 10, 'decay': 4}
    assert {step: float(schedule(hyper, step)) / 4 for step in rates} == pytest.approx(
        rates, rel=1e-6, abs=1e-7
    )
