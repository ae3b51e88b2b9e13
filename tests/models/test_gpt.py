import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.errors import UserError
from gpt1_jax.models.dropout import Key
from gpt1_jax.models.gpt import GPT, Embedding, GPTConfig
from gpt1_jax.training import losses

SMALL = GPTConfig(vocab_size=23, n_special=3, n_ctx=9, n_embd=16, n_layer=3, n_head=4, n_inner=24)
TOKENS = np.array([[4, 22, 23, 0, 11, 25, 7], [24, 3, 3, 19, 8, 1, 0]], np.int32)  # 23 to 25 are specials
KEY = Key(jnp.uint32(5), jnp.uint32(700), jnp.uint32(0))


def shapes(config):
    return jax.eval_shape(lambda: GPT(config).init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))['params']


@pytest.fixture(scope='module')
def params():
    return reference.random_like(shapes(SMALL), seed=1)


@functools.partial(jax.jit, static_argnums=0)
def apply(config, params, tokens, key):
    return GPT(config).apply({'params': params}, tokens, key)[0]


def hidden(config, params, tokens=TOKENS, key=None):
    return np.asarray(apply(config, params, tokens, key))


def test_a_seed_gives_the_initial_weights_that_it_has_always_given():
    config = GPTConfig(vocab_size=31, n_ctx=8, n_embd=8, n_layer=2, n_head=2, n_inner=16)
    params = GPT(config).init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    first = {jax.tree_util.keystr(path, simple=True, separator='/'): float(leaf.ravel()[0])
             for path, leaf in jax.tree_util.tree_leaves_with_path(params) if leaf.any() and leaf.ravel()[0] != 1}
    assert first == pytest.approx({
        'blocks/attn/out/kernel': 0.02086024172604084, 'blocks/attn/qkv/kernel': -0.01664740778505802,
        'blocks/mlp/fc/kernel': -0.0032972795888781548, 'blocks/mlp/proj/kernel': 0.017729293555021286,
        'embed/positions': 0.00830653216689825, 'embed/tokens': -0.012522655539214611}, rel=1e-6)


# The configuration

def test_every_default_is_the_paper_s():
    assert dataclasses.asdict(GPTConfig()) == {
        'vocab_size': 40478, 'n_special': 0, 'n_ctx': 512, 'n_embd': 768, 'n_layer': 12, 'n_head': 12, 'n_inner': 3072,
        'embd_dropout': 0.1, 'attn_dropout': 0.1, 'resid_dropout': 0.1, 'dtype': 'float32', 'remat': False, 'unroll': 0,
        'kernels': 'auto', 'precision': 'highest', 'ops': ()}


@pytest.mark.parametrize('n_special, expected', [(0, 116_534_784), (3, 116_534_784 + 3 * 768)])
def test_number_of_parameters_is_the_released_one(n_special, expected):
    tree = shapes(GPTConfig(n_special=n_special))
    assert sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(tree)) == expected


def test_parameters_are_the_146_released_tensors_stacked_over_layers():
    tree = shapes(GPTConfig())
    assert {name: leaf.shape for name, leaf in tree['embed'].items()} == {
        'tokens': (40478, 768), 'positions': (512, 768)}
    assert all(leaf.shape[0] == 12 for leaf in jax.tree.leaves(tree['blocks']))
    assert 2 + 12 * len(jax.tree.leaves(tree['blocks'])) == 146


@pytest.mark.parametrize('values, field', [
    ({'n_layer': 0}, 'n_layer'), ({'n_ctx': -4}, 'n_ctx'), ({'vocab_size': 2.5}, 'vocab_size'),
    ({'n_inner': '64'}, 'n_inner'),
    ({'unroll': -1}, 'unroll'), ({'n_special': -1}, 'n_special'), ({'attn_dropout': 1.0}, 'attn_dropout'),
    ({'embd_dropout': -0.1}, 'embd_dropout'), ({'resid_dropout': float('nan')}, 'resid_dropout'),
    ({'dtype': 'float16'}, 'dtype'), ({'n_head': 7}, 'n_head'), ({'remat': 'no'}, 'remat'),
    ({'kernels': 'cudnn'}, 'kernels'), ({'precision': 'float32'}, 'precision'),
    ({'n_embd': 1 << 17, 'n_head': 1}, 'n_embd')])
