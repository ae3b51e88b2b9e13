"""Sections 3.1 and 4.1: the decoder-only transformer, post-LayerNorm, with a tied output layer.

Dimension letters, here and everywhere: B batch, K sequences of an example, L length, D width, H heads, E size of a
head, F hidden width of the MLP, V vocabulary, N layers.
"""
import dataclasses
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax import dropout, paths
from gpt1_jax.attention import cached_attention, self_attention
from gpt1_jax.errors import UserError, shown
from gpt1_jax.gelu import gelu
from gpt1_jax.products import dot_general, product
from gpt1_jax.residual import add_and_norm
from gpt1_jax.sharding import constrain, gathered

WEIGHTS = nn.initializers.normal(0.02)  # 4.1: "a simple weight initialization of N(0, 0.02) was sufficient"


@dataclasses.dataclass(frozen=True)
class GPTConfig:
    """The model of Section 4.1; every default is the paper's."""
    vocab_size: int = 40478      # ordinary tokens: characters and 40,000 merges
    n_special: int = 0           # rows for start, delimiter, extract: none in pretraining, 3 in fine-tuning
    n_ctx: int = 512             # positions
    n_embd: int = 768            # D
    n_layer: int = 12            # N
    n_head: int = 12             # H
    n_inner: int = 3072          # F
    embd_dropout: float = 0.1    # on the embedding matrix
    attn_dropout: float = 0.1    # on attention probabilities
    resid_dropout: float = 0.1   # after the output projections of attention and MLP
    dtype: str = 'float32'       # of products and activations; parameters are always float32
    remat: bool = False          # recompute each block in the backward pass: less memory, a third more arithmetic
    unroll: int = 0              # layers of the scan laid out in a row; 0: all on a GPU, elsewhere 1
    kernels: str = 'auto'        # our kernels for GPUs: 'triton', not: 'xla', or by device and dtype

    def __post_init__(self):
        least = {'vocab_size': 1, 'n_special': 0, 'n_ctx': 1, 'n_embd': 1, 'n_layer': 1, 'n_head': 1, 'n_inner': 1,
                 'unroll': 0}
        problems = [f'model.{name} is {shown(getattr(self, name))}, must be a whole number of at least {low}'
                    for name, low in least.items() if type(getattr(self, name)) is not int or getattr(self, name) < low]
        problems += [f'model.{name} is {shown(getattr(self, name))}, more than there can be: 2,147,483,647'
                     for name in least if type(getattr(self, name)) is int and getattr(self, name) > 2 ** 31 - 1]
        problems += [f'model.{name} is {shown(getattr(self, name))}, must be a number of at least 0 and below 1'
                     for name in ('embd_dropout', 'attn_dropout', 'resid_dropout')
                     if not isinstance(getattr(self, name), (int, float)) or not 0 <= getattr(self, name) < 1]
        if not problems and max(self.vocab_size + self.n_special + self.n_ctx, self.n_embd) > 1 << 16:
            problems.append('model.vocab_size + model.n_ctx and specials, and model.n_embd, must be at most 65,536, '
                            'which dropout can number')
        if not problems and self.n_embd % self.n_head:
            problems.append(f'model.n_embd = {self.n_embd} is not a multiple of model.n_head = {self.n_head}')
        if self.dtype not in ('float32', 'bfloat16'):
            problems.append(f"model.dtype is {shown(self.dtype)}, must be 'float32' or 'bfloat16'")
        if self.kernels not in paths.CHOICES:
            problems.append(f'model.kernels is {shown(self.kernels)}, must be one of '
                            f'{", ".join(map(repr, paths.CHOICES))}')
        if type(self.remat) is not bool:
            problems.append(f'model.remat is {shown(self.remat)}, must be True or False')
        if problems:
            raise UserError('; '.join(problems))

    @property
    def n_positions(self):
        """Rows of W_p, the learned positions."""
        return self.n_ctx


class Table(NamedTuple):
    """The step's embedding rows, dropout applied, in the released order.

    tokens [V, D], specials [S, D], positions [C, D].

    Released code (train.py 165-175): the dropped, rescaled matrix serves token look-up, position look-up and the output
    layer of that step alike.
    """
    tokens: jax.Array
    specials: jax.Array
    positions: jax.Array


