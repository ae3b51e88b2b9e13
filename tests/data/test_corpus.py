"""Section 4.1: where text comes from, held-out text, rows joined to documents, the part that a
machine reads."""

import errno
import gzip
import json
import os
import pathlib
import types
from unittest import mock

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import corpus, files, parts, readers, rows
from gpt1_jax.data.corpus import Document, Join, is_validation, joined
from gpt1_jax.data.parts import Part
from gpt1_jax.errors import UserError
from refusal import refusal


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with books/{a.txt, deep/c.txt.gz, d.jsonl, notes.md}."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'books' / 'deep').mkdir(parents=True)
    (tmp_path / 'books' / 'a.txt').write_bytes('\ufeffAé\r\n'.encode())
    (tmp_path / 'books' / 'deep' / 'c.txt.gz').write_bytes(gzip.compress(b'C'))
    (tmp_path / 'books' / 'd.jsonl').write_text(
        '{"text": "D1", "title": "x"}\n\n{"text": "D3", "title": "y"}\n'
    )
    (tmp_path / 'books' / 'notes.md').write_text('not read')
    return tmp_path


def test_the_novels_of_the_package_are_read_also_if_there_is_a_directory_of_that_name(here):
    (here / 'novels').mkdir()
    (here / 'novels' / 'a.txt').write_text('A.')
    found = read('novels')
    assert len(found) == 10 and 'No one who had ever seen Catherine Morland' in found[5][1]
    assert read('./novels') == [('novels/a.txt', 'A.')]


ALL = [
    ('books/a.txt', 'Aé\r\n'),
    ('books/d.jsonl: line 1', 'D1'),
    ('books/d.jsonl: line 3', 'D3'),
    ('books/deep/c.txt.gz', 'C'),
]


def read(spec, **kwargs):
    return [(document.name, document.text) for document in corpus.documents(spec, **kwargs)]


@pytest.mark.parametrize(
    'spec, expected',
    [
        ('books/', ALL),
        ('books/a.txt', ALL[:1]),
        ('books/*.txt', ALL[:1]),
        ('books/**/*.gz', ALL[3:]),
        (['books/a.txt', 'books', './books/a.txt', 'books/../books/a.txt'], ALL),
    ],
)
def test_a_spec_gives_its_documents_in_order_and_once(here, spec, expected):
    assert read(spec) == expected


def test_another_field_can_be_read_and_one_document_at_a_time(here):
    found = [(name, text) for (name, _), text in zip(ALL[1:3], 'xy')]
    assert read('books/d.jsonl', field='title') == found
    (here / 'bad.txt').write_bytes(b'\xff')
    assert next(corpus.documents(['books/a.txt', 'bad.txt'])).name == 'books/a.txt'


@pytest.mark.parametrize(
    'spec, message',
    [
        ('absent.txt', 'absent.txt: no such file or directory'),
        ('books/*.text', r'books/\*.text: no file matches this pattern'),
        ('empty', 'empty: no text file in this directory, it is empty'),
        (
            'linked',
            r'linked: no text file in this directory, directories behind links are not read '
            r'\(1, such as far\)',
        ),
        (
            'other',
            r'other: no text file in this directory, 1 of 1 files left out \(such as x.md\): only these '
            r'are read: .txt, ',
        ),
        (['books', ''], 'corpus: no file, directory or other source given, or one'),
        ('x' * 300, 'File name too long'),
        ('tfds:imdb', 'tfds:imdb: must be tfds:NAME:SPLIT or tfds:NAME:SPLIT:FIELD'),
        ('dangling', '^dangling/gone.txt: a link to a file that does not exist'),
        ('dangling/*.txt', '^dangling/gone.txt: a link to a file that does not exist'),
        ('book.txt', '^book.txt: is neither a file nor a directory; a pipe is not read'),
    ],
)
def test_a_spec_that_leads_nowhere_is_named(here, spec, message):
    os.mkfifo('book.txt')
    for name in ('empty', 'other', 'linked', 'dangling'):
        (here / name).mkdir()
    (here / 'other' / 'x.md').touch()
    (here / 'dangling' / 'a.txt').write_text('A.')
    (here / 'dangling' / 'gone.txt').symlink_to('nowhere.txt')
    (here / 'other' / 'README').symlink_to('nowhere')  # would not be read
    (here / 'linked' / 'far').symlink_to(here / 'books', target_is_directory=True)
    with pytest.raises((UserError, OSError), match=message):
        read(spec)


