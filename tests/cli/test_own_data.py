"""Fine-tuning on a user's file by --data, --text and --label: the fields that the program infers
from the file."""

import csv
import itertools
import json
import re
import types
import unicodedata

import pyarrow
import pyarrow.parquet
import pytest

from fake_hub import in_place_of_the_hub
from gpt1_jax import finetuning
from gpt1_jax.cli import own_data
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import custom, own_file, tables, unlabelled
from refusal import refusal
from tiny import load_config

GIVEN = dict(data=None, text=[], label=None, choices=[], score=[], init_from=None, encoding=None)


def config_of(monkeypatch, fields=None, **given):
    monkeypatch.setattr(own_data.flags, 'FLAGS', types.SimpleNamespace(**GIVEN | given))
    config = load_config('custom')
    config.update_from_flattened_dict(fields or {})
    config = own_data.filled(config)
    finetuning._read_labels(config.custom, config.data.dir)
    return config


def table(path, separator=',', labels=('b', 'a')):
    rows = [
        separator.join([f'text {i}', f'more {i}', labels[i % len(labels)], str(i % 5)])
        for i in range(30)
    ]
    path.write_text('\n'.join([separator.join(['one', 'two', 'topic', 'stars']), *rows]))
    return str(path)


def test_labels_and_a_held_out_part_are_taken_from_the_file(tmp_path, monkeypatch):
    config = config_of(
        monkeypatch,
        data=table(tmp_path / 'my.csv'),
        text=['one', 'two'],
        label='topic',
        init_from='novels',
    )
    task = tasks.of(config.to_dict())
    assert (task.name, task.head, task.labels, config.init_from) == (
        'my',
        'classify',
        ('a', 'b'),
        'novels',
    )
    train, dev = (task.read(config.data.dir, split) for split in ('train', 'dev'))
    assert len(train) == 26 and len(dev) == 4 and train[0].texts == ('text 0', 'more 0')
    assert {example.id for example in train}.isdisjoint(example.id for example in dev)


@pytest.mark.parametrize('quoted', [False, True])
@pytest.mark.parametrize('separator', [',', ';', '\t', '|'])
def test_a_separator_is_recognised(tmp_path, monkeypatch, separator, quoted):
    file = tmp_path / 'a.csv'
    table(file, separator)
    if quoted:
        file.write_text(re.sub(f'[^{separator}\n]+', r'"\g<0>"', file.read_text()))
    config = config_of(monkeypatch, data=str(file), text=['one'], label='topic')
    assert tasks.of(config.to_dict()).read(config.data.dir, 'dev')[0].texts[0].startswith('text ')


TEXTS = [
    'He said "no".',
    '"No", he said.',
    '"To be',
    'or not"',
    'a',
    '"" b',
    '"c\n"d"',
    'e\n\nf',
    'g\th',
    '5"',
]


@pytest.mark.parametrize('label_first', [False, True])
@pytest.mark.parametrize('first', ['', 'sep=\t\n'])
def test_a_tsv_is_read_back_whether_its_quotation_marks_are_text_or_quoting(
    tmp_path, monkeypatch, label_first, first
):
    plain = [text for text in TEXTS if '\n' not in text and '\t' not in text]
    for texts, quoting in ((plain, False), (TEXTS, True), (['a', 'b\n"c', 'd'], True)):
        rows = [('text', 'label'), *((text, 'xy'[i % 2]) for i, text in enumerate(texts))]
        rows = [row[::-1] for row in rows] if label_first else rows
        with open(tmp_path / 'a.tsv', 'w', newline='') as file:
            file.write(first)
            if quoting:
                csv.writer(file, delimiter='\t').writerows(rows)
            else:
                file.write(''.join('\t'.join(row) + '\n' for row in rows))
        config = config_of(monkeypatch, data=str(tmp_path / 'a.tsv'), text=['text'], label='label')
        task = tasks.of(config.to_dict())
        read = task.read(config.data.dir, 'train') + task.read(config.data.dir, 'dev')
        assert sorted(example.texts[0] for example in read) == sorted(texts)


