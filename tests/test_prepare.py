"""Section 4.1: from text to a prepared directory."""
import json
import os
import re
import shutil

import numpy as np
import pytest

from gpt1_jax.data import bpe_training, encode, sources, tokens
from gpt1_jax.data.document import Document, Join
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare
from twenty_books import LINES, write_books


@pytest.fixture
def books(tmp_path):
    return write_books(tmp_path / 'books')


def test_a_prepared_directory_holds_the_text(books, tmp_path):
    valid = tmp_path / 'valid.jsonl'
    valid.write_text('{"body": "A dog sat."}\n')
    manifest = prepare(tmp_path / 'out', str(books), str(valid), vocab_size=320, text_field='body')
    made = Tokenizer.load(tmp_path / 'out' / 'tokenizer')
    assert json.loads((tmp_path / 'out' / 'manifest.json').read_text()) == manifest
    assert manifest['vocab_size'] == made.vocab_size == 320
    assert (manifest['tokenizer'], manifest['newline_id']) == (made.fingerprint, 1)
    assert manifest['splits']['train']['documents'] == 20
    assert manifest['splits']['train']['bytes'] == sum(file.stat().st_size for file in books.iterdir())
    assert manifest['splits']['valid']['bytes'] == len('A dog sat.')
    expected = [i for text in LINES for i in [*made.encode(text), made.newline_id]]
    stream = tokens.open_split(tmp_path / 'out', 'train', verify=True)
    assert np.concatenate(stream.shards).tolist() == expected
    assert stream.fingerprint == manifest['fingerprint']
    assert np.concatenate(tokens.open_split(tmp_path / 'out', 'valid').shards).tolist() == [
        *made.encode('a dog sat.'), made.newline_id]


def test_a_fraction_holds_out_whole_documents(books, tmp_path):
    manifest = prepare(tmp_path / 'out', str(books), '0.3', merges=20)
    made = Tokenizer.load(tmp_path / 'out' / 'tokenizer')
    held_out = np.concatenate(tokens.open_split(tmp_path / 'out', 'valid').shards)
    whole = [[*made.encode(text), made.newline_id] for text in LINES]
    number = manifest['splits']['valid']['documents']
    assert 0 < number < 20 and manifest['splits']['train']['documents'] == 20 - number
    found, rest = [], held_out.tolist()
    for ids in whole:
        if rest[:len(ids)] == ids:
            found, rest = found + [ids], rest[len(ids):]
    assert rest == [] and len(found) == number


def test_the_vocabulary_is_learnt_from_training_documents_alone(tmp_path):
    prepare(tmp_path / 'a', [Document('', 'aa ab')], [Document('', 'zq zq zq zq')], merges=3)
    made = Tokenizer.load(tmp_path / 'a' / 'tokenizer')
    assert made.fingerprint == bpe_training.train(['aa ab'], merges=3).fingerprint


