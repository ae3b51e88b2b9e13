"""Tests that a model is causal: whether a state depends on anything but the tokens up to its own.

A user's code may look ahead by mistake, or because an agent found that it lowers the loss. The
loss is then far too low, in validation as well. The model is called, and what must not move is
compared:

    later    the states of a prefix, if all later tokens are exchanged (at many prefixes, with and
             without dropout, at the whole context and at a shorter length)
    company  the states of a row, if it stands alone, in another place, or beside other rows
    twice    the states, if the call is repeated

Each call has its own batch, so that statistics over a batch cannot hide. A difference is relative
to the largest state. A Transformer's later tokens have a weight of exactly 0, so `later` and
`twice` are exactly 0. Other shapes round otherwise. The largest difference of ten honest ideas was
4e-7, and the smallest of ten leaks 1e-3 (tests/models/test_causality.py).
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax import user_code
from gpt1_jax.errors import UserError
from gpt1_jax.models import build, dropout

TOLERANCE = 1e-5  # of a difference, relative to the largest state
ALL_PREFIXES = 128  # tokens: of a longer context only some prefixes are tried
ROWS = 3
VOCABULARY = 97  # tokens, of random weights


def check(fields: dict) -> None:
    """UserError if the user's code in `fields` makes a model that is not causal.

    fields: as of build.backbone. Computed in float32 with random weights, before any training.
    Models without a user's code are not tried.
    """
    named = [fields.get('kind'), *dict(fields.get('ops', {})).values()]
    named = [name for name in named if user_code.names_code(name)]
    if not named:
        return
    model = build.backbone(fields | {'vocab_size': VOCABULARY, 'dtype': 'float32'})
    cause = _of_random_weights(model).fault
    if cause:
        raise UserError(f'config.model: with {", ".join(named)} {cause}: the model must be causal')


class Found(NamedTuple):
    """largest: the largest difference. fault: what moves that must not, '' for a causal model."""

    largest: float
    fault: str


@functools.cache
def _of_random_weights(model):
    generator = np.random.default_rng(0)
    params = jax.tree.map(
        lambda x: generator.normal(0, 0.1, x.shape).astype(x.dtype), build.shapes(model)
    )
    rows = generator.integers(0, VOCABULARY, (ROWS, model.config.n_ctx)).astype(np.int32)
    return examine(model, params, rows)


def examine(model: Any, params: Any, rows: np.ndarray) -> Found:
    """Examines a float32 model on rows, int[R, L]: at least two rows of different tokens."""
    calls = jax.make_jaxpr(functools.partial(_states, model))(params, rows, _key())
    hidden = hidden_inputs(calls.jaxpr)
    if hidden:
        names = ', '.join(sorted(hidden))
        return Found(float('inf'), f'a state has an input besides its tokens ({names})')
    found = Found(0.0, '')
    with jax.default_matmul_precision('highest'):
        for what, difference in differences(model, params, rows):
            if difference <= found.largest:
                continue
            found = Found(difference, found.fault)
            if difference > TOLERANCE:
                how_much = f'{difference:.1e} of the largest state'
                return Found(difference, f'a state depends on {what} (by {how_much})')
    return found


def differences(model: Any, params: Any, rows: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yields (what was changed, by how much a state moved) of each comparison."""
    states = jax.jit(functools.partial(_states, model))
    generator = np.random.default_rng(1)
    L = rows.shape[1]
    whole = states(params, rows, None)
    yield 'an earlier call', _difference(whole, states(params, rows, None))
    last_first = np.roll(np.arange(len(rows)), 1)
    yield (
        'the place of its row in the batch',
        _difference(whole[last_first], states(params, rows[last_first], None)),
    )
    yield 'the other rows', _difference(whole[:1], states(params, rows[:1], None))
    beside = np.concatenate([rows[:1], _others(rows[1:], model, generator)])
    yield 'the other rows', _difference(whole[:1], states(params, beside, None)[:1])
    for length, key in ((L, None), (L, _key()), (max(1, L - 3), None)):
        part = rows[:, :length]
        whole = states(params, part, key)
        for prefix in prefixes(length):
            other = part.copy()
            other[:, prefix:] = _others(part[:, prefix:], model, generator)
            moved = states(params, other, key)
            when = ' in training' if key is not None else ''
            yield (
                f'later tokens{when}, at position {prefix} of {length}',
                _difference(whole[:, :prefix], moved[:, :prefix]),
            )


def prefixes(length: int) -> list[int]:
    """The lengths of the prefixes that are tried, below `length`.

    All of a short context. Of a longer one those beside powers of two, and others at random.
    """
    if length <= ALL_PREFIXES:
        return list(range(1, length))
    powers = [2**n for n in range(length.bit_length())]
    near = {power + step for power in powers for step in (-1, 0, 1)}
    chosen = np.random.default_rng(length).choice(length, ALL_PREFIXES // 2, replace=False)
    return sorted(n for n in {*near, *chosen.tolist(), length - 1} if 0 < n < length)


def hidden_inputs(jaxpr: Any) -> set[str]:
    """The names of a program's effects and calls of Python, which may read anything."""
    found = {str(effect) for effect in jaxpr.effects}
    for equation in jaxpr.eqns:
        if 'callback' in equation.primitive.name:
            found.add(equation.primitive.name)
        for value in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(value, 'jaxpr', value)
            if hasattr(inner, 'eqns'):
                found |= hidden_inputs(inner)
    return found


def _states(model, params, rows, key):
    """The states, float32[R, L, ...], and the logits if these are the user's."""
    hidden, matrix = model.apply({'params': params}, rows, key)
    if 'logits' not in dict(getattr(model.config, 'ops', ())):
        return hidden
    return jnp.concatenate([hidden, model.logits(hidden, matrix)], axis=-1)


def _key():
    return dropout.Key(jnp.uint32(1), jnp.uint32(2), jnp.uint32(0))


def _others(tokens, model, generator):
    """Tokens that differ from these at each place."""
    vocabulary = model.config.vocab_size
    shift = generator.integers(1, max(2, vocabulary), tokens.shape)
    return ((tokens + shift) % vocabulary).astype(np.int32)


def _difference(a, b):
    """The largest difference of two arrays of states, relative to the largest state."""
    a, b = (np.asarray(x, np.float32) for x in (a, b))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float('inf')
    return float(np.abs(a - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-30))
