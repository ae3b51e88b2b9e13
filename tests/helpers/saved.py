"""A training program of four arrays and its checkpoints, to test writing and reading. Also whole
runs."""

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.runs import checkpoint, workdir
from gpt1_jax.training import loop, optimizer, optimizer_config
from meshes import hyper, mesh_of
from tiny import place


def make(width=8):
    def init(seed):
        return {
            'mlp': {
                'fc': {
                    'kernel': jax.random.normal(jax.random.key(seed), (2, 4, width)),
                    'bias': jnp.zeros((2, width)),
                }
            }
        }

    def loss(params, batch, key, hyper):
        return jnp.mean(jnp.square(batch['x'] @ params['mlp']['fc']['kernel'][0] - 1)), {}

    return loop.make_program(
        init, loss, optimizer.adam(), optimizer_config.schedule('cosine'), mesh_of((1, 1, 1))
    )


def run(path, config, tokenizer, params, steps=1, first=1, by=1):
    """Makes a run's directory as training leaves it, with `config`.

    The steps from `first` to `steps` are `by` apart. The last step is the best and has these
    parameters. The earlier steps hold other models, of other signs and sizes.
    """
    this = workdir.start(path, config, tokenizer)
    workdir.write_config(this)
    writer = checkpoint.Writer(this.checkpoints, keep_latest=steps)
    for step in range(first, steps + 1, by):
        tree = jax.tree.map(
            lambda x: jnp.asarray(x if step == steps else x / (step - steps - 1)), params
        )
        zero = jnp.zeros([], jnp.int32)
        writer.save(
            loop.TrainState(jnp.int32(step), tree, {'count': zero}, zero, jnp.zeros([], bool)),
            {},
            quality=step,
        )
    writer.close()
    return this


def advanced(program, state):
    """The state after one update."""
    return program.step(
        state, place(program, {'x': np.ones((8, 4), np.float32)}), hyper(peak=0.1, warmup=1)
    )[0]


def leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree)]


def same(state, expected):
    """Whether a TrainState's arrays equal `leaves` to the bit."""
    found = leaves((state.params, state.opt_state))
    return len(found) == len(expected) and all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(found, expected)
    )


def saved(directory, steps=3, **keep):
    """Saves checkpoints of steps 1 to `steps`, of which step 2 is best.

    Returns (program, {step: leaves of parameters and moments}).
    """
    program = make()
    state = program.init(jnp.uint32(0))
    writer = checkpoint.Writer(directory, **keep)
    history = {}
    for step in range(1, steps + 1):
        state = advanced(program, state)
        history[step] = leaves((state.params, state.opt_state))
        writer.save(state, {'config': {'a': 1}}, quality=-abs(step - 2.0))
    writer.close()
    return program, history


def flip(path):
    """Flip one bit of a file, in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