@pytest.mark.parametrize(
    'labels, given, field, expected',
    [
        # In the order of numbers
        (('10', '9', '-1'), dict(label='topic'), 'labels', ('-1', '9', '10')),
        (('b', 'a'), dict(label='stars', score=['0', '4']), 'score', (0, 4)),
        *[
            (answers, dict(text=['stars'], choices=['one', 'two'], label='topic'), 'answer', kind)
            for answers, kind in (
                (('A', 'b'), 'letter'),
                (('0', '1'), 'index0'),
                (('1', '2'), 'index1'),
                (('text 0', 'more 0'), 'text'),
            )
        ],
    ],
)
def test_labels_scores_and_answers_are_recognised(
    tmp_path, monkeypatch, labels, given, field, expected
):
    config = config_of(
        monkeypatch, **{'data': table(tmp_path / 'a.csv', labels=labels), 'text': ['one']} | given
    )
    assert config.custom[field] == expected
    assert (tasks.of(config.to_dict()).head == 'choice') == (field == 'answer')


def test_answers_that_are_choices_themselves_are_not_their_places(tmp_path, monkeypatch):
    (tmp_path / 'a.csv').write_text(
        'q,a,b,right\n' + ''.join(f'x{i},2,1,{1 + i % 2}\n' for i in range(8))
    )
    config = config_of(
        monkeypatch, data=str(tmp_path / 'a.csv'), text=['q'], choices=['a', 'b'], label='right'
    )
    (first, *_) = tasks.of(config.to_dict()).read(config.data.dir, 'train')
    assert config.custom.answer == 'text' and first.choices[first.label] == str(
        1 + int(first.texts[0][1:]) % 2
    )


def test_a_set_is_called_as_the_link_to_its_file(tmp_path, monkeypatch):
    """As in the Hub's cache."""
    table(tmp_path / '4f2a9c')
    (tmp_path / 'reviews.csv').symlink_to('4f2a9c')
    config = config_of(monkeypatch, data=str(tmp_path / 'reviews.csv'), text=['one'], label='topic')
    assert config.custom.name == 'reviews'


def test_equal_numbers_written_differently_have_an_order_of_their_own(tmp_path, monkeypatch):
    for labels in itertools.permutations(['1', '01', '001', '2']):
        config = config_of(
            monkeypatch, data=table(tmp_path / 'a.csv', labels=labels), text=['one'], label='topic'
        )
        assert config.custom.labels == ('001', '01', '1', '2')


def test_labels_of_json_are_written_as_in_json(tmp_path, monkeypatch):
    rows = [f'{{"t": "x{i}", "good": {good}}}\n' for i in range(4) for good in ('true', 'false')]
    (tmp_path / 'a.jsonl').write_text(''.join(rows))
    config = config_of(monkeypatch, data=str(tmp_path / 'a.jsonl'), text=['t'], label='good')
    assert config.custom.labels == ('false', 'true') and tasks.of(config.to_dict()).read(
        config.data.dir, 'train'
    )


def test_a_field_beside_the_flags_is_kept_or_refused(tmp_path, monkeypatch):
    given = dict(
        data=table(tmp_path / 'a.csv', labels='12'),
        text=['stars'],
        choices=['one', 'two'],
        label='topic',
    )
    kept = {
        'custom.name': 'mine',
        'custom.answer': 'index0',
        'custom.files.dev': 'a.csv',
        'lm_weight': 0.0,
    }
    config = config_of(monkeypatch, kept, **given)
    assert (
        config.custom.name == 'mine' and config.custom.answer == 'index0' and config.lm_weight == 0
    )
    # Not a part of train as well
    assert config.custom.files.dev == 'a.csv' and config.custom.dev_fraction == 0
    for field, value in {
        'custom.label': 'one',
        'data.dir': 'x',
        'custom.files.train': 'b.csv',
    }.items():
        assert refusal(config_of, monkeypatch, {field: value}, **given).endswith(
            f'--config.{field}={value!r}: give one of the two'
        )


