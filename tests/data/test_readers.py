"""The rows of every format: text, JSON, tables, Parquet."""

import bz2
import csv
import datetime
import gzip
import io
import json
import os
import pathlib
import sys

import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import corpus, files, readers, rows
from gpt1_jax.data.readers import parquet as parquet_reader
from gpt1_jax.data.rows import Bad, How
from refusal import refusal, refused_flips
from tiny import python

TEXT = 'The cat.\nsat é\n'
# TEXT, compressed by the command line tools zstd 1.5 and lz4 1.9.
ZSTD = bytes.fromhex('28b52ffd2410810000546865206361742e0a73617420c3a90a18961514')
LZ4 = bytes.fromhex('04224d186440a710000080546865206361742e0a73617420c3a90a00000000781a51bc')


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(spec, **kwargs):
    return [(document.name, document.text) for document in corpus.documents(spec, **kwargs)]


def write_parquet(path, columns, **how):
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **how)


@pytest.mark.parametrize(
    'name, data',
    [
        ('a.txt.zst', ZSTD),
        ('a.txt.lz4', LZ4),
        ('a.txt.bz2', bz2.compress(TEXT.encode())),
        ('a.dev.gz', gzip.compress(TEXT.encode(), mtime=0)),
        ('a.train', TEXT.encode()),
        ('a.test', TEXT.encode()),
    ],
)
def test_text_is_read_whatever_it_is_compressed_with(here, name, data):
    (here / name).write_bytes(data)
    assert read(name) == read('.') == [(name, TEXT)]


@pytest.mark.parametrize(
    'ending, compress',
    [
        ('.json', bytes),
        ('.json.gz', gzip.compress),
        ('.jsonl.zst', lambda data: pyarrow.compress(data, 'zstd', asbytes=True)),
    ],
)
def test_json_lines_are_read_whatever_they_are_compressed_with(here, ending, compress):
    lines = [f'{{"text": "Nó {i}."}}\n'.encode() for i in range(3)]
    # Two frames, one after the other, as parallel compressors write them.
    (here / f'a{ending}').write_bytes(compress(lines[0]) + compress(b''.join(lines[1:])))
    assert read(f'a{ending}') == [(f'a{ending}: line {i + 1}', f'Nó {i}.') for i in range(3)]


def test_json_beside_a_corpus_is_not_read_unless_it_is_named(here, capsys):
    files.say_once.cache_clear()
    (here / 'a.txt').write_text('A')
    (here / 'dataset_infos.json').write_text('{"splits": {}}')
    (here / 'c4.json.gz').write_bytes(gzip.compress(b'{"text": "C"}'))
    (here / '.git').mkdir()
    (here / '.git' / 'HEAD.txt').touch()
    os.symlink('.git', 'linked')
    assert read('.') == [('a.txt', 'A'), ('c4.json.gz: line 1', 'C')]
    behind, others = capsys.readouterr().err.splitlines()
    assert 'links are not read (1, such as linked)' in behind
    assert '1 of 3 files left out (such as dataset_infos.json)' in others
    said = refusal(read, '*.json')
    assert 'dataset_infos.json: line 1: no text, only splits' in said


def test_a_bad_row_is_told_and_the_next_one_read(here):
    good = b'{"text": "A"}\n'
    bad = [b'{"text": null}\n', b'["B"]\n', b'{"text"\n', b'{"text": "\xff"}\n', b'{"body": "B"}\n']
    (here / 'a.jsonl').write_bytes(good.join([*bad, b'']))
    messages = []
    assert len(read('a.jsonl', on_bad=messages.append)) == 5
    for message, number in zip(messages, (1, 3, 5, 7, 9), strict=True):
        assert message.startswith(f'a.jsonl: line {number}')
    write_parquet('a.parquet', {'text': ['A', None, 'C']})
    assert len(read('a.parquet', on_bad=messages.append)) == 2
    assert messages[5:] == ['a.parquet: row 1: text is NoneType, must be text']
    (here / 'array.jsonl').write_text('[\n{"text": "A"}\n]')
    assert read('array.jsonl') == [('array.jsonl: record 1', 'A')]


