"""Section 3.3 and Figure 1 (right): turns an example of any task into token sequences for the
model."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError


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

    classify, one text   [start] a [extract]
    classify, two texts  [start] a [delimiter] b [extract]
    similarity           both orders of the two texts
    choice               [start] context [delimiter] choice [extract] for each choice

    A text that is too long is truncated, see `limit` and `cut_one`. ids_of: used instead of
    tokenizer.encode. The lists that it returns are not changed.
    """
    ids_of = ids_of or tokenizer.encode
    texts = [ids_of(text) for text in example.texts]
    choices = [ids_of(choice) for choice in example.choices]
    truncated = False
    if task.cut is not None:
        truncated = cut_one(texts, task.cut, len(task.segments or texts), choices, n_ctx)
    segments = []
    first = 0
    for n in task.segments or [1] * len(texts):
        segments.append(sum(texts[first : first + n], []))
        first += n
    if task.head == 'choice':
        orders = [[*segments, choice] for choice in choices]
    elif task.head == 'similarity':
        orders = [segments, segments[::-1]]
    else:
        orders = [segments]
    # Each of n segments keeps its first n_ctx // n - 2 tokens
    limit = n_ctx // (len(segments) + bool(choices)) - 2 if task.cut is None else n_ctx
    sequences = []
    for order in orders:
        truncated = truncated or any(len(segment) > limit for segment in order)
        sequence = [tokenizer.start_id]
        for segment in order:
            sequence += [*segment[:limit], tokenizer.delimiter_id]
        sequences.append([*sequence[:-1], tokenizer.extract_id])
    return Encoded(example.id, sequences, example.label, target(example, task), truncated)


def cut_one(
    texts: list[list[int]], i: int, n_segments: int, choices: list[list[int]], n_ctx: int
) -> bool:
    """Truncates only text i, equally for all choices. Returns whether it was too long.

    In RACE the document keeps its first n_ctx - 3 - |question| - max |answer| tokens. UserError if
    the other texts leave no room for it.
    """
    specials = 1 + n_segments + bool(choices)
    length = len(texts[i])
    rest = sum(map(len, texts)) - length + max(map(len, choices), default=0)
    room = n_ctx - specials - rest
    if room < 1:
        raise UserError(
            f'{rest} tokens that are never cut, and {specials} more, leave no room in a context of '
            f'{n_ctx}'
        )
    texts[i] = texts[i][:room]
    return length > room


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