def sentiment(path, n=40):
    """Writes a Parquet file of texts and of numbers whose names are in the schema, as the Hub's."""
    rows = {
        'text': pyarrow.array([f'text {i}' for i in range(n)]),
        'stars': pyarrow.array([i % 3 - 1 for i in range(n)]),  # -1: without a label
        'vector': pyarrow.array([[1.0, 2.0]] * n),
    }
    features = {'stars': {'names': ['bad', 'good'], '_type': 'ClassLabel'}}
    schema = {'huggingface': json.dumps({'info': {'features': features}})}
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(rows).replace_schema_metadata(schema), path)
    return path


def test_labelled_parquet_is_read_by_the_names_of_its_labels(tmp_path, monkeypatch):
    path = sentiment(tmp_path / 'x.parquet')
    config = config_of(monkeypatch, data=str(path), text=['text'], label='stars')
    assert (config.custom.format, config.custom.labels) == ('parquet', ('bad', 'good'))
    task = tasks.of(config.to_dict())
    message = refusal(task.read, config.data.dir, 'train')
    assert message == f'{path}: row 0: stars is empty'
    bad = []
    found = [
        example for split in ('train', 'dev') for example in task.read(tmp_path, split, bad.append)
    ]
    assert len(found) == 26 and {*bad} == {
        f'{path}: row {i}: stars is empty' for i in range(0, 40, 3)
    }
    assert all(int(example.id) % 3 == 1 + example.label for example in found)
    (first, *_) = unlabelled.read(task, path)
    assert first.record == {'text': 'text 0', 'stars': ''}
    assert "no column 'tex', did you mean 'text'?" in refusal(
        config_of, monkeypatch, data=str(path), text=['tex'], label='stars'
    )


@pytest.mark.parametrize('folder', ['', 'data'])
def test_a_set_on_the_hub_is_read_by_the_names_of_its_splits(tmp_path, monkeypatch, folder):
    place = tmp_path / 'set' / folder
    sentiment(place / 'train-00000-of-00001.parquet')
    sentiment(place / 'validation-00000-of-00001-0a1b.parquet', 12)
    table(place / 'notes.csv')
    with in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as hub:
        hub.add('me/stars', tmp_path / 'set', 'dataset')
        hub.add('me/none', {'README.md': b''}, 'dataset')
        config = config_of(monkeypatch, data='hf:me/stars', text=['text'], label='stars')
        assert config.custom.name == 'stars' and len(hub.asked) == 2
        dev = tasks.of(config.to_dict()).read(config.data.dir, 'dev', [].append)
        assert len(dev) == 8
        assert 'hf:me/none: no train.csv, ' in refusal(
            config_of, monkeypatch, data='hf:me/none', text=['text'], label='stars'
        )


LABELS = ['x', 'y'] * 3
QUOTED = ['a "b", c', 'd', 'e, f', ' "g"', 'h\\i', '"']


def in_columns(orient):
    columns = {'réponse': QUOTED, 'l': LABELS}
    if orient == 'list':
        return json.dumps(columns)
    return json.dumps({name: dict(enumerate(cells)) for name, cells in columns.items()}, indent=1)


def in_lines():
    rows = [{'réponse': text, 'l': label} for text, label in zip(QUOTED, LABELS)]
    return ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)


def as_csv(quote='""', space='', header='"réponse","l"', ends='\n'):
    def cell(text):
        return '"' + text.replace('\\', '\\\\' if quote != '""' else '\\').replace('"', quote) + '"'

    rows = [f'{cell(text)},{space}{cell(label)}' for text, label in zip(QUOTED, LABELS)]
    return ends.join([header, *rows, ''])


