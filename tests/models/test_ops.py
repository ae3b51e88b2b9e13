"""Each operation by each of its implementations, with its gradients, against the formula in numpy
float64."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import reference
from experiments.ideas import gelu_epilogue
from gpt1_jax.models import dropout, ops
from gpt1_jax.models.fast import (
    cpu,
    gpu_attention,
    gpu_cross_entropy,
    gpu_residual_norm,
    table,
    xla,
)
from gpt1_jax.models.gpt import Dense, GPTConfig
from gpt1_jax.parallel import sharding
from meshes import mesh_of

SEED = 7
STEP = 1234567
LAYER = 3
ROW = 5
KEY = dropout.Key(jnp.uint32(SEED), jnp.uint32(STEP), jnp.uint32(ROW))


def scaled_mask(site, shape, rate):
    """The mask in Python's ints, divided by 1 - rate."""
    return (
        reference.keep((SEED, STEP, LAYER, site), shape, rate, (ROW,)) / (1 - rate)
        if rate
        else np.ones(shape)
    )


# The formulas: (inputs, gradient of the result, rate) -> (result, gradients of the inputs that have
# one)


def look_up(table, ids, dy, rate):
    by_table = np.zeros(table.shape)
    np.add.at(by_table, ids.astype(int), dy)
    return table[ids.astype(int)], by_table


def dense(x, kernel, bias, dy, rate):
    n = kernel.ndim - bias.ndim
    by_x = np.tensordot(dy, kernel, (range(dy.ndim - bias.ndim, dy.ndim), range(n, kernel.ndim)))
    by_kernel = np.tensordot(x, dy, ((0, 1), (0, 1)))
    return np.tensordot(x, kernel, n) + bias, by_x, by_kernel, dy.sum((0, 1))


def gelu(x, dy, rate):
    slope = (reference.gelu(x + 1e-5) - reference.gelu(x - 1e-5)) / 2e-5
    return reference.gelu(x), dy * slope


def attention(qkv, dy, rate):
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)  # [B, H, L, E] each
    dy = dy.transpose(0, 2, 1, 3)
    L, E = q.shape[2:]
    scores = np.where(np.tri(L, dtype=bool), q @ k.transpose(0, 1, 3, 2) / np.sqrt(E), -np.inf)
    p = reference.softmax(scores)
    scale = scaled_mask(dropout.ATTENTION, p.shape, rate)
    dp = dy @ v.transpose(0, 1, 3, 2) * scale
    d_scores = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(E)
    gradient = np.stack(
        [d_scores @ k, d_scores.transpose(0, 1, 3, 2) @ q, (p * scale).transpose(0, 1, 3, 2) @ dy]
    )
    return ((p * scale) @ v).transpose(0, 2, 1, 3), gradient.transpose(1, 3, 0, 2, 4)


def add_and_norm(x, a, scale, bias, dy, rate):
    mask = scaled_mask(dropout.MLP_OUT, x.shape, rate)
    total = x + a * mask
    z = total - total.mean(-1, keepdims=True)
    deviation = np.sqrt((z**2).mean(-1, keepdims=True) + 1e-5)
    z = z / deviation
    dz = dy * scale
    dx = (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True)) / deviation
    return z * scale + bias, dx, dx * mask, (dy * z).sum((0, 1)), dy.sum((0, 1))


def cross_entropy(hidden, rows, targets, dy, rate):
    targets = targets.astype(int)
    logits = hidden @ rows.T
    by_logit = (reference.softmax(logits) - np.eye(len(rows))[targets]) * dy[:, None]
    return reference.cross_entropy(logits, targets), by_logit @ rows, by_logit.T @ hidden


FAST = {
    'look_up': {'xla': xla.look_up},
    'dense': {'xla': xla.dense, 'cpu': cpu.dense},
    'gelu': {'xla': xla.gelu, 'cpu': cpu.gelu},
    'attention': {
        name: table.implementation(name) for name in ('recomputed', 'blocked', 'flash', 'mosaic')
    },
    'add_and_norm': {name: table.implementation(name) for name in ('xla', 'fused')},
    'cross_entropy': {
        name: table.implementation(name) for name in ('two passes', 'cpu', 'one pass', 'rowwise')
    },
}
SITES = {'attention': dropout.ATTENTION, 'add_and_norm': dropout.MLP_OUT}
FORMULAS = {f.__name__: f for f in (look_up, dense, gelu, attention, add_and_norm, cross_entropy)}


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def ids(below, *shape):
    return np.random.default_rng(0).integers(0, below, shape)


