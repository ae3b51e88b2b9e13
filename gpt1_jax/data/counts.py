"""Two counts of the training text that a run is compared with. Not in the paper.

Words are the unit of BabyLM's limits: parts between white space, as `wc -w` counts. A prepared
directory's manifest has the words of each split, and an update reads as many words as its tokens
are worth.

The frequencies of the tokens give the loss of a unigram model, which ignores the tokens before. A
language model that stays at this loss has only learned token frequencies: a post-LayerNorm
transformer whose learning rate rose too fast can stay there for good.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from gpt1_jax.data.tokens import TokenStream

SLACK = 0.1  # nats: a loss within this of the unigram model's has not passed it
SAMPLE = 1 << 22  # tokens, in pieces of so many:
PIECE = 1 << 12
LEAST_STEPS = 500  # a short warm-up tells nothing yet about the loss after it


def words_per_step(manifest: dict, tokens_per_step: int) -> float:
    """How many words of the training text an update reads, on average.

    manifest: of tokens.read_manifest. tokens_per_step: batch size times n_ctx.
    """
    train = manifest['splits']['train']
    return tokens_per_step * train['words'] / train['tokens']


def steps_at(counts: Iterable[int], words_per_step: float, total: int) -> dict[int, int]:
    """{step: words} of the first step by which so many words have been read; without those after
    the last step.

    counts: numbers of words. total: steps of the whole training. The larger of two counts in one
    step is kept. The last step also has a count that it misses by less than a step: ten epochs of
    10M words, but for the last partial batch.
    """
    found = {}
    for words in sorted(counts):
        step = math.ceil(words / words_per_step)
        found[total if step == total + 1 else step] = words
    return {step: words for step, words in found.items() if step <= total}


def words_line(steps: dict[int, int], words_per_step: float) -> str:
    """What a run prints of its `steps_at`."""
    kept = ', '.join(f'{label(count)} (update {step:,})' for step, count in steps.items())
    return (
        f'an update reads {words_per_step:,.0f} words on average; '
        f'kept when so many are read: {kept or "none"}'
    )


def label(words: int) -> str:
    """1000000 -> '1M', 100000 -> '100K': as BabyLM names its revisions (chck_1M)."""
    for size, unit in ((10**6, 'M'), (10**3, 'K')):
        if words % size == 0:
            return f'{words // size}{unit}'
    return str(words)


def unigram_loss(stream: TokenStream) -> float:
    """The entropy of a split's token frequencies, in nats a token: what a unigram model of it
    scores on itself. Of a split of more than SAMPLE tokens as many are counted, in evenly spaced
    pieces: within about 0.005 nats."""
    pieces: Iterable[np.ndarray] = stream.shards
    if stream.n_tokens > SAMPLE:
        pieces = (
            stream.window(i, PIECE)[:-1] for i in stream.evenly_spaced(SAMPLE // PIECE, PIECE)
        )
    counts = np.zeros(1 << 16, np.int64)
    for piece in pieces:
        counts += np.bincount(piece, minlength=len(counts))
    frequencies = counts[counts > 0] / counts.sum()
    return float(-np.sum(frequencies * np.log(frequencies)))


def plateau_warning(unigram_loss: float, warmup_steps: int) -> Callable[[int, dict], None]:
    """A function (step, logged values) that prints a warning, once, if the training loss has not
    passed the unigram model's well after the warm-up."""
    warned = False

    def warn(step, values):
        nonlocal warned
        loss = values['loss']
        if warned or step < max(3 * warmup_steps, LEAST_STEPS) or loss < unigram_loss - SLACK:
            return
        warned = True
        print(
            f'warning: at step {step:,} the loss, {loss:.3f}, is still that of a unigram model '
            f'({unigram_loss:.3f}), '
            'which ignores context: if it stays there, start again with a lower '
            'optimizer.peak_rate or a longer '
            'optimizer.warmup_steps',
            flush=True,
        )

    return warn
