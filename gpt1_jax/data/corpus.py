"""Section 4.1: streams pretraining text, one document at a time, from the rows of files or TFDS, or
from the ten novels of the package. The paper's BooksCorpus is not distributed any more.

A spec names text: what files.py expands, 'tfds:NAME:SPLIT[:FIELD]', or 'novels' (README.md,
"Corpora"). Several specs are read in order. Text is UTF-8.
"""

import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpt1_jax.data import files, parts, readers
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.document import Document, Join, divided, joined
from gpt1_jax.errors import UserError, did_you_mean, fail

NOVELS = 'novels'
_PACKAGED = pathlib.Path(__file__).parent / 'novels.jsonl.bz2'

Spec = str | os.PathLike | Sequence[str | os.PathLike]  # one or several


def documents(
    spec: Spec,
    field: str = 'text',
    join: Join = Join(),
    part: parts.Part | None = None,
    on_bad: Callable[[str], Any] = fail,
) -> Iterator[Document]:
    """Streams the documents of a spec, always in the same order. A file named twice is read once.

    field:  the text field of JSON lines, the text column of Parquet and tables, and the default
            field of TFDS records.
    join:   which rows, or parts of rows, form a document.
    part:   read only this part of the corpus (parts.py), which may be empty.
    on_bad: called with the message of a bad row: it cannot be read, or its field is no text.
    UserError if text cannot be read, naming the file and the byte, line or row, and if there is no
    document at all. OSError as the file system raises it.
    """
    empty = part is None
    for source, row_groups in parts.slices(expand(spec)[0], part, whole_files=bool(join)):
        for document in divided(joined(_read(source, row_groups, field, join, on_bad), join), join):
            empty = False
            yield document
            del document  # frees its text before the next document is read
    if empty:
        raise UserError(f'corpus {", ".join(files.as_list(spec))} holds no document')


def expand(spec: Spec, split_files: bool | None = True) -> tuple[list[str], list[str]]:
    """As files.expand, also of 'novels'. A directory of that name is './novels'."""
    specs = [str(_PACKAGED) if one == NOVELS else one for one in files.as_list(spec)]
    return files.expand(specs, split_files)


def _read(source, row_groups, field, join, on_bad):
    """Yields the Document of each row of a source, or of some of its row groups."""
    if files.kind(source) == 'txt':
        field = 'text'
        key = None
    else:
        key = join.key
    # tfds:NAME:SPLIT:FIELD
    if match := re.fullmatch(r'(tfds:.*:[^:\[]+(?:\[[^\]]*\])?):([^:]+)', source):
        if len(re.sub(r':\d+\.\d+\.\d+', '', source).split(':')) > 3:
            source, field = match.groups()
    needed = (field,) if key is None else (field, key)
    how = rows_lib.How(tuple(dict.fromkeys(needed)), groups=row_groups, divided=join.split_at)
    for row in rows_lib.good(readers.rows(source, how), on_bad):
        try:
            document = Document(row.where, _text(row, field, key), key and row.fields[key])
        except UserError as error:
            on_bad(str(error))
            continue
        del row
        yield document
        del document


def _text(row, field, key):
    """The text of a row. UserError if the row has none, or lacks the key."""
    fields = row.fields
    if not isinstance(fields, dict):
        raise UserError(
            f'{row.where} is {type(fields).__name__}, must be an object with field {field!r}'
        )
    for name in (field, key):
        if name is not None and name not in fields:
            others = ', '.join(map(repr, list(fields)[:10])) or 'none'
            raise UserError(
                f'{row.where} has no field {name!r}, only {others}{did_you_mean(name, fields)}'
            )
    text = fields[field]
    if not isinstance(text, str):
        raise UserError(f'{row.where}: field {field!r} is {type(text).__name__}, must be text')
    if len(text) > rows_lib.LONGEST:
        raise rows_lib.too_long(row.where)
    return text
