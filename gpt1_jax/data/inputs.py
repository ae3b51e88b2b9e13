"""Section 3.3 and Figure 1 (right): an example of any task as K token sequences for the unchanged model."""
import math
from typing import NamedTuple

from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError, one_line


class Encoded(NamedTuple):
    """An example as ids.

    sequences: K lists, each ends with the extract token. label: as in Example. target: what the loss compares with, one
    number a label or choice, or the one value of a squared loss; None where there is no label. cut: was text cut?
    """
    id: str
    sequences: list[list[int]]
    label: int | float | None
    target: list[float] | None
    cut: bool


def encode(example: Example, task: Task, tokenizer, n_ctx):
    """Lay an example out as the released code does (train.py 45-75, 377-378).

    classify, one text:  [start] a [extract]                  a cut to its first n_ctx - 2 tokens
    classify, two texts: [start] a [delimiter] b [extract]    each cut to its first n_ctx // 2 - 2 tokens
    similarity:          both orders of the two texts
    choice:              [start] context [delimiter] choice [extract], one a choice
    For ids 5 6 and 7 with specials 10 11 12 the second is 10 5 6 11 7 12. Of n segments each keeps n_ctx // n - 2.
    With task.cut that text alone is cut, the same for all choices: of RACE the document z keeps its first
    n_ctx - 3 - |q| - max |a_k| tokens, question q and answers a_k stay whole. UserError where those alone are too long.
    """
    texts = [tokenizer.encode(text) for text in example.texts]
    choices = [tokenizer.encode(choice) for choice in example.choices]
    cut = False
    if task.cut is not None:
        specials = 1 + len(task.segments or texts) + bool(choices)
        rest = sum(map(len, texts)) - len(texts[task.cut]) + max(map(len, choices), default=0)
        room = n_ctx - specials - rest
        if room < 1:
            raise UserError(f'row {example.id}: {rest} tokens that are never cut, and {specials} more, leave no room '
                            f'in a context of {n_ctx}')
        cut = len(texts[task.cut]) > room
        texts[task.cut] = texts[task.cut][:room]

    def one(*segments):
        limit = n_ctx if task.cut is not None else n_ctx // len(segments) - 2
        nonlocal cut
        cut = cut or any(len(s) > limit for s in segments)
        sequence = [tokenizer.start_id]
        for i, segment in enumerate(segments):
            sequence += ([tokenizer.delimiter_id] if i else []) + segment[:limit]
        return sequence + [tokenizer.extract_id]

    segments, first = [], 0
    for n in task.segments or [1] * len(texts):
        segments.append(sum(texts[first:first + n], []))
        first += n
    if task.head == 'classify':
        sequences = [one(*segments)]
    elif task.head == 'similarity':
        sequences = [one(*segments), one(*reversed(segments))]
    else:
        sequences = [one(*segments, choice) for choice in choices]
    return Encoded(example.id, sequences, example.label, target(example, task), cut)


def target(example: Example, task: Task):
    """One-hot over labels or choices; of a score its soft bins, or its place between low (0) and high (1).

    Released code (utils.py 25-36): a score splits its mass between the two whole numbers around it: of 0..5, 3.8 is
    0 0 0 0.2 0.8 0.
    """
    if example.label is None:
        return None
    if task.score is None:
        return [float(i == example.label) for i in range(len(example.choices) or len(task.labels))]
    low, high = task.score
    if task.squared:
        return [(example.label - low) / (high - low)]
    whole = math.floor(example.label)
    upper = example.label - whole
    return [(1 - upper) * (low + i == whole) + upper * (low + i == whole + 1) for i in range(len(task.labels))]


def encode_all(examples, task: Task, tokenizer, n_ctx, skipped=None):
    """Every example, in order.

    UserError naming the row where a label is missing or out of range, a row has less than two choices, or what may not
    be cut does not fit. skipped: a list that takes such messages instead; the rows are left out.
    """
    if not examples:
        raise UserError(f'{task.name}: no examples')
    found = []
    for example in examples:
        try:
            problem = wrong_with(example, task)
            if problem:
                raise UserError(f'row {example.id}{problem}')
            found.append(encode(example, task, tokenizer, n_ctx))
        except UserError as error:
            if skipped is None:
                raise UserError(f'{task.name}: {error}') from None
            skipped.append(one_line(f'{task.name}: {error}'))
    if not found:
        raise UserError(f'{task.name}: no examples left, {len(skipped)} were skipped, the first: {skipped[0]}')
    return found


def wrong_with(example: Example, task: Task):
    """What is wrong with an example's label or choices, or None."""
    if task.head == 'choice' and len(example.choices) < 2:
        return f' has {len(example.choices)} choice(s), at least 2 are needed'
    if example.label is None:
        return None
    if task.score is not None:
        low, high = task.score
        return None if low <= example.label <= high else f': score {example.label} is not from {low} to {high}'
    n = len(example.choices) or len(task.labels)
    return None if 0 <= example.label < n else f': label {example.label} is out of range 0..{n - 1}'
