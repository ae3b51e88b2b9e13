"""An idea for `model.kind`: LayerNorm before each sublayer and after the last block, as in GPT-2.

gpt1 pretrain --config.model.kind=experiments/ideas/pre_norm.py:PreNorm ...
"""

import flax.linen as nn

from gpt1_jax.models import dropout
from gpt1_jax.models.gpt import GPT, MLP, Attention, GPTConfig


def norm(config: GPTConfig, name: str) -> nn.LayerNorm:
    return nn.LayerNorm(epsilon=1e-5, dtype=config.dtype, name=name)


class PreNormBlock(nn.Module):
    config: GPTConfig

    @nn.compact
    def __call__(self, x, drop):
        c = self.config
        a = Attention(c, name='attn')(norm(c, 'ln_1')(x), drop)
        x = x + drop.at(dropout.ATTENTION_OUT, c.resid_dropout)(a)
        m = MLP(c, name='mlp')(norm(c, 'ln_2')(x))
        return x + drop.at(dropout.MLP_OUT, c.resid_dropout)(m)


class PreNorm(GPT):
    block: type[nn.Module] = PreNormBlock

    @nn.compact
    def __call__(self, tokens, key=None):
        x, rows = super().__call__(tokens, key)
        return norm(self.config, 'ln_f')(x), rows
