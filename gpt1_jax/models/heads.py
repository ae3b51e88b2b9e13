"""Section 3.2, Eq. 3, and Figure 1 (right): the linear read-outs at the extract token."""

import flax.linen as nn
import jax.numpy as jnp

from gpt1_jax.metrics import ABSENT
from gpt1_jax.models import dropout
from gpt1_jax.models.gpt import WEIGHTS

# K, the sequences of an example; for 'choice' as many as there are choices
SEQUENCES = {'classify': 1, 'similarity': 2, 'choice': None}


class TaskModel(nn.Module):
    """A backbone and one linear layer, W_y.

    head: 'classify' (K = 1), 'similarity' (K = 2: the states of the two orders are added), or
    'choice' (a shared linear layer to one logit for each of K choices). n_labels: outputs of the
    linear layer. It is ignored for 'choice', which has one output.
    """

    backbone: nn.Module
    head: str
    n_labels: int
    classifier_dropout: float = 0.1  # 4.1: "we add dropout to the classifier with a rate of 0.1"

    @nn.compact
    def __call__(self, tokens, extract, key=None, present=None):
        """Returns (logits [B, n_labels], or [B, K] for 'choice'; hidden [B * K, L, D]; the matrix).

        tokens: int[B, K, L]. extract: int[B, K], the place of each extract token. present: [B, K],
        0 at choices that a row does not have; by default a row has all choices.
        """
        B, K, L = tokens.shape
        sequences_key = None if key is None else key._replace(row=key.row * K)
        hidden, matrix = self.backbone(tokens.reshape(B * K, L), sequences_key)
        pooled = (
            jnp.take_along_axis(hidden, extract.reshape(B * K, 1, 1), axis=1)
            .reshape(B, K, -1)
            .astype(jnp.float32)
        )
        if self.head != 'choice':
            pooled = jnp.sum(pooled, axis=1, keepdims=True)
        # The choices of an example share one mask, as released (train.py 184-188). So its shape is
        # [B, 1, D].
        drop = dropout.Dropout(key).at(dropout.CLASSIFIER, self.classifier_dropout)
        # Eq. 3 has no bias, but the released classifier has one.
        width = 1 if self.head == 'choice' else self.n_labels
        logits = nn.Dense(width, kernel_init=WEIGHTS, name='classifier')(
            pooled * drop(jnp.ones_like(pooled[:, :1]))
        )
        logits = logits.reshape(B, -1)
        if self.head == 'choice' and present is not None:
            logits = jnp.where(present > 0, logits, ABSENT)
        return logits, hidden, matrix
