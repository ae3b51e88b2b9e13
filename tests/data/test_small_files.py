"""Small files that hold far more than they seem to: one line says so, and memory stays below 1
GB."""

import gzip
import sys

import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import corpus, readers, rows
from refusal import refusal
from tiny import python

# A program, and how many MiB it took at most. Not getrusage's ru_maxrss, which a program inherits.
PEAK = """
import re, runpy, sys
try:
    runpy.run_module('gpt1_jax', run_name='__main__')
finally:
    print('peak', int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1]) // 1024)
"""
TOO_LONG = 'longer than 128 MiB, too long for one document or row'


def repeated(path):
    """A text of 256 MiB three times, compressed to some kB."""
    column = pyarrow.DictionaryArray.from_arrays([0, 0, 0], ['x' * 2**28])
    table = pyarrow.table({'text': column})
    pyarrow.parquet.write_table(table, path, compression='zstd', store_schema=False)


def gzipped(path):
    """2 GB, compressed to 2 MB."""
    path.write_bytes(128 * gzip.compress(b'a b ' * 2**22))


def sparse(path):
    with open(path, 'wb') as file:
        file.truncate(2**31)


CORPUS = ('prepare', '--out=out', '--valid=0.01', '--vocab_size=300', '--corpus={}')
TABLE = ('finetune', '--text=a', '--label=b', '--init_from=novels', '--inspect', '--data={}')


@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
@pytest.mark.parametrize(
    'name, make, words, message',
    [
        ('a.parquet', repeated, CORPUS, 'row group 0 has '),
        ('a.txt.gz', gzipped, CORPUS, f'line 1 is {TOO_LONG}'),
        ('a.txt', sparse, CORPUS, 'line 1 has a NUL character'),
        ('a.tsv', sparse, TABLE, 'line 1 has a NUL character'),
    ],
)
def test_a_small_file_does_not_fill_the_memory(tmp_path, name, make, words, message):
    make(tmp_path / name)
    words = [word.format(name) for word in words]
    said = python('-c', PEAK, *words, cwd=tmp_path, check=1, env={'PYTHONPATH': ':'.join(sys.path)})
    assert said.stderr.count('\n') == 1 and f'error: {name}: {message}' in said.stderr
    assert int(said.stdout.split()[-1]) < 1000


@pytest.fixture
def limits(monkeypatch):
    """A document of at most 200 bytes, a piece of a larger file of 50."""
    monkeypatch.setattr(rows, 'LONGEST', 200)
    monkeypatch.setattr(readers, 'PIECE', 50)


@pytest.mark.parametrize('end', ['', '\n'])
def test_a_large_text_file_is_read_as_documents_of_whole_lines(tmp_path, monkeypatch, limits, end):
    monkeypatch.chdir(tmp_path)
    lines = [f'line {i}: ' + 'é' * (i * 7 % 60) + '\n' for i in range(1, 30)]
    text = ''.join(lines).rstrip() + end
    (tmp_path / 'a.txt').write_text(text)
    found = list(corpus.documents('a.txt'))
    assert ''.join(one.text for one in found) == text
    for one in found:
        first = int(one.name.removeprefix('a.txt: line '))
        assert (
            one.text.startswith(f'line {first}: ') and 50 <= len(one.utf8) < 250 or one is found[-1]
        )


@pytest.mark.parametrize(
    'text, message',
    [
        ('short\n' * 50 + 'x' * 201 + '\nshort\n', 'a.txt: line 51 is longer than 0 MiB'),
        ('x' * 201, 'a.txt: line 1 is longer'),
        ('short\n' * 50 + 'a\0b\n' + 'short\n' * 9, 'a.txt: line 51 has a NUL character'),
        ('a\nb\0', 'a.txt: line 2 has a NUL character'),
    ],
)
def test_a_line_that_is_too_long_and_a_nul_are_named(tmp_path, monkeypatch, limits, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.txt').write_text(text)
    assert message in refusal(list, corpus.documents('a.txt'))


def test_rows_that_are_joined_have_the_limit_of_a_document(tmp_path, monkeypatch, limits):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.jsonl').write_text(
        ''.join(f'{{"text": "{i:30}", "id": {i // 9}}}\n' for i in range(20))
    )
    assert 'a.jsonl: line 1: the document of joined rows' in refusal(
        list, corpus.documents('a.jsonl', join=corpus.Join(key='id'))
    )


def test_a_quoted_row_over_several_lines_has_the_limit_of_a_row(tmp_path, limits):
    (tmp_path / 'a.csv').write_text('text,label\nshort,1\n"' + 'line\n' * 50 + '",1\n')
    assert 'a.csv: row 3 is longer' in refusal(list, readers.rows(tmp_path / 'a.csv'))
