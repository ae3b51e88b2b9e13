"""Section 3.3: Example and Task, the common form of all labelled sets."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Example:
    """One row, as text.

    id:      unique within its split; written beside each prediction.
    texts:   one for classification, two for entailment or similarity; for multiple choice the
             context that the choices share. A delimiter token is between segments of them, see
             Task.segments.
    choices: multiple choice only: the candidates for one more segment after `texts`; rows may have
    different numbers.
    label:   index of the label or of the right choice; for a task with a score the score; None if
             unlabelled.
    record:  {column: value}, as the file has it, of a row to predict.
    """

    id: str
    texts: tuple[str, ...]
    choices: tuple[str, ...] = ()
    label: int | float | None = None
    record: dict | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Task:
    """A labelled set: how it is read, which head the model gets, how predictions are scored.

    read: (directory, split, on_bad=fail) -> examples. on_bad is called with a message about each
    bad row, naming file,
    row and cause: errors.fail raises it as a UserError; list.append collects it, and the row is
    skipped. A directory 'tfds:' or 'tfds:DATA_DIR' means prepared TFDS data instead of official
    files, 'parquet:DIR' the Hub's Parquet files, 'hf:USER/NAME' the same downloaded.
    read_file: (path, on_bad=fail, rows=None) -> examples of any one file in the set's layout, or of
    the rows that it would hold. Labels are not read and may be missing. Errors as in `read`. None
    if the set has no such layout.
    """

    name: str
    # 'classify', 'similarity' (both orders, Section 3.3) or 'choice'
    head: str
    # In index order: names; of 'choice' the positions'; of a score its bins', or one
    labels: tuple[str, ...]
    # Names in gpt1_jax.metrics; the first one selects the best epoch
    metrics: tuple[str, ...]
    splits: tuple[str, ...]  # the labelled splits that `read` accepts
    read: Callable[..., list[Example]]
    # (directory, split) -> the paths that `read` opens, to be hashed
    files: Callable[[str, str], list[str]]
    # Further splits, without labels, that `read` accepts: GLUE's test sets
    unlabelled: tuple[str, ...] = ()
    # How many texts are concatenated to each segment; () = each text is a segment
    segments: tuple[int, ...] = ()
    # Index of the text that is truncated in long rows; None: each segment to its share
    cut: int | None = None
    # (low, high) of labels that are numbers: integers, with one bin each
    score: tuple[float, float] | None = None
    # A score of any size: one output and the squared loss; else soft labels (STS-B)
    squared: bool = False
    positive: int = 1  # index of the label that F1 counts
    # First parts of ids ('middle' of 'middle/12.txt/0') that are also reported alone
    groups: tuple[str, ...] = ()
    n_texts: int = 1  # how many texts an example has
    columns: tuple[str, ...] = ()  # of the texts and choices of a set of one's own
    read_file: Callable[..., list[Example]] | None = None
