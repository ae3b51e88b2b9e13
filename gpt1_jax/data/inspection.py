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
    chosen = [
        0,
        *sorted(random.Random(SEED).sample(range(1, len(encoded)), min(SHOWN, len(encoded)) - 1)),
    ]
    shown = [f'{task.name}: {len(chosen)} of {len(encoded):,} rows as the model reads them', '']
    for index in chosen:
        shown += [*_row(task, by_id[encoded[index].id], encoded[index], tokenizer), '']
    return list(map(one_line, shown + _statistics(task, encoded, n_ctx)))


def _row(task, example, row, tokenizer):
    """The lines of one row: its texts, its label and each sequence."""
    if row.label is None:
        label = 'none'
    elif task.score:
        label = f'{row.label:g}'
    else:
        label = f'{task.labels[row.label]} (index {row.label})'
    yield f'row {row.id}'
    read = [(f'text {i}', text) for i, text in enumerate(example.texts, 1)] + [
        (f'choice {task.labels[i]}', text) for i, text in enumerate(example.choices)
    ]
    read += [('label', label), ('cut', 'yes' if row.truncated else 'no')]
    indent = max(len(name) for name, _ in read)
    room = WIDTH - indent - 4
    for name, text in read:
        text = ' '.join(text.split())
        yield f'  {name:<{indent}}  {text if len(text) <= room else text[: room - 2] + " …"}'
    for k, sequence in enumerate(row.sequences):
        kind = {
            'choice': f'choice {task.labels[k]}' if task.head == 'choice' else '',
            'similarity': f'order {k + 1}',
        }.get(task.head, 'sequence')
        right = ', the right one' if task.head == 'choice' and row.label == k else ''
        n = len(sequence)
        yield f'  {kind}{right}: {n} tokens, pooled at position {n - 1}'
        yield from textwrap.wrap(
            ' '.join(_tokens(sequence, tokenizer)),
            WIDTH,
            initial_indent=' ' * 4,
            subsequent_indent=' ' * 4,
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
    """Statistics of the whole split: labels or scores, choices, lengths and truncated rows."""
    n = len(encoded)
    longest = [max(map(len, row.sequences)) for row in encoded]
    cut = sum(row.truncated for row in encoded)
    labels = [row.label for row in encoded if row.label is not None]
    found = [('rows', [f'{n:,}'])]
    if labels and task.score:
        low, high = min(labels), max(labels)
        mean = sum(labels) / len(labels)
        found.append(('score', [f'smallest {low:g}, mean {mean:.4g}, largest {high:g}']))
    elif labels:
        counts = Counter(labels)
        found.append(
            ('labels', _counted([(name, counts[i]) for i, name in enumerate(task.labels)]))
        )
    if task.head == 'choice':
        found.append(
            (
                'choices a row',
                _counted(sorted(Counter(len(row.sequences) for row in encoded).items())),
            )
        )
    middle, most = (int(np.percentile(longest, q, method='inverted_cdf')) for q in (50, 95))
    found.append(
        (
            'tokens a row',
            [
                f'median {middle}, 95% at most {most}, longest {max(longest)}; the context is '
                f'{n_ctx}'
            ],
        )
    )
    found.append(('cut', [f'{cut:,} rows, {cut / n:.1%}', *limits(task, n_ctx, cut)]))
    indent = max(len(name) for name, _ in found)
    return [
        f'{name if not i else "":<{indent}}  {text}'
        for name, texts in found
        for i, text in enumerate(texts)
    ]


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


def _counted(counts):
    """A line for each (name, count), with its share, aligned."""
    wide = max(len(str(name)) for name, _ in counts)
    high = max(len(f'{count:,}') for _, count in counts)
    total = max(sum(count for _, count in counts), 1)
    return [
        f'{str(name):<{wide}}  {count:>{high},}  {count / total:>6.1%}' for name, count in counts
    ]
