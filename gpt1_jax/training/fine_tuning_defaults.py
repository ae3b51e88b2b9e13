"""Section 4.1: fine-tuning's learning rate, epochs and padded lengths where the config leaves them open.

The paper's values were chosen for 117M parameters and sets of thousands of rows. A smaller model wants a higher rate,
and a few hundred rows are too few updates in three epochs, so both follow a rule that gives the paper's values at its
width and for each of its sets. Measured at width 256: experiments/results.
"""
import math

WIDTH, PEAK_RATE, EPOCHS = 768, 6.25e-5, 3  # the paper's
HIGHEST_RATE = 1e-3
UPDATES = 100                               # fewer are too few for new rows of the embedding and the linear layer
MANY_UPDATES = 300                          # what less padding saves them is about what six more programs cost


def peak_rate(width: int) -> float:
    """The paper's rate, below its width times (768 / width) squared, at most 1e-3. width: of the backbone's states."""
    return min(PEAK_RATE * max(WIDTH / width, 1) ** 2, HIGHEST_RATE)


def epochs(steps_per_epoch: int) -> int:
    """The paper's 3, or as many as make 100 updates."""
    return max(EPOCHS, math.ceil(UPDATES / steps_per_epoch))


def lengths(updates: int) -> int:
    """How many lengths the rows are padded to, at most, for each of which a program is compiled."""
    return 12 if updates >= MANY_UPDATES else 6
