"""The batches of a training, each placed on the mesh while the devices work on the one before."""

import concurrent.futures
import functools
from collections.abc import Callable, Generator
from typing import NamedTuple

import jax

from gpt1_jax.parallel import sharding


class Batches(NamedTuple):
    """The training data.

    read: (step, slice of rows) -> these rows of the step's batch, a dict of host arrays. It is a
        pure function, which a thread calls one step ahead. Each process reads the rows of its
        devices.
    size: rows of a batch.
    tokens_per_step: real tokens of a batch, on average.
    resident: arrays on the devices that every step takes besides its batch.
    """

    read: Callable
    size: int
    tokens_per_step: float
    resident: tuple[jax.Array, ...] = ()

    def place(self, step: int, mesh: jax.sharding.Mesh) -> dict[str, jax.Array]:
        """Puts the batch of a step on the mesh."""
        return sharding.place(functools.partial(self.read, step), self.size, mesh)


def prefetched(
    batches: Batches, mesh: jax.sharding.Mesh, step: int, total: int
) -> Generator[dict[str, jax.Array]]:
    """Gives the batches of the steps from `step` to `total`, one after the other, on the mesh.

    A thread reads and places the next batch.
    """
    with concurrent.futures.ThreadPoolExecutor(1, 'prefetch') as thread:
        ahead = thread.submit(batches.place, step, mesh)
        for following in range(step + 1, total):
            batch = ahead.result()
            ahead = thread.submit(batches.place, following, mesh)
            yield batch
        yield ahead.result()
