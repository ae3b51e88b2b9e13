"""The mesh, the table of rules that places parameters on it, and constraints within a step."""

import contextlib

import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from gpt1_jax.errors import UserError
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.parallel import sharding
from gpt1_jax.training import loop, optimizer, optimizer_config
from meshes import TINY, init, mesh_of

PLACES = {
    'embed/tokens': P(None, 'fsdp'),
    'embed/positions': P(None, 'fsdp'),
    'embed/specials': P(None, 'fsdp'),
    'blocks/attn/qkv/kernel': P(None, 'fsdp', None, 'tensor', None),
    'blocks/attn/qkv/bias': P(None, None, 'tensor', None),
    'blocks/attn/out/kernel': P(None, 'tensor', None, 'fsdp'),
    'blocks/attn/out/bias': P(),
    'blocks/mlp/fc/kernel': P(None, 'fsdp', 'tensor'),
    'blocks/mlp/fc/bias': P(None, 'tensor'),
    'blocks/mlp/proj/kernel': P(None, 'tensor', 'fsdp'),
    'blocks/mlp/proj/bias': P(),
    'blocks/ln_1/scale': P(),
    'blocks/ln_1/bias': P(),
    'blocks/ln_2/scale': P(),
    'blocks/ln_2/bias': P(),
}


# Several slices


class Chip:
    """What mesh_utils reads of a TPU: two slices of eight."""

    platform = 'tpu'
    device_kind = 'a TPU'
    core_on_chip = 0
    process_index = 0

    def __init__(self, number):
        self.id = number
        self.slice_index = number // 8
        self.coords = (number % 8 // 4, number % 4, 0)

    def __repr__(self):
        return f'{self.slice_index}.{self.id % 8}'


@pytest.mark.parametrize('sizes', [(2, 8, 1), (4, 4, 1), (4, 1, 4), (16, 1, 1)])
def test_the_data_axis_spans_slices_and_the_others_stay_within_one(sizes, monkeypatch):
    monkeypatch.setattr(sharding, 'Mesh', lambda devices, names, axis_types: devices)
    found = sharding.make_mesh(*sizes, devices=[Chip(i) for i in range(16)])
    assert found.shape == sizes and len(set(found.flat)) == 16
    slices = np.vectorize(lambda chip: chip.slice_index)(found)
    half = sizes[0] // 2
    assert (slices[:half] == slices[0, 0, 0]).all() and (slices[half:] == slices[-1, 0, 0]).all()
    assert slices[0, 0, 0] != slices[-1, 0, 0]


# The table of rules


@pytest.mark.parametrize('head', [None, 'classify'])
def test_every_leaf_of_the_training_state_has_the_place_that_the_design_gives_it(head):
    """At the paper's size, on a mesh that uses all three axes: parameters, Adam's moments,
    counters."""
    start = init(GPT(GPTConfig(n_special=3)))
    parameters = PLACES
    mesh = mesh_of((2, 2, 2))
    if head is not None:
        start = init(TaskModel(GPT(GPTConfig(n_special=3)), head, 3), 1)
        parameters = {f'backbone/{name}': place for name, place in PLACES.items()} | {
            'classifier/kernel': P(),
            'classifier/bias': P(),
        }
    p = loop.make_program(start, None, optimizer.adam(), optimizer_config.schedule('cosine'), mesh)
    expected = {
        f'{tree}/{name}': place
        for tree in ('params', 'opt_state/1/mu', 'opt_state/1/nu')
        for name, place in parameters.items()
    }
    found = {name: leaf.sharding.spec for name, leaf in sharding.named_leaves(p.state).items()}
    assert found == expected | {
        'step': P(),
        'skipped': P(),
        'halted': P(),
        'opt_state/1/count': P(),
    }
    assert {leaf.sharding.mesh for leaf in sharding.named_leaves(p.state).values()} == {mesh}


@pytest.mark.parametrize(
    'call, message',
    [
        (lambda: sharding.make_mesh(-1, 3, 1), r'data=-1, fsdp=3, .* does not fit 8 device'),
        (lambda: sharding.make_mesh(4, 4, 1), r'data=4, fsdp=4, .* does not fit 8 device'),
        (
            lambda: sharding.make_mesh(0, 1, 8),
            'does not fit 8 device.*sizes must be at least 1 and multiply to',
        ),
        (lambda: sharding.make_mesh(-1, -1, 1), 'one of them may be -1'),
        (lambda: sharding.make_mesh(2, -2, -2), 'does not fit 8 device'),
        (
            lambda: sharding.make_mesh(1, 16, 1, devices=[Chip(i) for i in range(16)]),
            'data=1 must be a multiple of the 2 slices',
        ),
        (
            lambda: loop.make_program(
                init(GPT(TINY)),
                None,
                optimizer.adam(),
                optimizer_config.schedule('cosine'),
                mesh_of((1, 1, 8)),
            ),
            '^params/blocks/attn/.* dimension . of size 4 is not divisible by mesh axis tensor of '
            'size 8',
        ),
    ],
)
def test_sizes_and_leaves_that_do_not_fit_are_refused_by_name(call, message):
    with pytest.raises(UserError, match=message):
        call()


@pytest.mark.parametrize(
    'size, microbatches, message',
    [
        (16, 2, None),
        (12, 1, 'in 1 microbatch.* is not divisible by 8 devices'),
        (8, 2, 'in 2 microbatch.* is not divisible by 8 devices'),
        (9, 2, 'in 2 microbatch.* is not divisible by 8 devices'),
    ],
)
def test_a_batch_must_give_every_device_the_same_number_of_rows_of_every_part(
    size, microbatches, message
):
    refused = (
        pytest.raises(UserError, match=f'batch.size = {size} {message}')
        if message
        else contextlib.nullcontext()
    )
    with refused:
        sharding.check_batch(size, microbatches, mesh_of((4, 2, 1)))
