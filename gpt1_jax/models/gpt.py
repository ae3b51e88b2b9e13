"""Sections 3.1 and 4.1: the decoder-only transformer, post-LayerNorm, with a tied output layer.

Eq. 2:

    h_0 = U W_e + W_p               Embedding
    h_l = transformer_block(h_l-1)  Block: Attention, AddAndNorm, MLP, AddAndNorm
    P(u) = softmax(h_n W_e^T)       training/losses.py, from the states and Embeddings of GPT

The modules hold the parameters and compute with the operations of ops.py, or with faster ones
(table.ops). Dimensions: B batch, K sequences of an example, L length, D width, H heads, E size of a
head, F hidden width of the MLP, V vocabulary, S specials, C context (positions), N layers.
"""

import dataclasses
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax.errors import UserError
from gpt1_jax.models import config_checks, dropout, kv_cache, layers, ops
from gpt1_jax.models.dropout import Dropout
from gpt1_jax.models.execution import Execution
from gpt1_jax.models.fast import table
from gpt1_jax.parallel.sharding import constrain, gathered

# 4.1: "a simple weight initialization of N(0, 0.02)"
WEIGHTS = nn.initializers.normal(0.02, jnp.float32)


@dataclasses.dataclass(frozen=True)
class GPTConfig(Execution):
    """The model of Section 4.1. Every default is the paper's."""

    vocab_size: int = 40478  # V, ordinary tokens: characters and 40,000 merges
    # S, rows for start, delimiter, extract: none in pretraining, 3 in fine-tuning
    n_special: int = 0
    n_ctx: int = 512  # C
    n_embd: int = 768  # D
    n_layer: int = 12  # N
    n_head: int = 12  # H
    n_inner: int = 3072  # F
    embd_dropout: float = 0.1  # on the embedding matrix
    attn_dropout: float = 0.1  # on attention probabilities
    resid_dropout: float = 0.1  # after the output projections of attention and MLP

    def __post_init__(self):
        config_checks.check(self)

    def initializer(self, name: str | None) -> nn.initializers.Initializer:
        """The initializer of a block's kernel 'qkv', 'out', 'fc' or 'proj'.

        Here all kernels have the same. In a subclass it may depend on the name.
        """
        return WEIGHTS


class Embeddings(NamedTuple):
    """A step's embedding matrix after dropout, for both the look-up and the output layer.

    As in the released code (train.py 165-175).
    """

    tokens: jax.Array  # [V, D]
    specials: jax.Array  # [S, D]
    positions: jax.Array  # [C, D]


class Embedding(nn.Module):
    """Eq. 2: h_0 = U W_e + W_p, or h_0 = U W_e if `learned_positions` is False."""

    config: Any  # GPTConfig, LSTMConfig
    learned_positions: bool = True

    @nn.compact
    def __call__(self, tokens: jax.Array, key: dropout.Key | None) -> tuple[jax.Array, Embeddings]:
        """Embeds the tokens, int[B, L] -> (h_0 [B, L, D], Embeddings)."""
        c = self.config
        L = tokens.shape[1]
        if L > c.n_ctx:
            raise UserError(f'a sequence of {L} tokens is longer than the context, {c.n_ctx}')
        # Dropout acts on one matrix of three parts: the mask of a part begins after the mask of the
        # part before.
        drop = Dropout(key).at(dropout.EMBEDDING, c.embd_dropout)
        sizes = {
            'tokens': c.vocab_size,
            'specials': c.n_special,
            'positions': c.n_ctx if self.learned_positions else 0,
        }
        parts = {}  # in float32
        first_row = 0
        for name, n in sizes.items():
            rows = self.param(name, WEIGHTS, (n, c.n_embd)) if n else jnp.zeros((0, c.n_embd))
            parts[name] = drop(rows, offsets=(first_row,))
            first_row += n
        # Each part is rounded, and gathered from the devices of a mesh, once a step
        whole = Embeddings(
            **{name: gathered(x.astype(c.dtype), 'embed/tokens') for name, x in parts.items()}
        )
        look_up = table.ops(c).look_up
        if not c.n_special:
            x = look_up(parts['tokens'], tokens, whole.tokens)
        else:
            x = look_up(parts['tokens'], jnp.minimum(tokens, c.vocab_size - 1), whole.tokens)
            special = jnp.clip(tokens - c.vocab_size, 0, c.n_special - 1)
            is_special = (tokens >= c.vocab_size)[:, :, None]
            x = jnp.where(is_special, look_up(parts['specials'], special, whole.specials), x)
        if self.learned_positions:
            rows = constrain(gathered(parts['positions'], 'embed/positions'), 'embeddings')
            if self.has_variable('cache', 'length'):
                rows = jnp.take(rows, kv_cache.positions(self, L), axis=0, mode='clip')
            else:
                rows = rows[:L]
            x = ops.add_bias(x, rows)
        return x, whole


