"""Finds the vocabulary of imported weights, in any of its published forms."""
import pathlib

from gpt1_jax import storage
from gpt1_jax.data.published import from_published, from_tokenizer_json
from gpt1_jax.data.tokenizer import MODEL_FILE, SETTINGS_FILE, Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.weights.names import TOKENIZER

PUBLISHED = (('vocab.json', 'merges.txt'), ('encoder_bpe_40000.json', 'vocab_40000.bpe'))


def find(directory: storage.Path) -> tuple[Tokenizer, list[pathlib.Path]]:
    """(Tokenizer, the files that were read) of an export of ours, a run, its tokenizer/, or a directory with the
    published vocabulary: vocab.json and merges.txt, the released names, or tokenizer.json. UserError without any.
    """
    for place in (directory / TOKENIZER, directory / 'tokenizer', directory):
        if (place / MODEL_FILE).is_file():
            return Tokenizer.load(place), [place / MODEL_FILE, place / SETTINGS_FILE]
    for names in PUBLISHED:
        files = [directory / name for name in names]
        if all(file.is_file() for file in files):
            return from_published(*files), files
    file = directory / 'tokenizer.json'
    if file.is_file():
        return from_tokenizer_json(file), [file]
    raise UserError(f'{directory}: no vocabulary ({TOKENIZER}, vocab.json and merges.txt, or tokenizer.json): give '
                    '--tokenizer=DIR')


def added(directory: storage.Path, vocab_size: int) -> int:
    """How many tokens the directory's tokenizer.json adds to a vocabulary of this size; 0 without such a file."""
    try:
        content = storage.read_json(directory / 'tokenizer.json')
        return len({token['id'] for token in content['added_tokens'] if token['id'] >= vocab_size})
    except (OSError, UserError, KeyError, TypeError):
        return 0
