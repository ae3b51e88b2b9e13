"""Two counts of the training text with which a run is compared. Not in the paper.

BabyLM limits the number of words, which are the parts between white space, as `wc -w` counts them.
A prepared directory's manifest has the words of each split. An update reads the words that its
tokens stand for on average.

The frequencies of the tokens give the loss of a unigram model, which ignores the tokens before. A
language model that stays at this loss has only learned token frequencies. A post-LayerNorm
transformer whose learning rate rose too fast can stay there for good.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from gpt1_jax.data.windows import TokenStream

SLACK = 0.1  # nats: a loss this close to the unigram model's has not passed it
SAMPLE = 1 << 22  # tokens, in pieces of so many:
PIECE = 1 << 12
LEAST_STEPS = 500  # after a shorter warm-up the loss tells nothing yet


def words_per_step(manifest: dict, tokens_per_step: int) -> float:
    """The number of words of the training text that an update reads, on average.

    manifest: from prepared.read_manifest. tokens_per_step: batch size times n_ctx.
    """
    train = manifest['splits']['train']
    return tokens_per_step * train['words'] / train['tokens']


def steps_at(counts: Iterable[int], words_per_step: float, total: int) -> dict[int, int]:
    """{step: words} of the first step by which so many words have been read.

    counts: numbers of words. total: steps of the whole training. If two counts fall into one step,
    the larger is kept. Counts after the last step are left out. A count that the last step misses
    by less than a step belongs to the last step: ten epochs of 10M words lack only the last partial
    batch.
    """
    found = {}
    for words in sorted(counts):
        step = math.ceil(words / words_per_step)
        found[total if step == total + 1 else step] = words
    return {step: words for step, words in found.items() if step <= total}


def words_line(steps: dict[int, int], words_per_step: float) -> str:
    """The line that a run prints about its `steps_at`."""
    kept = ', '.join(f'{label(count)} (update {step:,})' for step, count in steps.items())
    return (
        f'an update reads {words_per_step:,.0f} words on average; kept when so many are read: '
        f'{kept or "none"}'
    )


def label(words: int) -> str:
    """1000000 -> '1M', 100000 -> '100K', as BabyLM names its revisions (chck_1M)."""
    for size, unit in ((10**6, 'M'), (10**3, 'K')):
        if words % size == 0:
            return f'{words // size}{unit}'
    return str(words)


def unigram_loss(stream: TokenStream) -> float:
    """The entropy of a split's token frequencies, in nats a token.

    This is the loss of a unigram model on the text that it was learned from. Of a longer split only
    SAMPLE tokens are counted, in evenly spaced pieces; the result is then within about 0.005 nats.
    """
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
    """Returns a function (step, logged values) that warns once about a loss on a plateau.

    The function prints the warning if, well after the warm-up, the training loss has not passed the
    unigram model's.
    """
    warned = False

    def warn(step, values):
        nonlocal warned
        loss = values['loss']
        if warned or step < max(3 * warmup_steps, LEAST_STEPS) or loss < unigram_loss - SLACK:
            return
        warned = True
        print(
            f'warning: at step {step:,} the loss, {loss:.3f}, is still that of a unigram model '
            f'({unigram_loss:.3f}), which ignores context: if it stays there, start again with a '
            'lower optimizer.peak_rate or a longer optimizer.warmup_steps',
            flush=True,
        )

    return warn
