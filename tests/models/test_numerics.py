"""How exactly a step computes, and how much of it is kept: read from its lowered and compiled
text."""

import functools
import importlib.util
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.compile import check, chips, hlo_text
from gpt1_jax import pretraining, user_code
from gpt1_jax.evaluation import log_probs
from gpt1_jax.models import ops
from gpt1_jax.models.build import backbone
from gpt1_jax.models.fast import xla
from gpt1_jax.parallel import sharding
from gpt1_jax.training.losses import token_losses
from meshes import shapes
from tiny import ROOT, load_config, override

pytestmark = pytest.mark.full

for_h200 = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ('jax_cuda12_plugin', 'jax_cuda13_plugin'))),
    reason='no CUDA plugin',
)
V = 97
ONE_DEVICE = sharding.make_mesh(devices=jax.devices()[:1])


def config_of(**fields):
    small = dict(
        model__n_layer=2,
        model__n_embd=32,
        model__n_head=4,
        model__n_inner=48,
        model__n_units=24,
        model__n_ctx=16,
        batch__size=8,
    )
    return override(load_config('pretrain'), small | fields)


@functools.cache
def lowered(**fields):
    """The text of a pretraining step before the compiler has changed it."""
    config = config_of(**fields)
    program = pretraining.make_program(config, check.backbone_of(config, V), ONE_DEVICE)
    tokens = jax.ShapeDtypeStruct(
        (8, 17), jnp.int32, sharding=sharding.batch_sharding(program.mesh)
    )
    hyper = jax.eval_shape(lambda: pretraining.hyperparameters(config, 1))
    return program.step.trace(program.state, {'tokens': tokens}, hyper).lower().as_text()


# Sums of gradients in bfloat16

each_step = pytest.mark.parametrize(
    'fields',
    [{}, {'batch__loss_chunks': 4}, {'model__kind': 'lstm'}, {'model__remat': True}],
    ids=str,
)


@each_step
def test_no_gradient_is_added_up_in_bfloat16(fields):
    text = lowered(model__dtype='bfloat16', **fields)
    assert 'bf16' in text
    sums = re.findall(r'stablehlo.reduce\(.*applies stablehlo.add .*', text)
    scatters = re.findall(r'"stablehlo.scatter"\([^\n]*\n(?:[^\n]*\n)*?[^\n]*\}\) : [^\n]*', text)
    assert len(sums) > 5 and scatters
    assert not [one for one in [*sums, *scatters] if 'bf16' in one]
    # The output layer, the look-up and the chunks of the loss add to the table's gradient in
    # float32.
    assert not re.findall(rf'stablehlo.add .* tensor<{V}x\d+xbf16>', text)


@pytest.mark.quick
@pytest.mark.parametrize('add_bias', [ops.add_bias, xla.add_bias], ids=['plain', 'xla'])
def test_the_gradient_of_a_bias_that_many_positions_share_is_their_sum_rounded_once(add_bias):
    x = jnp.zeros((4096, 3), jnp.bfloat16)
    dy = jnp.asarray(np.random.default_rng(0).normal(1, 0.1, (4096, 3)), jnp.bfloat16)
    _, gradients = jax.vjp(add_bias, x, jnp.zeros(3))
    by_x, by_bias = gradients(dy)
    assert by_x.dtype == jnp.bfloat16 and by_bias.dtype == jnp.float32
    np.testing.assert_allclose(by_bias, np.asarray(dy, np.float64).sum(0), rtol=1e-6)


@for_h200
def test_for_an_h200_no_gradient_is_added_up_in_bfloat16():
    config = config_of(
        model__dtype='bfloat16', model__n_embd=128, model__n_inner=512, model__n_ctx=128
    )
    mesh = check.mesh_of(config, 'h200:1')
    text = check.compile_step(config, check.backbone_of(config, V), mesh).text
    computations, _ = hlo_text.parse(text)
    everything = [one for several in computations.values() for one in several]
    assert {'reduce', 'scatter'} <= {one.opcode for one in everything}
    assert not [
        one.shape
        for one in everything
        if one.opcode in ('reduce', 'scatter') and 'bf16' in one.shape
    ]


