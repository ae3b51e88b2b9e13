"""Operations and backbones as a user writes them: leaks of later tokens or other rows, and honest
ideas that look like them."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.models import ops
from gpt1_jax.models.gpt import GPT, GPTConfig

# Leaks: each must be refused, before training or with trained weights


def block_mean(qkv, drop):
    """nanochat#844: q, k, v of each token get the mean of its complete block of 16."""
    B, L, _, H, E = qkv.shape
    n = L // 16
    blocks = qkv[:, : n * 16].reshape(B, n, 16, 3, H, E)
    means = jnp.broadcast_to(blocks.mean(2, keepdims=True), blocks.shape)
    rest = ((0, 0), (0, L - n * 16), (0, 0), (0, 0), (0, 0))
    return ops.attention(qkv + jnp.pad(means.reshape(B, n * 16, 3, H, E), rest), drop)


def chunk_summary(qkv, drop):
    """nanochat#844: every query also attends to summaries of all chunks of 8, later ones too."""
    B, L, _, H, E = qkv.shape
    n = max(1, L // 8)
    k, v = (qkv[:, : n * 8, i].reshape(B, n, -1, H, E).mean(2) for i in (1, 2))
    p = jax.nn.softmax(jnp.einsum('blhe,bnhe->bhln', qkv[:, :, 0], k))
    return ops.attention(qkv, drop) + jnp.einsum('bhln,bnhe->blhe', p, v)


def spectral_filter(qkv, drop):
    """nanochat#844: the values pass a filter in the frequencies of the whole row."""
    v = jnp.fft.rfft(qkv[:, :, 2].astype(jnp.float32), axis=1)
    low = jnp.arange(v.shape[1]) <= v.shape[1] // 2
    v = jnp.fft.irfft(v * low[None, :, None, None], qkv.shape[1], axis=1)
    return ops.attention(qkv.at[:, :, 2].set(v.astype(qkv.dtype)), drop)


def far_away(qkv, drop):
    """Only positions above 64 look ahead, by one token."""
    L = qkv.shape[1]
    after = jnp.roll(qkv[:, :, 2], -1, axis=1)
    far = (jnp.arange(L) > 64) & (jnp.arange(L) < L - 1)
    return ops.attention(qkv.at[:, :, 2].add(jnp.where(far[None, :, None, None], after, 0)), drop)


def one_position(qkv, drop):
    """Only position 21 looks ahead, by one token."""
    if qkv.shape[1] < 23:
        return ops.attention(qkv, drop)
    return ops.attention(qkv.at[:, 21, 2].add(qkv[:, 22, 2]), drop)


def batch_norm(x, a, scale, bias, drop):
    """Batch normalisation in place of LayerNorm, over rows and positions."""
    z = x.astype(jnp.float32) + drop(a.astype(jnp.float32))
    z = z - z.mean((0, 1), keepdims=True)
    z = z * jax.lax.rsqrt((z**2).mean((0, 1), keepdims=True) + 1e-5)
    return (z * scale[None, None] + bias[None, None]).astype(x.dtype)


def mean_of_rows(x, a, scale, bias, drop):
    """Each position also gets the mean over the rows of the batch at this position."""
    return ops.add_and_norm(x, a + a.mean(0, keepdims=True), scale, bias, drop)


def logits_of_the_next(hidden, rows):
    """Logits that also see the state of the token after."""
    return ops.logits(hidden + jnp.roll(hidden, -1, axis=0), rows)


def softcap(hidden, rows):
    return 30 * jnp.tanh(ops.logits(hidden, rows) / 30)


# Counted by Python, so it goes on from call to call
_calls = [0]


def counter(x):
    """A state that goes on from call to call, in Python."""

    def count():
        _calls[0] += 1
        return np.float32(_calls[0])

    return ops.gelu(x) * jax.pure_callback(count, jax.ShapeDtypeStruct((), jnp.float32))


class OnlyEvaluated(GPT):
    """Looks ahead if there is no dropout."""

    config: GPTConfig

    @nn.compact
    def __call__(self, tokens, key=None):
        x, embeddings = super().__call__(tokens, key)
        return x if key is not None else x + jnp.roll(x, -1, axis=1), embeddings


class ClosedGate(GPT):
    """Looks ahead through a gate that only training opens."""

    config: GPTConfig

    @nn.compact
    def __call__(self, tokens, key=None):
        x, embeddings = super().__call__(tokens, key)
        gate = self.param('gate', nn.initializers.zeros, ())
        return x + jax.nn.relu(gate - 2) * jnp.roll(x, -1, axis=1), embeddings


# Honest ideas, which read earlier positions only


def qk_norm(qkv, drop):
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    q, k = (x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) for x in (q, k))
    return ops.attention(jnp.stack([q, k, v], 2), drop)


def before(x, n):
    """x of n positions before, zeros at the start."""
    padding = [(0, 0), (n, 0), *[(0, 0)] * (x.ndim - 2)]
    return jnp.pad(x, padding)[:, : x.shape[1]]


def convolution(qkv, drop):
    return ops.attention(qkv + 0.5 * before(qkv, 1) - 0.2 * before(qkv, 2), drop)


def sliding_window(qkv, drop):
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    scores = jnp.einsum('blhe,bmhe->bhlm', q, k) * q.shape[3] ** -0.5
    behind = jnp.arange(q.shape[1])[:, None] - jnp.arange(q.shape[1])[None]
    near = (behind >= 0) & (behind < 8)
    p = jax.nn.softmax(jnp.where(near[None, None], scores, -1e9), -1)
    return jnp.einsum('bhlm,bmhe->blhe', drop(p.astype(v.dtype)), v)


def rms_norm(x, a, scale, bias, drop):
    z = x.astype(jnp.float32) + drop(a.astype(jnp.float32))
    z = z * jax.lax.rsqrt(jnp.mean(jnp.square(z), -1, keepdims=True) + 1e-5)
    return (z * scale[None, None]).astype(x.dtype)


def running_mean(x, a, scale, bias, drop):
    """Each position also gets the mean of the positions up to its own."""
    n = jnp.arange(1, a.shape[1] + 1)[None, :, None]
    return ops.add_and_norm(x, a + jnp.cumsum(a, axis=1) / n, scale, bias, drop)


class Convolved(GPT):
    """The last states pass a causal convolution."""

    config: GPTConfig

    @nn.compact
    def __call__(self, tokens, key=None):
        x, embeddings = super().__call__(tokens, key)
        return x + 0.5 * before(x, 1), embeddings