@pytest.mark.parametrize(
    'name, content',
    [
        ('a.csv', as_csv().encode()),
        ('a.csv', as_csv(r'\"').encode()),  # as MySQL and Spark write it
        ('a.csv', as_csv(space=' ').encode()),
        ('a.csv', as_csv(r'\"', ' ', '"réponse", "l"', '\r\n').encode()),
        ('a.csv', as_csv(header=unicodedata.normalize('NFD', '"réponse","l"')).encode()),
        *[('a.csv', as_csv().encode(name)) for name in ('utf-16', 'utf-16-le', 'utf-16-be')],
        ('a.json', in_columns('list').encode()),
        ('a.json', in_columns('columns').encode()),
        ('a.jsonl', unicodedata.normalize('NFD', in_lines()).encode()),
    ],
)
def test_a_file_is_read_as_other_programs_write_it(tmp_path, monkeypatch, name, content):
    (tmp_path / name).write_bytes(content)
    config = config_of(monkeypatch, data=str(tmp_path / name), text=['réponse'], label='l')
    task = custom.of_file(config.custom.to_dict(), str(tmp_path / name))
    assert task.labels == ('x', 'y')
    found = [example.texts[0] for example in task.read(tmp_path, 'train')]
    assert found == [text.strip() for text in QUOTED]


