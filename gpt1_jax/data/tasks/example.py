"""Section 3.3: what every labelled set is read into, whatever its file looks like."""
import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Example:
    """One row, still text.

    id:      unique within its split; written beside each prediction.
    texts:   the parts in order (one: classification, two: entailment or similarity; for multiple choice the context
             that the choices share). Task.segments says between which of them a delimiter token stands.
    choices: multiple choice only: the alternatives for one more segment after `texts`; rows may differ in how many.
    label:   index into the task's labels, or of the right choice; the value itself where the task has a score;
             None where the split is unlabelled.
    """
    id: str
    texts: tuple[str, ...]
    choices: tuple[str, ...] = ()
    label: int | float | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A labelled set: how it is read, which head reads it out, how it is scored.

    head:       'classify', 'similarity' (both orders, Section 3.3) or 'choice'.
    labels:     the label names in index order; for 'choice' the names of the positions; for a score its bins' names,
                or one name where the loss is squared.
    metrics:    names in gpt1_jax.metrics; the first one selects the best parameters.
    splits:     the labelled splits that `read` accepts.
    read:       (directory, split, skipped=None) -> examples; raises UserError naming file, row and cause. With a list
                as `skipped` a bad row's message is appended to it instead, and the row left out. A directory
                'tfds:' or 'tfds:DATA_DIR' reads the prepared TFDS data set in place of the official files.
    files:      (directory, split) -> the paths that `read` opens, whose hashes go into the results.
    unlabelled: splits that `read` accepts too, without labels: GLUE's test sets.
    segments:   how many of the texts make each segment: within one they are laid end to end, between two stands the
                delimiter. () = each text is a segment.
    cut:        index of the text that alone is cut where a row is too long; None = the released rule, each segment to
                its own share.
    score:      (low, high) where labels are values: whole numbers, with a bin each, or any two for the squared loss.
    squared:    a score is one output with a squared loss; else soft labels over the bins, and the expected value is
                the prediction (STS-B).
    positive:   index of the label that F1 counts.
    groups:     first parts of ids ('middle' of 'middle/12.txt/0') whose rows are reported on their own, too.
    n_texts:    how many texts an example has.
    read_file:  (path, skipped=None) -> examples of one file in the layout of the set's own, wherever it is and whether
                or not it has labels, which are not read; errors as of `read`. None where there is no such layout.
    """
    name: str
    head: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    splits: tuple[str, ...]
    read: Callable[..., list[Example]]
    files: Callable[[str, str], list[str]]
    unlabelled: tuple[str, ...] = ()
    segments: tuple[int, ...] = ()
    cut: int | None = None
    score: tuple[float, float] | None = None
    squared: bool = False
    positive: int = 1
    groups: tuple[str, ...] = ()
    n_texts: int = 1
    read_file: Callable[..., list[Example]] | None = None
