"""Section 3.3: reads, subsamples and encodes the rows of a labelled split, with a cache for sweeps.
Several processes tokenize many texts."""

import array
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gpt1_jax.data.encode import n_processes, ordered_map, reporter
from gpt1_jax.data.inputs import Encoded, encode
from gpt1_jax.data.rows import BadRows
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.windows import DTYPE, permutation
from gpt1_jax.errors import UserError, fail, one_line

Row = TypeVar('Row')
CACHED = 24  # splits. A sweep fine-tunes on the same rows many times
# Rows about the same passage or premise are near each other, so the ids of a text are reused
CACHED_TEXTS = 256
UNIT_TEXTS = 1000  # a process tokenizes so many texts at a time


@functools.lru_cache(CACHED)
def load(
    task: Task,
    directory: str,
    split: str,
    tokenizer: Any,
    n_ctx: int,
    digest: str,
    limit: int | None = None,
    skip_bad: bool = False,
) -> list[Encoded]:
    """Returns the Encoded rows of a split, in file order.

    Rows that were read before, from files of the same digest, come from a cache. limit: the most
    rows. They are a fixed random subset, the same for all seeds. skip_bad: skip bad rows and print
    how many there are. By default the first bad row is a UserError.
    """
    bad = BadRows(skip_bad)
    examples = choose(task.read(directory, split, bad), limit)
    found = encode_all(examples, task, tokenizer, n_ctx, bad)
    if bad.count:
        print(f'{task.name} {split}: {bad}', flush=True)
    return found


def choose(examples: list[Any], limit: int | None) -> list[Any]:
    """A fixed random subset of at most `limit` items, in their order. None gives all items."""
    if limit is None or limit >= len(examples):
        return examples
    return [examples[i] for i in sorted(permutation(0, 0, len(examples))[:limit])]


def check_split(task: Task, split: str, labelled: bool = False) -> None:
    """UserError if a task has no such split, or, with `labelled`, if the split has no labels."""
    if split in task.unlabelled and labelled:
        raise UserError(f'{task.name}: split {split!r} has no labels')
    task.source(split)


def encode_all(
    examples: Sequence[Example],
    task: Task,
    tokenizer: Any,
    n_ctx: int,
    on_bad: Callable[[str], None] = fail,
) -> list[Encoded]:
    """Encodes every example, in order. Several processes tokenize many texts.

    Sequences are arrays of 4 bytes an id, a ninth of a list's. on_bad, UserError: as in `each`.
    """
    ids_of = _tokenized(examples, tokenizer, task.name)

    def packed(example):
        row = encode(example, task, tokenizer, n_ctx, ids_of)
        return row._replace(sequences=[array.array('i', ids) for ids in row.sequences])

    return each(examples, packed, task.name, on_bad)


def _tokenized(examples, tokenizer, label):
    """Returns a function that gives the ids of the examples' texts."""
    texts = list(
        dict.fromkeys(text for example in examples for text in (*example.texts, *example.choices))
    )
    characters = sum(map(len, texts))
    processes = n_processes(None, characters)
    if processes == 1:
        # So a passage is tokenized once, not once for each question
        return functools.lru_cache(CACHED_TEXTS)(tokenizer.encode)
    units = (texts[start : start + UNIT_TEXTS] for start in range(0, len(texts), UNIT_TEXTS))
    report = reporter(f'{label}: tokenizing', 'tokens', characters)
    found = {}
    for unit, ids in ordered_map(functools.partial(_ids, tokenizer), units, processes):
        found.update(zip(unit, ids))
        report(len(unit), sum(map(len, ids)), sum(map(len, unit)))
    return lambda text: found[text].tolist()


def _ids(tokenizer, texts):
    """Returns the ids of each text, uint16[n]. Runs in a worker."""
    return [np.array(tokenizer.encode(text), DTYPE) for text in texts]


def each(
    examples: Sequence[Example],
    encode_one: Callable[[Example], Row],
    what: str,
    on_bad: Callable[[str], None],
) -> list[Row]:
    """[encode_one(example)] of all examples.

    what:   task and split, for messages.
    on_bad: called with a message naming the row if encode_one raises a UserError. If on_bad
            returns, the row is skipped (see Task.read).
    UserError if no row is left.
    """
    if not examples:
        raise UserError(f'{what}: no examples')
    found = []
    bad = []
    for example in examples:
        try:
            found.append(encode_one(example))
        except UserError as error:
            bad.append(one_line(f'{what}: row {example.id}: {error}'))
            on_bad(bad[-1])
    if not found:
        raise UserError(f'{what}: no examples left, {len(bad)} were skipped, the first: {bad[0]}')
    return found
