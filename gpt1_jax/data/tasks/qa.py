"""Section 4.2, Question answering and commonsense reasoning, Table 3: RACE (Lai et al., 2017) and
Story Cloze. Also the quickstart's set of choices.

RACE has passages with questions of four options. Middle-school passages come first. Within a level,
passages are sorted by the number in their file names. One model answers both levels. Ids begin with
the level, so that results can also be reported by level.
"""

import functools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gpt1_jax.data import readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.rows import Bad, Row
from gpt1_jax.data.tasks import own
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.sources import Published
from gpt1_jax.errors import UserError

LEVELS = ('middle', 'high')
LETTERS = ('A', 'B', 'C', 'D')


def passages(directory: str, source: Published) -> list[str]:
    """The files of a split, {train,dev,test}/{middle,high}/*.txt.

    directory: the folder RACE or its parent.
    """
    roots = [pathlib.Path(directory) / inner / source.names[0] for inner in ('', 'RACE')]
    root = next((root for root in roots if root.is_dir()), None)
    if root is None:
        raise UserError(f'{roots[0]}: no such directory')
    found = [
        path
        for level in LEVELS
        for path in sorted((root / level).glob('*.txt'), key=lambda path: by_number(path.name))
    ]
    if not found:
        raise UserError(f'{root}: no {" or ".join(LEVELS)} directory with .txt files')
    return [str(path) for path in found]


def by_number(name: str) -> list[tuple[int, str]]:
    """A sort key that puts 'high9.txt' before 'high10.txt'."""
    return [(int(digits or 0), text) for text, digits in re.findall(r'(\D*)(\d*)', name)]


def questions(where: str, level: str, name: str, passage: Any) -> list[Row | Bad]:
    """One row for each question of a passage, or one Bad row with the passage's fault.

    The id of the first question is 'middle/middle12.txt/0'. passage: {'article', 'questions',
    'options', 'answers'}. name: the passage's name, unique in its level.
    """
    fields = passage if isinstance(passage, dict) else {}
    article = fields.get('article')
    asked = fields.get('questions')
    if isinstance(asked, list):
        fields = {'answers': [None] * len(asked)} | fields  # rows to predict have none
    lists: list[Any] = [fields.get(key) for key in ('questions', 'options', 'answers')]
    if not isinstance(article, str) or not article.strip():
        return [Bad(where, 'article is missing or empty')]
    if not all(isinstance(found, list) for found in lists) or len({*map(len, lists)}) != 1:
        return [Bad(where, 'questions, options and answers must be lists of one length')]
    return [
        Row(
            f'{where}: question {number + 1}',
            {'article': article, 'question': question, 'options': options, 'answer': answer},
            f'{level}/{name}/{number}',
        )
        for number, (question, options, answer) in enumerate(zip(*lists))
    ]


def _race(row):
    options = row['options']
    if not isinstance(options, list) or len(options) != len(LETTERS):
        n = len(options) if isinstance(options, list) else 'no'
        raise UserError(f'{n} options, expected {len(LETTERS)}')
    choices = tuple(
        rows_lib.text({f'option {letter}': option}, f'option {letter}')
        for letter, option in zip(LETTERS, options)
    )
    texts = (rows_lib.text(row, 'article'), rows_lib.text(row, 'question'))
    return Example('', texts, choices, rows_lib.of_cell(row.get('answer')))


def _official_race(paths: Iterable[str]) -> Iterator[Row | Bad]:
    for path in paths:
        level = pathlib.Path(os.path.abspath(path)).parent.name
        name = pathlib.Path(path).name
        for row in readers.rows(path, kind='json'):
            if isinstance(row, Bad):
                yield row
                continue
            # In the release the passage in the file 12.txt is called middle12.txt, as in TFDS.
            own_name = row.fields.get('id') if isinstance(row.fields, dict) else None
            yield from questions(path, level, own_name or name, row.fields)


