"""Section 3.3: Example and Task, the common form of all labelled sets."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Example:
    """One row, as text.

    id:      unique within its split, and written beside each prediction.
    texts:   one text for classification, two for entailment or similarity. For multiple choice,
             the context that the choices share. A delimiter token separates segments of texts, see
             Task.segments.
    choices: for multiple choice only: the candidates for one more segment after `texts`. Their
             number may differ between rows.
    label:   the index of the label or of the right choice. For a task with a score, the score. None
             if unlabelled.
    record:  {column: value}, as in the file, of a row to predict.
    """

    id: str
    texts: tuple[str, ...]
    choices: tuple[str, ...] = ()
    label: int | float | None = None
    record: dict | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Task:
    """A labelled set: how it is read, which head the model gets, how predictions are scored.

    read:      (directory, split, on_bad=fail) -> examples. on_bad is called with a message about
               each bad row, naming file, row and cause. errors.fail raises it as a UserError.
               list.append collects it, and the row is skipped. A directory 'tfds:' or
               'tfds:DATA_DIR' means prepared TFDS data instead of official files, 'parquet:DIR'
               the Hub's Parquet files, and 'hf:USER/NAME' the same files, downloaded.
    read_file: (path, on_bad=fail, rows=None) -> examples of any single file in the set's layout, or
               of rows as such a file has them. Labels are not read and may be missing. Errors as in
               `read`. None if the set has no such layout.
    """

    name: str
    # 'classify', 'similarity' (both orders, Section 3.3) or 'choice'
    head: str
    # Names in the order of their indices: of labels, of positions ('choice'), of a score's bins.
    # A squared score has one name
    labels: tuple[str, ...]
    # Names in gpt1_jax.metrics. The first selects the best epoch
    metrics: tuple[str, ...]
    splits: tuple[str, ...]  # the labelled splits that `read` accepts
    read: Callable[..., list[Example]]
    # (directory, split) -> the paths that `read` opens, to be hashed
    files: Callable[[str, str], list[str]]
    # Further splits, without labels, that `read` accepts: GLUE's test sets
    unlabelled: tuple[str, ...] = ()
    # How many texts are concatenated to each segment. () = each text is a segment
    segments: tuple[int, ...] = ()
    # Index of the text that is truncated in long rows. None: each segment, to an equal share
    cut: int | None = None
    # (low, high) of labels that are numbers: integers, with one bin each
    score: tuple[float, float] | None = None
    # True: a score of any size, with one output and the squared loss. False: soft labels (STS-B)
    squared: bool = False
    positive: int = 1  # index of the label that F1 counts
    # First parts of ids ('middle' of 'middle/12.txt/0') that are also reported separately
    groups: tuple[str, ...] = ()
    n_texts: int = 1  # how many texts an example has
    columns: tuple[str, ...] = ()  # the columns of texts and choices in a set of config.custom
    read_file: Callable[..., list[Example]] | None = None
