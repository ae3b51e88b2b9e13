"""Section 5: the set of Rahman and Ng (2012): to which of two candidates does a pronoun refer?

texts:   the text before the pronoun and the text after it, with their spaces:
         before + candidate + after is a sentence.
choices: the two candidates, spelt as in the files.
"""

import functools
import itertools
import numbers
import re

from gpt1_jax.data.tasks import parquet_source, reading, tfds_source
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.reading import Row, RowFault, Split

BLOCK = ('sentence', 'pronoun', 'candidates', 'right candidate')


def split_at_pronoun(sentence: str, pronoun: str) -> tuple[str, str]:
    """The texts before and after the pronoun, which is its first occurrence as a whole word.

    The set's description says so. 51 of the set's 1,880 sentences contain the pronoun several
    times. Read by hand, all but 3 of them mean the first. 403 sentences contain the pronoun's
    letters earlier, inside another word. RowFault if the sentence lacks the pronoun as a word.
    """
    word = rf'(?<!\w){re.escape(pronoun)}(?!\w)'
    found = re.search(word, sentence) or re.search(word, sentence, re.IGNORECASE)
    if not found:
        raise RowFault(f'the pronoun {pronoun!r} is no word of the sentence')
    return sentence[: found.start()], sentence[found.end() :]


def same(candidate: str) -> str:
    """A candidate without case, spaces and article, so that its spellings can be compared."""
    return re.sub(r'^(a|an|the) ', '', ' '.join(candidate.lower().split()))


def right_one(candidates: tuple[str, str], right: str) -> int:
    """The index of the right candidate. RowFault if `right` is neither, or could be both."""
    for form in (str, same):
        equal = [form(candidate) == form(right) for candidate in candidates]
        if sum(equal) == 1:
            return equal.index(True)
    raise RowFault(
        f'the right candidate {right!r} is not one of {" and ".join(map(repr, candidates))}'
    )


def _blocks(paths, split):
    """Reads blocks of four lines, separated by blank lines."""
    (path,) = paths
    lines = list(enumerate(reading.decoded_lines(path), 1))
    blocks = [
        list(block)
        for blank, block in itertools.groupby(lines, lambda line: not line[1].strip())
        if not blank
    ]
    for position, block in enumerate(blocks):
        fields: dict | RowFault = dict(zip(BLOCK, (line.strip() for _, line in block)))
        if len(block) != len(BLOCK):
            fields = RowFault(
                f'a block of {len(block)} lines, expected {len(BLOCK)} ({", ".join(BLOCK)})'
            )
        yield Row(f'{path}: row {block[0][0]}', str(position), fields)


def _make_dpr(split, row_id, fields):
    candidates = tuple(
        candidate.strip() for candidate in reading.field(fields, 'candidates').split(',')
    )
    if len(candidates) != 2 or not all(candidates):
        raise RowFault(
            f'{len(candidates)} candidates in {fields["candidates"]!r}, expected two separated by '
            'a comma'
        )
    before, after = split_at_pronoun(
        reading.field(fields, 'sentence'), reading.field(fields, 'pronoun')
    )
    label = right_one(candidates, reading.field(fields, 'right candidate'))
    if not after.strip():
        raise RowFault('nothing follows the pronoun')
    return Example(row_id, (before, after), candidates, label)


def _typed_dpr(library, directory, split, sources):
    records = library.records(
        directory, sources[0], ('sentence', 'pronoun', 'candidates', 'label'), {'label': ('0', '1')}
    )
    for position, (where, record) in enumerate(records):
        candidates = record['candidates']
        label = record['label']
        fields = RowFault(f'label {label}')
        if (
            isinstance(candidates, list)
            and isinstance(label, numbers.Integral)
            and 0 <= label < len(candidates)
        ):
            fields = record | {
                'candidates': ','.join(candidates),
                'right candidate': candidates[label],
            }
        yield Row(where, str(position), fields)


DPR = reading.labelled_set(
    'dpr',
    'choice',
    ('0', '1'),
    ('accuracy',),
    {
        name: Split((f'{name}.c.txt',), rows, (f'definite_pronoun_resolution:{name}',))
        for name, rows in (('train', 1322), ('test', 564))
    },
    _make_dpr,
    _blocks,
    functools.partial(_typed_dpr, tfds_source),
    functools.partial(_typed_dpr, parquet_source),
    n_texts=2,
)
