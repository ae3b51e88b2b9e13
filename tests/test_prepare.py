"""Section 4.1: from text to a prepared directory. The same directory again is resumed, made again
or refused. The command."""

import json
import os
import pathlib

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import bpe_training, encode, prepared, sources
from gpt1_jax.data import prepare as data_prepare
from gpt1_jax.data.corpus import Document, Join, is_validation
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import lock
from saved import flip
from shared import CASES, needs_cases
from tiny import command

LINES = [f'The cat number {i} sat on the mat.\nSo said dog {i}.' for i in range(20)]


@pytest.fixture
def books(tmp_path):
    """A directory of twenty files of two lines."""
    (tmp_path / 'books').mkdir()
    for i, text in enumerate(LINES):
        (tmp_path / 'books' / f'{i:02d}.txt').write_text(text)
    return tmp_path / 'books'


@pytest.fixture
def out(tmp_path):
    return tmp_path / 'out'


def tokens(tokenizer, texts):
    return [i for text in texts for i in [*tokenizer.encode(text), tokenizer.newline_id]]


def stream(out, split):
    return np.concatenate(prepared.open_split(out, split, verify=True).shards).tolist()


@needs_cases
@pytest.mark.parametrize('file', ['null.jsonl', 'cut.jsonl', 'null.parquet'])
def test_bad_rows_of_a_corpus_are_left_out_and_counted(out, capsys, file):
    corpus = str(CASES / 'jsonl_one_bad_row' / file)
    with pytest.raises(UserError, match='skip_bad=True leaves such rows out$'):
        prepare(out, corpus, 0.1, vocab_size=400)
    splits = prepare(out, corpus, 0.1, vocab_size=400, skip_bad=True)['splits']
    assert splits['train']['documents'] + splits['valid']['documents'] == 59
    assert capsys.readouterr().err.count(f'1 bad row(s) left out, the first: {corpus}: ') == 1


def test_a_prepared_directory_holds_the_text(books, out, tmp_path):
    valid = tmp_path / 'valid.jsonl'
    valid.write_text('{"body": "Zq zq zq zq."}\n')
    manifest = prepare(out, str(books), str(valid), vocab_size=320, text_field='body')
    made = Tokenizer.load(out / 'tokenizer')
    assert made == bpe_training.train(LINES, vocab_size=320)  # not from validation text
    assert prepared.read_manifest(out) == manifest and manifest['tokenizer'] == made.fingerprint
    assert manifest['vocab_size'] == made.vocab_size == 320 and manifest['newline_id'] == 1
    train = manifest['splits']['train']
    assert train['documents'] == 20 and train['bytes'] == len(''.join(LINES))
    assert train['words'] == len(' '.join(LINES).split())
    assert manifest['splits']['valid']['bytes'] == len('Zq zq zq zq.')
    assert stream(out, 'train') == tokens(made, LINES)
    assert stream(out, 'valid') == tokens(made, ['zq zq zq zq.'])


def test_a_fraction_holds_out_whole_documents(books, out):
    manifest = prepare(out, str(books), '0.3', merges=20)
    made = Tokenizer.load(out / 'tokenizer')
    for split in ('train', 'valid'):
        chosen = [
            text for text in LINES if is_validation(Document('', text), 0.3) == (split == 'valid')
        ]
        assert 0 < len(chosen) == manifest['splits'][split]['documents']
        assert stream(out, split) == tokens(made, chosen)


