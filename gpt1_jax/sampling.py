"""Tokens after tokens from a pretrained model, each read once: a key-value cache, temperature, top-k and top-p.

Not in the paper, which generates nothing. The Transformer has n_ctx positions: once they are full, it reads its last
n_ctx // 2 tokens again from position 0 and goes on. The LSTM has no positions, and goes on from its state.
"""
import dataclasses
import functools
import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from gpt1_jax import scoring, sharding, training
from gpt1_jax.errors import UserError, shown
from gpt1_jax.model import Cache


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
    streams: uint32[n], by default 0, 1, ...: each stream of a seed has its own random numbers.
    Ids are those of the vocabulary's rows: specials and positions have no logit. A notice on stderr says that a prompt
    is longer than the context, of which the beginning is left out then, or that the context was full.
    """
    n_ctx, limited = model.config.n_ctx, model.config.n_positions > 0
    size = scoring.batch_size(len(prompts), 1, mesh)
    filled = [*prompts, *[prompts[-1]] * (size - len(prompts))]
    streams = np.resize(np.array(range(len(prompts)) if streams is None else streams, np.uint32), size)
    how = {'temperature': np.float32(sampling.temperature), 'top_k': np.int32(sampling.top_k),
           'top_p': np.float32(sampling.top_p), 'seed': np.uint32(sampling.seed)}
    for ids in dict.fromkeys(map(tuple, prompts)):
        if len(ids) > n_ctx:
            _notice(f'the prompt has {len(ids):,} tokens: the first {len(ids) - n_ctx:,} are left out, the context '
                    f'holds {n_ctx:,}')
    windows = [list(ids[-n_ctx:]) for ids in filled]  # what the cache holds of each row
    logits, cache = _read(model, params, mesh, windows)
    told = False
    for place in itertools.count():
        chosen = np.asarray(choose(logits, how, streams, np.uint32(place)))
        yield chosen[:len(prompts)]
        for window, token in zip(windows, chosen.tolist()):
            window.append(token)
        full = [window for window in windows if len(window) > n_ctx] if limited else []
        if not full:
            logits, cache = forward(model, mesh)(params, chosen[:, None], np.ones(size, np.int32), cache)
            continue
        if not told:
            _notice(f'the context of {n_ctx:,} positions is full: it goes on from the last {max(1, n_ctx // 2):,} '
                    'tokens')
            told = True
        for window in full:
            del window[:-max(1, n_ctx // 2)]
        logits, cache = _read(model, params, mesh, windows)


def _read(model, params, mesh, windows):
    """(logits, cache) after lists of ids, from an empty cache."""
    lengths = np.array([len(window) for window in windows], np.int32)
    ids = np.zeros((len(windows), scoring.padded(lengths.max(), model.config.n_ctx)), np.int32)
    for row, window in zip(ids, windows):
        row[:len(window)] = window
    return forward(model, mesh)(params, ids, lengths, empty(model, mesh, len(windows))())


@functools.lru_cache
def forward(model, mesh):
    """(params, tokens int[B, L], real int[B], Cache) -> (logits float32[B, V] after each row's last real token, Cache).

    The Cache passed in is consumed. B is a multiple of the devices.
    """
    rows, caches = sharding.batch_sharding(mesh), _placed(mesh)

    @functools.partial(jax.jit, donate_argnums=3, in_shardings=(None, rows, rows, caches), out_shardings=(rows, caches))
    def forward(params, tokens, real, cache):
        hidden, table, cache = model.apply({'params': params}, tokens, None, cache, real)
        last = jnp.take_along_axis(hidden, (real - 1)[:, None, None], axis=1)[:, 0]
        return jnp.einsum('bd,vd->bv', last, table.tokens, preferred_element_type=jnp.float32), cache
    return training.on_mesh(forward, mesh)


@functools.lru_cache
def empty(model, mesh, B):
    """() -> the Cache of B rows, placed on the mesh."""
    return training.on_mesh(jax.jit(lambda: model.empty_cache(B), out_shardings=_placed(mesh)), mesh)


def _placed(mesh):
    """Where a Cache lies: rows over data and fsdp, after the layers."""
    return Cache(NamedSharding(mesh, P(None, *sharding.BATCH)), sharding.batch_sharding(mesh))


@jax.jit
def choose(logits, how, streams, place):
    """The next token of each row: int32[B].

    logits: float32[B, V]. how: the fields of Sampling as scalars. streams: uint32[B]. place: uint32 scalar, how many
    tokens the row was given before: random numbers are a function of (seed, stream, place) and nothing else.
    """
    scaled = logits / jnp.where(how['temperature'] > 0, how['temperature'], 1)
    scaled = jax.lax.cond((how['top_k'] > 0) | (how['top_p'] < 1), restricted, lambda x, *_: x, scaled, how['top_k'],
                          how['top_p'])

    def draw(stream, row):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(how['seed']), stream), place)
        return jax.random.categorical(key, row)
    drawn = jax.vmap(draw)(streams, scaled)
    return jnp.where(how['temperature'] > 0, drawn, jnp.argmax(logits, axis=-1)).astype(jnp.int32)


def restricted(logits, top_k, top_p):
    """Logits with -inf in place of all but the top_k highest (0: of none), and of these all but the fewest whose
    probabilities add up to top_p. Those equal to the last one kept are kept, too. [B, V] -> [B, V]."""
    ranked = jnp.sort(logits, axis=-1, descending=True)
    n = logits.shape[-1]
    among = (jnp.arange(n) < jnp.where(top_k > 0, top_k, n))[None]
    shares = jax.nn.softmax(jnp.where(among, ranked, -jnp.inf), axis=-1)
    before = jnp.cumsum(shares, axis=-1) - shares
    kept = among & ((before < top_p) | (top_p >= 1))
    least = jnp.min(jnp.where(kept, ranked, jnp.inf), axis=-1, keepdims=True)
    return jnp.where(logits >= least, logits, -jnp.inf)


def _notice(text):
    print(f'notice: {text}', file=sys.stderr, flush=True)
