"""Gradients of a batch in equal parts, one after the other, which need less memory at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax.parallel.sharding import constrain


def mean_of_parts(gradients: Callable[[Any, jax.Array], Any], batch: Any, n: int) -> Any:
    """Returns the mean of value, metrics and gradients over n parts of the batch.

    The parts are computed one after the other. gradients: (part of the batch, uint32 number of its
    first row) -> a tree of means over its rows.
    """
    if n == 1:
        return gradients(batch, jnp.uint32(0))

    def split(x):
        return constrain(x.reshape(n, x.shape[0] // n, *x.shape[1:]), 'microbatches')

    parts = jax.tree.map(split, batch)
    rows = jax.tree.leaves(parts)[0].shape[1]

    def part(index):
        return gradients(jax.tree.map(lambda x: x[index], parts), (index * rows).astype(jnp.uint32))

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(part, jnp.int32(0)))
    total, _ = jax.lax.scan(
        lambda sums, i: (jax.tree.map(jnp.add, sums, part(i)), None), zeros, jnp.arange(n)
    )
    return jax.tree.map(lambda x: x / n, total)