def test_a_vocabulary_is_learnt_from_a_sample_of_documents(tmp_path):
    """Chosen by hash, whatever their order; never more characters than allowed."""
    texts = [f'{"abcdefghij"[i % 10]}{i:03d} ' * 5 for i in range(400)]
    documents, valid = [Document('', text) for text in texts], [Document('', 'zz')]
    total = sum(map(len, texts))
    found = []
    for number, given in enumerate((documents, documents[::-1])):
        prepare(tmp_path / str(number), given, valid, merges=5, characters=total // 4)
        found.append(Tokenizer.load(tmp_path / str(number) / 'tokenizer'))
    counts = [sum(len(one.text) for one in sources.sample(documents, cap, total)) for cap in (total // 4, total)]
    assert 0.8 * (total // 4) < counts[0] <= total // 4 and counts[1] == total
    chosen = [one.text for one in sources.sample(documents, total // 4, total)]
    assert found[0] == bpe_training.train(chosen, merges=5) != bpe_training.train(texts, merges=5)
    long = [Document('', 'x' * 1000)] * 9  # equal, so that all are chosen or none
    assert {len(one.text) for one in sources.sample(long, 2500, 2501)} == {1000, 500}
    with pytest.raises(UserError, match='tokenizer.characters is 1: it chooses none of the documents, which have 9000'):
        list(sources.sample(long, 1, 9000))
    everything = prepare(tmp_path / 'all', documents, valid, merges=5)
    assert everything['tokenizer'] == prepare(
        tmp_path / 'more', documents, valid, merges=5, characters=total)['tokenizer']
    with pytest.raises(UserError, match='all was prepared from other inputs: tokenizer was trained, 5 merges, now '
                                        'trained, 5 merges from 99 characters'):
        prepare(tmp_path / 'all', documents, valid, merges=5, characters=99)


def test_rows_that_are_sentences_are_said_and_joining_them_cures_it(tmp_path, capsys):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text(''.join(json.dumps({'text': f'A cat, number {i}, sat on the mat.', 'book': i // 20}) + '\n'
                            for i in range(200)))
    manifest = prepare(tmp_path / 'rows', str(rows), 0.2, merges=9)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith('notice: the')]
    assert len(said) == 1 and re.search(
        r'the 1\d\d training documents have 3\d characters on average.*join_by=COLUMN or join_characters=N', said[0])
    joined = prepare(tmp_path / 'joined', str(rows), 0.2, merges=9, join=Join('book'))
    assert 'on average' not in capsys.readouterr().err
    count = {name: sum(entry[name] for entry in joined['splits'].values()) for name in ('documents', 'bytes')}
    assert count['documents'] == 10
    assert count['bytes'] == sum(entry['bytes'] for entry in manifest['splits'].values()) + 190
    with pytest.raises(UserError, match="from other inputs: join was rows joined by 'book' with ' ', now None"):
        prepare(tmp_path / 'joined', str(rows), 0.2, merges=9)


@pytest.mark.parametrize('arguments, message', [
    (dict(valid=None), 'valid: name validation text, or a fraction'),
    (dict(valid='1.5'), 'valid is 1.5: as a fraction of the documents it must lie between 0 and 1'),
    (dict(valid=1 - 1e-9), "valid=0.999999999 holds out all of .* characters"),
    (dict(merges=1, vocab_size=300), 'merges=1 and vocab_size=300: give one of the two'),
    (dict(tokenizer='published'), '--tokenizer=published needs the released files: --encoder='),
    (dict(tokenizer='absent', merges=3), 'merges and vocab_size are for --tokenizer=train'),
    (dict(tokenizer='absent', characters=5), 'tokenizer.characters is 5: must be at least 1, and is for'),
    (dict(processes=0), 'processes is 0, must be at least 1'),
    (dict(corpus='books', merges=70000), 'merges is 70000, must be from 1 to 65275'),
    (dict(corpus=['books', Document('', 'x')]), 'must be names of files or other sources, or Documents, not a mixture'),
])
def test_what_is_wrong_is_named_before_anything_is_written(books, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encode, 'count_words', None)  # what takes hours
    with pytest.raises(UserError, match=message) as caught:
        prepare('out', **{'corpus': 'books', 'valid': 0.3, **arguments})
    assert '\n' not in str(caught.value)
    assert not (tmp_path / 'out').exists()


def json_lines(*texts):
    return lambda source, target: target.write_text(''.join(json.dumps({'text': text}) + '\n' for text in texts))


@pytest.mark.parametrize('copy, name, message', [
    (shutil.copy, 'a.txt', '30.txt has the same text as .*a.txt, which is held out'),
    (os.symlink, 'a.txt', '30.txt has the same text as .*a.txt, which is held out'),
    (json_lines(LINES[3]), 'a.jsonl', 'all 1 texts of valid are also in corpus'),
    (json_lines('Else.', LINES[3] * 30), 'a.jsonl', '30.txt has the same text as .*a.jsonl:2, which is held out')])
def test_a_copy_or_link_of_training_text_is_refused_as_validation_text(books, tmp_path, copy, name, message):
    (books / '30.txt').write_text(LINES[3] * 30)
    copy(books / '30.txt', tmp_path / name)
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / 'out', str(books), str(tmp_path / name), merges=20)
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('fraction', [1e-9, 0.02, 0.3])
def test_of_few_documents_the_end_of_the_text_is_held_out(fraction, capsys):
    """README's corpus command on a handful of files, none of which is held out whole at 0.01."""
    texts = [f'The first line of {i}.\nAnd the second, which is a longer one.\nThe end.' for i in range(2)]
    splits, _, named = sources.splits([Document(str(i), text) for i, text in enumerate(texts)], fraction)
    found = {split: [document.text for document in documents()] for split, documents in splits.items()}
    assert ''.join(found['train'] + found['valid']) == ''.join(texts) and named is None
    held = sum(map(len, found['valid']))
    assert fraction * 136 - 1 <= held <= fraction * 136 + 40  # the cut is at the beginning of a line
    assert found['valid'][0].startswith(('And', 'The'))
    assert capsys.readouterr().err == (
        f"notice: valid={fraction} holds out none of the corpus' 2 documents: the end of the text is held out "
        'instead\n')


def test_a_corpus_of_few_documents_is_read_as_often_as_one_of_many(tmp_path, monkeypatch, capsys):
    """To choose what is held out, to survey and to encode both splits: never once more, and not where all is done."""
    reads = []

    def read(*arguments, **options):
        reads.append(arguments)
        return documents(*arguments, **options)
    documents = sources._documents
    monkeypatch.setattr(sources, '_documents', read)
    (tmp_path / 'text').mkdir()
    for name in 'ab':
        (tmp_path / 'text' / f'{name}.txt').write_text(f'the cat sat on the mat {name}. ' * 40)
    for _ in range(2):
        prepare(tmp_path / 'out', str(tmp_path / 'text'), '0.01', merges=20, processes=1, verify=False)
    assert 'the end of the text is held out' in capsys.readouterr().err
    assert len(reads) == 1 + 2 + 2 + 1  # and once to learn the vocabulary
