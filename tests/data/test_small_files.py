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
LONG = 'x' * 2**28


def texts(*values):
    """A column of texts that takes the memory of each different one once."""
    different = list(dict.fromkeys(values))
    return pyarrow.DictionaryArray.from_arrays(
        [different.index(value) for value in values], different
    )


def write(path, column, compression='zstd', **how):
    pyarrow.parquet.write_table(
        pyarrow.table({'text': column}), path, compression=compression, store_schema=False, **how
    )


def gzipped(path, text):
    """2 GB of a text of 16 MiB, compressed to 2 MB."""
    path.write_bytes(128 * gzip.compress(text * (2**24 // len(text)), 9, mtime=0))


def sparse(path):
    with open(path, 'wb') as file:
        file.truncate(2**31)


def labelled(path):
    rows = {'sentence': texts(*3 * [LONG]), 'label': 3 * ['acceptable'], 'idx': range(3)}
    for name in (path, path.with_name('validation-00000-of-00001.parquet')):
        pyarrow.parquet.write_table(
            pyarrow.table(rows), name, compression='zstd', store_schema=False
        )


CORPUS = ('prepare', '--out=out', '--valid=0.01', '--vocab_size=300', '--corpus={}')
TABLE = ('finetune', '--text=a', '--label=b', '--init_from=novels', '--inspect', '--data={}')
SET = (
    'finetune',
    '--config=finetune:cola',
    '--config.init_from=novels',
    '--inspect',
    '--config.data.dir=parquet:cola',
)


@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
@pytest.mark.parametrize(
    'name, make, words, message',
    [
        (
            'a.parquet',
            lambda path: write(path, texts(*3 * [LONG])),
            CORPUS,
            'a.parquet: row group 0 has ',
        ),
        (
            'a.parquet',
            lambda path: write(path, texts(LONG, *map(str, range(50)))),
            CORPUS,
            'a.parquet: row group 0 has ',
        ),
        (
            'cola/train-00000-of-00001.parquet',
            labelled,
            SET,
            'cola/train-00000-of-00001.parquet: row group 0 has ',
        ),
        (
            'a.txt.gz',
            lambda path: gzipped(path, b'a b '),
            CORPUS,
            f'a.txt.gz: line 1 is {TOO_LONG}',
        ),
        ('a.txt', sparse, CORPUS, 'a.txt: line 1 has a NUL character'),
        ('a.tsv', sparse, TABLE, 'a.tsv: line 1 has a NUL character'),
    ],
)
def test_a_small_file_does_not_fill_the_memory(tmp_path, name, make, words, message):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    make(tmp_path / name)
    words = [word.format(name) for word in words]
    said = python('-c', PEAK, *words, cwd=tmp_path, check=1, env={'PYTHONPATH': ':'.join(sys.path)})
    assert said.stderr.count('\n') == 1 and f'error: {message}' in said.stderr
    assert int(said.stdout.split()[-1]) < 1000


@pytest.mark.full
@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_many_lines_are_read_whatever_they_are_together(tmp_path):
    gzipped(tmp_path / 'a.txt.gz', b'the cat sat on the mat, and it is\n')
    code = """if True:
        from gpt1_jax.data import corpus
        print(sum(len(document.text) for document in corpus.documents('a.txt.gz')))
        import re; print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"""
    length, peak = map(
        int,
        python(
            '-c', code, cwd=tmp_path, check=0, env={'PYTHONPATH': ':'.join(sys.path)}
        ).stdout.split(),
    )
    assert length == 128 * (2**24 // 34) * 34 and peak < 500_000


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
    (tmp_path / 'b.txt').write_text(text[:90])
    assert [(one.name, one.text) for one in corpus.documents('b.txt')] == [('b.txt', text[:90])]


@pytest.mark.parametrize(
    'text, message',
    [
        ('short\n' * 50 + 'x' * 201 + '\nshort\n', 'a.txt: line 51 is longer than 0 MiB'),
        ('short\n' * 50 + 'x' * 201, 'a.txt: line 51 is longer than 0 MiB'),
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


def test_a_nul_in_a_labelled_table_is_named(tmp_path):
    (tmp_path / 'a.tsv').write_bytes(b'text\tlabel\none\t1\n' + bytes(20) + b'\ntwo\t0\n')
    assert 'a.tsv: line 3 has a NUL character' in refusal(list, readers.rows(tmp_path / 'a.tsv'))
