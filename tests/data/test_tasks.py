"""The official files as published: of every set beside the clone the number of rows, and rows
checked by hand."""

import csv
import itertools
import json
import tarfile
import warnings

import pytest

from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import own
from own_sets import RATING
from refusal import refusal
from shared import DATA, needs_data


@needs_data
@pytest.mark.parametrize(
    'name, folder, train, dev, published, of, number, label, begins',
    [
        ('cola', 'CoLA', 8551, 1043, '', 'dev', 0, 1, 'The sailors rode the breeze clear of'),
        ('sst2', 'SST-2', 67349, 872, '', 'dev', 0, 1, "it 's a charming and often affecting"),
        ('rte', 'RTE', 2490, 277, '', 'train', 0, 1, 'No Weapons of Mass Destruction Found in '),
        ('mrpc', 'MRPC', 3668, 408, '', 'dev', 0, 1, 'He said the foodservice pie business d'),
        ('stsb', 'STS-B', 5749, 1500, '', 'train', 1, 3.8, 'A man is playing a large flute.|A'),
        ('story_cloze', 'StoryCloze', 1497, 374, '', 'dev', 0, 0, 'Jackson had always avoided'),
        ('qnli', 'QNLI', 10475, 5463, '104,743', 'dev', 0, 0, 'What came into force after the'),
        ('mnli', 'MNLI', 20000, 9815, '392,702', 'dev', 0, 1, 'The new rights are nice enough|'),
        ('snli', 'SNLI', 19999, 9842, '549,367', 'dev', 1, 0, 'Two women are embracing while '),
        ('qqp', 'QQP', 25370, 7600, '363,846 40,430', 'dev', 1, 0, 'What is the operating sys'),
        ('dpr', 'DPR', 1316, 564, '1,322', 'train', 0, 1, 'The bee landed on the flower beca'),
    ],
)
def test_official_files_have_the_published_number_of_rows_or_a_warning_says_so(
    name, folder, train, dev, published, of, number, label, begins
):
    """And a row, checked by hand, of the split `of`."""
    task = tasks.get(name)
    found = {}
    for split, n, size in itertools.zip_longest(task.splits[:2], (train, dev), published.split()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            found[split] = task.read(DATA / folder, split)
        assert len(found[split]) == n and len(caught) == (size is not None)
        for warning in caught:
            said = f'({name} {split}): {n:,} rows, the published set has {size}'
            assert said in str(warning.message)
    row = found[of][number]
    assert row.label == label and '|'.join(row.texts).startswith(begins)


@needs_data
def test_story_cloze_is_split_as_the_released_code_splits_it():
    split = pytest.importorskip('sklearn.model_selection').train_test_split
    task = tasks.get('story_cloze')
    (path,) = task.files(DATA / 'StoryCloze', 'dev')
    with open(path, encoding='utf-8', newline='') as file:
        ids = [row['InputStoryid'] for row in csv.DictReader(file)]
    found = [task.read(DATA / 'StoryCloze', name) for name in ('train', 'dev')]
    expected = split(ids, test_size=374, random_state=3535999445)
    assert [[example.id for example in part] for part in found] == expected
    (first,) = (example for part in found for example in part if example.id == ids[0])
    assert first.texts[0].startswith('Rick grew up in a troubled household. He never found good ')
    assert (first.choices, first.label) == (('He is happy now.', 'He joined a gang.'), 0)


@needs_data
def test_published_passages_are_read_with_their_questions(tmp_path):
    # The first members alone: to read all of it takes a while
    with tarfile.open(DATA / 'RACE.tar.gz') as archive:
        for _ in range(40):
            archive.extract(archive.next(), tmp_path, filter='data')
    with pytest.warns(UserWarning, match='rows, the published set has 87,866'):
        first, *others = tasks.get('race').read(tmp_path, 'train')
    passages = [json.loads(path.read_text()) for path in tmp_path.rglob('*.txt')]
    assert 1 + len(others) == sum(len(passage['questions']) for passage in passages)
    assert first.id == 'high/high1.txt/0' and first.label == 2
    assert first.texts[1] == 'The husband likes shopping because   _  .'
    assert first.choices[2] == 'he likes to compare the prices between the same items.'


def test_every_set_has_the_heads_and_metrics_of_the_paper():
    others = {
        name: (task.head, task.metrics)
        for name, task in tasks.TASKS.items()
        if task.metrics != ('accuracy',)
    }
    assert others == {
        'mrpc': ('similarity', ('f1', 'accuracy')),
        'qqp': ('similarity', ('f1', 'accuracy')),
        'stsb': ('similarity', ('pearson', 'spearman')),
        'cola': ('classify', ('matthews', 'accuracy')),
    }
    assert tasks.get('stsb').labels == tuple('012345') and tasks.get('stsb').score == (0, 5)
    race = tasks.get('race')
    assert (race.head, race.segments, race.cut) == ('choice', (2,), 0)


def test_an_unknown_task_names_the_near_miss():
    assert "no task 'storycloze', did you mean 'story_cloze'" in refusal(tasks.get, 'storycloze')


@pytest.mark.parametrize(
    'task, directory, split, message',
    [
        (
            tasks.get('mnli'),
            'here',
            'dev_mismatch',
            "mnli has no split 'dev_mismatch', did you mean 'dev_mismatched'?",
        ),
        (own.task('a.csv', **RATING), 'a.csv', 'test', "a.csv: no table for the split 'test'"),
        (own.task('a.csv', **RATING), 'tfds:x', 'train', 'tfds:x: must end in one of .csv, .tsv'),
        (tasks.get('story_cloze'), 'parquet:x', 'test', 'parquet:x: the set has no Parquet files'),
    ],
)
def test_an_unknown_split_or_source_names_what_there_is(task, directory, split, message):
    assert refusal(task.read, directory, split).startswith(message)
