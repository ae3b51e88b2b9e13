"""The vocabulary that belongs to weights from elsewhere: where it may lie, in which form."""
import json

from gpt1_jax import storage
from gpt1_jax.data.published import from_published, from_tokenizer_json
from gpt1_jax.data.tokenizer import MODEL_FILE, SETTINGS_FILE, Tokenizer
from gpt1_jax.errors import UserError, about

OURS = 'gpt1_jax/tokenizer'  # in an export: as we read it, beside Hugging Face's tokenizer.json
PUBLISHED = (('vocab.json', 'merges.txt'), ('encoder_bpe_40000.json', 'vocab_40000.bpe'))


def find(directory):
    """(Tokenizer, the files that were read) of an export of ours, a run, a tokenizer/ of one, or a directory with the
    published vocabulary: vocab.json and merges.txt, the released names, or tokenizer.json.

    UserError where there is none, or it is damaged.
    """
    directory = storage.path(directory)
    with about(directory):
        for place in (directory / OURS, directory / 'tokenizer', directory):
            if (place / MODEL_FILE).is_file():
                return Tokenizer.load(place), [place / MODEL_FILE, place / SETTINGS_FILE]
        for names in PUBLISHED:
            files = [directory / name for name in names]
            if all(file.is_file() for file in files):
                return from_published(*files), files
        file = directory / 'tokenizer.json'
        if file.is_file():
            return from_tokenizer_json(file), [file]
    raise UserError(f'{directory}: no vocabulary in it ({OURS}, vocab.json and merges.txt, or tokenizer.json): '
                    'give --tokenizer=DIR')


def added(directory, rows):
    """How many tokens a tokenizer.json, where there is one, adds to a vocabulary of so many rows."""
    try:
        found = json.loads((storage.path(directory) / 'tokenizer.json').read_text('utf-8'))
        return len({token['id'] for token in found['added_tokens'] if token['id'] >= rows})
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return 0
