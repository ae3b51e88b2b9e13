"""Section 4.1: which part of a corpus a machine prepares."""
import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import corpus, parts
from gpt1_jax.data.document import Join
from gpt1_jax.data.parts import Part
from refusal import refusal


@pytest.fixture
def write(tmp_path):
    """Writes a Parquet file of the texts of a name."""
    def write_one(name, texts, row_group_size):
        table = pyarrow.table({'text': texts})
        pyarrow.parquet.write_table(table, tmp_path / f'{name}.parquet', row_group_size=row_group_size)
    return write_one


@pytest.mark.parametrize('texts, parquet', [(13, ''), (0, 'a'), (0, 'abc'), (13, 'ab')])
@pytest.mark.parametrize('join', [Join(), Join(characters=50)])
def test_the_parts_one_after_the_other_are_the_whole(tmp_path, write, texts, parquet, join):
    for i in range(texts):
        (tmp_path / f'{i:02}.txt').write_text(f'{i} ' * (i * 37 % 11))  # also an empty file
    for name in parquet:
        write(name, [f'{name}{i} ' * (i % 7) for i in range(100)], 9)
    whole = list(corpus.documents(str(tmp_path), join=join))
    for count in (1, 2, 3, 4, 7, 50):
        found = [corpus.documents(str(tmp_path), join=join, part=Part(i, count)) for i in range(count)]
        assert [document for one in found for document in one] == whole


def test_parts_are_of_similar_size_and_read_the_footers_of_the_files_at_their_ends_alone(tmp_path, write, monkeypatch):
    for name in 'abcd':
        write(name, [f'{name}{i} ' * 50 for i in range(300)], 5)
    sizes = [len(list(corpus.documents(str(tmp_path), part=Part(i, 7)))) for i in range(7)]
    assert sum(sizes) == 1200 and max(sizes) - min(sizes) <= 20  # two row groups at each end
    opened, real = [], parts.records.row_group_sizes
    monkeypatch.setattr(parts.records, 'row_group_sizes', lambda path: opened.append(path) or real(path))
    assert 1 <= len(list(parts.slices(corpus.sources(str(tmp_path)), Part(0, 2)))) <= 3 and len(opened) <= 1
    assert 1 <= len(list(parts.slices(corpus.sources(str(tmp_path)), Part(2, 5)))) <= 3 and len(opened) <= 3


@pytest.mark.parametrize('text, environment, expected', [
    (None, {}, None), ('0/1', {}, Part(0, 1)), ('2/8', {'JOB_COMPLETION_INDEX': '5'}, Part(2, 8)),
    ('/8', {'JOB_COMPLETION_INDEX': '5'}, Part(5, 8)), ('/8', {'SLURM_ARRAY_TASK_ID': '0'}, Part(0, 8)),
    (None, {'SLURM_ARRAY_TASK_ID': '3'}, None),
    (None, {'JOB_COMPLETION_INDEX': '0'}, 'JOB_COMPLETION_INDEX is set, but not --part: give --part=/N'),
    ('/8', {}, '--part=/8: neither JOB_COMPLETION_INDEX nor SLURM_ARRAY_TASK_ID is set: give --part=I/N'),
    ('8/8', {}, '--part=8/8: the part is 8, must be from 0 to 7'),
    ('/4', {'JOB_COMPLETION_INDEX': '4'}, '--part=/4: the part is 4, must be from 0 to 3'),
    ('/4', {'SLURM_ARRAY_TASK_ID': 'x'}, '--part=/4: the part is x, must be'),
    ('0/0', {}, '--part=0/0: the part is 0, must be'),
    *[(wrong, {}, f'--part={wrong}: must be I/N') for wrong in ('3', '-1/3', '1/2/3', '')]])
def test_a_part_is_named_or_refused(text, environment, expected):
    if not isinstance(expected, str):
        assert parts.parse(text, environment) == expected
    else:
        assert refusal(parts.parse, text, environment).startswith(expected)
