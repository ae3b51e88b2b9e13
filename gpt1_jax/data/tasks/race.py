"""Section 4.2, Question answering, Table 3: RACE (Lai et al., 2017), passages with questions of
four options.

Middle-school passages come first. Within a level, passages are sorted by the number in their file
names. One model answers both levels. Ids begin with the level, so that results can also be reported
by level.
"""

import os
import pathlib
import re
from typing import Any

from gpt1_jax.data.tasks import parquet_source, reading, tfds_source
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.reading import Row, RowFault, Split
from gpt1_jax.errors import UserError

LEVELS = ('middle', 'high')
LETTERS = ('A', 'B', 'C', 'D')


def files(directory: str | pathlib.Path, split: Split) -> list[str]:
    """The passages of a split, {train,dev,test}/{middle,high}/*.txt.

    directory: the folder RACE or its parent.
    """
    roots = [pathlib.Path(directory) / inner / split.files[0] for inner in ('', 'RACE')]
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


def questions(where: str, level: str, name: str, passage: dict) -> list[Row]:
    """One row for each question of a passage, or one row with the passage's fault.

    The id of the first question is 'middle/middle12.txt/0'. passage: {'article', 'questions',
    'options', 'answers'}. name: the passage's name, unique in its level.
    """
    article = passage.get('article')
    lists: list[Any] = [passage.get(key) for key in ('questions', 'options', 'answers')]
    if not isinstance(article, str) or not article.strip():
        fault = 'article is missing or empty'
    elif not all(isinstance(found, list) for found in lists) or len(set(map(len, lists))) != 1:
        fault = 'questions, options and answers must be lists of one length'
    else:
        return [
            Row(
                f'{where}: question {number + 1}',
                f'{level}/{name}/{number}',
                {'article': article, 'question': question, 'options': options, 'answer': answer},
            )
            for number, (question, options, answer) in enumerate(zip(*lists))
        ]
    return [Row(where, f'{level}/{name}', RowFault(fault))]


def _make(split, row_id, fields):
    article = reading.field(fields, 'article')
    question = reading.field(fields, 'question')
    options = fields['options']
    if not isinstance(options, list) or len(options) != len(LETTERS):
        raise RowFault(
            f'{len(options) if isinstance(options, list) else "no"} options, expected '
            f'{len(LETTERS)}'
        )
    choices = tuple(
        reading.field({f'option {letter}': option}, f'option {letter}')
        for letter, option in zip(LETTERS, options)
    )
    right = reading.label(reading.field(fields, 'answer'), LETTERS) if split.labelled else None
    return Example(row_id, (article, question), choices, right)


def _official(paths, split):
    for path in paths:
        level = pathlib.Path(os.path.abspath(path)).parent.name
        name = pathlib.Path(path).name
        passage = reading.json_object(reading.json_value('\n'.join(reading.decoded_lines(path))))
        if isinstance(passage, RowFault):
            yield Row(path, name, passage)
            continue
        if not split.labelled and isinstance(passage.get('questions'), list):
            passage['answers'] = [None] * len(passage['questions'])
        # In the release the passage in the file 12.txt is called middle12.txt, as in TFDS.
        yield from questions(path, level, passage.get('id') or name, passage)


def _new(path, split):
    """The rows of one passage's file, or of all files in a folder, at any depth.

    Ids begin with the passage's folder.
    """
    path = pathlib.Path(path)
    found = path.rglob('*.txt') if path.is_dir() else [path]
    return _official(sorted(map(str, found), key=by_number), split)


def _tfds(directory, split, sources):
    for source in sources:
        level = source.partition('/')[2].partition(':')[0]
        records = tfds_source.records(
            directory, source, ('article', 'questions', 'options', 'answers', 'example_id')
        )
        for where, record in sorted(records, key=lambda found: by_number(found[1]['example_id'])):
            yield from questions(where, level, record['example_id'], record)


def _parquet(directory, split, sources):
    """The rows of ehovy/race, one for each question."""
    # {(level, example_id, article): its questions}. The Hub has them in the order of the files
    passages = {}
    for source in sources:
        for where, record in parquet_source.records(
            directory, source, ('example_id', 'article', 'question', 'options', 'answer')
        ):
            try:
                name, article = (
                    reading.field(record, column) for column in ('example_id', 'article')
                )
            except RowFault as fault:
                yield Row(where, where, fault)
                continue
            level = LEVELS[0] if name.startswith(LEVELS[0]) else LEVELS[1]
            passages.setdefault((level, name, article), []).append((where, record))
    for level, name, article in sorted(
        passages, key=lambda passage: (LEVELS.index(passage[0]), by_number(passage[1]))
    ):
        for number, (where, record) in enumerate(passages[level, name, article]):
            yield Row(where, f'{level}/{name}/{number}', record)


RACE = reading.labelled_set(
    'race',
    'choice',
    LETTERS,
    ('accuracy',),
    {
        name: Split(
            (name,),
            rows,
            tuple(f'race/{level}:{name}' for level in LEVELS),
            parquet=(f'race/all:{name}',),
        )
        for name, rows in (('train', 87866), ('dev', 4887), ('test', 4934))
    },
    _make,
    _official,
    _tfds,
    _parquet,
    _new,
    files,
    segments=(2,),
    cut=0,
    groups=LEVELS,
    n_texts=2,
)