def _typed_race(rows):
    """The rows of TFDS, a passage each, or of ehovy/race on the Hub, a question each.

    The Hub has them in the order of the files.
    """
    found: dict[tuple, list] = {}  # {(level, name, article): its rows}
    for row in rows:
        fault = row if isinstance(row, Bad) else None
        try:
            name, article = (rows_lib.text(row.fields, key) for key in ('example_id', 'article'))
        except (AttributeError, UserError) as error:
            yield fault or Bad(row.where, str(error))
            continue
        level = LEVELS[0] if name.startswith(LEVELS[0]) else LEVELS[1]
        found.setdefault((level, name, article), []).append(row)
    for level, name, article in sorted(
        found, key=lambda passage: (LEVELS.index(passage[0]), by_number(passage[1]))
    ):
        for number, row in enumerate(found[level, name, article]):
            if 'questions' in row.fields:
                yield from questions(row.where, level, name, row.fields)
            else:
                yield Row(row.where, row.fields, f'{level}/{name}/{number}')


RACE = Task(
    'race',
    'choice',
    LETTERS,
    ('accuracy',),
    {
        name: Published(
            (name,),
            published=(rows,),
            tfds=tuple(f'race/{level}:{name}' for level in LEVELS),
            hub=(f'race/all:{name}',),
            find=passages,
            official=_official_race,
            typed=_typed_race,
        )
        for name, rows in (('train', 87866), ('dev', 4887), ('test', 4934))
    },
    _race,
    new=lambda path: _official_race([path]),
    segments=(2,),
    cut=0,
    groups=LEVELS,
    n_texts=2,
)

# Story Cloze: the published validation file, and the part of it that selects parameters
STORIES = 1871
DEV = 374
SEED = 3535999445  # released code, datasets.py
SENTENCES = tuple(f'InputSentence{i}' for i in range(1, 5))
ENDINGS = ('RandomFifthSentenceQuiz1', 'RandomFifthSentenceQuiz2')
ID = 'InputStoryid'
RIGHT = 'AnswerRightEnding'


def part(dev: bool, stories: list) -> list:
    """The training part (1,497 stories) or dev part (374) of the published validation file.

    The released code calls scikit-learn's train_test_split(test_size=374, random_state=3535999445),
    which is this permutation of the file's rows. Bad rows are included, so that skipping a bad row
    does not move other rows to the other part.
    """
    order = np.random.RandomState(SEED).permutation(len(stories))
    return [stories[i] for i in (order[:DEV] if dev else order[DEV:])]


def _story(row):
    return Example(
        rows_lib.text(row, ID),
        (' '.join(rows_lib.text(row, column) for column in SENTENCES),),
        tuple(rows_lib.text(row, column) for column in ENDINGS),
        rows_lib.of_cell(row.get(RIGHT)),
    )


def _stories(rows, file, part=None):
    return Published(
        (f'cloze_test_{file}__spring2016*.csv',),
        (ID, *SENTENCES, *ENDINGS, RIGHT),
        (rows,),
        hub=(),
        quoted=True,
        label=RIGHT,
        part=part,
    )


STORY_CLOZE = Task(
    'story_cloze',
    'choice',
    ('1', '2'),
    ('accuracy',),
    {
        'train': _stories(STORIES - DEV, 'val', functools.partial(part, False)),
        'dev': _stories(DEV, 'val', functools.partial(part, True)),
        'test': _stories(STORIES, 'test'),
    },
    _story,
    new=_stories(0, '').new,
)

# The quickstart's set, which experiments/quickstart/novel_tasks.py makes from novels


def _ending(row):
    return Example(
        rows_lib.text(row, 'id'),
        (rows_lib.text(row, 'before'), rows_lib.text(row, 'beginning')),
        (rows_lib.text(row, 'ending1'), rows_lib.text(row, 'ending2')),
        rows_lib.of_cell(row.get('label')),
    )


WORD_ORDER = Task(
    'word_order',
    'choice',
    ('1', '2'),
    ('accuracy',),
    {split: own.File(f'word_order_{split}.jsonl') for split in ('train', 'dev', 'test')},
    _ending,
    new=own.table_rows,
    n_texts=2,
    segments=(2,),
)
