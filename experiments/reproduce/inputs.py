"""The input of a job, prepared before it starts: OUT/tokens, the books' shards and tokenizer."""

import dataclasses
import pathlib

from ml_collections import ConfigDict

from experiments.reproduce import plan
from gpt1_jax import pretraining
from gpt1_jax.data import corpus
from gpt1_jax.data import prepare as prepare_lib
from gpt1_jax.errors import UserError
from gpt1_jax.runs import lock
from gpt1_jax.weights import from_hub

HELD_OUT = 0.02  # fraction of a corpus without validation books


def prepare(config: ConfigDict, books: str | None) -> None:
    """Write the shards of the books, with a given pretrained run's tokenizer if there is one.

    config: configs/reproduce.py's, with the paths of a job. books: the program's flag, needed the
    first time. Files that exist in OUT are kept.
    """
    given = plan.given(config)
    if not books:
        if not given and not plan.has_text(config):
            raise UserError('give --books=DIR')
        return
    vocabulary = from_hub.located(config.pretrain).tokenizer
    if given:
        source = f'{config.pretrained}/tokenizer'
        vocabulary = ConfigDict(dict.fromkeys(vocabulary) | {'source': source})
    train, valid = books_of(books, config.books, config.valid_books)
    wanted = dataclasses.replace(
        pretraining.prepare_config(config.pretrain.data, vocabulary), corpus=train, valid=valid
    )
    prepare_lib.prepare(wanted, plan.tokens_of(config), lock.hold)


def books_of(
    books: str | pathlib.Path, limit: int | None = None, valid_limit: int | None = None
) -> tuple[list[str], list[str] | float]:
    """Return (training files, validation files or the fraction to hold out).

    books: a directory with train/ and valid/, another directory, or a pattern. limit, valid_limit:
    the maximum number of files, evenly spaced by name (default: all).
    """

    def spaced(spec, limit):
        files = corpus.expand(spec)
        n = min(limit or len(files), len(files))
        return [files[i * len(files) // n] for i in range(n)]

    train, valid = (pathlib.Path(books) / split for split in ('train', 'valid'))
    if train.is_dir() and valid.is_dir():
        return spaced(train, limit), spaced(valid, valid_limit)
    return spaced(books, limit), HELD_OUT
