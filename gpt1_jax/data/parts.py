"""Section 4.1: divides a corpus among machines. Part I of N is a contiguous slice of its files, by
size.

Parquet files are divided by row group. Documents never cross parts, so the token streams of all
parts, one after the other, are the stream of the whole corpus. The division depends only on the
names, order and sizes of the files.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from gpt1_jax import storage
from gpt1_jax.data import files
from gpt1_jax.data.readers import parquet
from gpt1_jax.errors import UserError

# The number of a process in an indexed Job of Kubernetes and in a SLURM array
KUBERNETES = 'JOB_COMPLETION_INDEX'
SLURM = 'SLURM_ARRAY_TASK_ID'


@dataclasses.dataclass(frozen=True)
class Part:
    """Part `index`, from 0, of `count`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f'{self.index}/{self.count}'

    @property
    def name(self) -> str:
        """The part's directory inside the prepared directory."""
        return f'part-{self.index:05d}-of-{self.count:05d}'


def parse(text: str | None, environment: Mapping[str, str] = os.environ) -> Part | None:
    """'I/N' -> Part(I, N), None -> None. '/N' takes I from KUBERNETES or SLURM.

    UserError for any other text, if I is not below N, and if KUBERNETES is set without a part:
    each pod of an indexed Job would prepare the whole corpus.
    """
    if text is None:
        if environment.get(KUBERNETES):
            raise UserError(
                f'{KUBERNETES} is set, but not --part: give --part=/N, N the completions of the '
                f'Job; or unset {KUBERNETES} to prepare the whole corpus here'
            )
        return None
    match = re.fullmatch(r'(\d{0,9})/(\d{1,9})', text)
    if not match:
        raise UserError(
            f'--part={text}: must be I/N, part I (from 0) of N, or /N with I from {KUBERNETES} or '
            f'{SLURM}'
        )
    index = match[1] or environment.get(KUBERNETES) or environment.get(SLURM, '')
    if not index.isdecimal() or not int(index) < int(match[2]):
        raise UserError(
            f'--part={text}: the part is {index or "not set"}, must be from 0 to '
            f'{int(match[2]) - 1}'
        )
    return Part(int(index), int(match[2]))


def slices(
    sources: Sequence[str], part: Part | None, whole_files: bool = False
) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """Yields the part's (source, numbers of its row groups, or None for all of it), in order.

    A file, or a row group, belongs to the part in which its middle byte lies.
    sources:     files, in order.
    part:        None gives all sources.
    whole_files: do not divide Parquet files, because documents span their row groups.
    UserError if a file cannot be read.
    """
    if part is None:
        yield from ((source, None) for source in sources)
        return
    sizes = [storage.size(source) for source in sources]
    total = max(1, sum(sizes))

    # The part in which a byte of the corpus lies. The argument is two times its position, because
    # the middle of a file may be half a byte
    def part_of(twice):
        return min(part.count - 1, twice * part.count // (2 * total))

    start = 0
    for source, size in zip(sources, sizes):
        first = part_of(2 * start)
        last = part_of(2 * (start + size) - 1)
        if first >= last or whole_files or files.kind(source) != 'parquet':
            if part_of(2 * start + size) == part.index:
                yield source, None
        elif first <= part.index <= last:
            groups = parquet.row_group_sizes(source)
            whole = max(1, sum(groups))
            middles = (2 * end - own for own, end in zip(groups, itertools.accumulate(groups)))
            chosen = tuple(
                number
                for number, middle in enumerate(middles)
                if min(last, part_of(2 * start + middle * size // whole)) == part.index
            )
            if chosen:
                yield source, chosen
        start += size