def for_an_h200(**fields):
    """The compiled text of a step in bfloat16."""
    sizes = {'model__n_embd': 128, 'model__n_inner': 512, 'model__n_ctx': 128}
    config = config_of(model__dtype='bfloat16', **sizes, **fields)
    user_code.trust(config)
    model = check.backbone_of(config, V)
    return check.compile_step(config, model, check.mesh_of(config, 'h200:1')).text


@for_h200
@pytest.mark.parametrize(
    'flags, triton', [('', False), ('--xla_gpu_enable_triton_gemm=true', True)], ids=str
)
def test_for_an_h200_products_are_cublaslt_s_unless_xla_flags_say_otherwise(
    monkeypatch, flags, triton
):
    # XLA itself read them when it was loaded: Triton is its default
    monkeypatch.setenv('XLA_FLAGS', flags)
    text = for_an_h200()
    assert ('__triton_gemm' in text or '__triton_nested_gemm_fusion' in text) == triton
    assert ('"epilogue":"BIAS"' in text) == (not triton)


@for_h200
def test_for_an_h200_the_idea_of_gelu_is_computed_inside_the_product_before_it():
    text = for_an_h200(model__ops__gelu=f'{ROOT}/experiments/ideas/gelu_epilogue.py:gelu')
    assert text.count('"epilogue":"BIAS_GELU_AUX"') == 2  # layers


# Precision of float32 products


def precisions(text):
    """{what each product of a lowered text asks for, 'DEFAULT' where it asks for nothing}."""
    products = [line for line in text.splitlines() if 'stablehlo.dot_general' in line]
    found = [re.search(r'precision = \[(\w+), (\w+)\]', line) for line in products]
    assert len(found) >= 3
    return {name for one in found for name in (one.groups() if one else ('DEFAULT',))}


@each_step
def test_every_product_of_a_float32_step_forward_and_backward_is_float32(fields):
    assert precisions(lowered(**fields)) == {'HIGHEST'}


@pytest.mark.parametrize('kind', ['gpt', 'lstm'])
@pytest.mark.parametrize('precision, expected', [('highest', 'HIGHEST'), ('default', 'DEFAULT')])
def test_scoring_has_the_precision_of_the_model(kind, precision, expected):
    model = backbone(
        config_of(model__kind=kind, model__precision=precision).model.to_dict() | {'vocab_size': V}
    )
    ids, known, several, first = (
        jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((2, 16), (2,), (2, 2, 8), (2, 2))
    )
    scoring = log_probs.of_groups(model, ONE_DEVICE)
    text = scoring.trace(shapes(model), ids, known, several, first, several).lower().as_text()
    assert precisions(text) == {expected}


# The loss


def test_float32_logits_of_bfloat16_states_give_the_scorers_log_probabilities():
    rng = np.random.default_rng(0)
    hidden, rows = (
        jnp.asarray(rng.normal(size=size), jnp.bfloat16) for size in ((2, 12, 64), (50, 64))
    )
    targets = jnp.asarray(rng.integers(0, 50, (2, 12)))
    logits = np.einsum('bld,rd->blr', *(np.asarray(x, np.float64) for x in (hidden, rows)))
    own = np.take_along_axis(logits, np.asarray(targets)[..., None], -1)[..., 0]
    expected = np.log(np.exp(logits).sum(-1)) - own
    for chunks in (1, 4):
        found = token_losses(hidden, rows, targets, chunks, jnp.float32)
        np.testing.assert_allclose(found, expected, atol=2e-5)
    # As training rounds them
    assert np.abs(token_losses(hidden, rows, targets) - expected).max() > 1e-3


# Memory


@pytest.mark.parametrize(
    'devices',
    [lambda: jax.devices()[:1], pytest.param(lambda: chips.devices('h200:1'), marks=for_h200)],
    ids=['CPU', 'H200'],
)
def test_rematerialised_blocks_take_a_fraction_of_the_memory_though_layers_stand_in_a_row(devices):
    def temporaries(remat):
        config = config_of(
            model__n_layer=6,
            model__n_embd=256,
            model__n_inner=1024,
            model__n_ctx=256,
            model__unroll=6,
            model__dtype='bfloat16',
            model__remat=remat,
            batch__size=32,
        )
        mesh = sharding.make_mesh(devices=devices())
        return check.compile_step(config, check.backbone_of(config, V), mesh).memory['temporaries']

    assert temporaries(True) * 2.5 < temporaries(False)
