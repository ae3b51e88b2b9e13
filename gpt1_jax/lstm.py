"""Section 5, Table 5, "a single layer 2048 unit LSTM using the same framework": the baseline, with GPT's interface.

Paper: says no more than that. Chosen here, so that the architecture is all that differs from GPT:
* The embedding is as wide as the layer and tied to the output, as GPT's is. There are no positions: the recurrence
  knows the order. That makes 116,461,568 parameters beside GPT's 116,534,784.
* Gates in the order i, f, g, o and one bias (torch.nn.LSTM has the same gates, and two biases that are always added).
* Weights from N(0, 0.02) and zero biases as in 4.1, but the forget gate's bias starts at 1: Jozefowicz et al. (2015),
  and the default of TensorFlow's LSTM cells of the time. At 0 the cell loses half of itself at each step, before it has
  learned to keep anything.
* What is looked up is multiplied by 50, so that the layer's inputs start with variance 1. GPT's LayerNorms do that for
  its blocks; without it a small LSTM reads next to nothing of its input, and stays at word frequencies for long.
* The state of each window starts at zero: windows are shuffled, none goes on from another.
* Dropout on the embedding matrix as in GPT, and on the layer's output where GPT has it on a block's projections; none
  within the recurrence.
"""
import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax import dropout
from gpt1_jax.errors import UserError, shown
from gpt1_jax.model import WEIGHTS, Cache, Embedding
from gpt1_jax.sharding import constrain

SCALE = 50  # 1 / 0.02, the deviation of the embedding's first values: see above
OUTPUT = dropout.MLP_OUT  # what leaves the last layer of a block, whichever architecture it has


@dataclasses.dataclass(frozen=True)
class LSTMConfig:
    """The baseline of Section 5. U, the number of units, is also D, the width of the states and of the embedding."""
    vocab_size: int = 40478      # ordinary tokens: characters and 40,000 merges
    n_special: int = 0           # rows for start, delimiter, extract: none in pretraining, 3 in fine-tuning
    n_ctx: int = 512             # tokens of the longest sequence; the weights do not depend on it
    n_units: int = 2048          # U
    embd_dropout: float = 0.1    # on the embedding matrix
    resid_dropout: float = 0.1   # on the layer's output
    dtype: str = 'float32'       # of products and activations; parameters and the cell are always float32
    remat: bool = False          # recompute the layer in the backward pass: less memory, a third more arithmetic
    unroll: int = 0              # time steps of the scan laid out in a row; 0: one, which compiles fastest

    def __post_init__(self):
        least = {'vocab_size': 1, 'n_special': 0, 'n_ctx': 1, 'n_units': 1, 'unroll': 0}
        problems = [f'model.{name} is {shown(getattr(self, name))}, must be a whole number of at least {low}'
                    for name, low in least.items() if type(getattr(self, name)) is not int or getattr(self, name) < low]
        problems += [f'model.{name} is {shown(getattr(self, name))}, more than there can be: 2,147,483,647'
                     for name in least if type(getattr(self, name)) is int and getattr(self, name) > 2 ** 31 - 1]
        problems += [f'model.{name} is {shown(getattr(self, name))}, must be a number of at least 0 and below 1'
                     for name in ('embd_dropout', 'resid_dropout')
                     if not isinstance(getattr(self, name), (int, float)) or not 0 <= getattr(self, name) < 1]
        if not problems and max(self.vocab_size + self.n_special, self.n_ctx, self.n_units) > 1 << 16:
            problems.append('model.vocab_size and specials, model.n_ctx and model.n_units must be at most 65,536 each, '
                            'which dropout can number')
        if self.dtype not in ('float32', 'bfloat16'):
            problems.append(f"model.dtype is {shown(self.dtype)}, must be 'float32' or 'bfloat16'")
        if type(self.remat) is not bool:
            problems.append(f'model.remat is {shown(self.remat)}, must be True or False')
        if problems:
            raise UserError('; '.join(problems))

    @property
    def n_embd(self):
        """D."""
        return self.n_units

    @property
    def n_layer(self):
        """N."""
        return 1

    @property
    def n_positions(self):
        """Rows of W_p: none."""
        return 0


class Layer(nn.Module):
    """The recurrent layer. Its weights have a layer axis of size 1 in front, as GPT's blocks are stacked."""
    config: LSTMConfig

    @nn.compact
    def __call__(self, x, key, memory=None, real=None):
        """x: [B, L, D] -> ([B, L, U], memory): (h, c), each [1, B, U], after the first real[b] tokens; see Cache."""
        c = self.config
        kernel = self.param('input_kernel', WEIGHTS, (1, x.shape[-1], 4, c.n_units))[0].astype(c.dtype)
        recurrent = self.param('recurrent_kernel', WEIGHTS, (1, c.n_units, 4, c.n_units))[0].astype(c.dtype)
        bias = self.param('bias', _initial_bias, (1, 4, c.n_units))[0].astype(c.dtype)
        # Everything but the recurrence itself is one product for all positions, time first as the scan wants it.
        projected = jnp.einsum('bld,dgu->lbgu', x, kernel) + bias[None, None]
        recurrent = constrain(recurrent, 'recurrent')
        if memory is None:
            h = recurrence(projected, recurrent, c.unroll or 1)
        else:
            h, memory = continued(projected, recurrent, memory, real)
        return dropout.dropout(jnp.moveaxis(h, 0, 1), c.resid_dropout, key, 0, OUTPUT), memory