def test_a_run_below_its_corpus_is_no_text_nor_is_a_corpus_below_a_run_left_out(here, capsys):
    files.say_once.cache_clear()
    (here / 'a.txt').write_text('A')
    run = here / 'runs' / 'x'
    (run / 'books').mkdir(parents=True)
    for name in ('environment.jsonl', 'parameters.txt', 'predictions_dev.jsonl'):
        (run / name).write_text('{"step": 0}')
    for spec in ('.', '**/*.txt', str(here)):
        assert [text for _, text in read(spec)] == ['A'], spec
        (line,) = capsys.readouterr().err.splitlines()
        assert line == f'{spec}: directories of runs are not read (1, such as runs/x)'
    (run / 'books' / 'b.txt').write_text('B')
    for spec in ('runs/x/books/*.txt', 'runs/x/books', 'runs/x/*/*.txt'):
        assert corpus.expand(spec) == ['runs/x/books/b.txt']


DICTIONARY = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())


@pytest.mark.parametrize('kind', ['string', 'large_string', 'binary', 'large_binary', DICTIONARY])
def test_a_text_column_of_any_type_is_read(here, kind):
    texts = pyarrow.array([f'Nó {i % 3}.' for i in range(7)]).cast(kind)
    write_parquet('a.parquet', {'id': range(7), 'body': texts}, row_group_size=3)
    expected = [(f'a.parquet: row {i}', f'Nó {i % 3}.') for i in range(7)]
    assert read('a.parquet', field='body') == expected
    found = readers.rows('a.parquet', How(('body',), groups=(0, 2)))
    assert [row.where for row in found] == [f'a.parquet: row {i}' for i in (0, 1, 2, 6)]


@pytest.mark.parametrize('compression, size', [('snappy', 7), ('zstd', 1000), ('none', 64)])
def test_rows_of_any_length_are_read_one_by_one(here, compression, size):
    """From pages, row groups and batches of several sizes."""
    texts = [f'{i} ' + 'é' * (i * i * 7 % 20_000) for i in range(100)]
    texts += ['', 'x' * (parquet_reader._BATCH + 1)]
    columns = {'text': texts, 'n': range(102)}
    how = dict(compression=compression, row_group_size=size, data_page_size=4096)
    write_parquet('a.parquet', columns, **how)
    found = [row.fields for row in readers.rows('a.parquet')]
    assert found == [{'text': text, 'n': i} for i, text in enumerate(texts)]


def test_a_damaged_parquet_file_is_one_line_or_the_same_text(here):
    """Pages have checksums, the footer has a parser."""
    texts = [f'The cat number {i} sat.' for i in range(50)]
    write_parquet(
        'a.parquet',
        {'text': texts},
        write_page_checksum=True,
        compression='none',
        use_dictionary=False,
    )
    assert refused_flips(pathlib.Path('a.parquet'), lambda: read('a.parquet'), 29) > len(texts) // 2
    (here / 'a.parquet').write_bytes((here / 'a.parquet').read_bytes()[:-10])
    assert refusal(read, 'a.parquet').startswith('a.parquet: cannot be read')


CUT = ': Truncated compressed stream'


@pytest.mark.parametrize(
    'name, data, message',
    [
        ('a.txt.zst', ZSTD[:-1], CUT),
        ('a.txt.gz', gzip.compress(b'cut short' * 99, mtime=0)[:-9], CUT),
        ('a.txt.gz', b'no gzip', ': zlib inflate failed'),
        (
            'a.pdf',
            b'',
            ': unknown extension, must be one of these: .txt, .train, .dev, .test, .jsonl, .json,',
        ),
        (
            'a.txt',
            b'abc\n\xe9t\xe9',
            ': not UTF-8 at byte 4 (0xe9); if it is WINDOWS-1252, iconv -f WINDOWS-1252',
        ),
        (
            'a.txt',
            'abc'.encode('utf-16'),
            ': not UTF-8 at byte 0 (0xff); if it is UTF-16, iconv -f UTF-16',
        ),
        ('a.jsonl', b'{"text": "ok"}\n{"text": "\xe9"}\n', ': line 2: not UTF-8 at byte 10 (0xe9)'),
        ('a.jsonl', b'{"text": "ok"}\n{"text": \n', ': line 2: not JSON (Expecting value'),
        ('a.json', b' [["a"], ["b"]]', ': record 1: list, expected an object with text'),
        ('a.json', b'{"a": 1,\n"b": 2}', ': one JSON object, expected an array of records'),
        ('a.json', b'[{"a": 1},\n', ': neither a record a line nor one JSON value: not JSON'),
        (
            'a.jsonl',
            b'{"texts": "a", "id": 1}\n',
            ": line 1: no text, only texts, id, did you mean 'texts'?",
        ),
        ('a.jsonl', b'\n \n', ' holds no document'),
        (
            'a.parquet',
            {'texts': ['a'], 'id': [1]},
            ": no column 'text', did you mean 'texts'? (columns: texts, id)",
        ),
        ('a.parquet', {'text': [b'abc', b'a\xe9b']}, ': row 1: not UTF-8 at byte 1 (0xe9)'),
    ],
)
def test_what_cannot_be_read_is_named(here, name, data, message):
    if isinstance(data, dict):
        write_parquet(name, data)
    else:
        (here / name).write_bytes(data)
    assert f'{name}{message}' in refusal(read, name)


