"""Training text in words, the unit of BabyLM's limits: what white space separates, as `wc -w` counts. Not in the paper.

A prepared directory's manifest has the words of each split; an update reads as many of them as its tokens are worth.
"""
import math
from collections.abc import Iterable


def per_step(manifest: dict, tokens_per_step: int) -> float:
    """How many words of the training text an update reads, on average.

    manifest: of tokens.read_manifest. tokens_per_step: batch size times n_ctx.
    """
    train = manifest['splits']['train']
    return tokens_per_step * train['words'] / train['tokens']


def steps_at(counts: Iterable[int], words_per_step: float, total: int) -> dict[int, int]:
    """{step: words} of the first step by which so many words have been read; without those after the last step.

    counts: numbers of words. total: steps of the whole training. The larger of two counts in one step is kept. The last
    step also has a count that it misses by less than a step: ten epochs of 10M words, but for the last partial batch.
    """
    found = {}
    for words in sorted(counts):
        step = math.ceil(words / words_per_step)
        found[total if step == total + 1 else step] = words
    return {step: words for step, words in found.items() if step <= total}


def line(steps: dict[int, int], words_per_step: float) -> str:
    """What a run prints of its `steps_at`."""
    kept = ', '.join(f'{label(count)} (update {step:,})' for step, count in steps.items())
    return f'an update reads {words_per_step:,.0f} words on average; kept when so many are read: {kept or "none"}'


def label(words: int) -> str:
    """1000000 -> '1M', 100000 -> '100K': as BabyLM names its revisions (chck_1M)."""
    for size, unit in ((10 ** 6, 'M'), (10 ** 3, 'K')):
        if words % size == 0:
            return f'{words // size}{unit}'
    return str(words)
