"""The loss of a unigram model, which knows how often each token occurs and nothing of the tokens before it.

Not in the paper. A language model that stays at this loss has learned token frequencies alone: a post-LayerNorm
transformer whose learning rate rose too fast can stay there for good.
"""
from collections.abc import Callable, Iterable

import numpy as np

from gpt1_jax.data.tokens import TokenStream

SLACK = 0.1        # nats: a loss within this of the unigram model's has not passed it
SAMPLE, PIECE = 1 << 22, 1 << 12  # tokens
LEAST_STEPS = 500  # a short warm-up tells nothing yet about the loss after it


def unigram_loss(stream: TokenStream) -> float:
    """The entropy of a split's token frequencies, in nats a token: what a unigram model of it scores on itself. Of a
    split of more than SAMPLE tokens as many are counted, in evenly spaced pieces: within about 0.005 nats."""
    pieces: Iterable[np.ndarray] = stream.shards
    if stream.n_tokens > SAMPLE:
        pieces = (stream.window(i, PIECE)[:-1] for i in stream.evenly_spaced(SAMPLE // PIECE, PIECE))
    counts = np.zeros(1 << 16, np.int64)
    for piece in pieces:
        counts += np.bincount(piece, minlength=len(counts))
    frequencies = counts[counts > 0] / counts.sum()
    return float(-np.sum(frequencies * np.log(frequencies)))


def plateau_warning(unigram_loss: float, warmup_steps: int) -> Callable[[int, dict], None]:
    """A function (step, logged values) that prints a warning, once, if the training loss has not passed the unigram
    model's well after the warm-up."""
    warned = False

    def warn(step, values):
        nonlocal warned
        loss = values['loss']
        if warned or step < max(3 * warmup_steps, LEAST_STEPS) or loss < unigram_loss - SLACK:
            return
        warned = True
        print(f'warning: at step {step:,} the loss, {loss:.3f}, is still that of a unigram model ({unigram_loss:.3f}), '
              'which ignores context: if it stays there, start again with a lower optimizer.peak_rate or a longer '
              'optimizer.warmup_steps', flush=True)
    return warn
