"""The compile check: the real step compiled for eight fake devices, and the printed lines."""

import functools
import importlib.metadata
import importlib.util
import re

import jax
import numpy as np
import pytest

from experiments.compile import check, chips, hlo
from gpt1_jax import pretraining, rules
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import sharding, step_cost
from tiny import load_config, override

pytestmark = pytest.mark.full

# Words, width, layers of the tiny step
V = 101
D = 32
N = 3


@functools.cache
def compiled(sizes):
    config = tiny()
    model = check.backbone_of(config, V)
    mesh = sharding.make_mesh(*sizes, devices=jax.devices()[: int(np.prod(sizes))])
    step = check.compile_step(config, model, mesh)
    return step, check.measure(step, config, model, mesh.size)


def tiny(**fields):
    small = dict(
        model__n_layer=N,
        model__n_embd=D,
        model__n_head=4,
        model__n_inner=48,
        model__n_ctx=20,
        batch__size=16,
    )
    return override(load_config('pretrain'), small | fields)


def test_a_row_has_the_gathers_of_fsdp_the_arithmetic_by_formula_and_the_memory_of_the_compiler():
    step, row = compiled((1, 4, 1))
    # Each weight is gathered forward and backward, the table once.
    gathers = [one for one in hlo.collectives(step.text, 4) if one.kind == 'all-gather']
    made = sorted((int(np.prod(dims)), one.times) for one in gathers for _, dims in one.arrays)
    # Qkv, out, fc, proj; each in the loops forward and backward
    kernels = [3 * D * D, D * D, D * 48, D * 48]
    assert made == sorted([((V + 20) * D, 1), *((size, N) for size in kernels * 2)])
    assert row['trips_known']
    per_token = 3 * (2 * N * (4 * D * D + 2 * D * 48) + 2 * V * D + 4 * N * 20 * D)
    assert row['flops_per_step'] == per_token * 16 * 20
    assert row['memory']['in all'] > step_cost.memory(step.program.state)['parameters'] * 3
    row |= {'topology': 'v5e:2x2', 'mesh': {'data': 1, 'fsdp': 4}, 'compiler': 'y'}
    lines = check.lines(row, tiny())
    assert lines[0].startswith('v5e:2x2: mesh data=1 x fsdp=4; 16 x 20 tokens in 1 microbatch(es),')
    assert 'gathers of the token table: 1 in f32' in lines and 'transfers of logits: none' in lines


@pytest.mark.parametrize('sizes', [(1, 4, 1), (2, 4, 1), (2, 2, 2)], ids=str)
def test_what_the_step_gathers_is_what_the_shardings_let_expect(sizes):
    _, row = compiled(sizes)
    # Those of the device's heads and inner units, gathered twice
    kernels = N * (4 * D * D + 2 * D * 48) // sizes[2]
    assert row['collectives']['all-gather']['bytes'] == 4 * (V * D + 20 * D + 2 * kernels)
    assert row['table_gathers'] == {'f32': 1} and row['logit_transfers'] == {}


def test_a_step_on_replicated_weights_gathers_nothing_and_reduces_every_gradient():
    _, row = compiled((8, 1, 1))
    assert (
        set(row['collectives']) == {'all-reduce'}
        and row['table_gathers'] == {} == row['logit_transfers']
    )
    # The table's twice: of the look-up and of the output layer
    expected = 4 * (row['parameters'] + (V + 20) * D)
    assert expected <= row['collectives']['all-reduce']['bytes'] < expected * 1.01  # and the loss


def test_logits_that_are_gathered_would_be_seen():
    mesh = sharding.make_mesh(1, 4, 1, devices=jax.devices()[:4])
    by_columns = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, 'fsdp'))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    columns = jax.jit(lambda h, w: h @ w, in_shardings=(whole, by_columns), out_shardings=whole)
    text = (
        columns.lower(
            jax.ShapeDtypeStruct((40, 32), np.float32), jax.ShapeDtypeStruct((32, 100), np.float32)
        )
        .compile()
        .as_text()
    )
    assert hlo.logit_transfers(hlo.collectives(text, 4), 100, 32) == {'all-gather f32': 1}


# Slices


@pytest.mark.parametrize(
    'name, chip, shape',
    [('2*v5e:16x16', 'v5e', (16, 16)), ('v5p:8x8x8', 'v5p', (8, 8, 8)), ('h200:8', 'h200', (8,))],
)
def test_a_slice_is_named_by_its_shape(name, chip, shape):
    assert chips.parse(name) == (chips.CHIPS[chip], shape)


@pytest.mark.parametrize(
    'name, message',
    [
        ('v5e', 'written like v5e:16x16'),
        ('v5e:0x4', 'of at least 1'),
        ('v5e:32x32', '1,024 chips, the largest .* 256'),
    ],
)
def test_what_is_no_slice_is_refused_by_name(name, message):
    with pytest.raises(UserError, match=f'^topology {re.escape(repr(name))}: .*{message}'):
        chips.parse(name)


def test_a_compiler_that_is_not_installed_is_named_with_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, 'version', missing)
    with pytest.raises(
        UserError,
        match=r'^v5e: its compiler is not installed: pip install '
        r"'jax\[tpu\]'",
    ):
        chips.devices('v5e:2x2')


def test_a_step_that_is_too_large_is_one_line_by_the_compiler_s_error_or_though_it_compiles(
    monkeypatch,
):
    def full(*_):
        raise jax.errors.JaxRuntimeError(
            'RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO '
            'temporaries (46.57G) exceeds available HBM (15.75G).'
        )

    step = compiled((1, 4, 1))[0]._replace(memory={'in all': 142.5e9})
    monkeypatch.setattr(chips, 'devices', lambda name: jax.devices()[:4])
    for topology, compile_step, sizes in (
        ('v5e:2x2', full, '46.57 GiB of 15.75 GiB'),
        ('h200:4', lambda *_: step, '132.71 GiB of 131.32 GiB'),
    ):
        monkeypatch.setattr(check, 'compile_step', compile_step)
        with pytest.raises(UserError, match=f'^{topology}: out of memory, {sizes} a chip: try'):
            check.check(tiny(mesh__fsdp=4), topology, V)


# The step, compiled for accelerators, where their compilers are installed


@pytest.mark.parametrize(
    'topology, modules',
    [('v5e:2x4', ('libtpu',)), ('h200:8', ('jax_cuda12_plugin', 'jax_cuda13_plugin'))],
)
def test_for_accelerators_the_table_is_gathered_once_in_the_compute_type_and_logits_stay(
    topology, modules
):
    if not any(map(importlib.util.find_spec, modules)):
        pytest.skip(f'none of {modules} is installed')
    config = tiny(model__dtype='bfloat16', model__n_embd=256, model__n_inner=512, mesh__fsdp=4)
    rules.validate(config, pretraining.RULES)
    row = check.check(config, topology, 1000)
    assert (
        row['table_gathers'] == {'bf16': 1} and row['logit_transfers'] == {} and row['trips_known']
    )
    assert row['mesh'] == {'data': 2, 'fsdp': 4, 'tensor': 1}
    if topology == 'v5e:2x4':
        assert 0 < row['memory']['in all'] < 2**30 and row['compiler'].startswith('libtpu ')


def test_a_slice_that_the_compiler_refuses_is_one_line():
    pytest.importorskip('libtpu')
    with pytest.raises(UserError, match=r"^topology 'v5e:3x5': [^\n]*$"):
        chips.devices('v5e:3x5')