HELD_OUT = ('b/dev/x.txt', 'b/c.test', 'b/val.txt', 'b/deep/validation-00000-of-00001.jsonl')


@pytest.mark.parametrize('spec', ['b', 'b/**/*.*'])
def test_files_named_as_validation_data_are_told_read_or_left_out(
    tmp_path, monkeypatch, capsys, spec
):
    monkeypatch.chdir(tmp_path)
    text = ('b/a.txt', 'b/the_test_of_time.txt', 'b/contest.txt')
    for name in (*text, *HELD_OUT):
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(name).write_text('{"text": "A"}')
    such = '4 of 7 files are named as validation or test data (such as c.test) and are '
    for split_files, expected, said in (
        (True, (*text, *HELD_OUT), []),
        (None, (*text, *HELD_OUT), [f'{such}read as well: split_files=False leaves them out']),
        (False, text, [f'{such}left out']),
    ):
        files.say_once.cache_clear()
        assert {*corpus.expand(spec, split_files)} == {*expected}
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == len(said)
        assert all(text in line for text, line in zip(said, lines))
    for named in ('b/dev', 'b/c.test', 'b/*.test'):  # the user names them
        assert corpus.expand(named, split_files=False) and corpus.expand(named, None)
    assert not capsys.readouterr().err


def test_validation_documents_are_chosen_by_their_text_alone():
    chosen = [is_validation(Document(f'name {i}', f'text {i}'), 0.25) for i in range(12)]
    # SHA-256 of these texts begins 82 90 ad 65 b4 8b 1b 3f ba 85 5e 41: below a quarter of the
    # range is below 40.
    assert chosen == [False] * 6 + [True] * 2 + [False] * 4
    assert 200 < sum(is_validation(Document('', str(i)), 0.1) for i in range(2500)) < 300
    assert is_validation(Document('', '\ud800'), 0.999999)  # half a surrogate pair


def test_what_cannot_be_listed_is_no_empty_directory(here, monkeypatch):
    (here / 'library' / 'locked').mkdir(parents=True)
    (here / 'library' / 'a.txt').write_text('A.')
    real = pathlib.Path.iterdir

    def refusing(path):
        if path.name == 'locked':
            raise PermissionError(errno.EACCES, 'Permission denied', str(path))
        return real(path)

    monkeypatch.setattr(pathlib.Path, 'iterdir', refusing)
    with pytest.raises(PermissionError, match='library'):
        read('library')


def test_tfds_records_are_documents_or_named(monkeypatch, tmp_path):
    tfds = pytest.importorskip('tensorflow_datasets')
    source = [{'text': b'caf\xc3\xa9', 'title': 'Nó', 'label': np.int64(1)}]
    info = types.SimpleNamespace(features=source[0], splits={'train': None})
    builder = types.SimpleNamespace(info=info, as_data_source=lambda split: source)
    monkeypatch.setattr(tfds, 'builder_from_directory', lambda path: builder)
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    places = [tmp_path / 'books' / 'plain' / '1.0.0', tmp_path / 'wiki' / 'en' / '1.3.0']
    for place in places:
        place.mkdir(parents=True)
        for file in ('dataset_info.json', 'features.json'):
            (place / file).write_text('{}')
    where = f'{places[0]}: train record 0'
    assert read('tfds:books:train') == [(where, 'café')]
    expected = [(f'{places[1]}: train[:5%] record 0', 'Nó')]
    assert read('tfds:wiki/en:1.3.0:train[:5%]:title') == expected
    said = refusal(read, 'tfds:books:train:label')
    assert f'{where}: label is int64, must be text' in said
    source[0] = None  # as of a truncated file
    assert 'train record 0: a value is missing' in refusal(read, 'tfds:books:train')
    assert 'tfds:: no_such_set is not in ' in refusal(read, 'tfds:no_such_set:train')


# Rows joined to documents


@pytest.mark.parametrize(
    'how, expected',
    [
        (Join(), {0: 'aa', 1: 'bbb', 2: '', 3: 'c', 4: 'dddddd', 5: 'e'}),
        (Join('k'), {0: 'aa bbb ', 3: 'c dddddd', 5: 'e'}),
        (Join('k', between='\n\n'), {0: 'aa\n\nbbb\n\n', 3: 'c\n\ndddddd', 5: 'e'}),
        (Join('k', 6), {0: 'aa bbb', 2: '', 3: 'c', 4: 'dddddd', 5: 'e'}),
        (Join(characters=5), {0: 'aa', 1: 'bbb ', 3: 'c', 4: 'dddddd', 5: 'e'}),
        (Join(characters=10**6), {0: 'aa bbb  c dddddd e'}),
    ],
)
def test_rows_become_documents(how, expected):
    texts = ('aa', 'bbb', '', 'c', 'dddddd', 'e')
    keys = (1, 1, 1, 2, 2, 1) if how.key else (None,) * 6
    given = [Document(str(i), text, key) for i, (text, key) in enumerate(zip(texts, keys))]
    assert {int(one.name): one.text for one in joined(given, how)} == expected
    assert list(joined([], how)) == []


