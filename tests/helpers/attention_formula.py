"""Attention with dropout as a formula in float64, and what a test of a kernel compares with it."""
import jax
import jax.numpy as jnp
import numpy as np

import reference
from gpt1_jax.models import dropout
from gpt1_jax.models.attention import causal_attention
from gpt1_jax.parallel import sharding

SEED, STEP, LAYER, ROW = 7, 1234567, 3, 5
KEY = dropout.Key(jnp.uint32(SEED), jnp.uint32(STEP), jnp.uint32(ROW))


def inputs(B, L, H, E, dtype=jnp.float32):
    """qkv [B, L, 3, H, E] and the gradient of the output [B, L, H, E]."""
    generator = np.random.default_rng(0)
    return tuple(jnp.asarray(generator.normal(size=shape), dtype) for shape in ((B, L, 3, H, E), (B, L, H, E)))


def formula(qkv, d_out, rate, key):
    """Output and gradient of qkv in float64, with the mask in Python's ints."""
    q, k, v = np.asarray(qkv, np.float64).transpose(2, 0, 3, 1, 4)  # [B, H, L, E] each
    d_out = np.asarray(d_out, np.float64).transpose(0, 2, 1, 3)
    (L, E), rate = q.shape[2:], 0.0 if key is None else rate
    scores = np.where(np.tril(np.ones((L, L), bool)), q @ k.transpose(0, 1, 3, 2) / np.sqrt(E), -np.inf)
    p = reference.softmax(scores)
    scale = np.ones_like(p)
    if rate:
        scale = reference.keep((SEED, STEP, LAYER, dropout.ATTENTION), p.shape, rate, (ROW,)) / (1 - rate)
    dp = d_out @ v.transpose(0, 1, 3, 2) * scale
    d_scores = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(E)
    gradient = np.stack([d_scores @ k, d_scores.transpose(0, 1, 3, 2) @ q, (p * scale).transpose(0, 1, 3, 2) @ d_out])
    return ((p * scale) @ v).transpose(0, 2, 1, 3), gradient.transpose(1, 3, 0, 2, 4)


def run(attention, qkv, d_out):
    """(output, gradient of qkv) of a function of qkv, jitted."""
    def both(qkv, d_out):
        out, gradient = jax.vjp(attention, qkv)
        return out, gradient(d_out)[0]
    return [np.asarray(x, np.float64) for x in jax.jit(both)(qkv, d_out)]


def plain(rate, key):
    return lambda qkv: causal_attention(*jnp.moveaxis(qkv, 2, 0), rate=rate, key=key, layer=LAYER)


def check_formula(attentions, qkv, d_out, rate, key):
    """Outputs and gradients of each attention are the formula's, to rounding."""
    expected = formula(qkv, d_out, rate, key)
    for attention in attentions:
        for found, wanted in zip(run(attention, qkv, d_out), expected):
            np.testing.assert_allclose(found, wanted, atol=3e-6 * np.abs(wanted).max())


def check_half_precision(ours, qkv, d_out):
    """In bfloat16 `ours` is no further from the formula than the plain path. ours: (rate, key) -> attention."""
    expected = formula(qkv, d_out, 0.1, KEY)
    errors = [[np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
               for found, wanted in zip(run(attention(0.1, KEY), qkv, d_out), expected)] for attention in (ours, plain)]
    for kernel, reference_path in zip(*errors):
        assert 0 < kernel < min(1.2 * reference_path, 0.01)


def without_and_with_mesh(attention, qkv, d_out, sizes):
    """What `run` gives on one device, and on a mesh of these sizes."""
    expected = run(attention, qkv, d_out)
    with jax.set_mesh(sharding.make_mesh(*sizes)):
        return expected, run(attention, qkv, d_out)
