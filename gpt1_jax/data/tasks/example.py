"""Section 3.3: Example and Task, the common form of all labelled sets."""
import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Example:
    """One row, as text.

    id:      unique within its split; written beside each prediction.
    texts:   one for classification, two for entailment or similarity; for multiple choice the context that the choices
             share. A delimiter token is between segments of them, see Task.segments.
    choices: multiple choice only: the candidates for one more segment after `texts`; rows may have different numbers.
    label:   index of the label or of the right choice; for a task with a score the score; None if unlabelled.
    """
    id: str
    texts: tuple[str, ...]
    choices: tuple[str, ...] = ()
    label: int | float | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A labelled set: how it is read, which head the model gets, how predictions are scored.

    head:       'classify', 'similarity' (both orders, Section 3.3) or 'choice'.
    labels:     the label names in index order; for 'choice' the names of the positions; for a score the names of its
                bins, or one name if the loss is squared.
    metrics:    names in gpt1_jax.metrics; the first one selects the best epoch.
    splits:     the labelled splits that `read` accepts.
    read:       (directory, split, on_bad=fail) -> examples. on_bad is called with a message about each bad row, naming
                file, row and cause: errors.fail raises it as a UserError; list.append collects it, and the row is
                skipped. A directory 'tfds:' or 'tfds:DATA_DIR' means prepared TFDS data instead of official files,
                'parquet:DIR' the Hub's Parquet files, 'hf:USER/NAME' the same downloaded.
    files:      (directory, split) -> the paths that `read` opens; their hashes are stored with the results.
    unlabelled: further splits, without labels, that `read` accepts: GLUE's test sets.
    segments:   how many of the texts make up each segment. Texts of a segment are concatenated; the delimiter token
                stands between segments. () = each text is a segment.
    cut:        index of the one text that is truncated in rows that are too long; None = every segment is truncated to
                its share, as in the released code.
    score:      (low, high) if labels are numbers: integers, with one bin each, or any two for the squared loss.
    squared:    True: one output with a squared loss. False: soft labels over the bins, and the expected value is the
                prediction (STS-B).
    positive:   index of the label that F1 counts.
    groups:     first parts of ids ('middle' of 'middle/12.txt/0') whose rows are also reported separately.
    n_texts:    how many texts an example has.
    read_file:  (path, on_bad=fail) -> examples of any one file in the set's layout. Labels are not read and may be
                missing. Errors as in `read`. None if the set has no such layout.
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
