"""The text of trials: is the validation text the same, and how much of it is trained on?"""

import functools
import hashlib

import numpy as np

from gpt1_jax.ablation.ideas import Idea
from gpt1_jax.data import prepared
from gpt1_jax.data.tokenizer import Tokenizer

LENGTH = 13  # tokens: a sequence of validation text that training text has too was seen before


def describe(idea: Idea) -> dict[str, str]:
    """Returns {'digest': of the validation text, 'tokenizer': of the vocabulary}.

    The text is decoded, so it is the same with another vocabulary.
    """
    digest = _digest(idea.text, idea.manifest['digest'])
    return {'digest': digest, 'tokenizer': idea.manifest['tokenizer']}


@functools.cache
def _digest(directory, manifest_digest):
    tokenizer = Tokenizer.load(directory / 'tokenizer')
    text = tokenizer.decode(_ids(directory, 'valid').tolist())
    return hashlib.sha256(' '.join(text.split()).encode()).hexdigest()[:32]


def overlap(idea: Idea) -> float:
    """Returns the share of the validation text's sequences of LENGTH tokens that are in the
    training text."""
    return _overlap(idea.text, idea.manifest['digest'])


@functools.cache
def _overlap(directory, manifest_digest):
    held_out = np.unique(_sequences(_ids(directory, 'valid')))
    seen = np.zeros(len(held_out), bool)
    for shard in prepared.open_split(directory, 'train').shards:
        seen |= np.isin(held_out, _sequences(np.asarray(shard)))
    return float(seen.mean()) if len(seen) else 0.0


def _ids(directory, split):
    return np.concatenate(list(prepared.open_split(directory, split).shards))


def _sequences(ids):
    """A hash of each sequence of LENGTH tokens, uint64[n - LENGTH + 1]."""
    n = max(0, len(ids) - LENGTH + 1)
    hashes = np.zeros(n, np.uint64)
    for place in range(LENGTH):
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes += ids[place : place + n].astype(np.uint64) + np.uint64(1)
        hashes ^= hashes >> np.uint64(29)
    return hashes
