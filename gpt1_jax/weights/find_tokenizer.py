"""Finds the vocabulary that belongs to imported weights, in any of the forms it is published in."""
import pathlib

from gpt1_jax import storage
from gpt1_jax.data.published import from_published, from_tokenizer_json
from gpt1_jax.data.tokenizer import MODEL_FILE, SETTINGS_FILE, Tokenizer
from gpt1_jax.errors import UserError, about
from gpt1_jax.weights.names import TOKENIZER

PUBLISHED = (('vocab.json', 'merges.txt'), ('encoder_bpe_40000.json', 'vocab_40000.bpe'))


def find(directory: str | pathlib.Path) -> tuple[Tokenizer, list[pathlib.Path]]:
    """(Tokenizer, the files that were read) of an export of ours, a run, a tokenizer/ of one, or a directory with the
    published vocabulary: vocab.json and merges.txt, the released names, or tokenizer.json.

    UserError where there is none, or it is damaged.
    """
    directory = storage.path(directory)
    with about(directory):
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
    raise UserError(f'{directory}: no vocabulary in it ({TOKENIZER}, vocab.json and merges.txt, or tokenizer.json): '
                    'give --tokenizer=DIR')


def added(directory: str | pathlib.Path, vocab_size: int) -> int:
    """How many tokens the directory's tokenizer.json adds to a vocabulary of this size; 0 where there is none."""
    try:
        found = storage.read_json(storage.path(directory) / 'tokenizer.json')
        return len({token['id'] for token in found['added_tokens'] if token['id'] >= vocab_size})
    except (UserError, KeyError, TypeError):
        return 0
