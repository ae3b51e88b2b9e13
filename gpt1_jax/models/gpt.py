"""Sections 3.1 and 4.1: the decoder-only transformer, post-LayerNorm, with a tied output layer. Eq. 2:

    h_0 = U W_e + W_p               Embedding
    h_l = transformer_block(h_l-1)  Block: Attention, AddAndNorm, MLP, AddAndNorm
    P(u) = softmax(h_n W_e^T)       training/losses.py, from the states and the Embeddings that GPT returns

The modules hold the parameters; they compute with the operations of ops.py, or faster ones (table.ops).

Dimension letters, here and everywhere: B batch, K sequences of an example, L length, D width, H heads, E size of a
head, F hidden width of the MLP, V vocabulary, S specials, C context (positions), N layers.
"""
import dataclasses
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax import user_code
from gpt1_jax.errors import UserError
from gpt1_jax.models import config_checks, dropout, ops
from gpt1_jax.models.dropout import Dropout
from gpt1_jax.models.fast import table
from gpt1_jax.parallel.sharding import constrain, gathered

WEIGHTS = nn.initializers.normal(0.02)  # 4.1: "a simple weight initialization of N(0, 0.02) was sufficient"


# Config

@dataclasses.dataclass(frozen=True)
class GPTConfig:
    """The model of Section 4.1; every default is the paper's."""
    vocab_size: int = 40478      # V, ordinary tokens: characters and 40,000 merges
    n_special: int = 0           # S, rows for start, delimiter, extract: none in pretraining, 3 in fine-tuning
    n_ctx: int = 512             # C
    n_embd: int = 768            # D
    n_layer: int = 12            # N
    n_head: int = 12             # H
    n_inner: int = 3072          # F
    embd_dropout: float = 0.1    # on the embedding matrix
    attn_dropout: float = 0.1    # on attention probabilities
    resid_dropout: float = 0.1   # after the output projections of attention and MLP
    dtype: str = 'float32'       # of matrix products and activations; parameters are always float32
    precision: str = 'highest'   # of products of float32 matrices, one of precision.CHOICES
    remat: bool = False          # recompute each block in the backward pass: less memory, a third more arithmetic
    unroll: int = 0              # layers unrolled in each iteration of the scan; 0: by device, see table.unroll
    kernels: str = 'auto'        # one of table.CHOICES
    ops: tuple = ()              # pairs ('gelu', 'FILE:NAME'): the user's code in place of operations of ops.py

    def __post_init__(self):
        problems = config_checks.problems(
            self, positive=('vocab_size', 'n_ctx', 'n_embd', 'n_layer', 'n_head', 'n_inner'),
            rates=('embd_dropout', 'attn_dropout', 'resid_dropout'))
        if not problems:
            rows = self.vocab_size + self.n_special + self.n_ctx
            problems = config_checks.too_large({'model.n_embd': self.n_embd,
                                                'model.vocab_size + specials + model.n_ctx': rows})
            if self.n_embd % self.n_head:
                problems.append(f'model.n_embd = {self.n_embd} is not a multiple of model.n_head = {self.n_head}')
        for name, code in self.ops:
            if name in ops.Ops._fields and user_code.names_code(code):
                table.replacement(name, code)  # so that a mistake in it is reported before any text is read
            else:
                problems.append(f'model.ops.{name} is {code!r}, must be FILE:NAME in the place of one of '
                                f'{", ".join(ops.Ops._fields)}')
        if problems:
            raise UserError('; '.join(problems))

    @property
    def n_positions(self) -> int:
        """Rows of W_p, the learned positions."""
        return self.n_ctx

    def initializer(self, name: str | None) -> nn.initializers.Initializer:
        """Of the matrix of a block that has this name: 'qkv', 'out', 'fc' or 'proj'."""
        return WEIGHTS


# Embedding

class Embeddings(NamedTuple):
    """The embedding matrix of one step, dropout applied. Released code (train.py 165-175): the dropped and rescaled
    matrix serves token look-up, position look-up and the output layer of that step alike."""
    tokens: jax.Array     # [V, D]
    specials: jax.Array   # [S, D]
    positions: jax.Array  # [C, D]


