"""Section 3.3 and Figure 1 (right): turns an example of any task into token sequences for the
model."""

import array
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpt1_jax.data.encode import n_processes, ordered_map, reporter
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tokens import DTYPE
from gpt1_jax.errors import UserError, fail, one_line

Row = TypeVar('Row')
# Rows about the same passage or premise are near each other, so the ids of a text are reused
CACHED_TEXTS = 256
UNIT_TEXTS = 1000  # a process tokenizes so many texts at a time


class Encoded(NamedTuple):
    """An example as ids.

    sequences: K lists of ids, each ending with the extract token: a single list, or a list for each
               order (similarity) or choice.
    label:     as in Example.
    target:    the training target: a number for each label or choice, or the value for a squared
               loss. None if unlabelled.
    truncated: whether a text was truncated.
    """

    id: str
    sequences: Sequence[Sequence[int]]
    label: int | float | None
    target: list[float] | None
    truncated: bool


def encode(
    example: Example,
    task: Task,
    tokenizer: Any,
    n_ctx: int,
    ids_of: Callable[[str], list[int]] | None = None,
) -> Encoded:
    """Lays out an example's sequences as the released code does (train.py 229-245, 377-378).

    classify, one text   [start] a [extract]                  a keeps its first n_ctx - 2 tokens
    classify, two texts  [start] a [delimiter] b [extract]    each keeps its first n_ctx // 2 - 2
    similarity           both orders of the two texts
    choice               [start] context [delimiter] choice [extract] for each choice
    Each of n segments keeps n_ctx // n - 2 tokens. If task.cut is set, only that text is truncated,
    equally for all choices: in RACE the document keeps its first n_ctx - 3 - |question| - max
    |answer| tokens. UserError if the other texts leave no room for it.
    ids_of: used instead of tokenizer.encode. The lists that it returns are not changed.
    """
    ids_of = ids_of or tokenizer.encode
    texts = [ids_of(text) for text in example.texts]
    choices = [ids_of(choice) for choice in example.choices]
    truncated = False
    if task.cut is not None:
        specials = 1 + len(task.segments or texts) + bool(choices)
        rest = sum(map(len, texts)) - len(texts[task.cut]) + max(map(len, choices), default=0)
        room = n_ctx - specials - rest
        if room < 1:
            raise UserError(
                f'{rest} tokens that are never cut, and {specials} more, leave no room in a '
                f'context of {n_ctx}'
            )
        truncated = len(texts[task.cut]) > room
        texts[task.cut] = texts[task.cut][:room]

    segments = []
    first = 0
    for n in task.segments or [1] * len(texts):
        segments.append(sum(texts[first : first + n], []))
        first += n
    if task.head == 'choice':
        orders = [[*segments, choice] for choice in choices]
    else:
        orders = [segments, segments[::-1]] if task.head == 'similarity' else [segments]
    limit = n_ctx if task.cut is not None else n_ctx // (len(segments) + bool(choices)) - 2
    sequences = []
    for order in orders:
        truncated = truncated or any(len(segment) > limit for segment in order)
        sequences.append([tokenizer.start_id])
        for i, segment in enumerate(order):
            sequences[-1] += ([tokenizer.delimiter_id] if i else []) + segment[:limit]
        sequences[-1].append(tokenizer.extract_id)
    return Encoded(example.id, sequences, example.label, target(example, task), truncated)


def target(example: Example, task: Task) -> list[float] | None:
    """The training target of an example: one-hot over labels or choices, or for a score.

    As in the released code (utils.py 25-36), a score divides its mass between the two integers
    around it: with bins 0 to 5, 3.8 becomes 0 0 0 0.2 0.8 0. With the squared loss a score becomes
    one number, 0 for low and 1 for high.
    """
    if example.label is None:
        return None
    if task.score is None:
        n = len(example.choices) or len(task.labels)
        if not 0 <= example.label < n:
            raise UserError(f'label {example.label} is out of range 0..{n - 1}')
        return [float(i == example.label) for i in range(n)]
    low, high = task.score
    if task.squared:
        return [(example.label - low) / (high - low)]
    whole = math.floor(example.label)
    upper = example.label - whole
    return [
        (1 - upper) * (low + i == whole) + upper * (low + i == whole + 1)
        for i in range(len(task.labels))
    ]


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
