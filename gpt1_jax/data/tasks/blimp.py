"""BLiMP: 67 sets of 1,000 minimal pairs in 12 phenomena (Warstadt et al., 2020). Not in the paper.

Reads the official files, a NAME.jsonl for each set, in the directory itself or in its folder data/.
A pair becomes an Example with the good sentence first, label 0, and the id PHENOMENON/SET/PAIR,
such as binding/principle_A_case_2/105.
"""

import itertools
import os
import pathlib

from gpt1_jax import storage
from gpt1_jax.data import readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.sources import Published
from gpt1_jax.errors import UserError, did_you_mean

PHENOMENA = {
    'anaphor_agreement': 'anaphor agreement',
    'argument_structure': 'argument structure',
    'binding': 'binding',
    'control_raising': 'control/raising',
    'determiner_noun_agreement': 'determiner-noun agreement',
    'ellipsis': 'ellipsis',
    'filler_gap_dependency': 'filler-gap',
    'irregular_forms': 'irregular forms',
    'island_effects': 'island effects',
    'npi_licensing': 'NPI licensing',
    'quantifiers': 'quantifiers',
    # The term of the files, and the paper's name
    'subject_verb_agreement': 'subject-verb agreement',
}
# The files of two sets of animacy have another term. The paper and its summary count these sets
# under argument structure.
COUNTED_UNDER = {'s-selection': 'argument_structure'}
PAIRS = 67_000


def files(directory: str, source: Published) -> list[str]:
    """The paths of the sets, by name. UserError if there is none."""
    for folder in (pathlib.Path(directory), pathlib.Path(directory) / 'data'):
        found = sorted(map(str, folder.glob('*.jsonl')))
        if found:
            return found
    raise UserError(f'{directory}: no .jsonl file, nor in its folder data')


def read_filter(path: str | os.PathLike) -> frozenset[str]:
    """Reads an index file, and returns the pairs that it chooses, as 'SET/PAIR'.

    BabyLM's index file chooses 59,875 pairs of familiar words. The file is JSON: {set: [numbers of
    its pairs]}. UserError for any other content.
    """
    sets = storage.read_json(path)
    try:
        found = frozenset(f'{name}/{pair:d}' for name, pairs in sets.items() for pair in pairs)
    except (AttributeError, TypeError, ValueError):
        found = frozenset()
    if not found:
        raise UserError(f'{path}: not an object of sets and lists of the numbers of their pairs')
    return found


def _pair(row):
    term = rows_lib.text(row, 'linguistics_term')
    phenomenon = COUNTED_UNDER.get(term, term)
    if phenomenon not in PHENOMENA:
        raise UserError(
            f'linguistics_term {term!r} is no phenomenon of BLiMP{did_you_mean(term, PHENOMENA)}'
        )
    name = f'{phenomenon}/{rows_lib.text(row, "UID")}/{rows_lib.text(row, "pairID")}'
    sentences = (rows_lib.text(row, 'sentence_good'), rows_lib.text(row, 'sentence_bad'))
    return Example(name, (), sentences, 0)


BLIMP = Task(
    'blimp',
    'choice',
    ('good', 'bad'),
    ('accuracy',),
    {
        'test': Published(
            (),
            published=(PAIRS,),
            hub=(),
            find=files,
            official=lambda paths: itertools.chain.from_iterable(map(readers.rows, paths)),
        )
    },
    _pair,
    groups=tuple(PHENOMENA),
    n_texts=0,
)
