"""Autoregressive decoding with a KV cache: temperature, top-k and top-p sampling.

Not in the paper. The Transformer's cache holds n_ctx tokens. When it is full, the last n_ctx // 2
are reread from position 0. The LSTM continues from its state.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gpt1_jax import rules
from gpt1_jax.evaluation import padding
from gpt1_jax.models import kv_cache
from gpt1_jax.models.build import precision
from gpt1_jax.parallel import sharding
from gpt1_jax.training import compiling

CHUNK = 64  # tokens of a prompt per forward pass
# A prompt of at most this many tokens is read token by token, which is faster than compiling a
# second program
SHORT = 8
SIGN = np.uint32(1 << 31)  # the sign bit of a float32


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a token is chosen.

    The values are arguments of the compiled program: changing a value recompiles nothing.
    """

    temperature: float = 1.0  # divides the logits; 0 = greedy decoding
    top_k: int = 0  # keep the k most probable tokens; 0 = all
    top_p: float = 1.0  # of these, keep the fewest whose probabilities sum to top_p; 1 = all
    seed: int = 0  # equal seeds, equal tokens

    def __post_init__(self):
        rules.require(
            {
                'temperature': (self.temperature, rules.between(0, 1e6)),
                'top_k': (self.top_k, rules.integer(0)),
                'top_p': (
                    self.top_p,
                    (lambda x: rules.is_number(x) and 0 < x <= 1, 'a number above 0 and at most 1'),
                ),
                'seed': (self.seed, rules.integer(0, 2**32 - 1)),
            }
        )


def tokens(
    model: Any,
    params: Any,
    mesh: Mesh,
    prompt: Sequence[int],
    sampling: Sampling = Sampling(),
    streams: Sequence[int] = (0,),
    never: int = -1,
) -> Iterator[np.ndarray]:
    """Yields int[n], the next token of each of n samples that continue a prompt, without end.

    Special tokens and positions are never chosen.

    prompt: its ids, at least one. Of a longer prompt only the last n_ctx ids are read.
    streams: uint32[n], of each sample. With the same seed, streams differ in their random numbers.
    never: another id that is never chosen, such as the unknown token's, or -1 for none.
    """
    n_ctx = model.config.n_ctx
    bounded = kv_cache.bounded(model)
    # Only few sizes, because each compiles two programs
    size = padding.batch_size(padding.power_of_two(len(streams)), 1, mesh)
    numbers = np.resize(np.array(streams, np.uint32), size)
    how = {
        'temperature': np.float32(sampling.temperature),
        'top_k': np.int32(sampling.top_k),
        'top_p': np.float32(sampling.top_p),
        'seed': np.uint32(sampling.seed),
        'never': np.int32(never),
    }
    ids = np.tile(np.array(prompt[-n_ctx:], np.int32), (size, 1))  # in each row's cache
    logits, cache = _read(model, params, mesh, ids)
    for place in itertools.count():
        chosen = np.asarray(choose(logits, how, numbers, np.uint32(place)))
        yield chosen[: len(streams)]
        ids = np.concatenate([ids, chosen[:, None]], axis=1)
        if bounded and ids.shape[1] > n_ctx:  # start again with the last half
            ids = ids[:, -max(1, n_ctx // 2) :]
            logits, cache = _read(model, params, mesh, ids)
        else:
            logits, cache = _read(model, params, mesh, ids[:, -1:], cache)


def _read(model, params, mesh, ids, cache=None):
    """Reads ids, int[B, n], and returns (logits after the last, cache).

    CHUNK ids are read at a time, so two programs serve all lengths. cache: of the ids before these.
    """
    B, n = ids.shape
    if cache is None:
        cache = jax.tree.map(np.zeros_like, model.empty_cache(B))  # `forward` donates each leaf
        # `forward` compiles once for each place of its cache, so the first is where it returns one
        cache = jax.device_put(cache, cache_sharding(mesh))
    length = 1 if n <= SHORT else min(CHUNK, model.config.n_ctx)
    for first in range(0, n, length):
        part = ids[:, first : first + length]
        real = part.shape[1]
        part = np.pad(part, ((0, 0), (0, length - real)))
        logits, cache = forward(model, mesh)(params, part, np.int32(real), cache)
    return logits, cache


def cache_sharding(mesh: Mesh) -> NamedSharding:
    """How a cache is divided: its second axis is the batch's."""
    return NamedSharding(mesh, P(None, *sharding.BATCH))


@functools.lru_cache
def forward(model: Any, mesh: Mesh) -> Callable[..., tuple[jax.Array, dict]]:
    """(params, tokens int[B, L], real int, cache) -> (logits float32[B, V], cache).

    Reads the first `real` tokens of each row. Donates the cache. B: a multiple of the devices.
    """
    rows = sharding.batch_sharding(mesh)
    caches = cache_sharding(mesh)

    @functools.partial(
        jax.jit,
        donate_argnums=3,
        in_shardings=(None, rows, None, caches),
        out_shardings=(rows, caches),
    )
    def forward(params, tokens, real, cache):
        read = jnp.full(len(tokens), real)
        (hidden, matrix), cache = kv_cache.read(model, params, cache, tokens, read)
        return model.logits(hidden[:, real - 1], matrix), cache

    return compiling.on_mesh(forward, mesh, precision(model.config))


@jax.jit
def choose(
    logits: jax.Array, how: dict[str, Any], streams: jax.Array, place: jax.Array
) -> jax.Array:
    """The next token of each row: int32[B].

    logits: float32[B, V]. how: the fields of Sampling, and `never` of `tokens`, as scalars.
    streams: uint32[B]. place: uint32 scalar, the number of tokens generated before. Random numbers
    depend only on (seed, stream, place).
    """
    logits = jnp.where(jnp.arange(logits.shape[-1]) == how['never'], -jnp.inf, logits)
    temperature = how['temperature']
    top_k = how['top_k']
    top_p = how['top_p']
    # 0 at the maximum, so no division overflows
    shifted = logits - jnp.max(logits, axis=-1, keepdims=True)
    scaled = shifted / jnp.where(temperature > 0, temperature, 1)
    scaled = jax.lax.cond(
        (top_k > 0) | (top_p < 1), restricted, lambda x, *_: x, scaled, top_k, top_p
    )

    def draw(stream, row):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(how['seed']), stream), place)
        return jax.random.categorical(key, row)

    drawn = jax.vmap(draw)(streams, scaled)
    return jnp.where(temperature > 0, drawn, jnp.argmax(logits, axis=-1)).astype(jnp.int32)