def test_a_vocabulary_is_learnt_from_a_sample_of_documents(out):
    """Chosen by hash; never more characters than allowed."""
    texts = [f'{"abcdefghij"[i % 10]}{i:03d} ' * 5 for i in range(400)]
    documents = [Document('', text) for text in texts]
    total = sum(map(len, texts))
    chosen = [one.text for one in sources.sample(documents, total // 4, total)]
    assert 0.8 * (total // 4) < sum(map(len, chosen)) <= total // 4
    prepare(out, documents, [Document('', 'zz')], merges=5, characters=total // 4)
    assert Tokenizer.load(out / 'tokenizer') == bpe_training.train(chosen, merges=5)
    long = [Document('', 'x' * 1000)] * 9  # equal, so that all are chosen or none
    assert {len(one.text) for one in sources.sample(long, 2500, 2501)} == {1000, 500}
    with pytest.raises(UserError, match='is 1: it chooses none of the documents, which have 9000'):
        list(sources.sample(long, 1, 9000))


def test_rows_that_are_sentences_are_noticed(tmp_path, capsys):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text(
        ''.join(
            json.dumps({'text': f'A cat, number {i}, sat on the mat.'}) + '\n' for i in range(200)
        )
    )
    prepare(tmp_path / 'rows', str(rows), 0.2, merges=9)
    assert 'characters on average' in capsys.readouterr().err


@pytest.mark.parametrize(
    'arguments, message',
    [
        (dict(valid=None), 'valid: name validation text, or a fraction'),
        (
            dict(valid='1.5'),
            'valid is 1.5: as a fraction of the documents it must lie between 0 and 1',
        ),
        (dict(valid=1 - 1e-9), 'valid=0.999999999 holds out all of .* characters'),
        (dict(merges=1, vocab_size=300), 'merges=1 and vocab_size=300: give one of the two'),
        (
            dict(tokenizer='published'),
            'the published vocabulary, and no other, needs the released files: encoder=',
        ),
        (
            dict(tokenizer='absent', merges=3),
            'has its size: leave merges, vocab_size and characters out .vocab_size=None',
        ),
        (dict(processes=0), 'processes is 0, must be at least 1'),
        (dict(corpus='books', merges=70000), 'merges is 70000, must be from 1 to 65275'),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_written(
    books, out, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encode, 'count_words', None)  # what takes hours
    with pytest.raises(UserError, match=message) as caught:
        prepare('out', **{'corpus': 'books', 'valid': 0.3, **arguments})
    assert '\n' not in str(caught.value) and not out.exists()


def json_lines(*texts):
    return lambda source, target: target.write_text(
        ''.join(json.dumps({'text': text}) + '\n' for text in texts)
    )


def test_a_copy_or_link_of_training_text_is_refused_as_validation_text(books, out, tmp_path):
    (books / '30.txt').write_text(LINES[3] * 30)
    os.symlink(books / '30.txt', tmp_path / 'a.txt')
    message = '30.txt has the same text as .*a.txt, which is held out'
    with pytest.raises(UserError, match=message):
        prepare(out, str(books), str(tmp_path / 'a.txt'), merges=20)
    assert not out.exists()
    (tmp_path / 'a.jsonl').write_text(json.dumps({'text': LINES[3]}))
    with pytest.raises(UserError, match='all 1 texts of valid are also in corpus'):
        prepare(out, str(books), str(tmp_path / 'a.jsonl'), merges=20)


@pytest.mark.parametrize('fraction', [1e-9, 0.02, 0.3])
def test_of_few_documents_the_end_of_the_text_is_held_out(fraction, capsys):
    """README's corpus command on a handful of files, none of which is held out whole at 0.01."""
    texts = [
        f'The first line of {i}.\nAnd the second, which is a longer one.\nThe end.'
        for i in range(2)
    ]
    splits, _, _ = sources.splits([Document('', text) for text in texts], fraction)
    train, valid = ([document.text for document in splits[split]()] for split in ('train', 'valid'))
    assert ''.join(train + valid) == ''.join(texts)
    assert fraction * 136 - 1 <= sum(map(len, valid)) <= fraction * 136 + 40
    assert valid[0].startswith(('And', 'The'))  # the cut is at the beginning of a line
    assert 'the end of the text is held out instead' in capsys.readouterr().err


@pytest.mark.parametrize('text', ['chapter one\n' + 'a word ' * 2000, 'a' * 14_000])
def test_no_more_than_twice_as_much_is_held_out_of_a_long_line(text):
    """A novel in one line, and text without spaces."""
    valid = list(sources.splits([Document('a', text)], 0.1)[0]['valid']())
    assert len(text) * 0.1 - 1 <= sum(len(document.text) for document in valid) <= len(text) * 0.2


def test_of_few_documents_blank_ones_are_no_copies_and_copies_are_named():
    texts = {'a': 'The cat sat.\n', 'b': '', 'c': '', 'e': 'The end is near.\n'}
    given = [Document(name, text) for name, text in texts.items()]
    splits, _, _ = sources.splits(given, 0.02)
    assert [document.name for document in splits['valid']()] == ['e']
    splits, _, _ = sources.splits([*given, Document('', texts['a'])], 0.02)
    with pytest.raises(UserError, match=r'5 documents have the same text \(a and document 5\)'):
        list(splits['train']())


@pytest.mark.parametrize(
    'train, valid, message',
    [
        (' \n', 'Zq zq.', '^train: 1 documents and no word in them'),
        ('Zq zq.', ' \n', '^valid: 1 documents and no word in them'),
        ('Zq zq.', '&nbsp;', '^valid: 1 documents without a token'),
    ],
)
def test_text_without_words_or_of_markup_alone_is_refused(out, train, valid, message):
    with pytest.raises(UserError, match=message):
        prepare(out, [Document('', train)], [Document('', valid)], merges=20)
    assert not (out / 'manifest.json').exists()


def test_a_corpus_that_grows_while_it_is_read_is_refused(books, out, monkeypatch):
    """Its bytes and words are counted before its tokens."""
    train = bpe_training.train

    def grow(*given):
        with open(books / '00.txt', 'a') as file:
            file.write(' More.')
        return train(*given)

    monkeypatch.setattr(bpe_training, 'train', grow)
    total = sum(map(len, LINES))
    changed = f'from {total} characters in 20 documents to {total + 6} in 20: once it is complete'
    with pytest.raises(UserError, match=f'^train: the text changed while it was read, {changed}'):
        prepare(out, str(books), [Document('', 'Zq zq.')], merges=20)
    assert not (out / 'manifest.json').exists()


# The same directory again.


def contents(directory):
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in directory.rglob('*')
        if file.is_file()
    }


def test_the_same_inputs_again_change_nothing_and_an_unfinished_run_keeps_its_vocabulary(
    books, out, monkeypatch
):
    first = prepare(out, str(books), 0.3, merges=20)
    monkeypatch.setattr(bpe_training, 'train', None)  # not called
    times = {file: file.stat().st_mtime_ns for file in out.rglob('*')}
    assert prepare(out, [str(books / '*.txt')], 0.3, merges=20, processes=2) == first
    assert {file: file.stat().st_mtime_ns for file in out.rglob('*')} == times
    (out / 'manifest.json').unlink()
    assert prepare(out, str(books), 0.3, merges=20) == first


def emptied(file):
    file.write_bytes(b'')


@pytest.mark.parametrize(
    'name, damage',
    [
        ('train/00001.bin', flip),
        ('train/00001.bin', pathlib.Path.unlink),
        ('valid/00000.bin', emptied),
        ('train/00000.json', pathlib.Path.unlink),
        ('train/00000.json', lambda file: file.write_bytes(b'null')),
        ('manifest.json', flip),
        ('manifest.json', lambda file: file.write_bytes(b'null')),
        ('tokenizer/tokenizer.model', flip),
        ('tokenizer/tokenizer.model', pathlib.Path.unlink),
        ('tokenizer/tokenizer.json', emptied),
    ],
)
def test_what_is_damaged_in_a_finished_directory_is_named_and_made_again(
    books, out, monkeypatch, capsys, name, damage
):
    arguments = dict(corpus=str(books), valid=0.3, merges=20, shard_tokens=100)
    monkeypatch.setattr(encode.units, '__defaults__', (40,))
    manifest = prepare(out, **arguments)
    before = contents(out)
    damage(out / name)
    assert prepare(out, **arguments) == manifest
    assert contents(out) == before
    said = capsys.readouterr().err
    assert 'again' in said and (name in said or 'tokenizer' in said)


def test_sizes_alone_are_compared_where_asked(books, out, capsys):
    manifest = prepare(out, str(books), 0.3, merges=20)
    flip(out / 'train' / '00000.bin')
    assert prepare(out, str(books), 0.3, merges=20, verify=False) == manifest
    assert 'names and sizes were compared, not the contents' in capsys.readouterr().out


@pytest.mark.parametrize(
    'changes, message',
    [
        ({}, 'the text is not what it was prepared from .it was edited, a record'),
        (dict(merges=21), 'tokenizer was trained, 20 merges, now trained, 21 merges'),
        (dict(valid=0.4), 'valid was 0.3 of the documents, now 0.4 of the documents'),
        (dict(corpus=[Document('', 'x'), Document('', 'y')]), 'corpus was 20 files of .*, now 2 d'),
        (dict(join=Join(split_at='on')), "join was None, now Join.key=None, .*, split_at='on'"),
        (dict(characters=99), 'tokenizer was trained, 20 merges, now .* 20 merges from 99 char'),
        (dict(shard_tokens=9), 'shards was 8388608 tokens, now 9 tokens'),
    ],
)
def test_other_text_or_inputs_in_the_same_directory_are_refused_and_change_nothing(
    books, out, changes, message
):
    given = dict(corpus=str(books), valid=0.3, merges=20)
    prepare(out, **given)
    before = contents(out)
    if not changes:  # all text is edited to the same size
        for file in books.iterdir():
            file.write_text(file.read_text().replace('cat', 'dog'))
    with pytest.raises(
        UserError, match=f'(?=.*was prepared from other inputs|.*edited).*{message}'
    ):
        prepare(out, **given | changes)
    assert contents(out) == before


def test_tokens_of_a_dry_run_do_not_block_the_run_with_other_inputs(books, out, capsys):
    for valid in (0.3, 0.6):
        config = data_prepare.PrepareConfig(str(books), valid, merges=20)
        made = data_prepare.prepare(config, out, lock.hold, replace=True)
    said = 'prepared from other inputs (valid was 0.3 of the documents, now 0.6'
    assert said in capsys.readouterr().err
    assert made == data_prepare.prepare(config, out.with_name('other'), lock.hold)


# The command.


def test_the_command_line_joins_rows_of_parquet_with_the_vocabulary_of_a_model(out, tmp_path):
    table = pyarrow.table(
        {'body': [f'The cat {i}.' for i in range(60)], 'book': [i // 5 for i in range(60)]}
    )
    pyarrow.parquet.write_table(table, tmp_path / 'a.parquet')
    given = f'--out={out} --corpus={tmp_path} --valid=0.3 --tokenizer=novels --text_field=body'
    join = ('--join_by=book', '--join_characters=1000', '--join_with=\n')
    command('prepare', *given.split(), *join, check=0)
    manifest = prepared.read_manifest(out)
    assert manifest['vocab_size'] == 8192
    assert sum(entry['documents'] for entry in manifest['splits'].values()) == 12
    joined = r"Join(key='book', characters=1000, between='\n', split_at=None)"
    assert manifest['inputs']['join'] == joined
