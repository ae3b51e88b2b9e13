"""Section 3.3: reads, subsamples and encodes the rows of a labelled split, with a cache for
sweeps."""

import functools
import os
from collections.abc import Mapping
from typing import Any

from gpt1_jax.data import encode_examples, inputs
from gpt1_jax.data.rows import BadRows
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.data.windows import permutation
from gpt1_jax.errors import UserError

CACHED = 24  # splits. A sweep fine-tunes on the same rows many times


def load(
    task: Task,
    directory: str | os.PathLike,
    split: str,
    tokenizer: Any,
    n_ctx: int,
    hashes: Mapping[str, str],
    limit: int | None = None,
    skip_bad: bool = False,
) -> list[inputs.Encoded]:
    """Returns the Encoded rows of a split, in file order.

    Rows that were read before, from files of the same hashes, come from a cache. limit: the most
    rows. They are a fixed random subset, the same for all seeds. skip_bad: skip bad rows and print
    how many there are. By default the first bad row is a UserError.
    """
    return _read(
        task,
        str(directory),
        split,
        tokenizer,
        n_ctx,
        tuple(sorted(hashes.items())),
        limit,
        skip_bad,
    )


def choose(examples: list[Any], limit: int | None) -> list[Any]:
    """A fixed random subset of at most `limit` items, in their order. None gives all items."""
    if limit is None or limit >= len(examples):
        return examples
    return [examples[i] for i in sorted(permutation(0, 0, len(examples))[:limit])]


def check_split(task: Task, split: str, labelled: bool = False) -> None:
    """UserError if a task has no such split, or, with `labelled`, if the split has no labels."""
    if split in task.unlabelled and labelled:
        raise UserError(f'{task.name}: split {split!r} has no labels')
    if split not in task.splits + task.unlabelled:
        raise UserError(
            f'{task.name} has no split {split!r} (there are '
            f'{", ".join(task.splits + task.unlabelled)})'
        )


@functools.lru_cache(CACHED)
def _read(task, directory, split, tokenizer, n_ctx, hashes, limit, skip_bad):
    bad = BadRows(skip_bad)
    examples = choose(task.read(directory, split, bad), limit)
    found = encode_examples.encode_all(examples, task, tokenizer, n_ctx, bad)
    if bad.count:
        print(f'{task.name} {split}: {bad}', flush=True)
    return found
