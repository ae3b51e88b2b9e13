"""gpt1_jax.weights.average: the mean of checkpoints is a run that every program reads."""
import jax
import numpy as np
import pytest

import exports
import gpt1_jax
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.weights import average


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return exports.pretrained(tmp_path_factory.mktemp('average') / 'run', 6)


def test_the_new_run_holds_the_mean_of_the_steps_and_can_be_loaded(run, tmp_path):
    made = average.average(run.path, [4, 6], tmp_path / 'mean')
    trees = [load.pretrained(*which, exports.MESH)[1] for which in ((made, 0), (run, 4), (run, 6))]
    for mean, a, b in zip(*map(jax.tree.leaves, trees), strict=True):
        expected = (np.asarray(a, np.float64) + np.asarray(b, np.float64)) / 2
        np.testing.assert_array_equal(mean, expected.astype(np.float32))
    assert len(gpt1_jax.load(made.path).score('a b')[0])
    assert set(made.config['imported']['files']) == {'step 4', 'step 6'}


@pytest.mark.parametrize('steps, message', [([4], 'at least two'), ([4, 4], 'at least two'), ([4, 7], 'step 7')])
def test_steps_that_cannot_be_averaged_are_named(run, tmp_path, steps, message):
    with pytest.raises(UserError, match=message):
        average.average(run.path, steps, tmp_path / 'mean')
    assert not (tmp_path / 'mean').exists()
