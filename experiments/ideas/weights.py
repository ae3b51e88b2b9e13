"""Ideas for `model.kind` about weights: a free output layer, initial weights scaled by depth.

gpt1 pretrain --config.model.kind=experiments/ideas/weights.py:FreeOutput ...
"""

import dataclasses

import flax.linen as nn

from gpt1_jax.models.gpt import GPT, WEIGHTS, GPTConfig


class FreeOutput(GPT):
    """A GPT whose output layer is not the embedding matrix but another matrix, without dropout."""

    @nn.compact
    def __call__(self, tokens, key=None):
        x, rows = super().__call__(tokens, key)
        V = self.config.vocab_size
        output = self.param('output', WEIGHTS, (V, x.shape[-1]))
        return x, rows.at[:V].set(output.astype(rows.dtype))


@dataclasses.dataclass(frozen=True)
class ScaledConfig(GPTConfig):
    def initializer(self, name):
        """As in GPT-2, projections onto the residual stream begin smaller by the square root of
        their number."""
        return (
            nn.initializers.normal(0.02 / (2 * self.n_layer) ** 0.5)
            if name in ('out', 'proj')
            else WEIGHTS
        )


class ScaledByDepth(GPT):
    config: ScaledConfig
