"""A checkpoint of any mesh restores on any other, parameters and Adam's moments equal to the bit."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.runs import checkpoint
from meshes import hyper, pretraining
from saved import leaves, same
from tiny import place

pytestmark = pytest.mark.full

MESHES = ((1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 2, 2))  # (data, fsdp, tensor)
# Every dimension that the rules divide can be divided by 8.
MODEL = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_layer=2, n_embd=16, n_head=8, n_inner=32))


@pytest.fixture(scope='module')
def trained():
    """The state of two updates, on the host: moments of every size and sign."""
    one = pretraining(MODEL)
    state = one.init(jnp.uint32(0))
    for step in range(2):
        tokens = np.random.default_rng(step).integers(0, 30, (8, 9), np.int32)
        state, _ = one.step(state, place(one, {'tokens': tokens}), hyper(peak=0.1, warmup=1))
    return jax.device_get(state)


@pytest.fixture(scope='module')
def checkpoints(trained, tmp_path_factory):
    """{mesh: directory of a checkpoint saved from it}."""
    found = {}
    for shape in MESHES:
        found[shape] = tmp_path_factory.mktemp('x'.join(map(str, shape)))
        like = pretraining(MODEL, shape).state
        writer = checkpoint.Writer(found[shape])
        writer.save(jax.tree.map(lambda x, like: jax.device_put(x, like.sharding), trained, like), {})
        writer.close()
    return found


@pytest.mark.parametrize('target', MESHES, ids=str)
def test_every_mesh_reads_what_every_mesh_wrote(checkpoints, trained, target):
    like, expected = pretraining(MODEL, target).state, leaves((trained.params, trained.opt_state))
    for source, directory in checkpoints.items():
        state = checkpoint.restore(directory, 2, like)
        assert same(state, expected) and int(state.step) == 2, source
        assert all(x.sharding == wanted.sharding for x, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(like)))
        assert len(state.params['embed']['tokens'].sharding.device_set) == int(np.prod(target))
