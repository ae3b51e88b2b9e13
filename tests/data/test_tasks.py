"""The official files, read as published, and what is said of files that are not."""
import csv
import sys
import warnings

import numpy as np
import pytest

from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError

sys.path.insert(0, str(__import__('pathlib').Path(__file__).parent.parent))
from tiny import SHARED  # noqa: E402

DATA = SHARED / 'data'
official = pytest.mark.skipif(not DATA.exists(), reason='the official data is not beside the clone')


@official
@pytest.mark.parametrize('name, folder, counts', [
    ('cola', 'CoLA', (8551, 1043)), ('sst2', 'SST-2', (67349, 872)), ('rte', 'RTE', (2490, 277)),
    ('mrpc', 'MRPC', (3668, 408)), ('story_cloze', 'StoryCloze', (1497, 374))])
def test_official_files_have_the_published_number_of_rows(name, folder, counts):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert tuple(len(tasks.get(name).read(DATA / folder, split)) for split in ('train', 'dev')) == counts


@official
def test_official_rows_are_read_as_they_stand():
    cola, mrpc = tasks.get('cola').read(DATA / 'CoLA', 'dev'), tasks.get('mrpc').read(DATA / 'MRPC', 'dev')
    assert cola[0].texts == ('The sailors rode the breeze clear of the rocks.',) and cola[0].label == 1
    assert mrpc[0].texts[1] == '"The foodservice pie business does not fit our long-term growth strategy.'
    rte = tasks.get('rte').read(DATA / 'RTE', 'train')
    assert (rte[0].id, rte[0].label) == ('0', 1) and tasks.get('rte').labels == ('entailment', 'not_entailment')


@official
def test_story_cloze_is_split_as_the_released_code_splits_it():
    split = pytest.importorskip('sklearn.model_selection').train_test_split
    (path,) = tasks.get('story_cloze').files(DATA / 'StoryCloze', 'dev')
    with open(path, encoding='utf-8', newline='') as file:
        ids = [row['InputStoryid'] for row in csv.DictReader(file)]
    train, dev = split(ids, test_size=374, random_state=3535999445)
    assert [e.id for e in tasks.get('story_cloze').read(DATA / 'StoryCloze', 'train')] == train
    assert [e.id for e in tasks.get('story_cloze').read(DATA / 'StoryCloze', 'dev')] == dev
    assert np.random.RandomState(3535999445).permutation(1871)[:5].tolist() == [1058, 198, 1174, 806, 127]


def complaint(name, directory, split='dev'):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with pytest.raises(UserError) as caught:
            tasks.get(name).read(directory, split)
    return str(caught.value)


@pytest.mark.parametrize('content, expected', [
    (b'gj04\t1\t\tA cat.\ngj04\t1\tA dog.\n', 'row 2: 3 columns, expected 4'),
    (b'gj04\t1\t\tA cat.\ngj04\t2\t\tA dog.\n', "row 2: label '2' is none of 0, 1"),
    (b'gj04\t1\t\t \n', 'row 1: sentence is empty'),
    (b'gj04\t1\t\tA caf\xe9.\n', 'not UTF-8 at byte 13'),
    (b'', 'empty')])
def test_a_bad_row_is_named_with_its_file(tmp_path, content, expected):
    (tmp_path / 'dev.tsv').write_bytes(content)
    assert complaint('cola', tmp_path) == f'{tmp_path / "dev.tsv"}: {expected}' + (
        ' (source, label, star, sentence)' if 'columns' in expected else '')


def test_a_missing_column_lists_the_columns_there_are(tmp_path):
    (tmp_path / 'dev.tsv').write_text('index\tsentence1\tlabel\n0\tA.\tentailment\n')
    assert "no column 'sentence2' (columns: index, sentence1, label)" in complaint('rte', tmp_path)


def test_a_missing_file_is_named(tmp_path):
    assert complaint('mrpc', tmp_path) == f'{tmp_path / "dev.tsv"}: no such file'
    assert '0 files match cloze_test_val__spring2016*.csv' in complaint('story_cloze', tmp_path)


def test_a_partial_set_is_used_with_a_warning(tmp_path):
    (tmp_path / 'dev.tsv').write_text('gj04\t1\t\tA cat.\n')
    with pytest.warns(UserWarning, match='1 rows, the published set has 1,043'):
        assert len(tasks.get('cola').read(tmp_path, 'dev')) == 1


def test_a_broken_story_names_its_row(tmp_path):
    header = 'InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,' \
             'RandomFifthSentenceQuiz2,AnswerRightEnding\n'
    path = tmp_path / 'cloze_test_val__spring2016.csv'
    path.write_text(header + 'x,"A, b.",C.,D.,E.,F.,G.,1\ny,A.,B.,C.,D.,E.,F.,3\n')
    assert complaint('story_cloze', tmp_path) == f"{path}: row 3: label '3' is none of 1, 2"


def test_an_unknown_task_names_the_near_miss():
    with pytest.raises(UserError, match="unknown task 'storycloze', did you mean 'story_cloze'"):
        tasks.get('storycloze')
