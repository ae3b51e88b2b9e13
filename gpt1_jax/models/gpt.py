"""Sections 3.1 and 4.1: the decoder-only transformer, post-LayerNorm, with a tied output layer.
Eq. 2:

    h_0 = U W_e + W_p               Embedding
    h_l = transformer_block(h_l-1)  Block: Attention, AddAndNorm, MLP, AddAndNorm
    P(u) = softmax(h_n W_e^T)       training/losses.py, from the states and Embeddings of GPT

The modules hold the parameters; they compute with the operations of ops.py, or faster ones
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
from gpt1_jax.models.fast import table
from gpt1_jax.parallel.sharding import constrain, gathered

# 4.1: "a simple weight initialization of N(0, 0.02)"
WEIGHTS = nn.initializers.normal(0.02, jnp.float32)


@dataclasses.dataclass(frozen=True)
class GPTConfig:
    """The model of Section 4.1; every default is the paper's."""

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
    dtype: str = 'float32'  # of matrix products and activations; parameters are always float32
    precision: str = 'highest'  # of products of float32 matrices, see build.precision
    # Recompute each block in the backward pass: less memory, a third more arithmetic
    remat: bool = False
    # Layers unrolled in each iteration of the scan; 0: by device, see table.unroll
    unroll: int = 0
    kernels: str = 'auto'  # one of table.CHOICES
    # Pairs ('gelu', 'FILE:NAME'): the user's code in place of operations of ops.py
    ops: tuple = ()
    n_positions = property(lambda self: self.n_ctx)  # rows of W_p, the learned positions

    def __post_init__(self):
        config_checks.check(self)

    def initializer(self, name: str | None) -> nn.initializers.Initializer:
        """Of a block's kernel 'qkv', 'out', 'fc' or 'proj'; a subclass may depend on the name."""
        return WEIGHTS


class Embeddings(NamedTuple):
    """A step's embedding matrix with dropout, for look-up and output layer alike (released code,
    train.py 165-175)."""

    tokens: jax.Array  # [V, D]
    specials: jax.Array  # [S, D]
    positions: jax.Array  # [C, D]


class Embedding(nn.Module):
    """Eq. 2: h_0 = U W_e + W_p. A backbone without positions (n_positions = 0) has h_0 = U W_e."""

    config: Any  # GPTConfig, LSTMConfig

    @nn.compact
    def __call__(
        self, tokens: jax.Array, key: dropout.Key | None, positions: jax.Array | None = None
    ) -> tuple[jax.Array, Embeddings]:
        """tokens: int[B, L] -> (h_0 [B, L, D], Embeddings). positions: int[B, L], by default 0 to
        L - 1 in each row."""
        c = self.config
        if tokens.shape[1] > c.n_ctx:
            raise UserError(
                f'a sequence of {tokens.shape[1]} tokens is longer than the context, {c.n_ctx}'
            )
        # Dropout acts on one matrix of three parts: the mask of a part begins where the last one's
        # ended.
        drop = Dropout(key).at(dropout.EMBEDDING, c.embd_dropout)
        # Parts in float32
        parts = []
        first_row = 0
        for name, n in (
            ('tokens', c.vocab_size),
            ('specials', c.n_special),
            ('positions', c.n_positions),
        ):
            rows = self.param(name, WEIGHTS, (n, c.n_embd)) if n else jnp.zeros((0, c.n_embd))
            parts.append(drop(rows, offsets=(first_row,)))
            first_row += n
        dropped = Embeddings(*parts)
        # Once a step
        whole = Embeddings(*(gathered(rows.astype(c.dtype), 'embed/tokens') for rows in dropped))
        look_up = table.ops(c).look_up
        x = look_up(
            dropped.tokens,
            jnp.minimum(tokens, c.vocab_size - 1) if c.n_special else tokens,
            whole.tokens,
        )
        if c.n_special:
            special = jnp.clip(tokens - c.vocab_size, 0, c.n_special - 1)
            x = jnp.where(
                (tokens >= c.vocab_size)[:, :, None],
                look_up(dropped.specials, special, whole.specials),
                x,
            )
        if c.n_positions:
            rows = constrain(gathered(dropped.positions, 'embed/positions'), 'embeddings')
            rows = (
                rows[: tokens.shape[1]]
                if positions is None
                else jnp.take(rows, positions, axis=0, mode='clip')
            )
            x = ops.add_bias(x, rows)
        return x, whole


