"""Section 5: the set of Rahman and Ng (2012): to which of two candidates does a pronoun refer?

texts:   the text before the pronoun and the text after it, with their spaces:
         before + candidate + after is a sentence.
choices: the two candidates, spelt as in the files.
"""

import itertools
import re

from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Bad, Row
from gpt1_jax.data.tasks import own
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.sources import Published
from gpt1_jax.errors import UserError

BLOCK = ('sentence', 'pronoun', 'candidates', 'right candidate')


def split_at_pronoun(sentence: str, pronoun: str) -> tuple[str, str]:
    """The texts before and after the pronoun, which is its first occurrence as a whole word.

    The set's description says so. 51 of the set's 1,880 sentences contain the pronoun several
    times. Read by hand, all but 3 of them mean the first. 403 sentences contain the pronoun's
    letters earlier, inside another word. UserError if the sentence lacks the pronoun as a word.
    """
    word = rf'(?<!\w){re.escape(pronoun)}(?!\w)'
    found = re.search(word, sentence) or re.search(word, sentence, re.IGNORECASE)
    if not found:
        raise UserError(f'the pronoun {pronoun!r} is no word of the sentence')
    return sentence[: found.start()], sentence[found.end() :]


def same(candidate: str) -> str:
    """A candidate without case, spaces and article, so that its spellings can be compared."""
    return re.sub(r'^(a|an|the) ', '', ' '.join(candidate.lower().split()))


def right_one(candidates: tuple[str, str], right: str) -> int:
    """The index of the right candidate. UserError if `right` is neither, or could be both."""
    for form in (str, same):
        equal = [form(candidate) == form(right) for candidate in candidates]
        if sum(equal) == 1:
            return equal.index(True)
    raise UserError(
        f'the right candidate {right!r} is not one of {" and ".join(map(repr, candidates))}'
    )


def _blocks(paths):
    """Reads blocks of four lines, separated by blank lines."""
    (path,) = paths
    lines = ((number, _text(line)) for number, line in rows_lib.lines(path))
    for blank, group in itertools.groupby(lines, lambda line: not line[1]):
        if blank:
            continue
        block = list(group)
        where = f'{path}: row {block[0][0]}'
        if len(block) == len(BLOCK):
            yield Row(where, dict(zip(BLOCK, (line for _, line in block))))
        else:
            yield Bad(
                where, f'a block of {len(block)} lines, expected {len(BLOCK)} ({", ".join(BLOCK)})'
            )


def _text(line):
    if isinstance(line, UserError):
        raise line
    return line.strip()


def _typed(rows):
    """The rows of TFDS and the Hub, where candidates are a list and the right one has a number."""
    for row in rows:
        if isinstance(row, Bad):
            yield row
            continue
        candidates = row.fields['candidates']
        label = rows_lib.of_cell(row.fields['label'])
        if not isinstance(candidates, list) or label not in map(str, range(len(candidates))):
            yield Bad(row.where, f'label {label}')
            continue
        right = {'candidates': ','.join(candidates), 'right candidate': candidates[int(label)]}
        yield row._replace(fields=row.fields | right)


def _example(row):
    candidates = tuple(map(str.strip, rows_lib.text(row, 'candidates').split(',')))
    if len(candidates) != 2 or not all(candidates):
        raise UserError(
            f'{len(candidates)} candidates in {row["candidates"]!r}, expected two separated by '
            'a comma'
        )
    before, after = split_at_pronoun(rows_lib.text(row, 'sentence'), rows_lib.text(row, 'pronoun'))
    label = right_one(candidates, rows_lib.text(row, 'right candidate'))
    if not after.strip():
        raise UserError('nothing follows the pronoun')
    return Example('', (before, after), candidates, label)


DPR = Task(
    'dpr',
    'choice',
    ('0', '1'),
    ('accuracy',),
    {
        name: Published(
            (f'{name}.c.txt',),
            ('sentence', 'pronoun', 'candidates', 'label'),
            (rows,),
            (f'definite_pronoun_resolution:{name}',),
            official=_blocks,
            typed=_typed,
        )
        for name, rows in (('train', 1322), ('test', 564))
    },
    _example,
    n_texts=2,
)

# The quickstart's set, which experiments/quickstart/novel_tasks.py makes from novels
PRONOUNS = ('he', 'him')
PRONOUN = Task(
    'pronoun',
    'classify',
    PRONOUNS,
    ('accuracy',),
    {split: own.File(f'pronoun_{split}.jsonl') for split in ('train', 'dev', 'test')},
    lambda row: Example(
        rows_lib.text(row, 'id'), (rows_lib.text(row, 'text'),), label=row.get('label')
    ),
    new=own.table_rows,
)
