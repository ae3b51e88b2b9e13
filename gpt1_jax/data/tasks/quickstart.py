"""Labelled sets of the quickstart: experiments/quickstart/novel_tasks.py makes them from novels and
writes files."""

from gpt1_jax.data.tasks import custom

PRONOUNS = ('he', 'him')


def _set(name, **fields):
    files = {split: f'{name}_{split}.jsonl' for split in ('train', 'dev', 'test')}
    return custom.task(
        {'name': name, 'files': files, 'format': 'jsonl', 'label': 'label', 'id': 'id', **fields}
    )


PRONOUN = _set('pronoun', segments=[['text']], labels=PRONOUNS)
CONTINUATION, WORD_ORDER = (
    _set(name, segments=[['before', 'beginning']], choices=['ending1', 'ending2'], answer='index1')
    for name in ('continuation', 'word_order')
)
