"""Section 3.1, Eq. 2: causal self-attention with dropout on its probabilities. This path runs everywhere and is the
reference for any faster one."""
import jax
import jax.numpy as jnp

from gpt1_jax import dropout


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
