"""Section 4.2, Question answering and commonsense reasoning, Table 3: Story Cloze."""
import pathlib

import numpy as np

from gpt1_jax.data.tasks import tables
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError

STORIES, DEV = 1871, 374  # the published validation file, and the part of it that selects parameters
SEED = 3535999445         # released code, datasets.py


def read_story_cloze(directory, split):
    """Trained and validated on the published validation file (1,497 and 374 stories), tested on the published test one.

    Released code: scikit-learn's train_test_split(test_size=374, random_state=3535999445), which is this permutation.
    """
    (path,) = _story_cloze_files(directory, split)
    stories = [_story(path, n, row) for n, row in tables.read(path, quoted=True, delimiter=',')]
    tables.check_count(path, len(stories), STORIES)
    if split == 'test':
        return stories
    if len(stories) <= DEV:
        raise UserError(f'{path}: {len(stories)} stories, the split takes {DEV} of them for validation')
    order = np.random.RandomState(SEED).permutation(len(stories))
    return [stories[i] for i in (order[:DEV] if split == 'dev' else order[DEV:])]


def _story(path, number, row):
    context = ' '.join(tables.field(path, number, row, f'InputSentence{i}') for i in range(1, 5))
    endings = tuple(tables.field(path, number, row, f'RandomFifthSentenceQuiz{i}') for i in (1, 2))
    right = tables.field(path, number, row, 'AnswerRightEnding')
    return Example(tables.field(path, number, row, 'InputStoryid'), (context,), endings,
                   tables.label(path, number, right, STORY_CLOZE.labels))


def _story_cloze_files(directory, split):
    kind = 'test' if split == 'test' else 'val'
    found = sorted(pathlib.Path(directory).glob(f'cloze_test_{kind}__spring2016*.csv'))
    if len(found) != 1:
        raise UserError(f'{directory}: {len(found)} files match cloze_test_{kind}__spring2016*.csv, expected one')
    return [str(found[0])]


STORY_CLOZE = Task('story_cloze', 'choice', ('1', '2'), ('accuracy',), ('train', 'dev', 'test'), read_story_cloze,
                   _story_cloze_files)