class Embedding(nn.Module):
    """Eq. 2: h_0 = U W_e + W_p. A backbone without positions (n_positions = 0) has h_0 = U W_e."""
    config: Any  # with vocab_size, n_special, n_positions, n_embd, embd_dropout, dtype, kernels: GPTConfig, LSTMConfig

    @nn.compact
    def __call__(self, tokens: jax.Array, key: dropout.Key | None,
                 positions: jax.Array | None = None) -> tuple[jax.Array, Embeddings]:
        """tokens: int[B, L] -> (h_0 [B, L, D], Embeddings). positions: int[B, L], by default 0 to L - 1 in each row."""
        c = self.config
        look_up = table.ops(c).look_up

        # Dropout acts on one matrix of three parts: the mask of a part begins where the last one's ended.
        drop = Dropout(key).at(dropout.EMBEDDING, c.embd_dropout)
        parts = []  # float32
        first_row = 0
        for name, n in (('tokens', c.vocab_size), ('specials', c.n_special), ('positions', c.n_positions)):
            rows = self.param(name, WEIGHTS, (n, c.n_embd)) if n else jnp.zeros((0, c.n_embd))
            parts.append(drop(rows, offsets=(first_row,)))
            first_row += n
        dropped = Embeddings(*parts)

        # Each device reads whole rows, so the matrix is gathered once a step, in the smaller dtype.
        whole = Embeddings(*(gathered(rows.astype(c.dtype), 'embed/tokens') for rows in dropped))
        x = look_up(dropped.tokens, jnp.minimum(tokens, c.vocab_size - 1) if c.n_special else tokens, whole.tokens)
        if c.n_special:
            special = jnp.clip(tokens - c.vocab_size, 0, c.n_special - 1)
            x = jnp.where((tokens >= c.vocab_size)[:, :, None], look_up(dropped.specials, special, whole.specials), x)

        if c.n_positions and positions is not None:
            x = x + jnp.take(whole.positions, positions, axis=0, mode='clip')
        elif c.n_positions:
            # All rows of the batch add the same L positions, as they would a bias.
            rows = constrain(gathered(dropped.positions, 'embed/positions'), 'embeddings')
            x = ops.add_bias(x, rows[:tokens.shape[1]])
        return x, whole


# Block

class Dense(nn.Module):
    """x @ kernel + bias. features: the dimensions of the result, which replace the last n of x."""
    config: GPTConfig
    features: tuple[int, ...]
    n: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param('kernel', self.config.initializer(self.name), (*x.shape[-self.n:], *self.features))
        bias = self.param('bias', nn.initializers.zeros, self.features)
        return table.ops(self.config).dense(x, kernel, bias)


class Attention(nn.Module):
    """Multi-head causal self-attention."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, drop: Dropout, memory: Any = None,
                 positions: jax.Array | None = None) -> tuple[jax.Array, Any]:
        """x: [B, L, D] -> ([B, L, D], memory). memory: None, or that of all layers (see Cache): the keys and values of
        x are written into its slice `drop.layer`. positions: int[B, L], of x; only with memory."""
        c = self.config
        qkv = Dense(c, (3, c.n_head, c.n_embd // c.n_head), name='qkv')(x)  # [B, L, 3, H, E]
        if memory is None:
            a = table.ops(c).attention(qkv, drop.at(dropout.ATTENTION, c.attn_dropout))
        else:
            assert positions is not None
            q, k, v = jnp.moveaxis(qkv, 2, 0)
            keys, values = memory
            at = drop.layer, jnp.arange(len(x))[:, None], slice(None), positions
            memory = keys, values = keys.at[at].set(k), values.at[at].set(v)
            a = table.cached_attention(c)(q, keys[drop.layer], values[drop.layer], positions)
        return Dense(c, (c.n_embd,), n=2, name='out')(a), memory


class MLP(nn.Module):
    """The position-wise feed-forward network with GELU (4.1): [B, L, D] -> [B, L, D]."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c = self.config
        hidden = table.ops(c).gelu(Dense(c, (c.n_inner,), name='fc')(x))
        return Dense(c, (c.n_embd,), name='proj')(hidden)