def inputs(operation, sizes, dtype):
    """(inputs, gradient of the result). Parameters of dense and add_and_norm are float32 in every
    dtype."""
    if operation == 'look_up':
        values = (normal(5, 3), ids(4, 2, 6))
        dy = normal(2, 6, 3)
    elif operation == 'dense':
        x, kernel, n = sizes
        values = (normal(*x), normal(*kernel), normal(*kernel[n:]))
        dy = normal(*x[:2], *kernel[n:])
    elif operation == 'gelu':
        values = (normal(4, 6, 8),)
        dy = normal(4, 6, 9)[..., :8]
    elif operation == 'attention':
        B, L, H, E = sizes
        values = (normal(B, L, 3, H, E),)
        dy = normal(B, L, H, E)
    elif operation == 'add_and_norm':
        values = (
            normal(*sizes),
            normal(*sizes)[::-1],
            normal(sizes[-1]),
            normal(sizes[-1] + 1)[1:],
        )
        dy = normal(*sizes, 1)[..., 0]
    else:
        T, R = sizes
        values = (normal(T, 8), normal(R, 8), ids(R, T))
        dy = normal(T)
    # The inputs that have the dtype
    narrow = {'dense': 1, 'add_and_norm': 2}.get(operation, len(values))
    values = [
        jnp.asarray(x, 'int32' if x.dtype.kind == 'i' else dtype if n < narrow else 'float32')
        for n, x in enumerate(values)
    ]
    return values, jnp.asarray(dy, 'float32' if operation == 'cross_entropy' else dtype)


def call(operation, function, values, rate):
    """The function in the place of an operation, with dropout at its site; rate None:
    evaluation."""
    if operation == 'look_up':
        rows, chosen = values
        return function(rows.astype(jnp.float32), chosen, rows.dtype)[0]
    if operation == 'cross_entropy':
        return function(*values, values[0].dtype)
    if operation not in SITES:
        return function(*values)
    drop = dropout.Dropout(None if rate is None else KEY, jnp.uint32(LAYER)).at(
        SITES[operation], rate or 0
    )
    return function(*values, drop)


def run(operation, function, values, dy, rate):
    """(result, gradients of the inputs that are no integers), jitted, as float64."""
    floats = [n for n, x in enumerate(values) if x.dtype.kind != 'i']

    @jax.jit
    def both(values, dy):
        def f(*chosen):
            given = dict(zip(floats, chosen))
            return call(operation, function, [given.get(n, x) for n, x in enumerate(values)], rate)

        y, gradient = jax.vjp(f, *(values[n] for n in floats))
        assert y.dtype == dy.dtype
        return y, *gradient(dy)

    return [np.asarray(x, np.float64) for x in both(values, dy)]


def formula(operation, values, dy, rate):
    return FORMULAS[operation](*(np.asarray(x, np.float64) for x in (*values, dy)), rate)


SIZES = {
    'look_up': [None],
    'gelu': [None],
    'dense': [
        ((2, 3, 5), (5, 7), 1),
        ((2, 3, 8), (8, 3, 2, 4), 1),
        ((2, 3, 4, 2), (4, 2, 6), 2),
        ((2, 3, 7), (7, 5), 1),
        ((1, 1, 8), (8, 6), 1),
    ],
    # 48: three pieces of 16; 6 and 12 are no multiples of the 8 rows
    'add_and_norm': [(2, 12, 48), (1, 6, 32)],
    'cross_entropy': [(12, 13), (1, 10), (40, 257)],
}
KERNEL = pytest.mark.full
# (sizes, rate) of attention. flash: 100 positions are two tiles, the last of which is partly
# filled. mosaic: two heads of 64 share a program; a third one has zeros for company; positions are
# padded to a multiple of 128.
ATTENTION = {
    'plain': [((2, 31, 2, 16), 0.1), ((1, 9, 1, 16), None), ((1, 9, 1, 16), 0.9)],
    'recomputed': [((2, 31, 2, 16), 0.1)],
    'blocked': [((2, L, 2, 16), rate) for L in (1, 31, 128, 193) for rate in (None, 0.0, 0.1, 0.9)],
    'flash': [
        ((1, 100, 2, 16), 0.1),
        ((2, 16, 2, 32), 0.5),
        ((1, 100, 1, 16), 0.0),
        ((1, 100, 1, 16), None),
        ((1, 512, 1, 64), 0.1),
    ],
    'mosaic': [
        ((1, 130, 2, 64), 0.1),
        ((2, 100, 3, 64), 0.5),
        ((1, 128, 1, 128), 0.1),
        ((1, 1, 1, 64), 0.0),
        ((1, 130, 1, 256), None),
        ((1, 256, 2, 64), 0.1),
        ((1, 256, 1, 128), 0.1),
        ((1, 500, 1, 64), 0.1),
        ((1, 512, 2, 64), 0.1),
        ((1, 512, 1, 128), 0.1),
    ],
}