def test_a_record_too_long_for_memory_is_named(here, monkeypatch):
    (here / 'a.jsonl').write_text('{"text": "ok"}\n' + json.dumps({'text': 'x' * 99}) + '\n')
    write_parquet('a.parquet', {'text': ['ok', 'x' * 99]})
    monkeypatch.setattr(rows, 'LONGEST', 90)
    for name, where in (('a.jsonl', 'line 2'), ('a.parquet', 'row 1')):
        said = f'{name}: {where} is longer than 0 MiB, too long for one document or row'
        assert said in refusal(read, name)


# Not getrusage's ru_maxrss: a program inherits that of the process that started it.
MEMORY = """
import re, sys
from gpt1_jax.data import corpus, encode

def peak():
    return int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1]) // 1024

encode.count_words([corpus.Document('', 'the cat — it sat. ' * 35_000)])  # with spaCy in memory
before = peak()
found = corpus.documents(sys.argv[1])
if sys.argv[2] == 'words':
    print(sum(encode.count_words(found).values()))
else:
    print(sum(unit.characters for unit in encode.units(found)))
print(peak() - before)
"""
LINE = 'the cat sat on the mat and, well, it sat. '
ODD_LINE = 'the cat sat on the mat and, well — it sat. '  # not split without spaCy


@pytest.mark.full
@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
@pytest.mark.parametrize(
    'name, text, times, count, expected, most',
    [
        ('a.txt', LINE, 2_850_000, 'characters', len(LINE), 270),  # 120 MB, in memory twice
        ('a.txt', LINE + '\n', 4_800_000, 'characters', len(LINE) + 1, 160),  # 200 MB in pieces
        ('a.txt', ODD_LINE, 150_000, 'words', 13, 50),  # 7 MB; tokenized as a whole: 200 MiB
        ('a.jsonl', LINE, 2_850_000, 'characters', 2 * len(LINE), 270),  # two records
        ('a.parquet', LINE * 40, 120_000, 'characters', 1680, 100),
    ],
)
def test_memory_is_bounded(tmp_path, name, text, times, count, expected, most):
    path = tmp_path / name
    if name == 'a.parquet':
        write_parquet(path, {'text': [text] * times}, row_group_size=10**6, use_dictionary=False)
    elif name == 'a.jsonl':
        path.write_text(2 * f'{{"text": "{text * times}"}}\n')
    else:
        path.write_text(text * times)
    found, mib = map(int, python('-c', MEMORY, path, count, check=0).stdout.split())
    assert found == expected * times and mib < most


def fields(path, how=How()):
    """The fields of each row, or the cause of a bad row."""
    return [row.why if isinstance(row, Bad) else row.fields for row in readers.rows(path, how)]


def test_one_record_a_line_is_a_record_also_if_its_values_are_lists(here):
    record = {'context': ['l1', 'l2'], 'ending': ['a', 'b']}
    for name in ('a.jsonl', 'a.json'):
        (here / name).write_text(json.dumps(record))
    assert fields('a.jsonl') == [record]
    rows = [{'context': 'l1', 'ending': 'a'}, {'context': 'l2', 'ending': 'b'}]
    assert fields('a.json') == rows  # as pandas writes columns