class AddAndNorm(nn.Module):
    """LayerNorm(x + dropout(a)) for the residual stream x and a sublayer's output a."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, a: jax.Array, drop: Dropout) -> jax.Array:
        scale = self.param('scale', nn.initializers.ones, (x.shape[-1],))
        bias = self.param('bias', nn.initializers.zeros, (x.shape[-1],))
        return table.ops(self.config).add_and_norm(x, a, scale, bias, drop)


class Block(nn.Module):
    """Eq. 2, transformer_block. Released code: LayerNorm after each residual sum, none after the last block."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x: jax.Array, stream: jax.Array, drop: Dropout, memory: Any = None,
                 positions: jax.Array | None = None) -> tuple[jax.Array, Any]:
        """(x [B, L, D], memory) after layer `drop.layer`. stream: x again. memory, positions: see Attention."""
        c = self.config
        a, memory = Attention(c, name='attn')(x, drop, memory, positions)
        x = AddAndNorm(c, name='ln_1')(stream, a, drop.at(dropout.ATTENTION_OUT, c.resid_dropout))
        m = MLP(c, name='mlp')(x)
        x = AddAndNorm(c, name='ln_2')(x, m, drop.at(dropout.MLP_OUT, c.resid_dropout))
        return constrain(x, 'activations'), memory


# Model

class Cache(NamedTuple):
    """Decoding state."""
    memory: Any        # of GPT the keys and values, [N, B, H, C, E] each; of the LSTM its two states, [1, B, U] each
    length: jax.Array  # int32[B], how many tokens each row holds: the position of its next token


class GPT(nn.Module):
    """The backbone. Any module with this call and these fields of its config can take its place; a variant is a
    subclass whose `embedding` or `block` is another class with the same call."""
    config: GPTConfig
    embedding: type[nn.Module] = Embedding
    block: type[nn.Module] = Block

    @nn.compact
    def __call__(self, tokens: jax.Array, key: dropout.Key | None = None, cache: Cache | None = None,
                 real: jax.Array | None = None):
        """(hidden [B, L, D], Embeddings for the tied output layer): logits are `hidden @ embeddings.tokens.T`.

        tokens: int[B, L], L at most n_ctx; ids from vocab_size on are specials. key: of dropout; None: evaluation.
        cache: for decoding, the Cache of the tokens before these, at first `empty_cache`; then the Cache with these
        tokens is the third result. length + real is at most n_ctx in each row. real: int[B], how many of a row's L
        tokens are not padding on the right, by default all.
        """
        c = self.config
        L = tokens.shape[1]
        if L > c.n_ctx:
            raise UserError(f'a sequence of {L} tokens is longer than the context, {c.n_ctx}')
        memory = positions = None
        if cache is not None:
            memory = cache.memory
            positions = cache.length[:, None] + jnp.arange(L)[None]

        x, embeddings = self.embedding(c, name='embed')(tokens, key, positions)
        x = constrain(x, 'activations')

        # One Block with stacked parameters [N, ...]. The memory of all layers is carried, so that it is updated in
        # place; scanned over, it would be copied for each token. x is carried twice, so that the gradients of its two
        # uses in a block are added where the norm before it reads them; once with remat, which keeps what is carried.
        copies = 1 if c.remat else 2

        def layer(block, carry, number):
            xs, memory = carry
            x, memory = block(xs[0], xs[-1], Dropout(key, number), memory, positions)
            return ((x,) * copies, memory), None
        unroll = table.unroll(c, training=key is not None)
        if c.remat:
            # In one program, as unrolled layers are, common subexpression elimination would undo the recomputation.
            layer = nn.remat(layer, prevent_cse=unroll > 1)
        layers = nn.scan(layer, variable_axes={'params': 0, 'intermediates': 0}, split_rngs={'params': True},
                         length=c.n_layer, unroll=unroll)
        numbers = jnp.arange(c.n_layer, dtype=jnp.uint32)
        ((x, *_), memory), _ = layers(self.block(c, name='blocks'), ((x,) * copies, memory), numbers)

        if cache is None:
            return x, embeddings
        # Keys and values of padding are in the cache too: causal masking hides them until they are overwritten.
        length = cache.length + (L if real is None else real)
        return x, embeddings, Cache(memory, length)

    def empty_cache(self, B: int, capacity: int | None = None) -> Cache:
        """The Cache of B rows before their first token. capacity: tokens that a row can hold, by default n_ctx."""
        c = self.config
        shape = (c.n_layer, B, c.n_head, capacity or c.n_ctx, c.n_embd // c.n_head)
        zeros = jnp.zeros(shape, c.dtype)
        return Cache((zeros, zeros), jnp.zeros(B, jnp.int32))