class Dense(nn.Module):
    """x @ kernel + bias. features: the dimensions of the result, which replace the last n_in of
    x."""

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
    """Multi-head causal self-attention: [B, L, D] -> [B, L, D]. positions: of x, if a KV cache has
    earlier tokens."""

    config: GPTConfig

    @nn.compact
    def __call__(
        self, x: jax.Array, drop: Dropout, positions: jax.Array | None = None
    ) -> jax.Array:
        c = self.config
        qkv = Dense(c, (3, c.n_head, c.n_embd // c.n_head), name='qkv')(x)  # [B, L, 3, H, E]
        if positions is None:
            a = table.ops(c).attention(qkv, drop.at(dropout.ATTENTION, c.attn_dropout))
        else:
            a = kv_cache.attention(self, qkv, drop.layer, positions)
        return Dense(c, (c.n_embd,), n_in=2, name='out')(a)


class MLP(nn.Module):
    """The position-wise feed-forward network with GELU (4.1): [B, L, D] -> [B, L, D]."""

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c = self.config
        return Dense(c, (c.n_embd,), name='proj')(
            table.ops(c).gelu(Dense(c, (c.n_inner,), name='fc')(x))
        )


class AddAndNorm(nn.Module):
    """LayerNorm(x + dropout(a)) for the residual stream x and a sublayer's output a."""

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, a: jax.Array, drop: Dropout) -> jax.Array:
        scale = self.param('scale', nn.initializers.ones, (x.shape[-1],), jnp.float32)
        bias = self.param('bias', nn.initializers.zeros, (x.shape[-1],), jnp.float32)
        return table.ops(self.config).add_and_norm(x, a, scale, bias, drop)


class Block(nn.Module):
    """Eq. 2, transformer_block; as released, LayerNorm follows each residual sum. x and stream hold
    the same values: x is read by attention, stream by the residual sum (layers.py)."""

    config: GPTConfig

    @nn.compact
    def __call__(
        self, x: jax.Array, stream: jax.Array, drop: Dropout, positions: jax.Array | None = None
    ) -> jax.Array:
        c = self.config
        a = Attention(c, name='attn')(x, drop, positions)
        x = AddAndNorm(c, name='ln_1')(stream, a, drop.at(dropout.ATTENTION_OUT, c.resid_dropout))
        m = MLP(c, name='mlp')(x)
        return constrain(
            AddAndNorm(c, name='ln_2')(x, m, drop.at(dropout.MLP_OUT, c.resid_dropout)),
            'activations',
        )


class GPT(nn.Module):
    """The backbone. Any module with this call and these fields of its config can take its place; a
    variant is a subclass whose `embedding` or `block` is another class with the same call."""

    config: GPTConfig
    embedding: type[nn.Module] = Embedding
    block: type[nn.Module] = Block

    @nn.compact
    def __call__(
        self, tokens: jax.Array, key: dropout.Key | None = None, real: jax.Array | None = None
    ) -> tuple[jax.Array, Embeddings]:
        """(hidden [B, L, D], Embeddings for the tied output layer): logits are `hidden @
        embeddings.tokens.T`.

        tokens: int[B, L], L at most n_ctx; ids from vocab_size on are specials. key: of dropout;
        None: evaluation.
        real: int[B], how many of a row's L tokens are no padding, for a KV cache (kv_cache.py); by
        default all.
        """
        c = self.config
        positions = kv_cache.advance(self, tokens, real)
        x, embeddings = self.embedding(c, name='embed')(tokens, key, positions)
        return layers.repeat(
            self.block(c, name='blocks'), c, constrain(x, 'activations'), key, positions
        ), embeddings

    def empty_cache(self, B: int, capacity: int | None = None) -> dict[str, Any]:
        """As kv_cache.empty; capacity: by default n_ctx."""
        return kv_cache.empty(self.config, B, capacity or self.config.n_ctx)
