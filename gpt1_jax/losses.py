"""Sections 3.1 and 3.2, Eqs. 1, 4, 5: the losses, as float32 means."""
import jax
import jax.numpy as jnp


def token_losses(hidden, rows, targets):
    """-log P of each target under softmax(hidden @ rows.T), Eq. 2.

    hidden: [B, L, D]. rows: [R, D], the output layer. targets: int[B, L] below R. Returns float32[B, L], in nats.
    """
    losses = _cross_entropy(hidden.reshape(-1, hidden.shape[-1]), rows, targets.reshape(-1))
    return losses.reshape(targets.shape)


@jax.custom_vjp
def _cross_entropy(hidden, rows, targets):
    """[T, D], [R, D], int[T] -> float32[T]. The gradient by hand, softmax - one-hot: what automatic differentiation
    makes of the same lines passes over the logits twice as often."""
    return _cross_entropy_forward(hidden, rows, targets)[0]


def _cross_entropy_forward(hidden, rows, targets):
    logits = jnp.einsum('td,rd->tr', hidden, rows, preferred_element_type=jnp.float32)
    normaliser = jax.nn.logsumexp(logits, axis=-1)
    label = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    return normaliser - label, (hidden, rows, targets, logits, normaliser)


def _cross_entropy_backward(saved, gradient):
    hidden, rows, targets, logits, normaliser = saved
    one_hot = jnp.arange(rows.shape[0])[None] == targets[:, None]
    by_logit = (jnp.exp(logits - normaliser[:, None]) - one_hot) * gradient[:, None]
    by_logit = by_logit.astype(hidden.dtype)
    return by_logit @ rows, by_logit.T @ hidden, None


_cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def pretraining_loss(hidden, table, targets):
    """Eq. 1 per row: the mean loss of a window's tokens, over the vocabulary's rows alone. Returns float32[B]."""
    return jnp.mean(token_losses(hidden, table.tokens, targets), axis=1)


def auxiliary_lm_loss(hidden, table, tokens, mask):
    """Eq. 5's L1 per sequence, as released (train.py 176-178): the mean over its own real tokens.

    hidden: [B, L, D]. tokens: int[B, L]. mask: [B, L], 1 at real tokens, the delimiter and extract tokens included.
    Released code: the softmax covers all rows of the embedding matrix, specials and positions too. Returns float32[B].
    """
    losses = token_losses(hidden[:, :-1], jnp.concatenate(table), tokens[:, 1:])
    weights = mask[:, 1:].astype(jnp.float32)
    return jnp.sum(losses * weights, axis=1) / jnp.maximum(jnp.sum(weights, axis=1), 1)


def task_loss(logits, target):
    """Eq. 4 per example: -sum of target x log P, which is -log P of the label where the target is one-hot.

    logits, target: [B, C]; the target's rows add up to 1. Returns float32[B].
    """
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return -jnp.sum(jnp.where(target > 0, target * log_p, 0), axis=-1)


def squared_loss(values, target):
    """(value - target)^2 per example, for a score that is read out as one number. [B, 1] each; returns float32[B]."""
    return jnp.square(values.astype(jnp.float32) - target)[:, 0]
