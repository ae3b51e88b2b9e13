"""Section 3.3: Example and Task, the common form of all labelled sets.

A Task has a source of rows for each split and a function that makes an Example of a row. `collect`
applies the function and names bad rows, whatever the set and its source.
"""

import collections
import dataclasses
import functools
import os
import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from gpt1_jax import storage
from gpt1_jax.data.files import say_once
from gpt1_jax.data.rows import Bad, Row
from gpt1_jax.errors import UserError, did_you_mean, fail, one_line, shown


class LeftOut(UserError):
    """The fault of a row that every user of the set leaves out.

    The row is skipped without an error, and counted for a message.
    """


@dataclasses.dataclass(frozen=True, slots=True)  # 100 bytes a row less
class Example:
    """One row, as text.

    id:      unique within its split, and written beside each prediction. '' for the row's position.
    texts:   one text for classification, two for entailment or similarity. For multiple choice,
             the context that the choices share. A delimiter token separates segments of texts, see
             Task.segments.
    choices: for multiple choice only: the candidates for one more segment after `texts`. Their
             number may differ between rows.
    label:   the index of the label or of the right choice, its name, or the text of the right
             choice. For a task with a score, the score. None or '' if unlabelled. `Task.read`
             gives the index, the score or None.
    record:  {column: value}, as in the file, of a row to predict.
    """

    id: str
    texts: tuple[str, ...]
    choices: tuple[str, ...] = ()
    label: Any = None  # int, float, str or None
    record: dict | None = dataclasses.field(default=None, compare=False)


