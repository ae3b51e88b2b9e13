"""A checkpoint restores the same arrays on any mesh, or a line says why it cannot."""

import errno
import math
import os
import shutil
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orbax.checkpoint import v1 as ocp

from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.runs import checkpoint, retention
from gpt1_jax.runs.checkpoint import CheckpointError, DamagedError
from meshes import hyper, pretraining
from saved import advanced, flip, leaves, make, same, saved
from tiny import place


def test_what_is_saved_is_a_copy_that_no_update_touches(tmp_path, monkeypatch):
    program = make()
    given = []
    state = program.init(jnp.uint32(0))
    writer = checkpoint.Writer(tmp_path)
    monkeypatch.setattr(
        ocp, 'save_checkpointables_async', lambda path, items: given.append(items) or mock.Mock()
    )
    writer.save(state, {})
    writer.close()
    kernel, saved_kernel = (
        tree['mlp']['fc']['kernel'] for tree in (state.params, given[0]['params'])
    )
    assert saved_kernel.unsafe_buffer_pointer() != kernel.unsafe_buffer_pointer()
    np.testing.assert_array_equal(saved_kernel, kernel)


def test_the_latest_the_best_and_the_chosen_steps_are_kept(tmp_path):
    saved(tmp_path, steps=8, keep_latest=2, keep_best=1, keep_steps=(4,))
    assert checkpoint.steps(tmp_path) == [2, 4, 7, 8]
    assert checkpoint.best_step(tmp_path) == 2


@pytest.mark.parametrize(
    'qualities, kept',
    [
        ((math.nan, math.nan, math.nan, math.nan), {3, 4}),
        ((math.nan, -3.0, math.inf, math.nan, -4.0), {2, 4, 5}),
        ((None, 0.5, None, 0.5, None, None), {2, 5, 6}),  # of equals the earliest
        ((0.1, 0.3, 0.2, -math.inf), {2, 3, 4}),
    ],
)
def test_retention_keeps_the_latest_two_and_the_best_finite_one(qualities, kept):
    assert retention.kept(dict(enumerate(qualities, 1)), 2, 1, ()) == kept


def test_a_step_whose_meta_is_damaged_is_not_deleted_and_hinders_no_save(tmp_path):
    program, _ = saved(tmp_path, 3)
    flip(tmp_path / '2' / 'meta' / 'data.json')
    writer = checkpoint.Writer(tmp_path, keep_latest=1)
    writer.save(advanced(program, checkpoint.restore(tmp_path, 3, program.state)), {})
    writer.close()
    # 3 is the best of those that can be judged
    assert checkpoint.steps(tmp_path) == [2, 3, 4]


def test_a_deletion_cut_short_leaves_no_step_and_is_finished_by_the_next_run(tmp_path):
    saved(tmp_path, 2)
    (tmp_path / '1').rename(tmp_path / '1.deleted')
    (tmp_path / '1.deleted' / 'meta' / 'data.json').unlink()
    assert checkpoint.steps(tmp_path) == [2] and checkpoint.best_step(tmp_path) == 2
    checkpoint.Writer(tmp_path).close()
    assert [p.name for p in tmp_path.iterdir()] == ['2']


def test_the_digest_of_parameters_sees_them_and_no_state_of_the_optimizer(tmp_path):
    program = make()
    writer = checkpoint.Writer(tmp_path, keep_latest=3)
    fresh = program.init(jnp.uint32(0))
    # The rate of the first update is zero.
    trained = advanced(program, advanced(program, fresh))
    fresh = program.init(jnp.uint32(0))
    writer.save(trained, {})
    writer.save(trained._replace(step=jnp.int32(3), opt_state=fresh.opt_state), {})
    writer.save(trained._replace(step=jnp.int32(4), params=fresh.params), {})
    writer.close()
    metas = [checkpoint.read_meta(tmp_path, step) for step in (2, 3, 4)]
    first, other_moments, other_params = map(checkpoint.params_digest, metas)
    assert first == other_moments != other_params


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp('whole')
    return saved(directory)[0], directory


def test_a_step_with_an_edited_meta_or_under_another_number_is_refused(whole, tmp_path):
    program, directory = whole
    shutil.copytree(directory / '3', tmp_path / '7')
    with pytest.raises(DamagedError, match='7: holds step 3; there is no other step'):
        checkpoint.restore(tmp_path, 7, program.state)
    meta = (tmp_path / '7').rename(tmp_path / '3') / 'meta' / 'data.json'
    meta.write_text(meta.read_text().replace('"quality": -1.0', '"quality": -0.0'))
    with pytest.raises(DamagedError, match='meta does not match the digest made when it was saved'):
        checkpoint.best_step(tmp_path)


