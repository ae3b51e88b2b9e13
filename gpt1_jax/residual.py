"""Section 3.1, Eq. 2: a sublayer's output joins the residual stream and is normalised, the post-norm order."""
import jax.numpy as jnp
from jax import lax

from gpt1_jax import dropout, paths
from gpt1_jax.errors import UserError


def add_and_norm(x, a, scale, bias, site, *, rate=0.0, key=None, layer=0, choice='auto'):
    """LayerNorm(x + dropout(a)) * scale + bias, by the kernel where `choice`, one of paths.CHOICES, says so.

    x, a: [B, L, D], of one type. scale, bias: float32[D]. site, rate, key, layer: dropout of a (see dropout.Key); the
    masks are the same on every path. Returns [B, L, D] of x's type. UserError where the choice cannot be.
    """
    platform, device = paths.device()
    # Without dropout and gradients the plain lines are one pass over memory too, and write less.
    if key is not None and paths.kernels(choice, platform, device, x.dtype):
        # Imported where it is used: other devices need no Pallas for GPUs.
        from gpt1_jax.kernels import residual_norm
        if residual_norm.supports(x.shape[-1]):
            return residual_norm.add_and_norm(x, a, scale, bias, site, rate=rate, key=key, layer=layer,
                                              interpret=platform != 'gpu')
        if choice == 'triton':
            raise UserError(f"model.kernels = 'triton' takes a width of up to 16 pieces of a power of two of at least "
                            f"16, not {x.shape[-1]} (n_embd): use 'xla'")
    return layer_norm(x + dropout.dropout(a, rate, key, layer, site), scale, bias)


def layer_norm(x, scale, bias):
    """Over the last dimension, in float32 whatever x's type, which the result has.

    Released code (train.py 27-32): the mean of squares of what is left without the mean, and an epsilon of 1e-5.
    """
    values, (scale, bias) = x.astype(jnp.float32), (jnp.broadcast_to(p, x.shape) for p in (scale, bias))
    mean = jnp.mean(values, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(values - mean), axis=-1, keepdims=True)
    return ((values - mean) * lax.rsqrt(variance + 1e-5) * scale + bias).astype(x.dtype)
