"""Tokens after tokens from a pretrained model, each read once: a key-value cache, temperature, top-k and top-p.

Not in the paper, which generates nothing. The Transformer has n_ctx positions: once they are full, it reads its last
n_ctx // 2 tokens again from position 0 and goes on. The LSTM has no positions, and goes on from its state.
"""
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from gpt1_jax import scoring, sharding, training
from gpt1_jax.errors import UserError, shown
from gpt1_jax.model import Cache

READ = 64  # tokens of a text read at once
TOP = np.uint32(1 << 31)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a token is chosen. None of it is compiled in: other values run the same program."""
    temperature: float = 1.0  # logits are divided by it; 0 = the most probable token, always
    top_k: int = 0            # the k most probable tokens alone; 0 = all
    top_p: float = 1.0        # of these, the fewest that have this share of the probability between them; 1 = all
    seed: int = 0             # the same one, the same tokens

    def __post_init__(self):
        rules = {'temperature': (int | float, 0, 1e6, 'a number from 0 to 1,000,000'),
                 'top_k': (int, 0, 2 ** 31 - 1, 'a whole number of at least 0'),
                 'top_p': (int | float, 1e-9, 1, 'a number above 0 and at most 1'),
                 'seed': (int, 0, 2 ** 32 - 1, 'a whole number from 0 to 4,294,967,295')}
        problems = [f'{name} is {shown(value)}, must be {wanted}' for name, (kind, low, high, wanted) in rules.items()
                    if isinstance(value := getattr(self, name), bool) or not isinstance(value, kind)
                    or not low <= value <= high]
        if problems:
            raise UserError('; '.join(problems))


def tokens(model, params, mesh, prompts, sampling=Sampling(), streams=None):
    """Yield int[n], the next token of each prompt, without end.

    prompts: n lists of ids, none empty, of any lengths; all are read in one batch, and none changes what another gets.
    Of one longer than the context the last n_ctx ids are read.
    streams: uint32[n], by default 0, 1, ...: each stream of a seed has its own random numbers.
    Ids are those of the vocabulary's rows: specials and positions have no logit.
    """
    n_ctx, half = model.config.n_ctx, max(1, model.config.n_ctx // 2)
    size = scoring.batch_size(len(prompts), 1, mesh)
    streams = np.resize(np.array(range(len(prompts)) if streams is None else streams, np.uint32), size)
    how = {'temperature': np.float32(sampling.temperature), 'top_k': np.int32(sampling.top_k),
           'top_p': np.float32(sampling.top_p), 'seed': np.uint32(sampling.seed)}
    held = [ids[-n_ctx:] for ids in [*prompts, *[prompts[-1]] * (size - len(prompts))]]  # by the cache, of each row
    logits, cache = _read(model, params, mesh, held, *empty(model, mesh, size)())
    for place in itertools.count():
        chosen = np.asarray(choose(logits, how, streams, np.uint32(place)))
        yield chosen[:len(prompts)]
        held = [[*ids, token] for ids, token in zip(held, chosen.tolist())]
        full = np.array([model.config.n_positions and len(ids) > n_ctx for ids in held], bool)
        if full.any():
            held = [ids[-half:] if out else ids for ids, out in zip(held, full)]
            cache = cache._replace(length=np.where(full, 0, cache.length))
        new = [ids if out else ids[-1:] for ids, out in zip(held, full)]
        logits, cache = _read(model, params, mesh, new, logits, cache)


def _read(model, params, mesh, texts, logits, cache):
    """(logits, cache) after further ids of each row, one at least. READ of a long text at once: so two programs read
    texts of any length."""
    longest = max(map(len, texts))
    L = 1 if longest == 1 else min(READ, model.config.n_ctx)
    for first in range(0, longest, L):
        real = np.clip([len(ids) - first for ids in texts], 0, L).astype(np.int32)
        ids = np.zeros((len(texts), L), np.int32)
        for row, text, n in zip(ids, texts, real):
            row[:n] = text[first:first + n]
        logits, cache = forward(model, mesh)(params, ids, real, logits, cache)
    return logits, cache


@functools.lru_cache
def forward(model, mesh):
    """(params, tokens int[B, L], real int[B], logits float32[B, V], Cache) -> (logits, Cache) after the real tokens.

    The logits of a row without a real one stay as they were. The logits and Cache passed in are consumed. B is a
    multiple of the devices.
    """
    rows, caches = sharding.batch_sharding(mesh), _placed(mesh)

    @functools.partial(jax.jit, donate_argnums=(3, 4), in_shardings=(None, rows, rows, rows, caches),
                       out_shardings=(rows, caches))
    def forward(params, tokens, real, logits, cache):
        hidden, table, cache = model.apply({'params': params}, tokens, None, cache, real)
        last = jnp.take_along_axis(hidden, (real - 1)[:, None, None], axis=1)[:, 0]
        found = jnp.einsum('bd,vd->bv', last, table.tokens, preferred_element_type=jnp.float32)
        return jnp.where((real > 0)[:, None], found, logits), cache
    return training.on_mesh(forward, mesh)


@functools.lru_cache
def empty(model, mesh, B):
    """() -> (logits, Cache) of B rows before their first token, placed on the mesh."""
    def empty():
        return jnp.zeros((B, model.config.vocab_size)), model.empty_cache(B)
    return training.on_mesh(jax.jit(empty, out_shardings=(sharding.batch_sharding(mesh), _placed(mesh))), mesh)


def _placed(mesh):
    """Where a Cache lies: rows over data and fsdp, after the layers."""
    return Cache(NamedSharding(mesh, P(None, *sharding.BATCH)), sharding.batch_sharding(mesh))


@jax.jit
def choose(logits, how, streams, place):
    """The next token of each row: int32[B].

    logits: float32[B, V]. how: the fields of Sampling as scalars. streams: uint32[B]. place: uint32 scalar, how many
    tokens the row was given before: random numbers are a function of (seed, stream, place) and nothing else.
    """
    t, top_k, top_p = how['temperature'], how['top_k'], how['top_p']
    scaled = (logits - jnp.max(logits, axis=-1, keepdims=True)) / jnp.where(t > 0, t, 1)  # the highest stays finite
    scaled = jax.lax.cond((top_k > 0) | (top_p < 1), restricted, lambda x, *_: x, scaled, top_k, top_p)

    def draw(stream, row):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(how['seed']), stream), place)
        return jax.random.categorical(key, row)
    drawn = jax.vmap(draw)(streams, scaled)
    return jnp.where(t > 0, drawn, jnp.argmax(logits, axis=-1)).astype(jnp.int32)


def restricted(logits, top_k, top_p):
    """Logits with -inf in place of all but the top_k highest (0: of none), and of these all but the fewest whose
    probabilities add up to top_p. Those equal to the last one kept are kept, too. [B, V] -> [B, V]."""
    bits = jax.lax.bitcast_convert_type(logits, jnp.uint32)
    order = jnp.where(bits >= TOP, ~bits, bits | TOP)  # whole numbers that stand in the order of the logits

    def bound(enough):
        """uint32[B, 1]: the highest one from which on the tokens are enough, bit by bit. A sort would take longer."""
        def bit(n, found):
            higher = found | TOP >> n.astype(jnp.uint32)
            return jnp.where(enough(order >= higher), higher, found)
        return jax.lax.fori_loop(0, 32, bit, jnp.zeros((len(logits), 1), jnp.uint32))

    k, p = jnp.where(top_k > 0, top_k, logits.shape[-1]), jnp.where(top_p < 1, top_p, jnp.inf)
    first = bound(lambda kept: jnp.sum(kept, axis=-1, keepdims=True) >= k)
    shares = jax.nn.softmax(jnp.where(order >= first, logits, -jnp.inf), axis=-1)
    second = bound(lambda kept: jnp.sum(jnp.where(kept, shares, 0), axis=-1, keepdims=True) >= p)
    return jnp.where(order >= jnp.maximum(first, second), logits, -jnp.inf)
