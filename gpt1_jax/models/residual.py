"""Section 3.1, Eq. 2: add a sublayer's output to the residual stream, then LayerNorm (post-LayerNorm)."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from gpt1_jax.models import dropout
from gpt1_jax.models.kernels import dispatch


def add_and_norm(x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, site: int, *, rate: float = 0.0,
                 key: dropout.Key | None = None, layer: jax.Array | int = 0,
                 choice: str = 'auto') -> tuple[jax.Array, jax.Array]:
    """LayerNorm(x + dropout(a)) * scale + bias, by plain XLA or our fused kernel: see dispatch.choose.

    x, a: [B, L, D], of one dtype. scale, bias: float32[D]. site, rate, key, layer: dropout of a (see dropout.Key); the
    masks are the same in both implementations. choice: one of dispatch.CHOICES. Returns the result, [B, L, D] of x's
    dtype, twice: once for the next sublayer, once for the residual stream past it. So the kernel gets the gradients of
    both and adds them itself, where automatic differentiation would add them in a pass over memory of its own.
    UserError as of dispatch.choose.
    """
    platform, device_kind = dispatch.device()
    name = dispatch.choose('residual_norm', choice, platform, device_kind, x.dtype, x.shape[-1], key is not None,
                           length=x.shape[1])
    return add_and_norm_by(name, x, a, scale, bias, site, rate=rate, key=key, layer=layer, interpret=platform == 'cpu')


def add_and_norm_by(name: str, x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, site: int, *,
                    rate: float = 0.0, key: dropout.Key | None = None, layer: jax.Array | int = 0,
                    interpret: bool = False) -> tuple[jax.Array, jax.Array]:
    """As `add_and_norm`, by the implementation of this name. interpret: interpret our kernel, on any device."""
    if name == 'fused':
        # Imported only where it is used, as other devices need no Pallas for GPUs.
        from gpt1_jax.models.kernels import residual_norm
        return residual_norm.add_and_norm(x, a, scale, bias, site, rate=rate, key=key, layer=layer, interpret=interpret)
    return _plain(x, a, scale, bias, key, layer, site, rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(6, 7))
def _plain(x, a, scale, bias, key, layer, site, rate):
    """add_and_norm in plain XLA. The gradient is written by hand: it keeps the normalised vectors alone, where
    automatic differentiation keeps several float32 arrays of their size."""
    return _forward(x, a, scale, bias, key, layer, site, rate)[0]


def _forward(x, a, scale, bias, key, layer, site, rate):
    total = x.astype(jnp.float32) + dropout.dropout(a.astype(jnp.float32), rate, key, layer, site)
    mean = jnp.mean(total, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(total - mean), axis=-1, keepdims=True)
    inverse = lax.rsqrt(variance + 1e-5)  # epsilon as released (train.py 44-50), as the biased variance is
    normed = (total - mean) * inverse
    y = (normed * scale[None, None] + bias[None, None]).astype(x.dtype)
    return (y, y), (normed.astype(x.dtype), inverse, scale, key, layer)


def _backward(site, rate, saved, gradients):
    """Adding a constant to a vector, or scaling it, changes nothing after the norm: with z the normalised vector and
    dz = dy * scale, the gradient is (dz - mean(dz) - z mean(dz z)) / deviation."""
    # The barrier keeps the compiler from moving this into the forward pass, and its results into memory.
    normed, inverse, scale, key, layer = lax.optimization_barrier(saved)
    z = normed.astype(jnp.float32)
    dy, d_again = gradients
    dy = (dy + d_again).astype(jnp.float32)
    dz = dy * scale[None, None]
    mean_dz = jnp.mean(dz, axis=-1, keepdims=True)
    mean_dzz = jnp.mean(dz * z, axis=-1, keepdims=True)
    dx = (dz - mean_dz - z * mean_dzz) * inverse
    da = dropout.dropout(dx, rate, key, layer, site)
    return (dx.astype(normed.dtype), da.astype(normed.dtype), jnp.sum(dy * z, axis=(0, 1)), jnp.sum(dy, axis=(0, 1)),
            None, None)


_plain.defvjp(_forward, _backward)