def test_a_bad_configuration_names_the_field(values, field):
    with pytest.raises(UserError, match=rf'model\.{field}\b'):
        GPTConfig(**values)


# Initial weights

def test_initial_weights_are_normal_with_deviation_002_and_biases_zero_and_gains_one():
    config = GPTConfig(vocab_size=3000, n_special=3, n_ctx=64, n_embd=64, n_layer=4, n_head=4, n_inner=256)
    tree = jax.jit(GPT(config).init)(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name, leaf = path[-1].key, np.asarray(leaf)
        if name == 'bias':
            assert not leaf.any(), path
        elif name == 'scale':
            assert (leaf == 1).all(), path
        else:
            n = leaf.size
            assert abs(leaf.mean()) < 5 * 0.02 / np.sqrt(n), path
            assert abs(leaf.std() / 0.02 - 1) < 5 / np.sqrt(2 * n), path
            assert np.abs(leaf).max() > 0.05 or n < 1000, path  # not cut at two deviations


# Parity with plain numpy, dropout on, and with Hugging Face's transformers

@pytest.mark.parametrize('rates', [
    {}, {'embd': 0.4}, {'attn': 0.4}, {'resid': 0.4}, {'embd': 0.1, 'attn': 0.1, 'resid': 0.1}], ids=str)
def test_hidden_states_equal_numpy_s_with_dropout_at_each_site(params, rates):
    config = dataclasses.replace(SMALL, **{f'{n}_dropout': rates.get(n, 0.0) for n in ('embd', 'attn', 'resid')})
    expected, _ = reference.gpt(params, TOKENS, **rates, key=(5, 700))
    np.testing.assert_allclose(hidden(config, params, key=KEY), expected, atol=2e-5)
    if rates:
        undropped, _ = reference.gpt(params, TOKENS)
        assert np.abs(expected - undropped).max() > 0.1


def test_default_epsilon_of_layer_norm_is_1e_5():
    """With small weights the variance is of epsilon's order: 1e-6 or a corrected variance would be seen."""
    small = jax.tree.map(lambda x: x * np.float32(0.01), reference.random_like(shapes(SMALL), seed=2))
    small['blocks']['ln_1']['scale'] = small['blocks']['ln_2']['scale'] = np.ones((3, 16), np.float32)
    np.testing.assert_allclose(hidden(SMALL, small), reference.gpt(small, TOKENS)[0], atol=2e-5)


def test_the_step_s_one_dropped_matrix_serves_tokens_positions_and_the_output_layer(params):
    config = dataclasses.replace(SMALL, embd_dropout=0.5)
    x, table = Embedding(config).apply({'params': params['embed']}, TOKENS, KEY)
    whole = np.concatenate([params['embed'][name] for name in ('tokens', 'specials', 'positions')])
    mask = reference.keep((5, 700, 0, 0), whole.shape, 0.5)
    rows = np.where(mask, whole * 2, 0)
    np.testing.assert_array_equal(np.concatenate(table), rows)                       # what the output layer multiplies
    np.testing.assert_array_equal(x, rows[TOKENS] + rows[26:26 + 7][None])           # what was looked up, and where
    # Token 3 stands twice in the second row: the very same row of the matrix both times.
    twice = np.asarray(x)[1, 1:3] - rows[26 + 1:26 + 3]
    np.testing.assert_allclose(twice[0], twice[1], atol=1e-6)
    assert 0.3 < mask.mean() < 0.7


@pytest.mark.full
@pytest.mark.parametrize('sizes, scale', [
    (dict(vocab_size=97, n_ctx=32, n_embd=48, n_layer=3, n_head=4, n_inner=192), 0.1),
    (dict(n_layer=2), 0.02),  # the paper's width, vocabulary, context and initial deviation
], ids=['small', 'full width'])
def test_logits_and_gradients_equal_those_of_hugging_face(sizes, scale):
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    config = GPTConfig(**sizes)
    generator = np.random.default_rng(3)
    B, L = (3, 33) if config.n_ctx == 32 else (2, 49)
    ids = generator.integers(0, config.vocab_size, (B, L)).astype(np.int32)
    ids[:, 1] = config.vocab_size - 1
    params = reference.random_like(shapes(config), seed=4, scale=scale)

    model = transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(
        vocab_size=config.vocab_size, n_positions=config.n_ctx, n_embd=config.n_embd, n_layer=config.n_layer,
        n_head=config.n_head, attn_implementation='eager')).eval()
    assert model.config.layer_norm_epsilon == 1e-5 and model.config.afn == 'gelu'
    state = {name: torch.from_numpy(array.copy()) for name, array in reference.hugging_face(params).items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {'lm_head.weight'} and not unexpected  # the head is tied
    theirs = model(input_ids=torch.from_numpy(ids[:, :-1]).long()).logits
    loss = torch.nn.functional.cross_entropy(theirs.reshape(-1, config.vocab_size),
                                             torch.from_numpy(ids[:, 1:]).long().reshape(-1))
    loss.backward()

    def our_loss(params):
        hidden, table = GPT(config).apply({'params': params}, ids[:, :-1])
        logits = jnp.einsum('bld,vd->blv', hidden, table.tokens)
        return jnp.mean(losses.pretraining_loss(hidden, table, ids[:, 1:])), logits
    (value, logits), gradients = jax.jit(jax.value_and_grad(our_loss, has_aux=True))(params)

    deviation = np.abs(np.asarray(logits) - theirs.detach().numpy()).max()
    assert float(value) == pytest.approx(loss.item(), rel=1e-5)
    expected = {name: p.grad.numpy() for name, p in model.named_parameters()}
    ours = reference.hugging_face(gradients)
    assert ours.keys() == expected.keys()
    relative = {name: np.linalg.norm(ours[name] - g) / np.linalg.norm(g) for name, g in expected.items()}
    print(f'logits differ by {deviation:.2e}, gradients by {max(relative.values()):.2e}')
    assert np.abs(theirs.detach().numpy()).max() > 1
    assert deviation < 1e-5
    assert max(relative.values()) < 1e-4, relative


# Properties

@pytest.mark.parametrize('key', [None, KEY], ids=['without dropout', 'with dropout'])
def test_no_state_depends_on_a_later_position(params, key):
    """Row p of the position table enters at position p alone: the state at t has no gradient for rows after t."""
    config = dataclasses.replace(SMALL, embd_dropout=0.0)
    weights = np.random.default_rng(0).normal(size=16).astype(np.float32)

    @jax.jit
    def jacobian(positions):
        def f(positions):
            p = params | {'embed': params['embed'] | {'positions': positions}}
            return GPT(config).apply({'params': p}, TOKENS, key)[0] @ weights  # [B, L]
        return jax.jacrev(f)(positions)
    g = np.abs(np.asarray(jacobian(params['embed']['positions']))).sum((0, 3))  # [t, row]
    assert g.shape == (7, 9)
    earlier = np.tril(np.ones((7, 9))) > 0
    assert (g[~earlier] == 0).all()
    assert (g[earlier] > 1e-3).all()


def test_rematerialised_blocks_are_recomputed_in_the_backward_pass(params):
    def saved(config):
        def f(p):
            return GPT(config).apply({'params': p}, TOKENS, KEY)[0].sum()
        kept = jax.tree.leaves(jax.eval_shape(lambda p: jax.vjp(f, p)[1], params))
        return sum(x.size for x in kept) - sum(x.size for x in jax.tree.leaves(params))
    assert saved(dataclasses.replace(SMALL, remat=True)) < saved(SMALL) / 2