def marks(name):
    """Of tests of an implementation: kernels are interpreted, which takes seconds."""
    return KERNEL if name in ('flash', 'mosaic', 'fused', 'rowwise') else ()


def cases():
    for operation, others in FAST.items():
        for name, function in {'plain': getattr(ops, operation), **others}.items():
            chosen = (
                ATTENTION[name]
                if operation == 'attention'
                else [
                    (sizes, rate)
                    for sizes in SIZES[operation]
                    for rate in ((0.1, None) if operation == 'add_and_norm' else (None,))
                ]
            )
            for sizes, rate in chosen:
                yield pytest.param(
                    operation,
                    function,
                    sizes,
                    rate,
                    marks=marks(name),
                    id=f'{operation} {name} {sizes} {rate}',
                )


@pytest.mark.parametrize('operation, function, sizes, rate', list(cases()))
def test_values_and_gradients_are_the_formulas(operation, function, sizes, rate):
    values, dy = inputs(operation, sizes, 'float32')
    results = run(operation, function, values, dy, rate)
    for found, expected in zip(results, formula(operation, values, dy, rate), strict=True):
        np.testing.assert_allclose(found, expected, atol=3e-6 * max(np.abs(expected).max(), 1e-2))


HALF = {
    'look_up': None,
    'gelu': None,
    'dense': ((4, 16, 8), (8, 3, 2, 4), 1),
    'attention': (1, 100, 2, 64),
    'add_and_norm': (2, 16, 48),
    'cross_entropy': (40, 257),
}


@pytest.mark.parametrize(
    'operation, name',
    [
        pytest.param(operation, name, marks=marks(name))
        for operation, others in FAST.items()
        for name in others
    ],
)
def test_in_bfloat16_it_is_as_close_to_the_formula_as_the_definition_is(operation, name):
    values, dy = inputs(operation, HALF[operation], 'bfloat16')
    rate = 0.1 if operation in SITES else None
    expected = formula(operation, values, dy, rate)
    ours, plain = (
        run(operation, function, values, dy, rate)
        for function in (FAST[operation][name], getattr(ops, operation))
    )
    for found, rounded, wanted in zip(ours, plain, expected):
        error, allowed = (
            np.linalg.norm(x - wanted) / np.linalg.norm(wanted) for x in (found, rounded)
        )
        # Bfloat16 rounds a number by up to 2^-9 of itself
        assert error <= max(1.5 * allowed, 0.005)


# What some of them promise besides


def test_a_gelu_keeps_its_argument_for_the_gradient_and_nothing_more():
    x = jnp.ones((4, 6), jnp.bfloat16)
    kept = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(xla.gelu, x)[1], x))
    assert [(leaf.shape, leaf.dtype) for leaf in kept] == [(x.shape, x.dtype)]


each_gelu = pytest.mark.parametrize('gelu', [ops.gelu, xla.gelu, cpu.gelu, gelu_epilogue.gelu])


@each_gelu
def test_a_gelu_is_the_formula_over_its_whole_range(gelu):
    x = np.linspace(-12, 12, 2401, dtype=np.float32)
    found = run('gelu', gelu, [jnp.asarray(x)], jnp.ones(x.shape, jnp.float32), None)
    for one, expected in zip(found, FORMULAS['gelu'](x.astype(np.float64), 1, None), strict=True):
        # A tanh near 1 that is off by four units in the last place, times the slope's largest
        # factor, 14.
        np.testing.assert_allclose(one, expected, rtol=1e-6, atol=1.5e-5)