RECORDS = [{'t': 'A "b", é\nc', 'l': 1}, {'t': 'D', 'l': None}]


@pytest.mark.parametrize('indent', [None, 1])
@pytest.mark.parametrize('orient', ['records', 'columns', 'index', 'split', 'table', 'data'])
def test_json_is_read_in_every_form_that_pandas_writes(here, orient, indent):
    pandas = pytest.importorskip('pandas')
    text = json.dumps({'data': RECORDS, 'version': '1.0'}, indent=indent)
    if orient != 'data':
        frame = pandas.DataFrame(RECORDS).astype({'l': object})
        text = frame.to_json(orient=orient, indent=indent)
    (here / 'a.json').write_text(text)
    found = [{name: row[name] for name in 'tl'} for row in fields('a.json')]
    assert found == RECORDS


@pytest.mark.parametrize(
    'name, text',
    [('a.csv', 'story,"a, b"\nother,c\n'), ('a.jsonl', '["story", "a, b"]\n["other", "c"]\n')],
)
def test_columns_of_tables_and_lists_may_be_named(here, name, text):
    (here / name).write_text(text)
    found = fields(name, How(columns=('text', 'answer')))
    assert found == [{'text': 'story', 'answer': 'a, b'}, {'text': 'other', 'answer': 'c'}]


def test_rows_of_parquet_have_lists_dates_and_numbers_without_a_name(here):
    day = datetime.date(2020, 1, 2)
    write_parquet('a.parquet', {'texts': [['a', 'b']], 'day': [day]})
    assert fields('a.parquet') == [{'texts': ['a', 'b'], 'day': day}]
    assert fields('a.parquet', How(('day',))) == [{'day': day}]
    assert rows.of_cell(day) == '2020-01-02'
    assert rows.of_cell(['a', day]) == '["a", "2020-01-02"]'


# Tables


def as_csv(table, **how):
    stream = io.StringIO()
    csv.writer(stream, **how).writerows([('text', 'label'), *table])
    return stream.getvalue()


TEXTS = [
    'no "quotes", yes',
    'plain',
    'semi; colon | pipe',
    'two\nlines',
    'tab\there',
    'it\'s 5"',
    'é 漢',
]
TABLE = [(text, 'xy'[i % 2]) for i, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    'name, data',
    [
        ('a.csv', '\ufeff' + as_csv(TABLE, lineterminator='\r\n')),
        ('a.csv', as_csv(TABLE, delimiter='|')),
        ('a.csv', as_csv(TABLE, delimiter='\t')),
        ('a.tsv', as_csv(TABLE, delimiter='\t')),
        ('a.csv', as_csv(TABLE, quoting=csv.QUOTE_ALL).replace(',"x', ', "x')),
        ('a.csv', as_csv(TABLE, quoting=csv.QUOTE_ALL, doublequote=False, escapechar='\\')),
        ('a.csv', 'sep=;\n' + as_csv(TABLE, delimiter=';')),
        ('a.csv', '\n\n' + as_csv(TABLE)),
        ('a.csv', as_csv(TABLE, delimiter='\t').encode('utf-16')),
        ('a.csv.gz', gzip.compress(as_csv(TABLE, delimiter=';').encode(), mtime=0)),
    ],
)
def test_tables_are_read_as_programs_write_them(here, name, data):
    if isinstance(data, str):
        data = data.encode()
    (here / name).write_bytes(data)
    found = fields(name, How(('text', 'label')))
    assert [tuple(row.values()) for row in found] == TABLE and fields(name) == found


def test_a_bad_row_of_a_table_is_named_by_its_number_and_the_next_is_read(here):
    (here / 'a.csv').write_text('t,l\na,x\n"two\nlines",y\nb,c,d\n"q" r,x\nlast,y\n')
    found = list(readers.rows('a.csv'))
    assert [row.where for row in found] == [f'a.csv: row {n}' for n in (2, 3, 4, 5, 6)]
    assert found[2].why.startswith('3 columns, expected ')
    assert found[3].why.startswith("',' expected after '")
    assert found[-1].fields == {'t': 'last', 'l': 'y'}
    (here / 'a.csv').write_text('t,l\n"b, c",x\n"never closed,y\nd,x\n')
    said = refusal(fields, 'a.csv')
    assert 'a.csv: row 3: a quotation mark opens a cell that is never closed' in said