@pytest.mark.parametrize(
    'name, content, message',
    [
        (
            'a.csv',
            't,l\n"a" b,x\n',
            'a.csv: row 2: .* \\(if quotation marks are text: config.custom.q',
        ),
        ('a.csv', 't,l\nab,x\n'.encode('utf-16')[:-1], 'a.csv: damaged, or not utf-16 .truncated'),
        (
            'a.csv',
            't,l\né,x\n'.encode('cp1252'),
            'a.csv: line 2: not utf-8 at byte 0 .0xe9.; name its encoding, such as --encoding=lat',
        ),
        ('a.json', '{"a": [\n1], "b": [1, 2]}', 'one JSON object, expected .*of pandas: to_json'),
        ('a.json', '{"a": [\n{"t": 1}], "b": [{"t": 2}]}', 'one JSON object, expected'),
    ],
)
def test_what_cannot_be_read_names_the_remedy(tmp_path, monkeypatch, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refusal(config_of, monkeypatch, data=str(tmp_path / name), text=['t'], label='l')
    assert re.search(message, found)


@pytest.mark.parametrize('separator', [',', ';', '\t'])
@pytest.mark.parametrize('encoding', ['latin-1', 'cp1252', 'shift_jis', 'utf-8-sig', 'utf-16'])
def test_a_table_is_read_in_the_encoding_that_is_named(tmp_path, monkeypatch, encoding, separator):
    word = '\u8868' if encoding == 'shift_jis' else 'é\xa0É'  # the second has a backslash's byte
    rows = [[f'{word} {i}', f'"{word}"', f'{word}{i % 2}'] for i in range(20)]
    text = '\n'.join(map(separator.join, [[f'a{word}', 'b', 'l'], *rows]))
    file = tmp_path / ('my.tsv' if separator == '\t' else 'my.csv')
    file.write_bytes(text.encode(encoding))
    given = dict(data=str(file), text=[f'a{word}', 'b'], label='l')
    config = config_of(monkeypatch, encoding=encoding, **given)
    by_field = config_of(monkeypatch, {'custom.encoding': encoding}, **given)
    assert by_field.custom == config.custom and config.custom.labels == (f'{word}0', f'{word}1')
    task = tasks.of(config.to_dict())
    found = [example.texts for split in task.splits for example in task.read(tmp_path, split)]
    assert sorted(found) == sorted((f'{word} {i}', word) for i in range(20))
    new = tmp_path / 'new.csv'
    new.write_bytes(f'b;a{word}\n1;{word}\n'.encode(encoding))
    (example,) = unlabelled.read(task, new)
    assert example.texts == (word, '1')


@pytest.mark.parametrize(
    'name, encoding, message',
    [
        ('a.csv', 'latin1252', "a.csv: line 1: no encoding 'latin1252': utf-8, latin-1 and cp1252"),
        ('a.csv', 'hex', "a.csv: line 1: no encoding 'hex'"),  # a codec of bytes
        ('a.csv', 'shift_jis', 'a.csv: line 2: not shift_jis at byte 0 .0x81.; name its encoding'),
        ('a.csv', 'cp1252', 'a.csv: line 2: not cp1252 at byte 0 .0x81.; name its encoding'),
        ('a.jsonl', 'latin-1', "encoding is 'latin-1', but jsonl is always UTF-8"),
    ],
)
def test_a_wrong_encoding_is_one_line(tmp_path, monkeypatch, name, encoding, message):
    lines = b'{"t": "b", "l": 1}\n{"t": "a", "l": 2}\n' if '.jsonl' in name else b't,l\n\x81 ,x\n'
    (tmp_path / name).write_bytes(lines)

    def read():
        given = dict(data=str(tmp_path / name), text=['t'], label='l')
        tasks.of(config_of(monkeypatch, encoding=encoding, **given).to_dict())

    assert re.search(message, refusal(read))


def test_a_dialect_is_left_alone_where_plain_csv_fits(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_text('t,l\n"C:\\",x\nsaid \\"so\\" ,y\n')
    assert [row.fields['t'] for row in tables.read(path, quoted=True, delimiter=',')] == [
        'C:\\',
        'said \\"so\\" ',
    ]
    path.write_text('t,l\n"C:\\",x\na,b,y\n')  # a row that no dialect mends
    rows = list(tables.read(path, quoted=True, delimiter=','))
    assert rows[0].fields['t'] == 'C:\\' and '3 columns' in str(rows[1].fields)


def test_a_directory_has_the_splits_by_their_names(tmp_path, monkeypatch):
    for name in ('train.csv', 'validation.csv', 'test.csv', 'notes.txt'):
        table(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for data in (str(tmp_path), '.'):
        config = config_of(monkeypatch, data=data, text=['one'], label='topic')
        assert config.custom.name == tmp_path.name
    assert config.custom.files.to_dict() == {
        'train': 'train.csv',
        'dev': 'validation.csv',
        'test': 'test.csv',
        'unlabelled': None,
    }
    table(tmp_path / 'train.tsv', '\t')
    assert 'holds train.csv and train.tsv' in refusal(
        config_of, monkeypatch, data=str(tmp_path), text=['one'], label='topic'
    )


@pytest.mark.parametrize(
    'rows, message',
    [
        ('', 'a.csv: no rows'),
        ('A, b.,x\n' * 3, 'a.csv: row 2: 3 columns, expected 2'),
        # Of an open quote the row where it begins
        ('A.,x\n"B.,y\nC.,x\n', 'a.csv: row 3: unexpected end of data'),
    ],
)
def test_a_file_without_a_sound_row_says_what_is_wrong_with_its_first(
    tmp_path, monkeypatch, rows, message
):
    (tmp_path / 'a.csv').write_text('t,l\n' + rows)
    assert message in refusal(
        config_of, monkeypatch, data=str(tmp_path / 'a.csv'), text=['t'], label='l'
    )


@pytest.mark.parametrize(
    'given, message',
    [
        (
            dict(text=['three'], label='topic'),
            "a.csv: no column 'three' (columns: one, two, topic, stars)",
        ),
        (dict(text=['one'], label='topics'), "no column 'topics', did you mean 'topic'?"),
        (
            dict(text=['two'], label='one'),
            "column 'one' has 30 different labels in 30 rows; of a score give",
        ),
        (
            dict(text=['one'], label='topic', MOST_LABELS=1),
            "column 'topic' has 2 different labels in 30 rows; of a score",
        ),
        (dict(text=['one']), 'give --text=COLUMN and --label=COLUMN beside --data=FILE'),
        (dict(data=None, label='topic'), '--label goes with --data=FILE'),
        (
            dict(data='a.xlsx', text=['one'], label='two'),
            'a.xlsx: must end in one of .csv, .tsv, .jsonl, .json, .parquet',
        ),
        (
            dict(text=['one'], label='topic', score=['low', 'high']),
            '--score=low,high: must be LOW,HIGH, two numbers',
        ),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, monkeypatch, given, message):
    """MOST_LABELS: no more are read than memory holds targets of."""
    given = {'data': table(tmp_path / 'a.csv'), 'MOST_LABELS': own_file.MOST_LABELS} | given
    monkeypatch.setattr(own_file, 'MANY_LABELS', 5)
    monkeypatch.setattr(own_file, 'MOST_LABELS', given.pop('MOST_LABELS'))
    assert message in refusal(config_of, monkeypatch, **given)