@each_gelu
def test_far_from_zero_a_gelu_is_the_identity_or_zero_with_such_gradients(gelu):
    y, gradient = jax.vjp(gelu, jnp.array([-1e4, -30.0, 0.0, 30.0, 1e4]))
    np.testing.assert_array_equal(y, [0, 0, 0, 30, 1e4])
    np.testing.assert_array_equal(gradient(jnp.ones(5))[0], [0, 0, 0.5, 1, 1])


@pytest.mark.parametrize('in_one_pass', [False, True])
def test_log_sum_exp_is_scipy_s_for_large_masked_and_equal_values(in_one_pass):
    values = np.random.default_rng(0).normal(0, 30, (6, 1000)).astype(np.float32)
    values[0], values[1, 3], values[2, 1:] = 90, 3e38, -np.inf
    values[:, 900:] = -np.inf  # padding
    found = jax.jit(lambda values: xla.log_sum_exp(values, in_one_pass))(values)
    np.testing.assert_allclose(
        found, scipy.special.logsumexp(values.astype(np.float64), axis=1), rtol=2e-6
    )


@pytest.mark.parametrize(
    'cross_entropy',
    [
        ops.cross_entropy,
        xla.cross_entropy,
        cpu.cross_entropy,
        pytest.param(gpu_cross_entropy.cross_entropy, marks=KERNEL),
    ],
)
@pytest.mark.parametrize('target', [10, 40_993])
def test_a_target_that_is_no_row_makes_the_loss_not_a_number(cross_entropy, target):
    assert np.isnan(
        cross_entropy(jnp.ones((1, 4)), jnp.ones((10, 4)), jnp.array([target]), 'float32')
    ).all()


@pytest.mark.parametrize(
    'cross_entropy',
    [xla.cross_entropy, pytest.param(FAST['cross_entropy']['rowwise'], marks=KERNEL)],
    ids=['xla', 'rowwise'],
)
def test_rows_that_fill_a_bfloat16_product_have_no_probability_and_no_gradient(cross_entropy):
    """Logits far below zero: rows of zeros would take all of the probability."""
    rows = jnp.ones((3, 4), jnp.bfloat16)
    states = jnp.full((1, 4), -50, jnp.bfloat16)
    loss, gradient = jax.value_and_grad(
        lambda r: cross_entropy(states, r, jnp.array([1]), 'bfloat16')[0]
    )(rows)
    np.testing.assert_allclose(loss, np.log(3), rtol=1e-5)  # the difference of numbers near 200
    np.testing.assert_allclose(
        np.asarray(gradient, np.float64), np.outer([1 / 3, -2 / 3, 1 / 3], [-50] * 4), rtol=0.01
    )


@pytest.mark.parametrize('x, features, n', [((2, 3, 8), (3, 2, 4), 1), ((2, 3, 4, 2), (6,), 2)])
def test_a_dense_layer_has_the_parameters_and_values_of_flaxs(x, features, n):
    x = jnp.asarray(normal(*x), jnp.float32)
    theirs = nn.DenseGeneral(
        features, axis=tuple(range(-n, 0)), kernel_init=nn.initializers.normal(0.02)
    )
    ours = Dense(GPTConfig(), features, n)
    found, expected = (layer.init(jax.random.key(0), x)['params'] for layer in (ours, theirs))
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), found, expected))
    found = jax.tree.map(lambda a: a + 0.5, found)
    np.testing.assert_allclose(
        ours.apply({'params': found}, x), theirs.apply({'params': found}, x), rtol=1e-5
    )


@KERNEL
@pytest.mark.parametrize(
    'forward, backward', [((32, 16), (16, 32)), ((16, 32), (32, 16)), ((64, 64), (64, 64))]
)
def test_no_result_of_flash_attention_depends_on_the_tiles(monkeypatch, forward, backward):
    for name, (queries, keys) in {'FORWARD': forward, 'BACKWARD': backward}.items():
        monkeypatch.setattr(
            gpu_attention, name, getattr(gpu_attention, name)._replace(queries=queries, keys=keys)
        )
    test_values_and_gradients_are_the_formulas(
        'attention', FAST['attention']['flash'], (1, 64, 1, 16), 0.1
    )