class Source(Hashable, Protocol):
    """Where the rows of a split are."""

    @property
    def published(self) -> tuple[int, ...]:
        """The expected numbers of rows, () if they are not known."""
        ...

    def files(self, directory: str) -> list[str]:
        """The files of the rows. UserError if there are none."""
        ...

    def rows(self, directory: str) -> Iterable[Row | Bad]: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A labelled set: its sources, which head the model gets, how predictions are scored.

    `directory` means official files. 'tfds:' or 'tfds:DATA_DIR' means prepared TFDS data instead,
    'parquet:DIR' the Hub's Parquet files, and 'hf:USER/NAME' the same files, downloaded.
    """

    name: str
    # 'classify', 'similarity' (both orders, Section 3.3) or 'choice'
    head: str
    # Names in the order of their indices: of labels, of positions ('choice'), of a score's bins.
    # A squared score has one name
    labels: tuple[str, ...]
    # Names in gpt1_jax.metrics. The first selects the best epoch
    metrics: tuple[str, ...]
    sources: Mapping[str, Source]  # {split: its source}
    example: Callable[[Any], Example | Iterable[Example]]  # a row's fields -> its Examples
    # Splits without labels: GLUE's test sets
    unlabelled: tuple[str, ...] = ()
    # The rows of any single file in the set's layout, to predict. None if the set has no such file
    new: Callable[[str], Iterable[Row | Bad]] | None = None
    # How many texts are concatenated to each segment. () = each text is a segment
    segments: tuple[int, ...] = ()
    # Index of the text that is truncated in long rows. None: each segment, to an equal share
    cut: int | None = None
    # (low, high) of labels that are numbers: integers, with one bin each
    score: tuple[float, float] | None = None
    positive: int = 1  # index of the label that F1 counts
    # First parts of ids ('middle' of 'middle/12.txt/0') that are also reported separately
    groups: tuple[str, ...] = ()
    n_texts: int = 1  # how many texts an example has
    decimals: int | None = None  # to which a score is rounded
    leave_out_unlabelled: bool = False  # rows without a label do not belong to the set (SNLI)
    columns: tuple[str, ...] = ()  # of texts and choices in a user's table
    # If train and dev have the same file: the share of its rows that is dev, and their seed
    dev_fraction: float = 0.0
    dev_seed: int = 0

    @property
    def squared(self) -> bool:
        """Whether a score has one output and the squared loss. Otherwise it has soft labels."""
        return self.score is not None and len(self.labels) == 1

    @property
    def splits(self) -> tuple[str, ...]:
        """The labelled splits."""
        return tuple(split for split in self.sources if split not in self.unlabelled)

    def files(self, directory: str | os.PathLike, split: str) -> list[str]:
        """The paths that `read` opens, to be hashed. UserError as in `read`."""
        return self.source(split).files(os.path.expanduser(directory))

    def read(
        self, directory: str | os.PathLike, split: str, on_bad: Callable[[str], Any] = fail
    ) -> list[Example]:
        """The examples of a split, in order. A file that was just read is not read again.

        on_bad: called with a message about each bad row, naming file, row and cause. If it returns,
        as list.append, the row is skipped. UserError if there is no such split or no row is left.
        """
        source = self.source(split)
        directory = os.path.expanduser(directory)
        files = source.files(directory)
        shared = self.dev_fraction and all(
            self.files(directory, name) == files for name in ('train', 'dev')
        )
        # The same source, so that the file is read once
        of_file = self.sources['train'] if shared else source
        found = kept(of_file, directory, self.example)
        where = files[0] if len(files) == 1 else directory
        what = f'{where} ({self.name} {split})'
        labelled = split not in self.unlabelled
        examples = self._checked(found, what, labelled, on_bad, source.published)
        return self._part(examples, split, files[0]) if shared else examples

    def read_new(
        self,
        rows: Iterable[Row | Bad],
        what: str,
        on_bad: Callable[[str], Any] = fail,
        example: Callable[[Any], Example] | None = None,
    ) -> list[Example]:
        """The unlabelled examples of rows to predict. Their fields become Example.record.

        Labels are not read and may be missing. example: in place of the task's. Errors as in
        `read`.
        """
        found = made(rows, example or self.example, keep=True)
        return self._checked(found, what, False, on_bad)

    def source(self, split: str) -> Source:
        """The source of a split. UserError if there is no such split."""
        if split not in self.sources:
            raise UserError(
                f'{self.name} has no split {split!r}{did_you_mean(split, self.sources)} (there are '
                f'{", ".join(self.sources)})'
            )
        return self.sources[split]

    def _checked(self, found, what, labelled, on_bad, published=()):
        """The valid Examples of [(where, Example or fault)]."""
        examples: dict[str, Example] = {}
        bad = []
        left_out = []
        for where, example in found:
            try:
                if isinstance(example, UserError):
                    raise example
                example = self.valid(example, labelled)
                if example.id in examples:
                    raise UserError(f'duplicate id {example.id!r}')
                examples[example.id] = example
            except LeftOut as fault:
                left_out.append(one_line(f'{where}: {fault}'))
            except UserError as fault:
                bad.append(one_line(f'{where}: {fault}'))
                on_bad(bad[-1])
        if left_out:
            say_once(
                one_line(f'{what}: {len(left_out):,} row(s) left out, the first: {left_out[0]}')
            )
        if not examples:
            about = f'all {len(bad)} rows are bad, the first: {bad[0]}' if bad else 'no rows'
            raise UserError(f'{what}: {about}')
        n = len(examples) + len(bad)
        if any(published) and n not in published:
            # Part of a set is usable
            message = f'{what}: {n:,} rows, the published set has {published[0]:,}'
            warnings.warn(one_line(message), stacklevel=4)
        return list(examples.values())

    def valid(self, example: Example, labelled: bool) -> Example:
        """An Example with its label as index or score. UserError for its fault."""
        texts = (*example.texts, *example.choices)
        if len(example.texts) != self.n_texts:
            raise UserError(
                f'{len(example.texts)} texts, expected {self.n_texts} (n_texts of the task)'
            )
        if not all(isinstance(text, str) for text in texts) or not ''.join(texts).strip():
            raise UserError(
                f'texts and choices are {shown(texts)}, must be texts that are not empty'
            )
        if self.head == 'choice' and not 2 <= len(example.choices) <= len(self.labels):
            raise UserError(f'{len(example.choices)} choices, expected 2 to {len(self.labels)}')
        for number, choice in enumerate(example.choices, 1):
            if not choice.strip():
                raise UserError(f'choice {number} is empty')
        label = self._label(example) if labelled else None
        return Example(example.id, example.texts, example.choices, label, example.record)

    def _label(self, example):
        label = example.label
        if label is None or label == '' or label != label:
            raise LeftOut('no label') if self.leave_out_unlabelled else UserError('no label')
        if self.score:
            return self._score(label)
        n = len(example.choices) if self.head == 'choice' else len(self.labels)
        if isinstance(label, str):
            names = self.labels[:n]
            for name in (label, label_name(label), label.upper()):
                if name in names:
                    return names.index(name)
            if example.choices.count(label) != 1:
                raise UserError(f'label {shown(label)} is not one of {", ".join(names)}')
            return example.choices.index(label)
        if isinstance(label, (list, tuple, set)):
            raise UserError(f'label is {shown(label)}: {SEVERAL}')
        if not isinstance(label, int) or not 0 <= label < n:
            hint = ''
            if isinstance(label, float):
                hint = '; of a score, declare its limits: score=(LOW, HIGH), labels=()'
            raise UserError(
                f'label is {shown(label)}, must be a name in labels or an index below {n}{hint}'
            )
        return label

    def _score(self, label):
        low, high = self.score
        try:
            number = float(label)
        except (TypeError, ValueError):
            raise UserError(f'label {shown(label)} is not a number') from None
        if not low <= number <= high:
            raise UserError(f'label is {label}, must be a number from {low:g} to {high:g}')
        return number if self.decimals is None else round(number, self.decimals)

    def _part(self, examples, split, path):
        """The examples of a split if dev is a part of the training file.

        Of the n rows with each label (for a score or choices, of all rows) round(dev_fraction * n)
        are dev, at least one. A label with a single row has no dev row. Dev rows have the smallest
        hashes of (dev_seed, texts, choices), whatever the order. Rows with equal text stay
        together.
        """
        hashes = [
            storage.json_digest([self.dev_seed, example.texts, example.choices])
            for example in examples
        ]
        groups = collections.defaultdict(list)
        for example, hashed in zip(examples, hashes):
            by_label = self.head != 'choice' and not self.score
            groups[example.label if by_label else None].append(hashed)
        chosen = set()
        for group in groups.values():
            n = max(1, round(self.dev_fraction * len(group)))
            if len(group) > 1 or len(groups) == 1:
                chosen.update(sorted(group)[:n])
        parts: dict[bool, list[Example]] = {True: [], False: []}
        for example, hashed in zip(examples, hashes):
            parts[hashed in chosen].append(example)
        if not parts[True] or not parts[False]:
            raise UserError(
                f'{path}: {len(examples)} rows leave none for {"train" if parts[True] else "dev"}, '
                f'of which dev takes {self.dev_fraction:g}: give more rows, or a file for dev'
            )
        return parts[split == 'dev']


SEVERAL = 'a row has several labels; one label a row is supported'


def label_name(text: str) -> str:
    """The form of a label for comparisons: a whole number has no decimals, so 1.0 becomes 1."""
    found = re.fullmatch(r'(-?\d+)\.0+', text)
    return found[1] if found else text


def kept(
    source: Source, directory: str, example: Callable[[Any], Any]
) -> list[tuple[str, Example | UserError]]:
    """[(where, Example or fault)] of a source's rows.

    The last result is kept while the files have their times and sizes, so that labels, training,
    dev and scoring read a table once.
    """
    state = tuple((path, file_state(path)) for path in source.files(directory))
    return _kept(source, directory, example, state)


@functools.lru_cache(maxsize=1)
def _kept(source, directory, example, state):
    return list(made(source.rows(directory), example))


def file_state(path: str) -> Any:
    """A value that changes when the file does."""
    if storage.remote(path):
        return storage.generation(path)
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def made(
    rows: Iterable[Row | Bad], example: Callable[[Any], Any], keep: bool = False
) -> Iterator[tuple[str, Example | UserError]]:
    """Yields (where, Example or the fault because of which there is none) of rows, in order.

    An Example without an id is called by its position. Bad rows count, so that the ids of other
    rows do not depend on them.
    keep: whether the fields become Example.record.
    """
    position = 0
    for row in rows:
        found: list[Example] = []
        try:
            if isinstance(row, Bad):
                raise (LeftOut if row.left_out else UserError)(row.why)
            given = example(row.fields)
            found = [given] if isinstance(given, Example) else list(given)
        except UserError as fault:
            yield row.where, fault.with_traceback(None)
        else:
            for number, one in enumerate(found):
                where = row.where
                if len(found) > 1:
                    where = f'{row.where}: example {number + 1}'
                fields = row.fields if isinstance(row.fields, dict) else {'record': row.fields}
                name = one.id or row.id or str(position + number)
                record = fields if keep else None
                yield where, Example(name, one.texts, one.choices, one.label, record)
        position += max(1, len(found))
