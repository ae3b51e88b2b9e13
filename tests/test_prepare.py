"""Section 4.1: from text to a prepared directory."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import bpe_training, encode, sources, tokenizer, tokens
from gpt1_jax.data.document import Document
from gpt1_jax.data.document import size as document_size
from gpt1_jax.data.joining import Join
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import lock

REPOSITORY = pathlib.Path(__file__).parents[1]
LINES = [f'The cat number {i} sat on the mat.\nSo said dog {i}.' for i in range(20)]


@pytest.fixture
def books(tmp_path):
    directory = tmp_path / 'books'
    directory.mkdir()
    for i, text in enumerate(LINES):
        (directory / f'{i:02d}.txt').write_text(text)
    return directory


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


def test_documents_can_be_given_from_python(tmp_path):
    train = (Document(str(i), text) for i, text in enumerate(LINES[1:]))
    manifest = prepare(tmp_path / 'out', train, [Document('v', LINES[0])], merges=20)
    assert [manifest['splits'][split]['documents'] for split in ('train', 'valid')] == [19, 1]


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


def test_a_manifest_counts_bytes_of_utf_8(tmp_path):
    manifest = prepare(tmp_path / 'out', [Document('', 'café — au lait')], [Document('', 'aé')], merges=3)
    assert [manifest['splits'][split]['bytes'] for split in ('train', 'valid')] == [17, 3]
    assert document_size(Document('', 'x' * 2 ** 20 + 'é\ud800')) == 2 ** 20 + 2 + 3


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


@pytest.mark.parametrize('characters, tokenizer', [(0, 'train'), (5, 'somewhere')])
def test_a_sample_that_cannot_be_is_refused(tmp_path, characters, tokenizer):
    with pytest.raises(UserError, match=f'tokenizer.characters is {characters}: must be at least 1, and is for'):
        prepare(tmp_path / 'out', [Document('', 'a')], [Document('', 'b')], tokenizer, characters=characters)


def test_rows_that_are_sentences_are_said_and_joining_them_cures_it(tmp_path, capsys):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text(''.join(json.dumps({'text': f'A cat, number {i}, sat on the mat.', 'book': i // 20}) + '\n'
                            for i in range(200)))
    manifest = prepare(tmp_path / 'rows', str(rows), 0.2, merges=9)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith('notice: the')]
    assert len(said) == 1 and re.search(
        r'the 1\d\d training documents have 3\d characters in the mean.*join_by=COLUMN or join_characters=N', said[0])
    joined = prepare(tmp_path / 'joined', str(rows), 0.2, merges=9, join=Join('book'))
    assert 'in the mean' not in capsys.readouterr().err
    count = {name: sum(entry[name] for entry in joined['splits'].values()) for name in ('documents', 'bytes')}
    assert count['documents'] == 10
    assert count['bytes'] == sum(entry['bytes'] for entry in manifest['splits'].values()) + 190
    with pytest.raises(UserError, match="from other inputs: join was rows joined by 'book' with ' ', now None"):
        prepare(tmp_path / 'joined', str(rows), 0.2, merges=9)


def test_a_given_tokenizer_is_used(books, tmp_path):
    own = bpe_training.train(['the cat'], merges=2)
    own.save(tmp_path / 'given')
    for number, given in enumerate((own, str(tmp_path / 'given'))):
        manifest = prepare(tmp_path / f'out{number}', str(books), 0.3, given)
        assert manifest['tokenizer'] == own.fingerprint
        assert Tokenizer.load(tmp_path / f'out{number}' / 'tokenizer') == own


def test_the_same_inputs_again_change_nothing(books, tmp_path):
    first = prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / 'out').rglob('*')}
    assert prepare(tmp_path / 'out', [str(books / '*.txt')], 0.3, merges=20, processes=2) == first
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / 'out').rglob('*')} == times


def test_the_fingerprint_follows_the_text_and_the_vocabulary(books, tmp_path):
    prints = [prepare(tmp_path / f'{i}', str(books), fraction, merges=merges)['fingerprint']
              for i, (fraction, merges) in enumerate([(0.3, 20), (0.3, 20), (0.3, 21), (0.6, 20)])]
    assert prints[0] == prints[1] and len(set(prints)) == 3


def test_an_unfinished_run_goes_on_with_its_vocabulary(books, tmp_path, monkeypatch):
    first = prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    (tmp_path / 'out' / 'manifest.json').unlink()
    (tmp_path / 'out' / 'valid' / '00000.bin').unlink()
    monkeypatch.setattr(bpe_training, 'train', None)  # not called
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20) == first


def contents(directory):
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob('*') if file.is_file()}


def flip(file):
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))


@pytest.mark.parametrize('name', ['train/00000.bin', 'train/00001.bin', 'valid/00000.bin', 'train/00000.json',
                                  'valid/00000.json', 'manifest.json'])
@pytest.mark.parametrize('damage', [pathlib.Path.unlink, flip, lambda file: file.write_bytes(b'')])
def test_what_is_damaged_in_a_finished_directory_is_made_again(books, tmp_path, monkeypatch, capsys, name, damage):
    arguments = dict(corpus=str(books), valid=0.3, merges=20, shard_tokens=100)
    monkeypatch.setattr(encode.units, '__defaults__', (40,))
    manifest = prepare(tmp_path / 'out', **arguments)
    before = contents(tmp_path / 'out')
    damage(tmp_path / 'out' / name)
    assert prepare(tmp_path / 'out', **arguments) == manifest
    assert contents(tmp_path / 'out') == before
    if name != 'manifest.json' or damage != pathlib.Path.unlink:
        assert 'again' in capsys.readouterr().err


def test_only_the_damaged_shard_is_encoded_again(books, tmp_path, monkeypatch):
    arguments = dict(corpus=str(books), valid=0.3, merges=20, shard_tokens=100)
    monkeypatch.setattr(encode.units, '__defaults__', (40,))
    prepare(tmp_path / 'out', **arguments)
    units = json.loads((tmp_path / 'out' / 'train' / '00000.json').read_text())['units']
    original, done = encode._encode, []
    monkeypatch.setattr(encode, '_encode', lambda *given: done.append(1) or original(*given))
    flip(tmp_path / 'out' / 'train' / '00000.bin')
    prepare(tmp_path / 'out', **arguments)
    assert len(done) == units > 0 and len(list((tmp_path / 'out' / 'train').glob('*.bin'))) > 1


def test_a_damaged_tokenizer_of_a_finished_directory_is_named(books, tmp_path):
    prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    flip(tmp_path / 'out' / 'tokenizer' / tokenizer.MODEL_FILE)
    before = contents(tmp_path / 'out')
    with pytest.raises(UserError, match='out/tokenizer/.*: choose another directory, or delete .*out$'):
        prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    assert contents(tmp_path / 'out') == before


def test_sizes_alone_are_compared_where_asked(books, tmp_path, capsys):
    manifest = prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    flip(tmp_path / 'out' / 'train' / '00000.bin')
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20, verify=False) == manifest
    assert 'names and sizes were compared, not the contents' in capsys.readouterr().out
    (tmp_path / 'out' / 'train' / '00000.bin').unlink()
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20, verify=False) == manifest
    tokens.open_split(tmp_path / 'out', 'train', verify=True)


@pytest.mark.parametrize('damage', [lambda out: None, lambda out: (out / 'train' / '00000.json').unlink(),
                                    lambda out: flip(out / 'train' / '00000.bin')])
def test_text_edited_to_the_same_size_is_noticed_and_nothing_is_written(books, tmp_path, damage):
    prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    for file in books.iterdir():
        file.write_text(file.read_text().replace('cat', 'dog'))
    damage(tmp_path / 'out')
    before = contents(tmp_path / 'out')
    with pytest.raises(UserError, match='the text gives other tokens now than it was prepared with'):
        prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    assert contents(tmp_path / 'out') == before


def test_a_finished_directory_that_may_not_be_written_is_no_fault(books, tmp_path, monkeypatch):
    manifest = prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    monkeypatch.setattr(lock, 'hold', None)  # not called
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20) == manifest


@pytest.mark.parametrize('change, message', [
    (dict(merges=21), 'tokenizer was trained, 20 merges, now trained, 21 merges'),
    (dict(valid=0.4), 'valid was 0.3 of the documents, now 0.4 of the documents'),
    (dict(corpus=[Document('', 'x'), Document('', 'y')]), 'corpus was 20 files of .*, now 2 documents, SHA-256'),
    (dict(shard_tokens=9), 'shards was 8388608 tokens, now 9 tokens'),
])
def test_other_inputs_in_the_same_directory_are_refused(books, tmp_path, change, message):
    arguments = dict(corpus=str(books), valid=0.3, merges=20)
    prepare(tmp_path / 'out', **arguments)
    with pytest.raises(UserError, match=f'out was prepared from other inputs: {message}'):
        prepare(tmp_path / 'out', **{**arguments, **change})


def test_kinds_of_files_that_were_read_before_others_are_described_as_then(tmp_path):
    """Or a directory that was prepared by an earlier version could not go on; the digest is that version's."""
    (tmp_path / 'gold').mkdir()
    sizes = {f'{i}.txt': 47 for i in range(9)} | {'a.txt.gz': 33, 'b.jsonl': 43, 'c.jsonl.gz': 44}
    for name, size in sizes.items():  # names and sizes alone are looked at
        (tmp_path / 'gold' / name).write_bytes(b'x' * size)
    assert sources.splits(str(tmp_path / 'gold'), 0.3)[1] == {
        'corpus': "12 files of 543 bytes, names and sizes 64d05af1774839de, field 'text'",
        'valid': '0.3 of the documents'}