@KERNEL
def test_the_gains_gradients_of_the_residual_kernel_add_up_over_several_programs(monkeypatch):
    monkeypatch.setattr(gpu_residual_norm, 'ROWS', 2)  # 8 programs a row of the batch
    test_values_and_gradients_are_the_formulas(
        'add_and_norm', FAST['add_and_norm']['fused'], (2, 16, 16), 0.1
    )


@KERNEL
@pytest.mark.parametrize('R', [255, 256, 257, 1024])
def test_a_row_of_logits_is_the_formula_s_in_one_chunk_or_several(monkeypatch, R):
    monkeypatch.setattr(gpu_cross_entropy, 'CHUNK', 256)
    test_values_and_gradients_are_the_formulas(
        'cross_entropy', FAST['cross_entropy']['rowwise'], (6, R), None
    )


@KERNEL
def test_the_gradient_by_the_logits_lies_in_their_place():
    states = jnp.ones((4, 8), jnp.bfloat16)
    rows = jnp.ones((300, 8), jnp.bfloat16)

    def loss(states):
        return jnp.sum(FAST['cross_entropy']['rowwise'](states, rows, jnp.arange(4), 'bfloat16'))

    calls = [
        line
        for line in str(jax.make_jaxpr(jax.grad(loss))(states)).splitlines()
        if 'input_output_alias' in line
    ]
    assert [re.sub(r'\s', '', call) for call in calls] == ['input_output_aliases=((0,1),)']


@KERNEL
@pytest.mark.parametrize(
    'operation, name, mesh, sizes',
    [
        ('attention', 'flash', (8, 1, 1), (8, 32, 1, 16)),
        ('attention', 'flash', (2, 2, 2), (4, 32, 2, 16)),
        ('attention', 'flash', (1, 2, 4), (1, 32, 4, 16)),
        ('attention', 'mosaic', (8, 1, 1), (8, 100, 1, 64)),
        ('attention', 'mosaic', (2, 2, 2), (4, 100, 2, 64)),
        ('attention', 'mosaic', (1, 2, 4), (1, 100, 8, 64)),
        ('attention', 'mosaic', (1, 1, 8), (2, 100, 3, 64)),
        ('add_and_norm', 'fused', (4, 2, 1), (8, 8, 16)),
        ('add_and_norm', 'fused', (2, 2, 2), (4, 8, 16)),
        ('add_and_norm', 'fused', (1, 2, 4), (1, 8, 16)),
        ('cross_entropy', 'rowwise', (4, 2, 1), (16, 13)),
        ('cross_entropy', 'rowwise', (1, 2, 4), (7, 13)),
    ],
    ids=str,
)
def test_any_mesh_gives_what_one_device_gives(operation, name, mesh, sizes):
    """Rows or heads that the devices do not divide, as in initialisation, are computed by each of
    them."""
    values, dy = inputs(operation, sizes, 'float32')
    expected = run(operation, FAST[operation][name], values, dy, 0.1)
    with jax.set_mesh(sharding.make_mesh(*mesh)):
        found = run(operation, FAST[operation][name], values, dy, 0.1)
    for one, several in zip(expected, found):  # a mask of another row would change a tenth of them
        np.testing.assert_allclose(several, one, atol=1e-6 * np.abs(one).max())


def test_a_table_is_whole_on_every_device_and_its_gradient_with_the_owners_of_its_parts():
    mesh = mesh_of((2, 4, 1))
    spec = jax.sharding.PartitionSpec(None, 'fsdp')
    table = jax.device_put(jnp.arange(48.0).reshape(6, 8), jax.NamedSharding(mesh, spec))
    chosen = jnp.array([[1, 5], [1, 0]])

    def loss(table):
        x, rows = xla.look_up(table, chosen, jnp.dtype('float32'))
        return jnp.sum(x) + jnp.sum(rows**2), rows

    with jax.set_mesh(mesh):
        gradient, rows = jax.jit(jax.grad(loss, has_aux=True))(table)
    assert {shard.data.shape for shard in rows.addressable_shards} == {(6, 8)}
    assert {shard.data.shape for shard in gradient.addressable_shards} == {(6, 2)}
    np.testing.assert_array_equal(rows, table)
    times = np.array([1, 2, 0, 0, 0, 1])[:, None]
    np.testing.assert_array_equal(gradient, 2 * np.asarray(table) + times)
