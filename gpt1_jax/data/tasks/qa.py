"""Section 4.2, Question answering and commonsense reasoning, Table 3: Story Cloze (RACE is in
race.py)."""

import functools
import warnings

import numpy as np

from gpt1_jax.data.tasks import reading, tables, tfds_source
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.reading import Row, Split
from gpt1_jax.errors import UserError, one_line

# The published validation file, and the part of it that selects parameters
STORIES = 1871
DEV = 374
SEED = 3535999445  # released code, datasets.py
SENTENCES = tuple(f'InputSentence{i}' for i in range(1, 5))
ENDINGS = ('RandomFifthSentenceQuiz1', 'RandomFifthSentenceQuiz2')
ID = 'InputStoryid'
RIGHT = 'AnswerRightEnding'


def part(dev: bool, stories: list[Row]) -> list[Row]:
    """The training part (1,497 stories) or dev part (374) of the published validation file.

    The released code calls scikit-learn's train_test_split(test_size=374, random_state=3535999445),
    which is this permutation of the file's rows. Bad rows are included, so that skipping a bad row
    does not move other rows to the other part.
    """
    if len(stories) <= DEV:
        where = stories[0].where.rpartition(':')[0] if stories else 'Story Cloze'
        raise UserError(
            f'{where}: {len(stories)} stories, the split takes {DEV} of them for validation'
        )
    order = np.random.RandomState(SEED).permutation(len(stories))
    return [stories[i] for i in (order[:DEV] if dev else order[DEV:])]


def _make(split, row_id, fields):
    if 'context' in fields:  # TFDS, which also lacks the ids
        context = reading.field(fields, 'context')
    else:
        context = ' '.join(reading.field(fields, name) for name in SENTENCES)
        row_id = reading.field(fields, ID)
    right = (
        reading.label(reading.field(fields, RIGHT), STORY_CLOZE.labels) if split.labelled else None
    )
    return Example(
        row_id, (context,), tuple(reading.field(fields, name) for name in ENDINGS), right
    )


def _official(paths, split):
    needed = (ID, *SENTENCES, *ENDINGS, *((RIGHT,) if split.labelled else ()))
    return tables.read(paths[0], needed, quoted=True, delimiter=',')


def _tfds(directory, split, sources):
    if split.part:
        warnings.warn(
            one_line(
                f'{directory}: TFDS keeps neither the ids nor the order of the stories, so its '
                'training and validation parts are others than those of the official file'
            ),
            stacklevel=2,
        )
    for position, (where, record) in enumerate(
        tfds_source.records(directory, sources[0], ('context', 'endings', 'label'))
    ):
        fields = {'context': record['context'], RIGHT: str(record['label'])}
        yield Row(where, str(position), fields | dict(zip(ENDINGS, record['endings'])))


_VALIDATION = ('cloze_test_val__spring2016*.csv',), ('story_cloze/2016:validation',)
STORY_CLOZE = reading.labelled_set(
    'story_cloze',
    'choice',
    ('1', '2'),
    ('accuracy',),
    {
        'train': Split(
            _VALIDATION[0], STORIES - DEV, _VALIDATION[1], part=functools.partial(part, False)
        ),
        'dev': Split(_VALIDATION[0], DEV, _VALIDATION[1], part=functools.partial(part, True)),
        'test': Split(('cloze_test_test__spring2016*.csv',), STORIES, ('story_cloze/2016:test',)),
    },
    _make,
    _official,
    _tfds,
    new=lambda path, split: _official([path], split),
)
