"""Sections 3.1 and 4.1: the decoder-only transformer, post-LayerNorm, with a tied output layer.

Eq. 2:

    h_0 = U W_e + W_p               Embedding
    h_l = transformer_block(h_l-1)  Block: Attention, LayerNorm, MLP, LayerNorm
    P(u) = softmax(h_n W_e^T)       GPT.logits; in training by training/losses.py

The modules hold the parameters and compute with the operations of ops.py, or with faster ones
(table.ops). Dimensions: B batch, K sequences of an example, L length, D width, H heads, E size of a
head, F hidden width of the MLP, V vocabulary, S specials, C context (positions), N layers.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax.errors import UserError
from gpt1_jax.models import config_checks, dropout, kv_cache, layers
from gpt1_jax.models.dropout import Dropout
from gpt1_jax.models.execution import Execution
from gpt1_jax.models.fast import table
from gpt1_jax.models.ops import add_bias
from gpt1_jax.parallel.sharding import constrain

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


class Embedding(nn.Module):
    """Eq. 2: h_0 = U W_e + W_p, or h_0 = U W_e if `learned_positions` is False."""

    config: Any  # GPTConfig, LSTMConfig
    learned_positions: bool = True

    @nn.compact
    def __call__(self, tokens: jax.Array, key: dropout.Key | None) -> tuple[jax.Array, jax.Array]:
        """Embeds the tokens, int[B, L] -> (h_0 [B, L, D], the matrix [V + S + C, D])."""
        c = self.config
        L = tokens.shape[1]
        if L > c.n_ctx:
            raise UserError(f'a sequence of {L} tokens is longer than the context, {c.n_ctx}')
        sizes = {
            'tokens': c.vocab_size,
            'specials': c.n_special,
            'positions': c.n_ctx * self.learned_positions,
        }
        weights = jnp.concatenate(
            [self.param(name, WEIGHTS, (n, c.n_embd)) for name, n in sizes.items() if n]
        )
        # As released (train.py 165-175), dropout acts on the matrix. A step drops it once, for the
        # look-up and for the output layer.
        weights = Dropout(key).at(dropout.EMBEDDING, c.embd_dropout)(weights, offsets=(0,))
        x, matrix = table.ops(c).look_up(weights, tokens, jnp.dtype(c.dtype))
        if self.learned_positions:
            x = add_bias(x, kv_cache.following(self, weights[-c.n_ctx :], L))
        return constrain(x, 'activations'), matrix


class Dense(nn.Module):
    """x @ kernel + bias.

    features: the dimensions of the result, which replace the last n_in dimensions of x.
    """

    config: GPTConfig
    features: tuple[int, ...]
    n_in: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = self.config.initializer(str(self.name))
        kernel = self.param('kernel', init, (*x.shape[-self.n_in :], *self.features))
        bias = self.param('bias', nn.initializers.zeros, self.features, jnp.float32)
        return table.ops(self.config).dense(x, kernel, bias)


class Attention(nn.Module):
    """Multi-head causal self-attention: [B, L, D] -> [B, L, D]."""

    config: GPTConfig

    def setup(self):
        c = self.config
        self.qkv = Dense(c, (3, c.n_head, c.n_embd // c.n_head))
        self.out = Dense(c, (c.n_embd,), n_in=2)

    def __call__(self, x: jax.Array, drop: Dropout) -> jax.Array:
        return self.attend(self.project(x), drop)

    def project(self, x: jax.Array) -> jax.Array:
        """The queries, keys and values of all heads: [B, L, 3, H, E]."""
        return self.qkv(x)

    def attend(self, qkv: jax.Array, drop: Dropout) -> jax.Array:
        c = self.config
        if self.has_variable('cache', 'keys'):
            return self.out(kv_cache.attention(self, qkv, drop.layer))
        return self.out(table.ops(c).attention(qkv, drop.at(dropout.ATTENTION, c.attn_dropout)))


class MLP(nn.Module):
    """The position-wise feed-forward network with GELU (4.1): [B, L, D] -> [B, L, D]."""

    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c = self.config
        h = table.ops(c).gelu(Dense(c, (c.n_inner,), name='fc')(x))
        return Dense(c, (c.n_embd,), name='proj')(h)


class LayerNorm(nn.Module):
    """LayerNorm of a residual sum, x + dropout(a), which it also adds up: one pass over memory."""

    config: GPTConfig

    @nn.compact
    def __call__(self, residual: tuple) -> jax.Array:
        x, a, drop = residual
        scale = self.param('scale', nn.initializers.ones, (x.shape[-1],), jnp.float32)
        bias = self.param('bias', nn.initializers.zeros, (x.shape[-1],), jnp.float32)
        return table.ops(self.config).add_and_norm(x, a, scale, bias, drop)


class Block(nn.Module):
    """Eq. 2, transformer_block: [B, L, D] -> [B, L, D].

    As released, LayerNorm follows each residual sum.
    """

    config: GPTConfig
    attention: type[nn.Module] = Attention

    def setup(self):
        c = self.config
        self.attn = self.attention(c)
        self.ln_1 = LayerNorm(c)
        self.mlp = MLP(c)
        self.ln_2 = LayerNorm(c)

    def __call__(self, x: jax.Array, drop: Dropout) -> jax.Array:
        return self.after_attention(x, self.attn(x, drop), drop)

    def after_attention(self, x: jax.Array, a: jax.Array, drop: Dropout) -> jax.Array:
        rate = self.config.resid_dropout
        # LayerNorm(x + dropout(a)). LayerNorm itself adds up what `+` collects, in one pass
        x = self.ln_1(x + drop.at(dropout.ATTENTION_OUT, rate).of(a))
        m = self.mlp(x)
        x = self.ln_2(x + drop.at(dropout.MLP_OUT, rate).of(m))
        return constrain(x, 'activations')


class GPT(nn.Module):
    """The backbone.

    Any module with these methods and these fields in its config can take its place. A variant of
    GPT is a subclass whose `embedding` or `block` is another class with the same call.
    """

    config: GPTConfig
    embedding: type[nn.Module] = Embedding
    block: type[nn.Module] = Block

    def setup(self):
        self.embed = self.embedding(self.config)
        self.blocks = self.block(self.config)  # its parameters are stacked: [N, ...], see layers.py

    def __call__(
        self, tokens: jax.Array, key: dropout.Key | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Returns (h_n [B, L, D], the matrix [V + S + C, D]) in the activations' dtype.

        tokens: int[B, L], L at most n_ctx; ids from vocab_size on are specials. key: of dropout, or
        None in evaluation. The matrix is this step's embedding matrix after dropout: the rows of
        the vocabulary, of the specials and of the positions.
        """
        x, matrix = self.embed(tokens, key)
        return self.transformed(x, key), matrix

    def transformed(self, x: Any, key: dropout.Key | None) -> Any:
        """The states after N blocks. x: h_0, or a tree that begins with it, if blocks pass one."""
        # for layer in range(N): x = blocks[layer](x, Dropout(key, layer))
        return layers.repeat(self.blocks, self.config, x, key)

    def logits(self, hidden: jax.Array, matrix: jax.Array) -> jax.Array:
        """h_n W_e^T, float32[..., V], whose softmax is P(u). The arguments: as __call__ returns."""
        return table.logits(self.config, hidden, matrix)

    def empty_cache(self, B: int, capacity: int | None = None) -> dict[str, Any]:
        """Returns kv_cache.empty for B rows. capacity: by default n_ctx."""
        return kv_cache.empty(self.config, B, capacity or self.config.n_ctx)
