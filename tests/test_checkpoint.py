"""Checkpoints: what is saved is what comes back, on any mesh, or a line that says why not."""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax import checkpoint, optimizer, sharding, training
from gpt1_jax.checkpoint import CheckpointError


def make(data=1, width=8, scale=1.0):
    mesh = sharding.make_mesh(data, 1, 1, devices=jax.devices()[:data])

    def init(seed):
        return {'mlp': {'fc': {'kernel': scale * jax.random.normal(jax.random.key(seed), (2, 4, width)),
                               'bias': jnp.zeros((2, width))}}}

    def loss(params, batch, key, hyper):
        return jnp.mean(jnp.square(batch['x'] @ params['mlp']['fc']['kernel'][0] - 1)), {}
    return training.make_program(init, loss, optimizer.adam(), optimizer.warmup_cosine, mesh)


HYPER = {'seed': np.uint32(0), 'peak': np.float32(0.1), 'warmup': np.float32(1), 'total': np.float32(10)}


def leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree)]


def saved(directory, steps=3, **keep):
    program = make()
    state, writer = program.init(jnp.uint32(0)), checkpoint.Writer(directory, **keep)
    history = {}
    for step in range(1, steps + 1):
        state, _ = program.step(state, program.place({'x': np.ones((8, 4), np.float32)}), HYPER)
        history[step] = leaves((state.params, state.opt_state))
        writer.save(state, {'config': {'a': 1}}, quality=-abs(step - 2.0))
    writer.close()
    return program, history


def test_asynchronous_saves_are_not_touched_by_the_updates_that_follow(tmp_path):
    program, history = saved(tmp_path, steps=6, keep_latest=6)
    for step in range(1, 7):
        state = checkpoint.restore(tmp_path, step, program.state)
        assert int(state.step) == step
        assert all(np.array_equal(a, b) for a, b in zip(leaves((state.params, state.opt_state)), history[step]))


def test_the_latest_the_best_and_the_chosen_steps_are_kept(tmp_path):
    saved(tmp_path, steps=8, keep_latest=2, keep_best=1, keep_steps=(4,))
    assert checkpoint.steps(tmp_path) == [2, 4, 7, 8]
    assert checkpoint.best_step(tmp_path) == 2


def test_a_quality_that_is_not_finite_is_never_the_best(tmp_path):
    program = make()
    state, writer = program.init(jnp.uint32(0)), checkpoint.Writer(tmp_path, keep_latest=1, keep_best=1)
    for quality in (0.5, float('nan'), 0.25):
        state, _ = program.step(state, program.place({'x': np.ones((8, 4), np.float32)}), HYPER)
        writer.save(state, {}, quality)
    writer.close()
    assert checkpoint.steps(tmp_path) == [1, 3]
    assert checkpoint.best_step(tmp_path) == 1


@pytest.mark.parametrize('devices', [2, 4, 8])
def test_a_checkpoint_of_one_device_restores_bit_equal_on_more(tmp_path, devices):
    _, history = saved(tmp_path)
    state = checkpoint.restore(tmp_path, 3, make(devices).state)
    assert all(np.array_equal(a, b) for a, b in zip(leaves((state.params, state.opt_state)), history[3]))
    assert len(state.params['mlp']['fc']['kernel'].sharding.device_set) == devices


def test_parameters_restore_alone_with_the_same_digest_on_any_mesh(tmp_path):
    _, history = saved(tmp_path)
    params = checkpoint.restore_params(tmp_path, 3, make(8).state.params)
    assert checkpoint.describe(params) == checkpoint.read_meta(tmp_path, 3)['arrays']['params']
    assert np.array_equal(params['mlp']['fc']['kernel'], history[3][1])


def test_the_digest_sees_two_flipped_signs_and_two_swapped_values():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    signs, swapped = x.copy(), x.copy()
    signs[1, 1:3] *= -1
    swapped[0, 1], swapped[2, 2] = x[2, 2], x[0, 1]
    digests = {checkpoint.describe({'count': jnp.asarray(v)})['count']['digest']
               for v in (x, signs, swapped, x.T.copy())}
    assert len(digests) == 4


def test_flipped_bytes_are_an_error_that_names_the_array_or_change_nothing(tmp_path):
    program, history = saved(tmp_path, keep_latest=1, keep_best=1)
    step = checkpoint.steps(tmp_path)[-1]
    caught = 0
    for file in sorted((tmp_path / str(step) / 'params').rglob('*')):
        if not file.is_file() or file.stat().st_size < 16:
            continue
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 3)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1:])
            try:
                params = checkpoint.restore_params(tmp_path, step, program.state.params)
                assert np.array_equal(params['mlp']['fc']['kernel'], history[step][1])
            except CheckpointError as error:
                caught += 1
                assert str(tmp_path / str(step)) in str(error) and '\n' not in str(error)
        file.write_bytes(whole)
    assert caught > 0


def test_values_changed_behind_orbax_are_caught_by_their_digest(tmp_path, monkeypatch):
    program, _ = saved(tmp_path)
    real = checkpoint._read

    def tampered(path, handler, args):
        tree = real(path, handler, args)
        if pathlib.Path(path).name == 'params':
            tree['mlp']['fc']['kernel'] = tree['mlp']['fc']['kernel'].at[0, 0, 0].add(1e-3)
        return tree
    monkeypatch.setattr(checkpoint, '_read', tampered)
    with pytest.raises(CheckpointError, match='params/mlp/fc/kernel is damaged'):
        checkpoint.restore_params(tmp_path, 3, program.state.params)


def test_a_model_of_another_shape_is_told_which_array_differs(tmp_path):
    saved(tmp_path)
    with pytest.raises(CheckpointError, match=r'params/mlp/fc/bias has shape \(2, 8\), this model wants \(2, 16\)'):
        checkpoint.restore(tmp_path, 3, make(width=16).state)


def test_an_array_that_is_not_in_the_checkpoint_is_named(tmp_path):
    program, _ = saved(tmp_path)
    like = program.state.params | {'ln_1': {'scale': jax.ShapeDtypeStruct((2,), jnp.float32)}}
    with pytest.raises(CheckpointError, match='params/ln_1/scale is not in the checkpoint'):
        checkpoint.restore_params(tmp_path, 3, like)


def test_a_missing_step_is_one_line(tmp_path):
    program, _ = saved(tmp_path)
    with pytest.raises(CheckpointError, match='99: no such checkpoint'):
        checkpoint.restore(tmp_path, 99, program.state)
    assert checkpoint.steps(tmp_path / 'nowhere') == []
