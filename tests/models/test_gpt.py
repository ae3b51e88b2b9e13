import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from backbones import KEY, MODELS, TOKENS, states, weights
from gpt1_jax.errors import UserError
from gpt1_jax.models.gpt import GPT, Embedding, GPTConfig
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.training import losses
from meshes import shapes

SMALL = MODELS['gpt']


def test_a_seed_gives_the_initial_weights_that_it_has_always_given():
    config = GPTConfig(vocab_size=31, n_ctx=8, n_embd=8, n_layer=2, n_head=2, n_inner=16)
    params = GPT(config).init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    first = {
        name: float(leaf.ravel()[0])
        for name, leaf in named_leaves(params).items()
        if leaf.any() and leaf.ravel()[0] != 1
    }
    assert first == pytest.approx(
        {
            'blocks/attn/out/kernel': 0.02086024172604084,
            'blocks/attn/qkv/kernel': -0.01664740778505802,
            'blocks/mlp/fc/kernel': -0.0032972795888781548,
            'blocks/mlp/proj/kernel': 0.017729293555021286,
            'embed/positions': 0.00830653216689825,
            'embed/tokens': -0.012522655539214611,
        },
        rel=1e-6,
    )


def test_every_default_is_the_paper_s():
    assert dataclasses.asdict(GPTConfig()) == {
        'vocab_size': 40478,
        'n_special': 0,
        'n_ctx': 512,
        'n_embd': 768,
        'n_layer': 12,
        'n_head': 12,
        'n_inner': 3072,
        'embd_dropout': 0.1,
        'attn_dropout': 0.1,
        'resid_dropout': 0.1,
        'dtype': 'float32',
        'remat': False,
        'unroll': 0,
        'kernels': 'auto',
        'precision': 'highest',
        'ops': (),
    }


@pytest.mark.parametrize('n_special', [0, 3])
def test_parameters_are_the_146_released_tensors_stacked_over_layers(n_special):
    tree = shapes(GPT(GPTConfig(n_special=n_special)))
    assert (
        sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(tree)) == 116_534_784 + n_special * 768
    )
    assert {name: leaf.shape for name, leaf in tree['embed'].items() if name != 'specials'} == {
        'tokens': (40478, 768),
        'positions': (512, 768),
    }
    assert all(leaf.shape[0] == 12 for leaf in jax.tree.leaves(tree['blocks']))
    assert 2 + 12 * len(jax.tree.leaves(tree['blocks'])) == 146


def test_positions_that_follow_a_kv_cache_are_added_as_without_one():
    embedding = Embedding(dataclasses.replace(SMALL.config, dtype='bfloat16'))
    params = weights(SMALL)['embed']
    cache = {'length': jnp.zeros((1, len(TOKENS)), jnp.int32)}
    (cached, _), _ = embedding.apply(
        {'params': params, 'cache': cache}, TOKENS, None, mutable='cache'
    )
    plain, _ = embedding.apply({'params': params}, TOKENS, None)
    np.testing.assert_array_equal(*(np.asarray(x, np.float32) for x in (cached, plain)))


@pytest.mark.parametrize(
    'values',
    [
        {'n_layer': 0},
        {'n_ctx': -4},
        {'vocab_size': 2.5},
        {'n_inner': '64'},
        {'unroll': -1},
        {'n_special': -1},
        {'attn_dropout': 1.0},
        {'embd_dropout': -0.1},
        {'resid_dropout': float('nan')},
        {'dtype': 'float16'},
        {'n_head': 7},
        {'remat': 'no'},
        {'kernels': 'cudnn'},
        {'precision': 'float32'},
        {'n_embd': 1 << 17, 'n_head': 1},
    ],
    ids=str,
)
def test_a_bad_configuration_names_the_field(values):
    with pytest.raises(UserError, match=rf'model\.{next(iter(values))}\b'):
        GPTConfig(**values)


