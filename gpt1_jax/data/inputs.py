"""Section 3.3 and Figure 1 (right): an example of any task as K token sequences for the unchanged model."""
from typing import NamedTuple

from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError


class Encoded(NamedTuple):
    """An example as ids.

    sequences: K lists, each ends with the extract token. label: index or None. cut: was text cut?
    """
    id: str
    sequences: list[list[int]]
    label: int | None
    cut: bool


def encode(example: Example, head, tokenizer, n_ctx):
    """Lay an example out as the released code does (train.py 45-75, 377-378).

    classify, one text:  [start] a [extract]                  a cut to its first n_ctx - 2 tokens
    classify, two texts: [start] a [delimiter] b [extract]    each cut to its first n_ctx // 2 - 2 tokens
    similarity:          both orders of the two texts
    choice:              [start] context [delimiter] choice [extract], one a choice
    For ids 5 6 and 7 with specials 10 11 12 the second is 10 5 6 11 7 12.
    """
    def one(*segments):
        limit = n_ctx - 2 if len(segments) == 1 else n_ctx // 2 - 2
        parts = [s[:limit] for s in segments]
        nonlocal cut
        cut = cut or any(len(s) > limit for s in segments)
        sequence = [tokenizer.start_id]
        for i, part in enumerate(parts):
            sequence += ([tokenizer.delimiter_id] if i else []) + part
        return sequence + [tokenizer.extract_id]

    cut = False
    texts = [tokenizer.encode(text) for text in example.texts]
    if head == 'classify':
        sequences = [one(*texts)]
    elif head == 'similarity':
        sequences = [one(*texts), one(*reversed(texts))]
    else:
        sequences = [one(*texts, tokenizer.encode(choice)) for choice in example.choices]
    return Encoded(example.id, sequences, example.label, cut)


def encode_all(examples, task, tokenizer, n_ctx):
    """Every example, in order. UserError where a label is missing or out of range, or rows differ in their choices."""
    widths = {len(example.choices) for example in examples}
    if not examples or len(widths) != 1:
        raise UserError(f'{task.name}: ' + (
            'no examples' if not examples else f'rows differ in their number of choices: {widths}'))
    n_labels = max(len(task.labels), widths.pop())
    for example in examples:
        if example.label is None:
            raise UserError(f'{task.name}: row {example.id} has no label')
        if not 0 <= example.label < n_labels:
            raise UserError(f'{task.name}: row {example.id}: label {example.label} is out of range 0..{n_labels - 1}')
    return [encode(example, task.head, tokenizer, n_ctx) for example in examples]
