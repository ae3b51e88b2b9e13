"""Where the rows of a published set are: in its official files, in TFDS, or in the Hugging Face
Hub's Parquet files (nyu-mll/glue, stanfordnlp/snli, ...).

    DIRECTORY            official files, else Parquet files
    tfds:DIRECTORY       TFDS's data directory; tfds: is its default
    parquet:DIRECTORY    a data set's directory, as it is downloaded, or the directory of one
                         configuration in it
    hf:USER/NAME         the Hub's data set itself, or one revision of it: hf:USER/NAME@REVISION

A source gives columns and labels the names that they have in the official files, so a task does not
know where its rows come from.
"""

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping

from gpt1_jax.data import files as files_lib
from gpt1_jax.data import hub, readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.readers import tfds
from gpt1_jax.data.rows import Bad, How, Row
from gpt1_jax.errors import UserError

PARQUET = 'parquet:'
# {TFDS's name: the Hub's name} of configurations and splits. Other names are the same. SciTail's
# tsv_format lost 499 rows to quotes.
CONFIGS = {
    'snli': 'plain_text',
    'sci_tail': 'snli_format',
    'definite_pronoun_resolution': 'plain_text',
}
SPLITS = {'dev': 'validation'}
SHARD = rf'.*{files_lib.OF_SHARDS}\.parquet'


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """The places of one split. In TFDS and on the Hub a row has the columns `needed`."""

    names: tuple[str, ...]  # in the directory, or patterns of one file. The first that exists
    needed: tuple[str, ...] = ()  # the columns of the official files that are read
    # The published number, without rows that are left out, and that of another release or of TFDS
    published: tuple[int, ...] = ()
    tfds: tuple[str, ...] = ()  # 'builder/config:split', in order. () if TFDS lacks the split
    hub: tuple[str, ...] | None = None  # the same on the Hub, by default `tfds`
    columns: tuple[str, ...] = ()  # of an official file that may have no header
    # The official column of ids. None: ids are positions in the file, from 0
    ids: str | None = None
    # Leave out rows that lack a needed column, as QQP's cut rows do
    leave_out_short: bool = False
    quoted: bool = False  # whether official tables have CSV quoting. GLUE's have none
    # {official name: name in TFDS and on the Hub, or only on the Hub} if the names differ
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    renamed_on_hub: Mapping[str, str] | None = None
    label: str | None = None  # the column that has class names, if the split is labelled
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)  # {class name: our label}
    # The feature with a row's position in the official file, and its id unless `renumber`
    index: str | None = None
    renumber: bool = False
    part: Callable[[list], list] | None = None  # selects rows of the file (Story Cloze)
    # Instead of a table: (directory, source) -> paths; paths -> rows; rows of a library -> rows
    find: Callable[[str, 'Published'], list[str]] | None = None
    official: Callable[[list[str]], Iterable[Row | Bad]] | None = None
    typed: Callable[[Iterable[Row]], Iterable[Row | Bad]] | None = None

    def files(self, directory: str) -> list[str]:
        return self._opened(directory)[0]

    def rows(self, directory: str) -> Iterable[Row | Bad]:
        found = self._opened(directory)[1]
        return found if self.part is None else self.part(list(found))

    def new(self, path: str) -> Iterable[Row | Bad]:
        """The rows of another file in this layout. Only the columns of the texts must be there."""
        if self.official:
            yield from self.official([path])
            return
        needed = tuple(name for name in self.needed if name != self.label)
        yield from self._table(path, How(needed, rest=True))

    def _opened(self, directory):
        """(paths, rows). Parquet files are read if the directory has no official files."""
        if directory.startswith(tfds.PREFIX):
            return self._in_tfds(directory.removeprefix(tfds.PREFIX))
        if not directory.startswith((PARQUET, hub.PREFIX)):
            try:
                paths = self.find(directory, self) if self.find else [find(directory, self)]
                if self.official:
                    return paths, self.official(paths)
                return paths, self._table(paths[0], How(self.needed))
            except UserError:
                if not any(pathlib.Path(directory).rglob('*.parquet')):
                    raise
        if self.hub == ():
            raise UserError(f'{directory}: the set has no Parquet files: give its own files')
        both = (self.hub or (), self.tfds)
        found = ([name for name in names if on_hub(directory, name)] for names in both)
        names = next(filter(None, found), self.hub or self.tfds)
        paths = [path for name in names for path in parquet_files(directory, name)]
        renamed = self.renamed if self.renamed_on_hub is None else self.renamed_on_hub
        how = How(self._theirs(renamed))
        rows = itertools.chain.from_iterable(readers.rows(path, how) for path in paths)
        return paths, self._ours(rows, renamed)

    def _in_tfds(self, directory):
        if not self.tfds:
            raise UserError(f'tfds:{directory}: TFDS does not have {self.names[0]}')
        places = [name.split(':') for name in self.tfds]
        paths = [path for place in places for path in tfds.files(directory, *place)]
        how = How(self._theirs(self.renamed))
        rows = (tfds.records(directory, *place, how) for place in places)
        return paths, self._ours(itertools.chain.from_iterable(rows), self.renamed)

    def _table(self, path, how):
        """The rows of an official table."""
        needed = how.needed + ((self.ids,) if self.ids and not how.rest else ())
        kind = files_lib.kind(path)
        if kind in ('txt', 'csv', None):
            kind = 'tsv'
        how = dataclasses.replace(
            how,
            needed=needed,
            columns=self.columns,
            quoted=self.quoted,
            separator=',' if self.quoted else '\t',
        )
        for row in readers.rows(path, how, kind):
            if isinstance(row, Row) and self.ids and isinstance(row.fields, dict):
                value = row.fields.get(self.ids)
                row = row._replace(id=rows_lib.of_cell(value))
            if isinstance(row, Bad):
                row = row._replace(left_out=self.leave_out_short)
            yield row

    def _theirs(self, renamed):
        if self.typed:
            return ()
        index = (self.index,) if self.index else ()
        return tuple(renamed.get(name, name) for name in self.needed) + index

    def _ours(self, rows, renamed):
        """The rows with the official names, in the order of the index."""
        if self.typed:
            yield from self.typed(rows)
            return
        if self.index:
            rows = sorted(rows, key=lambda row: isinstance(row, Row) and row.fields[self.index])
        for row in rows:
            if isinstance(row, Bad):
                yield row
                continue
            fields = {name: row.fields[renamed.get(name, name)] for name in self.needed}
            if self.label and self.classes:
                value = fields[self.label]
                if isinstance(value, int):
                    names = ', '.join(dict.fromkeys(self.classes))
                    yield Bad(
                        row.where,
                        f'what the number {value} in {renamed.get(self.label, self.label)} means '
                        "is unknown: the schema's metadata 'huggingface' names no labels "
                        f'(expected: {names})',
                    )
                    continue
                fields[self.label] = self.classes.get(value, value)
            ours = '' if self.renumber or not self.index else str(row.fields[self.index])
            yield Row(row.where, fields, ours)