def _initial_bias(key, shape):
    return jnp.zeros(shape).at[:, 1].set(1)  # gates i, f, g, o: see above


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def recurrence(projected, kernel, unroll=1):
    """The states of an LSTM that starts at zero: [L, B, U].

    projected: [L, B, 4, U], what the inputs and the bias add to the gates i, f, g, o. kernel: [U, 4, U].

    c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), with c in float32. The gradient is by hand: automatic
    differentiation adds to the kernel's gradient at every time step, a pass over [U, 4, U] each, where one product
    after the scan does.
    """
    return _forward(projected, kernel, unroll)[0]


def continued(projected, kernel, memory, real):
    """`recurrence` from a state on, without a gradient: ([L, B, U], the state after the first real[b] steps of row b).

    memory: (h, c), each [1, B, U]. real: int[B].
    """
    def step(carry, at):
        z, counts = at
        h, c, _ = _step(carry, z, kernel)
        return tuple(jnp.where(counts[:, None], new, old) for new, old in zip((h, c), carry)), h
    counts = jnp.arange(len(projected))[:, None] < real[None]
    memory, h = jax.lax.scan(step, tuple(state[0] for state in memory), (projected, counts))
    return h, tuple(state[None] for state in memory)


def _step(carry, z, kernel):
    """(h, c) before, and what the inputs add to the gates -> (h, c, gates): see `recurrence`."""
    h, c = carry
    z = z + jnp.einsum('bu,ugv->bgv', h, kernel, preferred_element_type=jnp.float32)
    i, f, o = (jax.nn.sigmoid(z[:, n]) for n in (0, 1, 3))
    g = jnp.tanh(z[:, 2])
    c = f * c + i * g
    h = (o * jnp.tanh(c)).astype(h.dtype)
    return h, c, jnp.stack([i, f, g, o], axis=1).astype(h.dtype)


def _forward(projected, kernel, unroll):
    def step(carry, z):
        h, c, gates = _step(carry, z, kernel)
        return (h, c), (h, c, gates)
    zero = jnp.zeros_like(projected[0, :, 0])
    _, (h, c, gates) = jax.lax.scan(step, (zero, zero.astype(jnp.float32)), projected, unroll=unroll)
    return h, (kernel, h, c, gates)


def _backward(unroll, saved, gradient):
    kernel, h, c, gates = saved

    def step(carry, at):
        by_h, by_c = carry  # float32, by way of the later steps
        gates, c, before, gradient = at
        i, f, g, o = jnp.moveaxis(gates.astype(jnp.float32), 1, 0)
        by_h, t = by_h + gradient, jnp.tanh(c)
        by_c = by_c + by_h * o * (1 - t * t)
        by_z = jnp.stack([by_c * g * i * (1 - i), by_c * before * f * (1 - f), by_c * i * (1 - g * g),
                          by_h * t * o * (1 - o)], axis=1).astype(kernel.dtype)
        by_h = jnp.einsum('bgv,ugv->bu', by_z, kernel, preferred_element_type=jnp.float32)
        return (by_h, by_c * f), by_z
    zero = jnp.zeros_like(c[0])
    _, by_z = jax.lax.scan(step, (zero, zero), (gates, c, _before(c), gradient), reverse=True, unroll=unroll)
    return by_z, jnp.einsum('lbu,lbgv->ugv', _before(h), by_z)


def _before(x):
    """[L, ...] one time step later, from zero."""
    return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])


recurrence.defvjp(_forward, _backward)


class LSTM(nn.Module):
    """The backbone: see model.GPT, whose interface this is."""
    config: LSTMConfig

    @nn.compact
    def __call__(self, tokens, key=None, cache=None, real=None):
        """The layer's states, and the rows that the tied output layer multiplies them with.

        tokens: int[B, L], L at most n_ctx; ids from vocab_size on are specials. key: dropout.Key, or None without
        dropout. Returns (hidden [B, L, D], Table); the Table's positions are [0, D]. cache, real: as GPT's; here the
        state goes on without an end, whatever n_ctx is.
        """
        c = self.config
        if tokens.shape[1] > c.n_ctx:
            raise UserError(f'a sequence of {tokens.shape[1]} tokens is longer than the context, {c.n_ctx}')
        x, table = Embedding(c, name='embed')(tokens, key)
        layer = nn.remat(Layer, prevent_cse=False) if c.remat else Layer
        memory = None if cache is None else cache.memory
        if cache is not None and real is None:
            real = jnp.full(cache.length.shape, tokens.shape[1])
        h, memory = layer(c, name='blocks')(constrain(x * SCALE, 'activations'), key, memory, real)
        h = constrain(h, 'activations')
        return (h, table) if cache is None else (h, table, Cache(memory, cache.length + real))

    def empty_cache(self, B, places=None):
        """The Cache of B rows before their first token: the state is zero. places: as GPT's, no matter how many."""
        c = self.config
        return Cache((jnp.zeros((1, B, c.n_units), c.dtype), jnp.zeros((1, B, c.n_units))), jnp.zeros(B, jnp.int32))