def restricted(logits: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Returns logits [B, V] with -inf outside the top_k highest, and then outside top_p.

    If top_k is 0, all are kept. Of these, the fewest are kept whose probabilities add up to at
    least top_p. A token that ties with the last kept token is also kept.
    """
    # Both cuts are thresholds: keep the logits that are at least t, for the highest t for which
    # enough are kept. Instead of sorting the vocabulary, a binary search over the 32 bits of a
    # float32 finds t with 32 sums of a row.
    #
    # The search needs unsigned integers in the order of the logits. Read as uint32, the bits of
    # positive floats are in order. The bits of negative floats are in reverse order and, by their
    # sign bit, above them. So flip all bits of negative numbers, and the sign bit of the others.
    bits = jax.lax.bitcast_convert_type(logits, jnp.uint32)
    order = jnp.where(bits >= SIGN, ~bits, bits | SIGN)

    def threshold(enough):
        """uint32[B, 1]: the highest t for which enough(order >= t), or 0 if there is none."""

        # From the highest bit to the lowest: keep a bit set if enough tokens are still kept
        def set_bit(n, t):
            higher = t | SIGN >> n.astype(jnp.uint32)
            return jnp.where(enough(order >= higher), higher, t)

        return jax.lax.fori_loop(0, 32, set_bit, jnp.zeros((len(logits), 1), jnp.uint32))

    k = jnp.where(top_k > 0, top_k, logits.shape[-1])
    in_top_k = order >= threshold(lambda kept: jnp.sum(kept, axis=-1, keepdims=True) >= k)
    # Probabilities are taken after top-k. If top_p is 1, no sum is enough, and every token is kept.
    p = jnp.where(top_p < 1, top_p, jnp.inf)
    probabilities = jax.nn.softmax(jnp.where(in_top_k, logits, -jnp.inf), axis=-1)
    in_top_p = order >= threshold(
        lambda kept: jnp.sum(jnp.where(kept, probabilities, 0), axis=-1, keepdims=True) >= p
    )
    return jnp.where(in_top_k & in_top_p, logits, -jnp.inf)
