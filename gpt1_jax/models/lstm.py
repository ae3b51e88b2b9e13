"""Section 5, Table 5, "a single layer 2048 unit LSTM using the same framework": the baseline.

The LSTM has GPT's interface. The paper says no more about it. We chose the rest so that only the
architecture differs from GPT:

* The embedding is as wide as the layer and tied to the output, as in GPT. There are no positions,
  because the recurrence knows the order. That makes 116,461,568 parameters beside GPT's
  116,534,784.
* The gates are in the order i, f, g, o and have one bias. (torch.nn.LSTM has the same gates, and
  two biases that are always added.)
* Weights start from N(0, 0.02) and biases from zero, as in 4.1, but the forget gate's bias starts
  at 1, as in Jozefowicz et al. (2015) and in TensorFlow's LSTM cells of the time. At 0 the cell
  loses half of itself at each step, before it has learned to keep anything.
* Embedded tokens are multiplied by 50, so that the layer's inputs start with variance 1. In GPT,
  LayerNorms do this for the blocks. Without the factor a small LSTM hardly depends on its input,
  and for a long time predicts little but word frequencies.
* The state starts at zero in each window. Windows are shuffled, so no window continues the window
  before it.
* Dropout acts on the embedding matrix, as in GPT, and on the layer's output, as in GPT on a block's
  projections. There is none within the recurrence.
"""

import dataclasses
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax.models import config_checks, dropout, ops
from gpt1_jax.models.fast import table
from gpt1_jax.models.gpt import WEIGHTS, Embedding
from gpt1_jax.parallel.sharding import constrain

SCALE = 50  # 1 / 0.02, the initial standard deviation of the embedding: see above


@dataclasses.dataclass(frozen=True)
class LSTMConfig:
    """The baseline of Section 5.

    U, the number of units, is also D, the width of the states and of the embedding.
    """

    vocab_size: int = 40478  # ordinary tokens: characters and 40,000 merges
    # Rows for start, delimiter, extract: none in pretraining, 3 in fine-tuning
    n_special: int = 0
    n_ctx: int = 512  # tokens of the longest sequence (the weights do not depend on it)
    n_units: int = 2048  # U
    embd_dropout: float = 0.1  # on the embedding matrix
    resid_dropout: float = 0.1  # on the layer's output
    # Of products and activations. Parameters and the cell state are always float32
    dtype: str = 'float32'
    precision: str = 'highest'  # of products of float32 matrices, see build.precision
    # Time steps unrolled in each iteration of the scan; 0 means one, which compiles fastest
    unroll: int = 0
    kernels: str = 'auto'  # one of table.CHOICES

    n_embd = property(lambda self: self.n_units)  # D
    n_layer = property(lambda self: 1)  # N

    def __post_init__(self):
        config_checks.check(self)


class Layer(nn.Module):
    """The recurrent layer. Its weights have a layer axis of size 1, like GPT's stacked blocks."""

    config: LSTMConfig

    @nn.compact
    def __call__(self, x: jax.Array, key: dropout.Key | None) -> jax.Array:
        """Returns the states of the layer: [B, L, D] -> [B, L, U].

        If the variables 'cache' are there, the layer continues from the state h and c [1, B, U] of
        each row. The cache then has the state after the first real[0, b] tokens.
        """
        c = self.config
        kernel = self.param('input_kernel', WEIGHTS, (1, x.shape[-1], 4, c.n_units))[0].astype(
            c.dtype
        )
        recurrent = self.param('recurrent_kernel', WEIGHTS, (1, c.n_units, 4, c.n_units))[0].astype(
            c.dtype
        )
        # The forget gate is the second of i, f, g, o. Its bias starts at 1, see the top.
        bias = self.param(
            'bias',
            lambda key, shape: jnp.zeros(shape, jnp.float32).at[:, 1].set(1),
            (1, 4, c.n_units),
        )[0]
        # All terms that do not depend on the state are one product for all positions. Time comes
        # first, for the scan.
        projected = ops.add_bias(jnp.einsum('bld,dgu->lbgu', x, kernel), bias)
        recurrent = constrain(recurrent, 'recurrent')
        if self.has_variable('cache', 'h'):
            state: list[nn.Variable] = [self.variable('cache', name) for name in ('h', 'c')]
            real: jax.Array = self.get_variable('cache', 'real')[0]
            h, after = continued(projected, recurrent, [one.value[0] for one in state], real)
            for one, value in zip(state, after):
                one.value = value[None]
        else:
            steps = projected, recurrent, c.unroll or 1
            h = _forward(*steps)[0] if c.kernels == 'plain' else recurrence(*steps)
        return dropout.Dropout(key).at(dropout.MLP_OUT, c.resid_dropout)(jnp.moveaxis(h, 0, 1))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def recurrence(projected: jax.Array, kernel: jax.Array, unroll: int = 1) -> jax.Array:
    """The states h of an LSTM that starts at zero: [L, B, U].

    projected: [L, B, 4, U], the contribution of the inputs and the bias to the gates i, f, g, o.
    kernel: [U, 4, U].

    c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), with c in float32.

    The gradient is written by hand. Automatic differentiation would add to the kernel's gradient at
    each time step, and so read and write the whole array every time. One matrix product after the
    scan gives the same gradient.
    """
    return _forward(projected, kernel, unroll)[0]


