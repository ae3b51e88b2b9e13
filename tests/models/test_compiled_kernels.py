"""The kernels compiled for H200s, where the compiler for them is installed (the extra cuda-compile)."""
import importlib.util
import pathlib
import re
import subprocess

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from experiments.compile import chips, hlo
from gpt1_jax.models import dropout
from gpt1_jax.models.fast import gpu_attention, gpu_residual_norm
from gpt1_jax.parallel import sharding

pytestmark = [pytest.mark.full, pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ('jax_cuda12_plugin', 'jax_cuda13_plugin'))), reason='no CUDA plugin')]

B, L, H, E, D = 8, 256, 4, 64, 768
ROWS = ('data', 'fsdp')


def attention(key, qkv):
    return gpu_attention.flash_attention(qkv, dropout.Dropout(key).at(dropout.ATTENTION, 0.1))


def norm(key, *values):
    return gpu_residual_norm.add_and_norm(*values, dropout.Dropout(key).at(dropout.MLP_OUT, 0.1))


# name: (function, its arguments (shape, dtype, how it lies on a mesh), the gradient of its result).
KERNELS = {
    'attention': (attention, [((B, L, 3, H, E), 'bfloat16', P(ROWS, None, None, 'tensor'))],
                  ((B, L, H, E), 'bfloat16', P(ROWS, None, 'tensor'))),
    'norm': (norm, [((B, L, D), 'bfloat16', P(ROWS))] * 2 + [((D,), 'float32', P())] * 2,
             ((B, L, D), 'bfloat16', P(ROWS)))}


def compiled(name, mesh, wrapped=True, **options):
    """The HLO text of the kernel's result and gradients, of arrays that lie on a mesh as the model's do."""
    function, arguments, result = KERNELS[name]
    *arguments, result = (jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, place))
                          for shape, dtype, place in [*arguments, result])

    def both(step, dy, *values):
        y, gradient = jax.vjp(lambda *values: function(dropout.Key(jnp.uint32(7), step), *values), *values)
        return y, gradient(dy)
    step = jax.ShapeDtypeStruct((), jnp.uint32, sharding=NamedSharding(mesh, P()))
    # Without a mesh in context the kernel is called as it is; an empty one tells jax 0.12 the device all the same.
    none = jax.sharding.AbstractMesh((), (), abstract_device=mesh.abstract_mesh.abstract_device)
    with jax.set_mesh(mesh) if wrapped else jax.sharding.use_abstract_mesh(none):
        lowered = jax.jit(both).trace(step, result, *arguments).lower(lowering_platforms=('cuda',))
    return lowered.compile(compiler_options=options).as_text()


@pytest.mark.parametrize('sizes', [(1, 4, 1), (2, 1, 2)], ids=str)
@pytest.mark.parametrize('name', KERNELS)
def test_for_four_h200s_no_activation_is_exchanged_around_a_kernel(name, sizes):
    text = compiled(name, sharding.make_mesh(*sizes, devices=chips.devices('h200:4')))
    assert text.count('custom_call_target="__gpu$xla.gpu.triton"') == 2
    exchanged = hlo.collectives(text, 4)
    assert all(one.kind == 'all-reduce' and one.bytes <= 2 * 4 * D for one in exchanged)  # the gains' gradients
    assert name == 'norm' or exchanged == []


@pytest.mark.parametrize('name, arrays', [('attention', B * L * (3 + 1) * H * E), ('norm', B * L * D)])
def test_without_the_mesh_each_h200_would_gather_the_batch(name, arrays):
    """What a mesh is wrapped around the kernels for."""
    text = compiled(name, sharding.make_mesh(1, 4, 1, devices=chips.devices('h200:4')), wrapped=False)
    assert max(one.bytes for one in hlo.collectives(text, 4) if one.kind == 'all-gather') >= arrays * 2


@pytest.mark.parametrize('name', KERNELS)
def test_for_an_h200_no_register_is_spilled_and_no_product_serialised(name, tmp_path):
    nvidia = pathlib.Path(importlib.util.find_spec('nvidia').submodule_search_locations[0])
    ptxas = next(nvidia.rglob('bin/ptxas'), None)
    if ptxas is None:
        pytest.skip('no ptxas')
    if jax.__version_info__ >= (0, 12):
        pytest.skip('its XLA dumps no PTX')
    compiled(name, sharding.make_mesh(devices=chips.devices('h200:1')), xla_dump_to=str(tmp_path),
             xla_backend_optimization_level=3)  # conftest turns it off
    said = {}
    for file in tmp_path.glob('*.ptx'):
        kernel = re.search(r'\.entry (_(?:forward|backward)_kernel)', file.read_text())
        if kernel:
            said[kernel[1]] = subprocess.run([ptxas, '-v', '-arch=sm_90a', file, '-o', tmp_path / 'cubin'], text=True,
                                             check=True, capture_output=True).stderr
    assert said.keys() == {'_forward_kernel', '_backward_kernel'}
    for text in said.values():
        assert '0 bytes spill stores, 0 bytes spill loads' in text and 'serialized' not in text