class Cache(NamedTuple):
    """What a backbone keeps of the tokens before, so that generating reads each once. GPT: keys and values.

    memory: arrays [N, B, ...] of which each layer has its own slice, (k, v) each [N, B, H, C, E]. length: int32[B],
    tokens so far: the position of each row's next one, and where its key and value go.
    """
    memory: Any
    length: jax.Array


class Embedding(nn.Module):
    """Eq. 2, h_0 = U W_e + W_p, with the rows of W_e that are no words (specials) and W_p stored apart.

    A backbone without positions (n_positions = 0) has h_0 = U W_e.
    """
    config: Any  # with vocab_size, n_special, n_positions, n_embd, embd_dropout, dtype: GPTConfig or LSTMConfig

    @nn.compact
    def __call__(self, tokens, key, positions=None):
        """tokens: int[B, L] -> (float[B, L, D], Table). positions: int[B, L], default 0 to L - 1 in each row."""
        c = self.config
        sizes = {'tokens': c.vocab_size, 'specials': c.n_special, 'positions': c.n_positions}
        rows, first = {}, 0
        for name, n in sizes.items():
            leaf = self.param(name, WEIGHTS, (n, c.n_embd)) if n else jnp.zeros((0, c.n_embd))
            dropped = dropout.dropout(leaf, c.embd_dropout, key, 0, dropout.EMBEDDING, offsets=(first,))
            rows[name] = gathered(dropped.astype(c.dtype), f'embed/{name}')
            first += n
        table = Table(**rows)
        words, others = constrain(table.tokens, 'table'), constrain(table.specials, 'table')
        if not c.n_special:
            x = jnp.take(words, tokens, axis=0)  # an id out of range reads nan
        else:
            x = jnp.take(words, jnp.minimum(tokens, c.vocab_size - 1), axis=0)
            special = jnp.take(others, jnp.clip(tokens - c.vocab_size, 0, c.n_special - 1), axis=0)
            x = jnp.where((tokens >= c.vocab_size)[:, :, None], special, x)
        if not c.n_positions:
            return x, table
        if positions is not None:
            return x + jnp.take(table.positions, positions, axis=0, mode='clip'), table
        return x + table.positions[None, :tokens.shape[1]], table


