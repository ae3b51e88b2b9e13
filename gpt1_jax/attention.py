"""Section 3.1, Eq. 2: causal self-attention with dropout on its probabilities.

`causal_attention` is the plain path, which runs everywhere and is the reference for the faster ones. `self_attention`
is what the model calls: it chooses.
"""
import jax
import jax.numpy as jnp

from gpt1_jax import dropout, paths
from gpt1_jax.errors import UserError


def self_attention(qkv, *, rate=0.0, key=None, layer=0, choice='auto'):
    """Each position's mix of the values at and before it, by the path that `path` names.

    qkv: [B, L, 3, H, E]. rate, key, layer: dropout of the probabilities (see dropout.Key); the masks are the same on
    every path. choice: one of paths.CHOICES. Returns [B, L, H, E]. UserError where the choice cannot be.
    """
    platform, device = paths.device()
    chosen = path(choice, platform, device, qkv.dtype, qkv.shape[-1], key is not None)
    if chosen == 'xla':
        return causal_attention(*jnp.moveaxis(qkv, 2, 0), rate=rate, key=key, layer=layer)
    # Imported where it is used: other devices need no Pallas for GPUs.
    from gpt1_jax.kernels import devices, flash_attention
    if chosen == 'flash':
        return flash_attention.flash_attention(qkv, rate=rate, key=key, layer=layer, interpret=platform != 'gpu')

    def cudnn(_row, _head, qkv):
        return jax.nn.dot_product_attention(*jnp.moveaxis(qkv, 2, 0), is_causal=True, implementation='cudnn')
    return devices.on_each(cudnn, (qkv,), ('BL3HE',), 'BLHE')


def path(choice, platform, device, dtype, E, training):
    """'xla', 'flash' or 'cudnn': which path serves a choice. UserError where none can.

    platform, device: of JAX, ('gpu', 'NVIDIA H200'). E: size of a head. training: whether there may be dropout and
    gradients; without them 'auto' takes cuDNN, which has no dropout to agree with ours.
    """
    if not paths.kernels(choice, platform, device, dtype):
        return 'xla'
    power_of_two = E >= 16 and E & (E - 1) == 0
    if choice == 'triton' and not power_of_two:
        raise UserError(f"model.kernels = 'triton' takes heads of a power of two and at least 16, these have {E} "
                        "(n_embd / n_head): use 'xla'")
    if choice == 'auto' and not training and E % 8 == 0 and E <= 128:
        return 'cudnn'
    return 'flash' if power_of_two else 'xla'


def causal_attention(q, k, v, *, rate=0.0, key=None, layer=0):
    """Each position's mix of the values at and before it.

    q, k, v: [B, L, H, E], E the size of a head. rate, key, layer: dropout of the probabilities (see dropout.Key).
    Returns [B, L, H, E]. Scores, mask and softmax are float32 whatever the inputs' type.
    """
    probabilities = causal_probabilities(q, k).astype(q.dtype)
    probabilities = dropout.dropout(probabilities, rate, key, layer, dropout.ATTENTION)
    return jnp.einsum('bhlm,bmhe->blhe', probabilities, v)


def causal_probabilities(q, k):
    """How much each position attends to each one at and before it: q, k [B, L, H, E] -> float32[B, H, L, L]."""
    L, E = q.shape[1], q.shape[3]
    scores = jnp.einsum('blhe,bmhe->bhlm', q, k, preferred_element_type=jnp.float32) * E ** -0.5
    # Released code: the mask replaces the score by -1e9. There is no padding mask: pads lie right of every token read.
    scores = jnp.where(jnp.tril(jnp.ones((L, L), bool))[None, None], scores, -1e9)
    return jax.nn.softmax(scores, axis=-1)


def cached_attention(q, k, v, positions):
    """`causal_attention` of L tokens that may lie anywhere among C places, all of whose keys and values are at hand.

    q: [B, L, H, E]. k, v: [B, H, C, E], by place; what stands right of a token is hidden from it. positions: int[B, L],
    the places of q. Returns [B, L, H, E].
    """
    C, E = k.shape[2:]
    scores = jnp.einsum('blhe,bhme->bhlm', q, k, preferred_element_type=jnp.float32) * E ** -0.5
    seen = jnp.arange(C)[None, None] <= positions[:, :, None]
    scores = jnp.where(seen[:, None], scores, -1e9)
    return jnp.einsum('bhlm,bhme->blhe', jax.nn.softmax(scores, axis=-1).astype(q.dtype), v)