def test_a_changed_file_is_another_input(books, tmp_path):
    prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    (books / '03.txt').write_text('Something else.')
    with pytest.raises(UserError, match='corpus was 20 files of .* bytes.*, now 20 files of'):
        prepare(tmp_path / 'out', str(books), 0.3, merges=20)


def test_a_directory_that_holds_something_else_is_refused(books, tmp_path):
    (tmp_path / 'run' / 'tokenizer').mkdir(parents=True)
    with pytest.raises(UserError, match='run: holds something else .no inputs.json in it.'):
        prepare(tmp_path / 'run', str(books), 0.3, merges=20)


@pytest.mark.parametrize('arguments, message', [
    (dict(valid=None), 'valid: name validation text, or a fraction'),
    (dict(valid=' '), 'valid: name validation text, or a fraction'),
    (dict(valid='1.5'), 'valid is 1.5: as a fraction of the documents it must lie between 0 and 1'),
    (dict(valid=0), 'valid is 0: as a fraction'),
    (dict(valid='1e-9'), "valid=1e-09 of the corpus' 20 documents holds out none: choose another"),
    (dict(valid=1 - 1e-9), "valid=0.999999999 of the corpus' 20 documents holds out all"),
    (dict(valid='absent.txt'), 'absent.txt: no such file or directory'),
    (dict(merges=1, vocab_size=300), 'merges=1 and vocab_size=300: give one of the two'),
    (dict(tokenizer='published'), '--tokenizer=published needs the released files: --encoder='),
    (dict(tokenizer='absent'), 'absent: no tokenizer'),
    (dict(tokenizer='absent', merges=3), 'merges and vocab_size are for --tokenizer=train'),
    (dict(encoder='x.json'), 'encoder and bpe are for --tokenizer=published'),
    (dict(processes=0), 'processes is 0, must be at least 1'),
    (dict(corpus=['books', Document('', 'x')]), 'must be names of files or other sources, or Documents, not a mixture'),
])
def test_what_is_wrong_is_named_before_anything_is_written(books, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        prepare('out', **{'corpus': 'books', 'valid': 0.3, **arguments})
    assert '\n' not in str(caught.value)
    assert not (tmp_path / 'out').exists()


def test_validation_text_that_is_trained_on_is_refused(books, tmp_path):
    with pytest.raises(UserError, match='03.txt is both in corpus and in valid'):
        prepare(tmp_path / 'out', str(books), str(books / '03.txt'), merges=20)
    with pytest.raises(UserError, match='copy is both in corpus and in valid'):
        prepare(tmp_path / 'out', [Document('a', 'x'), Document('b', 'y')], [Document('copy', 'y')], merges=20)


@pytest.mark.parametrize('link', [shutil.copy, os.link, os.symlink])
def test_a_copy_or_link_of_training_text_is_refused_as_validation_text(books, tmp_path, link):
    link(books / '03.txt', tmp_path / 'other.txt')
    with pytest.raises(UserError, match=r'other.txt is both in corpus and in valid .as .*03.txt.: validation'):
        prepare(tmp_path / 'out', str(books), str(tmp_path / 'other.txt'), merges=20)
    assert not (tmp_path / 'out').exists()


def test_another_file_of_the_same_size_is_other_text(books, tmp_path):
    (tmp_path / 'other.txt').write_text(LINES[3].replace('cat', 'cow'))
    prepare(tmp_path / 'out', str(books), str(tmp_path / 'other.txt'), merges=20)


@pytest.mark.parametrize('texts, message', [
    ([LINES[3]], 'all 1 texts of valid are in corpus, too'),
    (['Something else.', LINES[3] * 30], '30.txt has the same text as .*valid.jsonl:2, which is held out')])
def test_copies_of_documents_in_another_kind_of_file_are_refused(books, tmp_path, texts, message):
    (books / '30.txt').write_text(LINES[3] * 30)
    (tmp_path / 'valid.jsonl').write_text(''.join(json.dumps({'text': text}) + '\n' for text in texts))
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / 'out', str(books), str(tmp_path / 'valid.jsonl'), merges=20)
    assert not (tmp_path / 'out').exists()


