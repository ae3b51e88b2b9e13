"""The operations of models/ops.py in the forms that XLA computes at full speed on a CPU."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from gpt1_jax.models import ops
from gpt1_jax.models.dropout import Dropout
from gpt1_jax.models.fast import xla

BLOCKS = 4  # of attention's queries (more blocks save little work and make products smaller)
LEAST = 32  # queries in a block


# Matrix products


def matmul(a: jax.Array, b: jax.Array, axis: int, dtype: Any) -> jax.Array:
    """As xla.matmul. bfloat16 products are computed in float32 and then rounded.

    Only in this form does XLA use the processor's bfloat16 instructions (AMX), which have about
    four times the speed of float32.
    """
    return xla.matmul(a, b, axis, jnp.float32).astype(dtype)


def outer(a: jax.Array, b: jax.Array) -> jax.Array:
    """As xla.outer.

    In float32 the result has the smaller of I and O as its rows, and is transposed back, which is
    up to a third faster. The bfloat16 instructions need the rows of a^T in memory, so the smaller
    of a and b is transposed.
    """
    a = a.reshape(-1, a.shape[-1])
    b = b.reshape(-1, b.shape[-1])
    if a.dtype != jnp.bfloat16:
        if a.shape[1] <= b.shape[1]:
            return xla.outer(a, b)
        # The barrier keeps XLA from swapping the operands instead of transposing their product.
        return lax.optimization_barrier(xla.outer(b, a)).T
    # Rounded before it is transposed back. XLA would otherwise swap the operands, and it has no
    # such product on CPUs.
    if a.shape[1] <= b.shape[1]:
        return matmul(_transposed(a), b, 0, a.dtype)
    return matmul(_transposed(b), a, 0, a.dtype).T


def _transposed(x):
    """x^T, also in memory: without a layout, XLA would hand x itself to the product."""
    return with_layout_constraint(x.T, Layout((0, 1)))


PRODUCTS = xla.Products(matmul, outer)


def dense(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    return xla.dense(x, kernel, bias, PRODUCTS)


def cross_entropy(hidden: jax.Array, rows: jax.Array, targets: jax.Array, dtype: Any) -> jax.Array:
    products = PRODUCTS if hidden.dtype == jnp.bfloat16 else xla.PRODUCTS
    return xla.cross_entropy(hidden, rows, targets, dtype, products)


def gelu(x: jax.Array) -> jax.Array:
    """As xla.gelu, with barriers that keep result and gradient out of the products that read them.

    Inside a product tanh would not be vectorised.
    """
    return lax.optimization_barrier(xla.gelu(_gradient_alone(x), _by_tanh))


def _by_tanh(z):
    """As xla.by_sigmoid: on CPUs XLA's tanh is 1.1 times as fast as its sigmoid."""
    return 0.5 + 0.5 * jnp.tanh(z * (xla.ROOT + xla.ROOT * xla.CUBIC * z * z))


@jax.custom_vjp
def _gradient_alone(x):
    return x


_gradient_alone.defvjp(lambda x: (x, None), lambda _, dx: (lax.optimization_barrier(dx),))


# Attention


@jax.custom_vjp
def attention(qkv: jax.Array, drop: Dropout) -> jax.Array:
    """Attention in blocks of queries, with fewer and better products.

    A block is multiplied only with the keys up to its last query, which saves up to half of the
    work. Each head's matrices lie together in memory.
    """
    return _attention(qkv, drop)[0]


def _attention(qkv, drop):
    # Heads come first and are materialised: XLA's products of strided heads run at half the speed.
    q, k, v = lax.optimization_barrier(jnp.transpose(qkv, (2, 0, 3, 1, 4)))  # [B, H, L, E] each
    outputs = []
    saved = []
    for start, stop in _blocks(q.shape[2]):
        p = _probabilities(q[:, :, start:stop], k[:, :, :stop], start)
        signed = _signed(p, drop, start)
        saved.append(lax.optimization_barrier(signed.astype(q.dtype)))
        outputs.append(_product('bhlm,bhme->bhle', _dropped(saved[-1], drop.rate), v[:, :, :stop]))
    out = jnp.concatenate(outputs, axis=2)
    return jnp.transpose(out, (0, 2, 1, 3)), (q, k, v, saved, drop)


