"""Texts encoded before: looked up where spaCy, ftfy and SentencePiece are not installed."""
import subprocess
import sys

import pytest

from gpt1_jax.data import bpe_training, token_cache
from gpt1_jax.data.token_cache import load_tokenizer
from gpt1_jax.errors import UserError

pytestmark = pytest.mark.full

TEXTS = ['The cat sat on the mat.', 'A dog, and\na line break', '', 'naïve — 7']
BARE = """
import sys
for name in ('spacy', 'ftfy', 'sentencepiece'):
    sys.modules[name] = None  # an import of it fails
import importlib.util
importlib.util.find_spec = lambda name, package=None, found=importlib.util.find_spec: (
    None if name == 'sentencepiece' else found(name, package))
from gpt1_jax.data.token_cache import load_tokenizer
made = load_tokenizer(sys.argv[1])
for text in eval(sys.argv[2]):
    print([made.encode(text), made.decode(made.encode(text)), made.fingerprint, made.start_id])
made.encode('never seen')
"""


@pytest.fixture(scope='module')
def own():
    return bpe_training.train(TEXTS * 3, merges=20)


@pytest.fixture
def kept(own, tmp_path):
    own.save(tmp_path)
    recorder = token_cache.Recorder(own)
    assert [recorder.encode(text) for text in TEXTS] == [own.encode(text) for text in TEXTS]
    recorder.save(tmp_path)
    return tmp_path


def test_known_texts_have_their_ids_without_spacy_ftfy_and_sentencepiece(own, kept):
    done = subprocess.run([sys.executable, '-c', BARE, kept, repr(TEXTS)], capture_output=True, text=True)
    wanted = [[own.encode(text), own.decode(own.encode(text)), own.fingerprint, own.start_id] for text in TEXTS]
    assert [eval(line) for line in done.stdout.splitlines()] == wanted
    assert 'ftfy' in done.stderr  # of another text there is no answer


def test_other_texts_are_encoded_as_ever(own, kept):
    loaded = load_tokenizer(kept)
    assert loaded.fingerprint == own.fingerprint and isinstance(loaded, token_cache.CachedTokenizer)
    assert loaded.encode('The mat sat.') == own.encode('The mat sat.')
    assert loaded.cache.get('The mat sat.') is None
    assert loaded.decode(range(own.vocab_size + 3)) == own.decode(range(own.vocab_size + 3))


def test_what_another_tokenizer_knew_is_refused(kept):
    bpe_training.train(TEXTS, merges=10).save(kept)
    with pytest.raises(UserError, match=r'known\.npz: made with another tokenizer'):
        load_tokenizer(kept)


@pytest.mark.parametrize('spoil', [lambda data: data[:200], lambda data: b'', lambda data: data[:50] + data[60:]])
def test_a_damaged_file_is_named(kept, spoil):
    file = kept / token_cache.FILE
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(UserError, match=r'known\.npz: damaged'):
        load_tokenizer(kept)


def test_a_copy_of_the_tokenizer_knows_them_too(kept, tmp_path_factory):
    copy = tmp_path_factory.mktemp('copy')
    load_tokenizer(kept).save(copy)
    assert (copy / token_cache.FILE).read_bytes() == (kept / token_cache.FILE).read_bytes()