def test_initial_weights_are_normal_with_deviation_002_and_biases_zero_and_gains_one():
    config = GPTConfig(
        vocab_size=3000, n_special=3, n_ctx=64, n_embd=64, n_layer=4, n_head=4, n_inner=256
    )
    tree = jax.jit(GPT(config).init)(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = path[-1].key
        leaf = np.asarray(leaf)
        if name == 'bias':
            assert not leaf.any(), path
        elif name == 'scale':
            assert (leaf == 1).all(), path
        else:
            n = leaf.size
            assert abs(leaf.mean()) < 5 * 0.02 / np.sqrt(n), path
            assert abs(leaf.std() / 0.02 - 1) < 5 / np.sqrt(2 * n), path
            assert np.abs(leaf).max() > 0.05 or n < 1000, path  # not cut at two deviations


def test_default_epsilon_of_layer_norm_is_1e_5():
    """With small weights the variance is of epsilon's order: 1e-6 or a corrected variance would be
    seen."""
    small = jax.tree.map(lambda x: x * np.float32(0.01), weights(SMALL, seed=2))
    small['blocks']['ln_1']['scale'] = small['blocks']['ln_2']['scale'] = np.ones(
        (3, 16), np.float32
    )
    np.testing.assert_allclose(states(SMALL, small), reference.gpt(small, TOKENS)[0], atol=2e-5)


def test_the_step_s_one_dropped_matrix_serves_tokens_positions_and_the_output_layer():
    embed = weights(SMALL)['embed']
    config = dataclasses.replace(SMALL.config, embd_dropout=0.5)
    x, table = Embedding(config).apply({'params': embed}, TOKENS, KEY)
    whole = np.concatenate([embed[name] for name in ('tokens', 'specials', 'positions')])
    mask = reference.keep((5, 700, 0, 0), whole.shape, 0.5)
    rows = np.where(mask, whole * 2, 0)
    # The rows that the output layer multiplies
    np.testing.assert_array_equal(table, rows)
    # The rows that were looked up, and their positions
    np.testing.assert_array_equal(x, rows[TOKENS] + rows[26 : 26 + 7][None])
    # Token 3 stands twice in the second row: the very same row of the matrix both times.
    twice = np.asarray(x)[1, 1:3] - rows[26 + 1 : 26 + 3]
    np.testing.assert_allclose(twice[0], twice[1], atol=1e-6)
    assert 0.3 < mask.mean() < 0.7


@pytest.mark.full
@pytest.mark.parametrize(
    'sizes, scale',
    [
        (dict(vocab_size=97, n_ctx=32, n_embd=48, n_layer=3, n_head=4, n_inner=192), 0.1),
        (dict(n_layer=2), 0.02),  # the paper's width, vocabulary, context and initial deviation
    ],
    ids=['small', 'full width'],
)
def test_logits_and_gradients_equal_those_of_hugging_face(sizes, scale):
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    config = GPTConfig(**sizes)
    generator = np.random.default_rng(3)
    B, L = (3, 33) if config.n_ctx == 32 else (2, 49)
    ids = generator.integers(0, config.vocab_size, (B, L)).astype(np.int32)
    ids[:, 1] = config.vocab_size - 1
    params = reference.random_like(shapes(GPT(config)), seed=4, scale=scale)

    model = transformers.OpenAIGPTLMHeadModel(
        transformers.OpenAIGPTConfig(
            vocab_size=config.vocab_size,
            n_positions=config.n_ctx,
            n_embd=config.n_embd,
            n_layer=config.n_layer,
            n_head=config.n_head,
            attn_implementation='eager',
        )
    ).eval()
    assert model.config.layer_norm_epsilon == 1e-5 and model.config.afn == 'gelu'
    state = {
        name: torch.from_numpy(array.copy())
        for name, array in reference.hugging_face(params).items()
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {'lm_head.weight'} and not unexpected  # the head is tied
    theirs = model(input_ids=torch.from_numpy(ids[:, :-1]).long()).logits
    loss = torch.nn.functional.cross_entropy(
        theirs.reshape(-1, config.vocab_size), torch.from_numpy(ids[:, 1:]).long().reshape(-1)
    )
    loss.backward()

    def our_loss(params):
        hidden, table = GPT(config).apply({'params': params}, ids[:, :-1])
        logits = GPT(config).logits(hidden, table)
        rows = table[: config.vocab_size]
        return jnp.mean(losses.pretraining_loss(hidden, rows, ids[:, 1:])), logits

    (value, logits), gradients = jax.jit(jax.value_and_grad(our_loss, has_aux=True))(params)

    deviation = np.abs(np.asarray(logits) - theirs.detach().numpy()).max()
    assert float(value) == pytest.approx(loss.item(), rel=1e-5)
    expected = {name: p.grad.numpy() for name, p in model.named_parameters()}
    ours = reference.hugging_face(gradients)
    assert ours.keys() == expected.keys()
    relative = {
        name: np.linalg.norm(ours[name] - g) / np.linalg.norm(g) for name, g in expected.items()
    }
    print(f'logits differ by {deviation:.2e}, gradients by {max(relative.values()):.2e}')
    assert np.abs(theirs.detach().numpy()).max() > 1
    assert deviation < 1e-5
    assert max(relative.values()) < 1e-5, relative