def continued(
    projected: jax.Array, kernel: jax.Array, state: Any, real: jax.Array
) -> tuple[jax.Array, Any]:
    """Continues `recurrence` from a state (h, c), each [B, U], without a gradient.

    Returns (h [L, B, U], the state after real[b] steps of row b).
    """

    def step(state, at):
        z, is_real = at
        h, c = state
        new_h, new_c, _ = _step(h, c, z, kernel)
        h = jnp.where(is_real[:, None], new_h, h)
        c = jnp.where(is_real[:, None], new_c, c)
        return (h, c), new_h

    is_real = jnp.arange(len(projected))[:, None] < real[None]
    state, h = jax.lax.scan(step, tuple(state), (projected, is_real))
    return h, state


def _step(h, c, z, kernel):
    """Computes one time step: (h, c, gates after their nonlinearities).

    z: as `projected`, for this step.
    """
    z = z + jnp.einsum('bu,ugv->bgv', h, kernel, preferred_element_type=jnp.float32)
    i = jax.nn.sigmoid(z[:, 0])
    f = jax.nn.sigmoid(z[:, 1])
    g = jnp.tanh(z[:, 2])
    o = jax.nn.sigmoid(z[:, 3])
    c = f * c + i * g
    h = (o * jnp.tanh(c)).astype(h.dtype)
    return h, c, jnp.stack([i, f, g, o], axis=1).astype(h.dtype)


def _forward(projected, kernel, unroll):
    def step(state, z):
        h, c, gates = _step(*state, z, kernel)
        return (h, c), (h, c, gates)

    zero = jnp.zeros_like(projected[0, :, 0])
    _, (h, c, gates) = jax.lax.scan(
        step, (zero, zero.astype(jnp.float32)), projected, unroll=unroll
    )
    return h, (kernel, h, c, gates)


def _backward(unroll, saved, dh):
    """Backpropagation through time. dX is the gradient of the loss by X."""
    kernel, h, c, gates = saved

    def step(carry, at):
        dh_later, dc_later = carry  # float32, through the later time steps
        gates, c, c_before, dh = at
        i, f, g, o = jnp.moveaxis(gates.astype(jnp.float32), 1, 0)
        # The loss depends on h through the output layer and the next step's gates, and on c through
        # h = o tanh(c) and the next cell, f c + i g.
        tanh_c = jnp.tanh(c)
        dh = dh_later + dh
        dc = dc_later + dh * o * (1 - tanh_c * tanh_c)
        # By each gate's input: sigmoid has the derivative s (1 - s), and tanh has 1 - t^2.
        dz = jnp.stack(
            [
                dc * g * i * (1 - i),
                dc * c_before * f * (1 - f),
                dc * i * (1 - g * g),
                dh * tanh_c * o * (1 - o),
            ],
            axis=1,
        ).astype(kernel.dtype)
        dh_before = jnp.einsum('bgv,ugv->bu', dz, kernel, preferred_element_type=jnp.float32)
        return (dh_before, dc * f), dz

    zero = jnp.zeros_like(c[0])
    _, dz = jax.lax.scan(
        step, (zero, zero), (gates, c, _before(c), dh), reverse=True, unroll=unroll
    )
    dkernel = jnp.einsum('lbu,lbgv->ugv', _before(h), dz)
    return dz, dkernel


def _before(x):
    """Shifts [L, ...] by one time step: x of the step before, and zero for the first step."""
    return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])


recurrence.defvjp(_forward, _backward)


class LSTM(nn.Module):
    """The backbone, with the interface of gpt.GPT."""

    config: LSTMConfig

    @nn.compact
    def __call__(
        self, tokens: jax.Array, key: dropout.Key | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """As GPT's call, but a cache may be continued for any number of tokens.

        The table has no rows for positions.
        """
        c = self.config
        x, rows = Embedding(c, learned_positions=False, name='embed')(tokens, key)
        h = Layer(c, name='blocks')(constrain(x * SCALE, 'activations'), key)
        return constrain(h, 'activations'), rows

    def logits(self, hidden: jax.Array, rows: jax.Array) -> jax.Array:
        """As GPT's."""
        return table.logits(self.config, hidden, rows)

    def empty_cache(self, B: int, capacity: int | None = None) -> dict[str, Any]:
        """As GPT's: the zero state of B rows. capacity has no effect."""
        c = self.config
        return {
            'blocks': {
                'h': jnp.zeros((1, B, c.n_units), c.dtype),
                'c': jnp.zeros((1, B, c.n_units)),
                'real': jnp.zeros((1, B), jnp.int32),  # set by kv_cache.read
            }
        }