def _attention_gradient(residuals, dout):
    q, k, v, saved, drop = residuals
    dout = lax.optimization_barrier(jnp.transpose(dout, (0, 2, 1, 3)))
    scale = q.shape[3] ** -0.5
    dq = []
    dk = jnp.zeros(k.shape, jnp.float32)
    dv = jnp.zeros(v.shape, jnp.float32)
    # With scores S = Q K^T / sqrt(E), probabilities P, the dropout mask M (scaled by 1 / (1 -
    # rate)) and O = (P M) V:
    #     dV = (P M)^T dO      dP = M (dO V^T)      dS = P (dP - sum of P dP over the row) / sqrt(E)
    #     dQ = dS K            dK = dS^T Q
    # A block has the rows of dQ for its queries, and adds to dK and dV for the keys that it has
    # seen.
    for (start, stop), signed in zip(_blocks(q.shape[2]), saved):
        block = dout[:, :, start:stop]
        dv = _add(dv, _product('bhlm,bhle->bhme', _dropped(signed, drop.rate), block, jnp.float32))
        dp = _product('bhle,bhme->bhlm', block, v[:, :, :stop], jnp.float32)
        if drop.rate:
            dp = jnp.where(signed > 0, dp / (1 - drop.rate), 0)
        p = jnp.abs(signed.astype(jnp.float32))
        dscores = p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True)) * scale
        dscores = lax.optimization_barrier(dscores.astype(q.dtype))
        dq.append(_product('bhlm,bhme->bhle', dscores, k[:, :, :stop]))
        dk = _add(dk, _product('bhlm,bhle->bhme', dscores, q[:, :, start:stop], jnp.float32))
    dq = jnp.concatenate(dq, axis=2)
    dqkv = jnp.stack([dq, dk.astype(dq.dtype), dv.astype(dq.dtype)])
    return jnp.transpose(dqkv, (1, 3, 0, 2, 4)), None


attention.defvjp(_attention, _attention_gradient)


def _blocks(L):
    """[(first query, the query after the last)] of each block."""
    size = max(-(-L // BLOCKS), LEAST)
    return [(start, min(start + size, L)) for start in range(0, L, size)]


def _probabilities(q, k, start):
    """softmax of the queries from position `start` on with all keys up to the last: [B, H, l, m].

    q: [B, H, l, E].
    """
    scores = _product('bhle,bhme->bhlm', q, k, jnp.float32) * q.shape[3] ** -0.5
    causal = start + jnp.arange(q.shape[2])[:, None] >= jnp.arange(k.shape[2])[None]
    return jax.nn.softmax(jnp.where(causal[None, None], scores, ops.MASKED), axis=-1)


def _signed(p, drop, start):
    """The probabilities, negative if dropped: one array keeps both for the backward pass."""
    if drop.rate == 0:
        return p
    return jnp.where(drop.mask(p.shape, (drop.key.row, 0, start)), p, -p)


def _dropped(signed, rate):
    """The probabilities after dropout."""
    if rate == 0:
        return signed
    return (jnp.maximum(signed, 0) / (1 - rate)).astype(signed.dtype)


def _product(equation, a, b, dtype=None):
    """einsum, summed in float32 and rounded to dtype, by default a's dtype (see matmul)."""
    return jnp.einsum(equation, a, b, preferred_element_type=jnp.float32).astype(dtype or a.dtype)


def _add(total, part):
    """Returns total with part added to its first rows: [B, H, L, E] + [B, H, l, E]."""
    rows = total.shape[2] - part.shape[2]
    return total + jnp.pad(part, ((0, 0), (0, 0), (0, rows), (0, 0)))
