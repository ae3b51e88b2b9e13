"""A checkpoint of any mesh restores on any other, parameters and Adam's moments equal to the bit."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint
from gpt1_jax.training import loop, losses, optimizer
from saved import leaves, same
from tiny import place

pytestmark = pytest.mark.full

# (data, fsdp, tensor), on the first so many of eight devices; the others with -m slow.
FEW = ((1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 2, 2))
MESHES = FEW + ((1, 8, 1), (2, 1, 1), (1, 1, 2), (1, 4, 1), (8, 1, 1), (1, 1, 8))


def program(shape):
    """Pretraining of a GPT whose every dimension that the rules divide can be divided by 8."""
    model = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_layer=2, n_embd=16, n_head=8, n_inner=32))
    mesh = sharding.make_mesh(*shape, devices=jax.devices()[:int(np.prod(shape))])

    def init(seed):
        return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']

    def loss(params, batch, key, hyper):
        hidden, table = model.apply({'params': params}, batch['tokens'][:, :-1], key)
        return jnp.mean(losses.pretraining_loss(hidden, table, batch['tokens'][:, 1:])), {}
    return loop.make_program(init, loss, optimizer.adam(), optimizer.warmup_cosine, mesh)


@pytest.fixture(scope='module')
def trained():
    """The state of two updates, on the host: moments of every size and sign."""
    one = program((1, 1, 1))
    hyper = {'seed': np.uint32(0), 'peak': np.float32(0.1), 'warmup': np.float32(1), 'total': np.float32(10),
             'decay': np.float32(0),
             'skips': np.int32(0)}
    state = one.init(jnp.uint32(0))
    for step in range(2):
        tokens = np.random.default_rng(step).integers(0, 30, (8, 9), np.int32)
        state, _ = one.step(state, place(one, {'tokens': tokens}), hyper)
    return jax.device_get(state)


@pytest.fixture(scope='module')
def checkpoints(trained, tmp_path_factory, request):
    """{mesh: directory of a checkpoint saved from it}."""
    found = {}
    for shape in MESHES if request.config.option.markexpr == 'slow' else FEW:
        found[shape] = tmp_path_factory.mktemp('x'.join(map(str, shape)))
        placed = jax.tree.map(lambda x, like: jax.device_put(x, like.sharding), trained, program(shape).state)
        writer = checkpoint.Writer(found[shape])
        writer.save(placed, {})
        writer.close()
    return found


@pytest.mark.parametrize('target', FEW, ids=str)
def test_every_mesh_reads_what_every_mesh_wrote(checkpoints, trained, target):
    check(checkpoints, trained, target)


def check(checkpoints, trained, target):
    like, expected = program(target).state, leaves((trained.params, trained.opt_state))
    for source, directory in checkpoints.items():
        state = checkpoint.restore(directory, 2, like)
        assert same(state, expected) and int(state.step) == 2, source
        assert all(x.sharding == wanted.sharding for x, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(like)))
        assert len(state.params['embed']['tokens'].sharding.device_set) == int(np.prod(target))