def test_the_dialect_follows_from_the_first_lines_alone(here):
    plain = ''.join(f'number {i} of many,x\n' for i in range(5000))
    (here / 'a.csv').write_text(f't,l\n{plain}"a ""late"", quote",y\n')
    assert fields('a.csv')[-1] == {'t': 'a "late", quote', 'l': 'y'}
    assert len(fields('a.csv')) == 5001


@pytest.mark.parametrize(
    'text, texts',
    [
        ('t\tl\n"He said\tx\nso he"\ty\n', ['"He said', 'so he"']),  # text, by the rows
        ('t\tl\n"He said\tx\nso" he\ty\n', ['"He said', 'so" he']),  # text
        ('l\tt\n1\t"He said\n2\tso"\n', ['"He said', 'so"']),  # text
        ('t\tl\n"a ""b"" c"\tx\nd\ty\n', ['a "b" c', 'd']),  # quoting
    ],
)
def test_quotation_marks_of_a_tsv_are_text_if_they_would_join_rows(here, text, texts):
    (here / 'a.tsv').write_text(text)
    assert [row['t'] for row in fields('a.tsv')] == texts


def test_lone_carriage_returns_end_rows_in_files_of_old_macs_only(here):
    (here / 'a.csv').write_bytes(b't,l\rone,x\rtwo,y\r')
    assert fields('a.csv') == [{'t': 'one', 'l': 'x'}, {'t': 'two', 'l': 'y'}]
    (here / 'a.csv').write_bytes(b't,l\none\rtwo,x\n"three\rfour",y\n')
    assert [row['t'] for row in fields('a.csv')] == ['one two', 'three\rfour']


@pytest.mark.parametrize(
    'data, encoding, message',
    [
        (
            't,l\né,x\n'.encode('cp1252'),
            'utf-8',
            'line 2: not UTF-8 at byte 0 (0xe9); name its enc',
        ),
        (b't,l\n\x81,x\n', 'cp1252', 'line 2: not cp1252 at byte 0 (0x81); name its encoding'),
        (b't,l\na,x\n', 'latin1252', "line 1: no encoding 'latin1252': utf-8, latin-1 and cp1252"),
        ('t,l\nab,x\n'.encode('utf-16')[:-1], 'utf-8', 'damaged, or not utf-16'),
        (b'', 'utf-8', 'empty'),
        (b't,l\na,x\n', 'utf-8', "no column 'label' (columns: t, l)"),
        (b't,label,label\na,x,y\n', 'utf-8', "2 columns are called 'label'"),
        (b'%b,l\na,x\n' % (b't' * 9999), 'utf-8', "no column 'label' (columns: ttt"),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_the_remedy(here, data, encoding, message):
    (here / 'a.csv').write_bytes(data)
    how = How(('label',), encoding=encoding)
    assert message in refusal(fields, 'a.csv', how)


# Parquet out of proportion


@pytest.mark.parametrize(
    'limit, columns, message',
    [
        ('MOST_GROUPS', 1, 'cannot be read (more than 200 row groups or columns)'),
        ('MOST_COLUMNS', 250, '250 columns, more than 200'),
    ],
)
def test_parquet_of_very_many_row_groups_or_columns_is_refused_at_once(
    here, monkeypatch, limit, columns, message
):
    write_parquet('a.parquet', {f'c{i}': [1] * 300 for i in range(columns)}, row_group_size=columns)
    monkeypatch.setattr(parquet_reader, limit, 200)
    assert f'a.parquet: {message}' in refusal(fields, 'a.parquet')


def test_a_row_group_out_of_proportion_to_its_file_is_refused(here, monkeypatch):
    write_parquet('a.parquet', {'text': ['x' * 90_000, 'y']}, use_dictionary=False)
    monkeypatch.setattr(rows, 'LONGEST', 1000)
    monkeypatch.setattr(parquet_reader, 'MOST_TIMES', 10)
    said = refusal(fields, 'a.parquet')
    assert 'a.parquet: row group 0 has 90,' in said and 'out of proportion to the file' in said