def find(directory: str, source: Published) -> str:
    """The single official file of a split.

    UserError if none of its names exists, or if a pattern matches several files.
    """
    for name in source.names:
        path = pathlib.Path(directory) / name
        found = [path] if path.exists() else sorted(pathlib.Path(directory).glob(name))
        if len(found) > 1:
            raise UserError(f'{directory}: {len(found)} files match {name}, expected one')
        if found:
            return str(found[0])
    first, *others = source.names
    also = f' (nor {", ".join(others)})' if others else ''
    raise UserError(f'{pathlib.Path(directory) / first}: no such file{also}')


# The Hub's files


def parquet_files(directory: str, source: str) -> list[str]:
    """The files of 'builder/config:split' (TFDS's name) in order.

    UserError if there are none, or if they are not all shards of one version.
    """
    found = on_hub(directory, source)
    if not found:
        config, split = _place(source)
        raise UserError(
            f'{directory}: no Parquet file of {config} {split}, such as '
            f'{config}/{split}-00000-of-00001.parquet'
        )
    shards = [shard for path in found if (shard := re.fullmatch(SHARD, path.name))]
    if len(shards) == len(found):  # else they are named in another way
        total = int(shards[0][2])
        if sorted(int(shard[1]) for shard in shards) != list(range(total)):
            raise UserError(
                f'{found[0].parent}: {len(shards)} files of a split in {total} shard(s): some are '
                'missing, or of another version'
            )
    return [str(path) for path in found]


def on_hub(directory: str, source: str) -> list[pathlib.Path]:
    """The paths of 'builder/config:split', all in one folder; [] if there are none."""
    config, split = _place(source)
    patterns = [
        f'{folder}{name}.parquet'
        # the second is in the branch for sets that the Hub converted, the third is its older form
        for folder, name in itertools.product(
            (f'{config}/', '', 'data/'), (f'{split}-*', f'{split}/*', f'*-{split}', split)
        )
    ]
    root = pathlib.Path(directory.removeprefix(PARQUET))
    if hub.is_name(directory):
        root = hub.download(directory, 'dataset', tuple(patterns))
    return next((found for pattern in patterns if (found := sorted(root.glob(pattern)))), [])


def _place(source):
    """(configuration, split) on the Hub."""
    name, split = source.split(':')
    return CONFIGS.get(name, name.rpartition('/')[2]), SPLITS.get(split, split)