def test_some_short_documents_in_both_are_said(books, tmp_path, capsys):
    (tmp_path / 'valid.jsonl').write_text(''.join(json.dumps({'text': text}) + '\n' for text in ('New.', LINES[3])))
    prepare(tmp_path / 'out', str(books), str(tmp_path / 'valid.jsonl'), merges=20)
    assert 'warning: 1 of 2 different validation texts, all short, are training documents, too' in \
        capsys.readouterr().err


def test_files_that_are_left_out_are_said(books, tmp_path, capsys):
    for name in ('notes.md', 'scan.pdf', '.hidden'):
        (books / name).write_text('x')
    prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    assert capsys.readouterr().err.splitlines()[0] == (
        f'{books}: 2 of 22 files left out (notes.md, scan.pdf): only .txt, .train, .dev, .test, .jsonl, .json, '
        '.parquet (but for the last, also .gz, .bz2, .zst, .lz4) are read; .json where it is named')


def run(*flags, **how):
    return subprocess.run([sys.executable, '-m', 'gpt1_jax.prepare', *map(str, flags)], capture_output=True, text=True,
                          cwd=REPOSITORY, env=dict(os.environ), timeout=120, **how)


def without_root_s_rights():
    """In a child: what may not be written may not be written by root, either."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


@pytest.mark.parametrize('out', ['here', 'here/below'])
def test_a_directory_that_may_not_be_written_is_one_line(books, tmp_path, out):
    (tmp_path / 'here').mkdir(mode=0o555)
    done = run(f'--out={tmp_path / out}', f'--corpus={books}', '--valid=0.3', '--merges=20',
               preexec_fn=without_root_s_rights)
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr.startswith(f'error: {tmp_path / out}') and done.stderr.endswith(': Permission denied\n')
    assert done.stderr.count('\n') == 1 and not list((tmp_path / 'here').iterdir())


def test_while_one_prepares_a_directory_a_second_says_so(books, tmp_path):
    out, flags = tmp_path / 'out', (f'--corpus={books}', '--valid=0.3', '--merges=20')
    first = subprocess.Popen([sys.executable, '-m', 'gpt1_jax.prepare', f'--out={out}', *flags], cwd=REPOSITORY)
    while not (out / lock.FILE).exists() and first.poll() is None:
        time.sleep(0.001)
    first.send_signal(signal.SIGSTOP)
    second = run(f'--out={out}', *flags)
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0
    assert (second.returncode, second.stdout) == (1, '') and re.fullmatch(
        rf'error: another process( \(pid {first.pid} on .*, since .*\))? holds the lock on {out}\n', second.stderr)
    assert run(f'--out={out}', *flags).returncode == 0 and not (out / lock.FILE).exists()


def test_the_command_line_prepares_and_says_what(books, tmp_path):
    done = run(f'--out={tmp_path / "out"}', f'--corpus={books / "0*.txt"}', f'--corpus={books / "10.txt"}',
               f'--valid={books / "1[1-9].txt"}', '--merges=20')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('train: 11 documents, ')
    assert '\nvalid: 9 documents, ' in done.stdout
    assert tokens.read_manifest(tmp_path / 'out')['splits']['train']['documents'] == 11


def test_the_command_line_joins_rows_of_parquet(tmp_path):
    table = pyarrow.table({'body': [f'The cat {i}.' for i in range(60)], 'book': [i // 5 for i in range(60)]})
    pyarrow.parquet.write_table(table, tmp_path / 'a.parquet')
    done = run(f'--out={tmp_path / "out"}', f'--corpus={tmp_path}', '--valid=0.3', '--merges=20', '--text_field=body',
               '--join_by=book', '--join_characters=1000', '--join_with=\n', '--tokenizer_characters=500')
    assert done.returncode == 0, done.stderr
    manifest = tokens.read_manifest(tmp_path / 'out')
    assert sum(entry['documents'] for entry in manifest['splits'].values()) == 12
    assert manifest['inputs']['join'] == r"rows joined by 'book' and up to 1000 characters with '\n'"


def test_the_command_line_reports_a_mistake_in_one_line(tmp_path):
    done = run(f'--out={tmp_path / "out"}', f'--corpus={tmp_path / "absent"}', '--valid=0.1')
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == f'error: {tmp_path / "absent"}: no such file or directory\n'
