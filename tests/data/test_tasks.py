"""The official files as published: of every set beside the clone the number of rows, and rows
checked by hand."""

import csv
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
    'name, folder, counts, published',
    [
        ('cola', 'CoLA', {'train': 8551, 'dev': 1043}, {}),
        ('sst2', 'SST-2', {'train': 67349, 'dev': 872}, {}),
        ('rte', 'RTE', {'train': 2490, 'dev': 277}, {}),
        ('mrpc', 'MRPC', {'train': 3668, 'dev': 408}, {}),
        ('stsb', 'STS-B', {'train': 5749, 'dev': 1500}, {}),
        ('story_cloze', 'StoryCloze', {'train': 1497, 'dev': 374}, {}),
        ('qnli', 'QNLI', {'train': 10475, 'dev': 5463}, {'train': '104,743'}),
        ('mnli', 'MNLI', {'train': 20000, 'dev': 9815}, {'train': '392,702'}),
        ('snli', 'SNLI', {'train': 19999, 'dev': 9842}, {'train': '549,367'}),
        ('qqp', 'QQP', {'train': 25370, 'dev': 7600}, {'train': '363,846', 'dev': '40,430'}),
        ('dpr', 'DPR', {'train': 1316, 'test': 564}, {'train': '1,322'}),
    ],
)
def test_official_files_have_the_published_number_of_rows_or_a_warning_says_so(
    name, folder, counts, published
):
    for split, n in counts.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            assert len(tasks.get(name).read(DATA / folder, split)) == n
        assert len(caught) == (split in published)
        if caught:
            said = f'({name} {split}): {n:,} rows, the published set has {published[split]}'
            assert said in str(caught[0].message)


@needs_data
@pytest.mark.parametrize(
    'name, folder, split, number, label, begins',
    [
        ('cola', 'CoLA', 'dev', 0, 1, 'The sailors rode the breeze clear of the rocks.'),
        ('rte', 'RTE', 'train', 0, 1, 'No Weapons of Mass Destruction Found in Iraq Yet.|Weapons '),
        ('mrpc', 'MRPC', 'dev', 0, 1, "He said the foodservice pie business doesn't fit the comp"),
        ('stsb', 'STS-B', 'train', 1, 3.8, 'A man is playing a large flute.|A man is playing a f'),
        ('qqp', 'QQP', 'dev', 1, 0, 'What is the operating system for Xiaomi Redmi Note 3 Pro?|Wh'),
        ('qnli', 'QNLI', 'dev', 0, 0, 'What came into force after the new constitution was herald'),
        ('mnli', 'MNLI', 'dev', 0, 1, 'The new rights are nice enough|Everyone really likes the '),
        ('snli', 'SNLI', 'dev', 1, 0, 'Two women are embracing while holding to go packages .|Two'),
        ('dpr', 'DPR', 'train', 0, 1, 'The bee landed on the flower because | had pollen.'),
    ],
)
def test_official_rows_are_read_as_they_stand(name, folder, split, number, label, begins):
    found = tasks.get(name).read(DATA / folder, split)[number]
    assert found.id == str(number) and found.label == label
    assert '|'.join(found.texts).startswith(begins)


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