class Attention(nn.Module):
    """Multi-head self-attention: one projection to q, k, v, heads in contiguous blocks, one projection back."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x, key, layer, memory=None, positions=None):
        """x: [B, L, D] -> ([B, L, D], memory). memory: as of Cache, all layers'; positions: int[B, L], of x."""
        c = self.config
        heads = (3, c.n_head, c.n_embd // c.n_head)
        qkv = nn.DenseGeneral(heads, kernel_init=WEIGHTS, dtype=c.dtype, dot_general=dot_general, name='qkv')(x)
        if memory is None:
            a = self_attention(qkv, rate=c.attn_dropout, key=key, layer=layer, choice=c.kernels)
        else:
            q, k, v = jnp.moveaxis(qkv, 2, 0)
            rows = jnp.arange(len(x))[:, None]
            memory = tuple(old.at[layer, rows, :, positions].set(new) for old, new in zip(memory, (k, v)))
            a = cached_attention(q, *(of_all[layer] for of_all in memory), positions)
        out = nn.DenseGeneral(c.n_embd, axis=(-2, -1), kernel_init=WEIGHTS, dtype=c.dtype, dot_general=dot_general,
                              name='out')
        return out(a), memory


class MLP(nn.Module):
    """The position-wise feed-forward network with GELU (4.1)."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x):
        c = self.config
        proj = nn.Dense(c.n_embd, kernel_init=WEIGHTS, dtype=c.dtype, dot_general=dot_general, name='proj')
        return proj(Hidden(c, name='fc')(x))


class Hidden(nn.Module):
    """gelu(x @ kernel + bias): a Dense whose bias joins the activation, see gelu."""
    config: GPTConfig

    @nn.compact
    def __call__(self, x):
        c = self.config
        kernel = self.param('kernel', WEIGHTS, (c.n_embd, c.n_inner))
        bias = self.param('bias', nn.initializers.zeros, (c.n_inner,))
        return gelu(product(x, kernel.astype(c.dtype)), bias)


class AddAndNorm(nn.Module):
    """LayerNorm of a state and a sublayer's output, which is dropped at its own site."""
    config: GPTConfig
    site: int

    @nn.compact
    def __call__(self, x, a, key, layer):
        c = self.config
        scale = self.param('scale', nn.initializers.ones, (c.n_embd,))
        bias = self.param('bias', nn.initializers.zeros, (c.n_embd,))
        return add_and_norm(x, a, scale, bias, self.site, rate=c.resid_dropout, key=key, layer=layer, choice=c.kernels)


class Block(nn.Module):
    """Eq. 2, transformer_block. Released code: LayerNorm after each residual sum, none after the last block."""
    config: GPTConfig

    @nn.compact
    def __call__(self, carry, layer, key, positions=None):
        """carry: (x [B, L, D], memory as of Cache or None), which the layers hand on, so that the memory is written in
        place; layer: uint32 scalar. Returns (carry, None), the pair that a scan wants."""
        c, (x, memory) = self.config, carry

        a, memory = Attention(c, name='attn')(x, key, layer, memory, positions)
        n = AddAndNorm(c, dropout.ATTENTION_OUT, name='ln_1')(x, a, key, layer)
        h = AddAndNorm(c, dropout.MLP_OUT, name='ln_2')(n, MLP(c, name='mlp')(n), key, layer)
        return (constrain(h, 'activations'), memory), None


class GPT(nn.Module):
    """The backbone. Any module with this call and these fields of its config can take its place."""
    config: GPTConfig

    @nn.compact
    def __call__(self, tokens, key=None, cache=None, real=None):
        """The states of the last block, and the rows that the tied output layer multiplies them with.

        tokens: int[B, L], L at most n_ctx; ids from vocab_size on are specials. key: dropout.Key, or None without
        dropout. Returns (hidden [B, L, D], Table). Logits are `hidden @ rows.T`: see losses.

        cache: the Cache of the tokens before these, at first `empty_cache`; length + real at most n_ctx in each row.
        real: int[B], how many of the L tokens count, by default all; the others lie right of these and leave no trace.
        With a cache it returns (hidden, Table, the Cache with these tokens).
        """
        c = self.config
        if tokens.shape[1] > c.n_ctx:
            raise UserError(f'a sequence of {tokens.shape[1]} tokens is longer than the context, {c.n_ctx}')
        memory, positions = None, None
        if cache is not None:
            memory, positions = cache.memory, cache.length[:, None] + jnp.arange(tokens.shape[1])[None]
        x, table = Embedding(c, name='embed')(tokens, key, positions)
        # On a GPU each turn of a loop copies its layer's weights and activations; elsewhere it only compiles faster.
        unroll = c.unroll or (c.n_layer if paths.device()[0] == 'gpu' else 1)
        block = nn.remat(Block, prevent_cse=False) if c.remat else Block
        blocks = nn.scan(block, variable_axes={'params': 0, 'intermediates': 0}, split_rngs={'params': True},
                         in_axes=(0, nn.broadcast, nn.broadcast), length=c.n_layer, unroll=min(unroll, c.n_layer))
        # Layer numbers are a scanned input: a mask depends on its layer, whichever way the layers are run.
        (x, memory), _ = blocks(c, name='blocks')((constrain(x, 'activations'), memory),
                                                  jnp.arange(c.n_layer, dtype=jnp.uint32), key, positions)
        if cache is None:
            return x, table
        # What lies beyond a row's length is hidden from its next token, and then overwritten by it.
        return x, table, Cache(memory, cache.length + (tokens.shape[1] if real is None else real))

    def empty_cache(self, B, places=None):
        """The Cache of B rows before their first token. places: tokens that it can hold, by default n_ctx."""
        c = self.config
        zeros = jnp.zeros((c.n_layer, B, c.n_head, places or c.n_ctx, c.n_embd // c.n_head), c.dtype)
        return Cache((zeros, zeros), jnp.zeros(B, jnp.int32))
