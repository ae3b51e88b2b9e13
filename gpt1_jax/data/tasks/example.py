"""Section 3.3: what every labelled set is read into, whatever its file looks like."""
import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Example:
    """One labelled row, still text.

    id:      unique within its split; written beside each prediction.
    texts:   the segments in order; the delimiter token stands between them (one: classification,
             two: entailment or similarity; for multiple choice the context that the choices share).
    choices: multiple choice only: the alternatives for one more segment after `texts`.
    label:   index into the task's labels, or of the right choice; None where the split is unlabelled.
    """
    id: str
    texts: tuple[str, ...]
    choices: tuple[str, ...] = ()
    label: int | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A labelled set: how it is read, which head reads it out, how it is scored.

    head:    'classify', 'similarity' (both orders, Section 3.3) or 'choice'.
    labels:  the label names in index order; for 'choice' the names of the positions.
    metrics: names in gpt1_jax.metrics; the first one selects the best parameters.
    splits:  the labelled splits that `read` accepts.
    read:    (directory, split) -> examples; raises UserError naming file, row and cause.
    files:   (directory, split) -> the paths that `read` opens, whose hashes go into the results.
    """
    name: str
    head: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    splits: tuple[str, ...]
    read: Callable[[str, str], list[Example]]
    files: Callable[[str, str], list[str]]