def lost(params):
    """For the machine's reasons: a fallback must not pass over the step."""
    raise RuntimeError('no route to the disk')


def tampered(params):
    params['mlp']['fc']['kernel'] = params['mlp']['fc']['kernel'].at[0, 0, 0].add(1e-3)
    return params


@pytest.mark.parametrize(
    'change, message', [(lost, 'no route to the disk'), (tampered, 'params/.*kernel is damaged')]
)
def test_values_changed_behind_orbax_are_caught_by_their_digest_and_a_reading_error_is_no_damage(
    whole, monkeypatch, change, message
):
    program, directory = whole
    read = checkpoint._read
    monkeypatch.setattr(
        checkpoint,
        '_read',
        lambda path, item, tree: (
            change(read(path, item, tree)) if item == 'params' else read(path, item, tree)
        ),
    )
    for restore, like in (
        (checkpoint.restore, program.state),
        (checkpoint.restore_params, program.state.params),
    ):
        with pytest.raises(CheckpointError, match=message) as caught:
            restore(directory, 3, like)
        assert isinstance(caught.value, DamagedError) == (change is tampered)


def test_a_write_that_fails_is_told_once_with_the_steps_that_are_complete(tmp_path, monkeypatch):
    """Stands in for a full disk where none can be made; the next Writer goes on from the steps
    before."""
    program, _ = saved(tmp_path, 2)

    async def full(*_, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def save_third():
        writer = checkpoint.Writer(tmp_path)
        writer.save(advanced(program, checkpoint.restore(tmp_path, 2, program.state)), {})
        return writer

    with monkeypatch.context() as patch:
        patch.setattr(ocp.handlers.JsonHandler, '_background_save', full)
        writer = save_third()
        line = r'3: cannot be written \(No space left on device\); complete steps: 1, 2$'
        with pytest.raises(CheckpointError, match=line):
            writer.close()
        writer.close()
    assert checkpoint.steps(tmp_path) == [1, 2]
    save_third().close()
    assert checkpoint.steps(tmp_path)[-1] == 3


def test_the_digest_sees_two_flipped_signs_and_two_swapped_values():
    x = np.arange(12, dtype=np.float32)
    signs = np.where((x == 4) | (x == 5), -x, x)
    swapped = x[[0, 1, 2, 3, 4, 10, 6, 7, 8, 9, 5, 11]]
    several = (x, signs, swapped)
    digests = {checkpoint.describe({'x': jnp.asarray(v)})['x']['digest'] for v in several}
    assert len(digests) == 3


def test_a_model_of_another_shape_is_told_which_array_differs(whole):
    with pytest.raises(
        CheckpointError,
        match=r'params/mlp/fc/bias has shape \(2, 8\), this model '
        r'wants \(2, 16\)',
    ):
        checkpoint.restore(whole[1], 3, make(width=16).state)


@pytest.mark.full
def test_every_mesh_reads_to_the_bit_what_every_mesh_wrote(tmp_path):
    """Parameters and moments of every size and sign, of two updates. Each dimension that is divided
    can be by 8."""
    model = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_layer=2, n_embd=16, n_head=8, n_inner=32))
    one = pretraining(model)
    trained = one.init(jnp.uint32(0))
    for step in range(2):
        tokens = np.random.default_rng(step).integers(0, 30, (8, 9), np.int32)
        trained, _ = one.step(trained, place(one, {'tokens': tokens}), hyper(peak=0.1, warmup=1))
    trained = jax.device_get(trained)
    expected = leaves((trained.params, trained.opt_state))
    meshes = (1, 1, 1), (1, 2, 2), (2, 2, 2)
    like = [pretraining(model, mesh).state for mesh in meshes]
    for number, source in enumerate(like):
        writer = checkpoint.Writer(tmp_path / str(number))
        writer.save(jax.tree.map(lambda x, to: jax.device_put(x, to.sharding), trained, source), {})
        writer.close()
        for target in like:
            state = checkpoint.restore(tmp_path / str(number), 2, target)
            assert same(state, expected) and int(state.step) == 2
            for x, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(target)):
                assert x.sharding == wanted.sharding
