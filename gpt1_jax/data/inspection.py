"""Section 3.3: prints a few rows of a labelled set as the model reads them, and statistics of the
set."""

import random
import textwrap
from collections import Counter
from typing import Any

import numpy as np

from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tokenizer import SPECIALS
from gpt1_jax.errors import one_line

# Rows: the first, and others drawn with this seed
SHOWN = 3
SEED = 0
WIDTH = 110  # characters of a line
# A sequence longer than WHOLE shows only AROUND tokens on both sides of each special token
WHOLE = 64
AROUND = 8


def lines(
    task: Task, examples: list[Example], encoded: list[Encoded], tokenizer: Any, n_ctx: int
) -> list[str]:
    """The lines that --inspect prints for a split.

    encoded: one or more of the examples as ids. A token is shown as TEXT:ID, with '@@' if it does
    not end its word.
    """
    by_id = {example.id: example for example in examples}
    others = random.Random(SEED).sample(range(1, len(encoded)), min(SHOWN, len(encoded)) - 1)
    chosen = [encoded[index] for index in (0, *sorted(others))]
    shown = [f'{task.name}: {len(chosen)} of {len(encoded):,} rows as the model reads them', '']
    for row in chosen:
        shown += [*_row(task, by_id[row.id], row, tokenizer), '']
    return list(map(one_line, [*shown, *_statistics(task, encoded, n_ctx)]))


def _row(task, example, row, tokenizer):
    """The lines of one row: its texts, its label and each sequence."""
    if row.label is None:
        label = 'none'
    elif task.score:
        label = f'{row.label:g}'
    else:
        label = f'{task.labels[row.label]} (index {row.label})'
    yield f'row {row.id}'
    read = {f'text {i}': text for i, text in enumerate(example.texts, 1)}
    read |= {f'choice {task.labels[i]}': text for i, text in enumerate(example.choices)}
    read |= {'label': label, 'cut': 'yes' if row.truncated else 'no'}
    for name, text in read.items():
        line = f'  {name}: {" ".join(text.split())}'
        yield line if len(line) <= WIDTH else f'{line[: WIDTH - 2]} …'
    for k, sequence in enumerate(row.sequences):
        kind = 'sequence'
        if task.head == 'similarity':
            kind = f'order {k + 1}'
        elif task.head == 'choice':
            kind = f'choice {task.labels[k]}{", the right one" if row.label == k else ""}'
        n = len(sequence)
        yield f'  {kind}: {n} tokens, pooled at position {n - 1}'
        indent = ' ' * 4
        yield from textwrap.wrap(
            ' '.join(_tokens(sequence, tokenizer)),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _tokens(sequence, tokenizer):
    """TEXT:ID of each token. A long stretch without special tokens is left out."""
    specials = dict(
        zip((tokenizer.start_id, tokenizer.delimiter_id, tokenizer.extract_id), SPECIALS)
    )
    places = [i for i, token in enumerate(sequence) if token in specials]
    hidden = 0
    for i, token in enumerate(sequence):
        if len(sequence) > WHOLE and all(abs(i - place) > AROUND for place in places):
            hidden += 1
            continue
        if hidden:
            yield f'[{hidden} more]'
            hidden = 0
        yield f'{specials.get(token) or piece(token, tokenizer)}:{token}'


def piece(token: int, tokenizer: Any) -> str:
    """A token's text: 'cat', or 'ca@@' if the word continues.

    The end of a word by itself is '</w>', a line break is '\\n'.
    """
    text = tokenizer.piece(token)
    if text.endswith('\n'):
        return '\\n'
    return text.strip() or '</w>' if text.endswith(' ') else f'{text}@@'


def _statistics(task, encoded, n_ctx):
    """Lines on the whole split: labels or scores, choices, lengths and truncated rows."""
    n = len(encoded)
    longest = [max(map(len, row.sequences)) for row in encoded]
    cut = sum(row.truncated for row in encoded)
    labels = [row.label for row in encoded if row.label is not None]
    yield f'rows: {n:,}'
    if labels and task.score:
        mean = sum(labels) / len(labels)
        yield f'score: smallest {min(labels):g}, mean {mean:.4g}, largest {max(labels):g}'
    elif labels:
        counts = Counter(labels)
        for i, name in enumerate(task.labels):
            yield f'label {name}: {counts[i]:,} rows, {counts[i] / len(labels):.1%}'
    if task.head == 'choice':
        for choices, count in sorted(Counter(len(row.sequences) for row in encoded).items()):
            yield f'{choices} choices: {count:,} rows, {count / n:.1%}'
    middle, most = (int(np.percentile(longest, q, method='inverted_cdf')) for q in (50, 95))
    yield (
        f'tokens a row: median {middle}, 95% at most {most}, longest {max(longest)}; the context '
        f'is {n_ctx}'
    )
    yield f'cut: {cut:,} rows, {cut / n:.1%}'
    yield from limits(task, n_ctx, cut)


def limits(task: Task, n_ctx: int, cut: int) -> list[str]:
    """Lines that say how much of each text is read, if texts of some rows are cut."""
    segments = len(task.segments or task.columns or range(task.n_texts)) + (task.head == 'choice')
    if not cut:
        return []
    if task.cut is not None:
        return [f'of text {task.cut + 1}, which is cut to what the others leave of {n_ctx} tokens']
    kept = n_ctx // segments - 2
    lines = [f'each of {segments} segments keeps its first {kept} of {n_ctx} tokens']
    if segments > 1:
        lines.append(
            'in a Python file, n_texts=2, segments=(2,), cut=0 makes two texts one segment, of '
            'which only the first is cut (gpt1 help tasks)'
        )
    return lines