class Dense(nn.Module):
    """x @ kernel + bias.

    features: the dimensions of the result, which replace the last n_in dimensions of x.
    """

    config: GPTConfig
    features: tuple[int, ...]
    n_in: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param(
            'kernel',
            self.config.initializer(str(self.name)),
            (*x.shape[-self.n_in :], *self.features),
        )
        bias = self.param('bias', nn.initializers.zeros, self.features, jnp.float32)
        return table.ops(self.config).dense(x, kernel, bias)


class Attention(nn.Module):
    """Multi-head causal self-attention: [B, L, D] -> [B, L, D]."""

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, drop: Dropout) -> jax.Array:
        c = self.config
        qkv = Dense(c, (3, c.n_head, c.n_embd // c.n_head), name='qkv')(x)  # [B, L, 3, H, E]
        if self.has_variable('cache', 'keys'):
            a = kv_cache.attention(self, qkv, drop.layer)
        else:
            a = table.ops(c).attention(qkv, drop.at(dropout.ATTENTION, c.attn_dropout))
        return Dense(c, (c.n_embd,), n_in=2, name='out')(a)


class MLP(nn.Module):
    """The position-wise feed-forward network with GELU (4.1): [B, L, D] -> [B, L, D]."""

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c = self.config
        h = table.ops(c).gelu(Dense(c, (c.n_inner,), name='fc')(x))
        return Dense(c, (c.n_embd,), name='proj')(h)


class AddAndNorm(nn.Module):
    """LayerNorm(x + dropout(a)) for the residual stream x and a sublayer's output a."""

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, a: jax.Array, drop: Dropout) -> jax.Array:
        scale = self.param('scale', nn.initializers.ones, (x.shape[-1],), jnp.float32)
        bias = self.param('bias', nn.initializers.zeros, (x.shape[-1],), jnp.float32)
        return table.ops(self.config).add_and_norm(x, a, scale, bias, drop)


class Block(nn.Module):
    """Eq. 2, transformer_block: [B, L, D] -> [B, L, D].

    As released, LayerNorm follows each residual sum.
    """

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, drop: Dropout) -> jax.Array:
        c = self.config
        a = Attention(c, name='attn')(x, drop)
        x = AddAndNorm(c, name='ln_1')(x, a, drop.at(dropout.ATTENTION_OUT, c.resid_dropout))
        m = MLP(c, name='mlp')(x)
        x = AddAndNorm(c, name='ln_2')(x, m, drop.at(dropout.MLP_OUT, c.resid_dropout))
        return constrain(x, 'activations')


class GPT(nn.Module):
    """The backbone.

    Any module with this call and these fields in its config can take its place. A variant of GPT is
    a subclass whose `embedding` or `block` is another class with the same call.
    """

    config: GPTConfig
    embedding: type[nn.Module] = Embedding
    block: type[nn.Module] = Block

    @nn.compact
    def __call__(
        self, tokens: jax.Array, key: dropout.Key | None = None
    ) -> tuple[jax.Array, Embeddings]:
        """Returns (hidden [B, L, D], Embeddings for the tied output layer).

        Logits are `hidden @ embeddings.tokens.T`.

        tokens: int[B, L], L at most n_ctx; ids from vocab_size on are specials. key: of dropout, or
        None in evaluation.
        """
        c = self.config
        x, embeddings = self.embedding(c, name='embed')(tokens, key)
        x = constrain(x, 'activations')
        return layers.repeat(self.block(c, name='blocks'), c, x, key), embeddings

    def empty_cache(self, B: int, capacity: int | None = None) -> dict[str, Any]:
        """Returns kv_cache.empty for B rows. capacity: by default n_ctx."""
        return kv_cache.empty(self.config, B, capacity or self.config.n_ctx)