def test_a_text_between_documents_divides_files_and_rows(here, monkeypatch):
    stories = [f'story {i}\nends' for i in range(30)]
    marker = '<|endoftext|>'
    contents = {
        'a.txt': f'\n{marker}\n'.join([*stories, '']),
        'b.txt': marker.join(stories),  # on no line of its own
        'c.jsonl': json.dumps({'text': marker.join(stories)}),
    }
    how = Join(split_at=marker)
    for name, content in contents.items():
        (here / name).write_text(content)
        assert [text for _, text in read(name, join=how)] == stories
    monkeypatch.setattr(rows, 'LONGEST', 100)
    monkeypatch.setattr(readers, 'PIECE', 20)
    assert [text for _, text in read('a.txt', join=how)] == stories


def test_a_key_column_joins_across_row_groups_but_not_across_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pyarrow.table({'book': [*'aaabbbb'], 'text': [f's{i}.' for i in range(7)]})
    pyarrow.parquet.write_table(table, '1.parquet', row_group_size=2)
    (tmp_path / '2.jsonl').write_text('{"book": "b", "text": "x"}\n{"book": "b", "text": "y"}\n')
    (tmp_path / '3.txt').write_text('whole')
    expected = ['s0. s1. s2.', 's3. s4. s5. s6.', 'x y', 'whole']
    assert [text for _, text in read('.', join=Join('book'))] == expected
    for name, message in (
        ('1.parquet', "1.parquet: no column 'boek', did you mean 'book'?"),
        ('2.jsonl', "2.jsonl: line 1: no boek, only book, text, did you mean 'book'?"),
    ):
        assert message in refusal(read, name, join=Join('boek'))


# Parts


def test_parts_are_of_similar_size_and_read_the_footers_of_the_files_at_their_ends_alone(
    tmp_path, monkeypatch
):
    for name in 'abcd':
        table = pyarrow.table({'text': [f'{name}{i} ' * 50 for i in range(300)]})
        pyarrow.parquet.write_table(table, tmp_path / f'{name}.parquet', row_group_size=5)
    sizes = [len(list(corpus.documents(str(tmp_path), part=Part(i, 7)))) for i in range(7)]
    assert sum(sizes) == 1200 and max(sizes) - min(sizes) <= 20  # two row groups at each end
    counted = mock.Mock(wraps=parts.parquet.row_group_sizes)
    monkeypatch.setattr(parts.parquet, 'row_group_sizes', counted)
    paths = corpus.expand(str(tmp_path))
    for part, footers in ((Part(0, 2), 1), (Part(2, 5), 2)):
        counted.reset_mock()
        assert 1 <= len(list(parts.slices(paths, part))) <= 3 and counted.call_count <= footers


@pytest.mark.parametrize(
    'text, environment, expected',
    [
        (None, {}, None),
        ('2/8', {'JOB_COMPLETION_INDEX': '5'}, Part(2, 8)),
        ('/8', {'JOB_COMPLETION_INDEX': '5'}, Part(5, 8)),
        ('/8', {'SLURM_ARRAY_TASK_ID': '0'}, Part(0, 8)),
        (None, {'SLURM_ARRAY_TASK_ID': '3'}, None),
        (
            None,
            {'JOB_COMPLETION_INDEX': '0'},
            'JOB_COMPLETION_INDEX is set, but not --part: give --part=/N',
        ),
        ('/8', {}, '--part=/8: the part is not set, must be from 0 to 7'),
        ('8/8', {}, '--part=8/8: the part is 8, must be from 0 to 7'),
        ('/4', {'SLURM_ARRAY_TASK_ID': 'x'}, '--part=/4: the part is x, must be'),
        ('-1/3', {}, '--part=-1/3: must be I/N'),
    ],
)
def test_a_part_is_named_or_refused(text, environment, expected):
    if isinstance(expected, str):
        assert refusal(parts.parse, text, environment).startswith(expected)
    else:
        assert parts.parse(text, environment) == expected
