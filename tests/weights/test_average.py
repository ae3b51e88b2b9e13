"""gpt1_jax.weights.average: the mean of checkpoints is a run that every program reads."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exports
import gpt1_jax
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.runs import checkpoint
from gpt1_jax.training import loop
from gpt1_jax.weights import average


@pytest.fixture(scope='module')
def three_steps(tmp_path_factory):
    """A pretraining run with saved steps 4, 5, 6; {step: params}."""
    run = exports.pretrained(tmp_path_factory.mktemp('average') / 'run')
    first = load.pretrained(run, 4, exports.MESH)[1]
    params, zero = {4: first}, jnp.zeros([], jnp.int32)
    writer = checkpoint.Writer(run.checkpoints, keep_latest=3)
    for step in (5, 6):
        params[step] = jax.tree.map(lambda x: jnp.float32(x * step + 1e-3), first)
        writer.save(loop.TrainState(jnp.int32(step), params[step], {'count': zero}, zero, jnp.zeros([], bool)), {},
                    quality=step)
    writer.close()
    return run, params


def test_the_new_run_holds_the_mean_of_the_steps_and_can_be_loaded(three_steps, tmp_path):
    run, params = three_steps
    made = average.average(run.path, [4, 6], tmp_path / 'mean')
    found = load.pretrained(made, 0, exports.MESH)[1]
    trees = found, params[4], params[6]
    for mean, a, b in zip(*map(jax.tree.leaves, trees), strict=True):
        expected = (np.asarray(a, np.float64) + np.asarray(b, np.float64)) / 2
        np.testing.assert_array_equal(mean, expected.astype(np.float32))
    assert len(gpt1_jax.load(made.path).score('a b')[0])
    assert set(made.config['imported']['files']) == {'step 4', 'step 6'}


@pytest.mark.parametrize('steps, message', [([4], 'at least two'), ([4, 4], 'at least two'), ([4, 7], 'step 7')])
def test_steps_that_cannot_be_averaged_are_named(three_steps, tmp_path, steps, message):
    with pytest.raises(UserError, match=message):
        average.average(three_steps[0].path, steps, tmp_path / 'mean')
    assert not (tmp_path / 'mean').exists()
