"""Makes the Task of a labelled set that is a table with one example a row, in its official files,
TFDS or Parquet."""

import dataclasses
import functools
import numbers

from gpt1_jax.data.tasks import parquet_source, reading, tables, tfds_source
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.reading import LeftOut, Row, RowFault, Split
from gpt1_jax.errors import UserError

# Decimals of a score. TFDS stores 3.8 as float32, 3.79999995. STS-B's files have up to 14 digits
DECIMALS = 5
# GLUE's test.tsv: unlabelled, for a submission (Wang et al., 2018), with the ids in the file
GLUE_TEST = 'glue_test'
glue_test = functools.partial(Split, labelled=False, id_column='index')


@dataclasses.dataclass(frozen=True)
class Table:
    """The meaning of a set's columns. TFDS numbers labels in the order of `labels`."""

    texts: tuple[str, ...]  # the columns that become the example's texts
    # The column whose values are `labels`, or numbers within `score`
    label: str
    labels: tuple[str, ...]
    score: tuple[float, float] | None = None
    # {column: TFDS feature} if the names differ
    features: dict[str, str] = dataclasses.field(default_factory=dict)
    index: str | None = 'idx'  # the TFDS feature with a row's position in the file
    # `index` also counts rows of other splits, so ids are positions within the split
    renumber: bool = False
    # Labels of rows that are left out: SNLI's '-', which is -1 in TFDS and on the Hub
    without_label: tuple[str, ...] = ()
    # Leave out labelled rows that lack a needed column, as QQP's broken rows do
    leave_out_short: bool = False
    may_be_empty: bool = False  # a text without tokens is not a bad row
    # As `features`, in the Hub's Parquet files. By default `features`
    in_parquet: dict[str, str] | None = None
    # The names of `labels` in these files, in the same order. By default `labels`
    classes: tuple[str, ...] = ()


def table_task(
    name: str, head: str, metrics: tuple[str, ...], splits: dict[str, Split], table: Table
) -> Task:
    """Makes the Task of a table. `head`, `metrics`: see Task.

    Bad rows are UserErrors when they are read.
    """
    names = table.features if table.in_parquet is None else table.in_parquet
    return reading.labelled_set(
        name,
        head,
        table.labels,
        metrics,
        splits,
        functools.partial(_example, table),
        official=functools.partial(_official, table),
        tfds=functools.partial(_typed, table, tfds_source, table.features),
        parquet=functools.partial(_typed, table, parquet_source, names),
        new=functools.partial(_new, table, splits),
        score=table.score,
        n_texts=len(table.texts),
    )


def glue_splits(
    config: str,
    train: int,
    dev: int,
    test: int,
    columns: tuple[str, ...] = (),
    id_column: str = 'index',
    also_train: int = 0,
) -> dict[str, Split]:
    """The splits of a GLUE task, from train.tsv, dev.tsv and test.tsv or TFDS's glue/CONFIG.

    train, dev, test: numbers of rows. also_train: the number of train's rows in another release.
    columns: see Split. id_column: in test.tsv.
    """
    return {
        'train': Split(
            ('train.tsv',), train, (f'glue/{config}:train',), columns, also_rows=also_train
        ),
        'dev': Split(('dev.tsv',), dev, (f'glue/{config}:validation',), columns),
        GLUE_TEST: glue_test(('test.tsv',), test, (f'glue/{config}:test',), id_column=id_column),
    }


def _example(table, split, row_id, fields):
    """Makes the Example of a row. LeftOut if its label is in `without_label`."""
    if split.labelled and fields.get(table.label) in table.without_label:
        raise LeftOut(f'no label ({fields[table.label]})')
    texts = tuple(reading.field(fields, column, table.may_be_empty) for column in table.texts)
    if not split.labelled:
        return Example(reading.row_id(fields, split.id_column, row_id), texts)
    value = reading.field(fields, table.label)
    if table.score:
        return Example(
            row_id, texts, label=round(reading.score(value, table.score, table.label), DECIMALS)
        )
    return Example(row_id, texts, label=reading.label(value, table.labels))


def _official(table, paths, split):
    needed = (*table.texts, table.label if split.labelled else split.id_column)
    short = LeftOut if table.leave_out_short and split.labelled else RowFault
    return tables.read(paths[0], needed, split.columns, short=short)


def _new(table, splits, path, split):
    """The rows of a file in the layout of one of the splits, with or without its labels."""
    own = [split.columns for split in splits.values()]
    layouts = own + [
        tuple(column for column in columns if column != table.label) for columns in own
    ]
    return tables.read(path, table.texts, tables.layout(path, table.texts, layouts))


def _typed(table, library, names, directory, split, sources):
    """Yields the rows of TFDS or of Parquet files, sorted by the feature `index`.

    The index is the id, unless `renumber`. names: {column: its name there} if the names differ.
    """
    classes = table.classes or table.labels
    columns = {column: names.get(column, column) for column in table.texts}
    expected = {}
    if split.labelled:
        columns[table.label] = names.get(table.label, table.label)
        if not table.score:
            expected[columns[table.label]] = classes
    wanted = (*columns.values(), *([table.index] if table.index else []))
    records = library.records(directory, sources[0], wanted, expected)
    if table.index:
        for where, record in records:
            if not isinstance(record[table.index], numbers.Integral):
                raise UserError(f'{where}: {table.index} is no whole number')
        records = sorted(records, key=lambda found: found[1][table.index])
    for position, (where, record) in enumerate(records):
        place = str(record[table.index] if table.index and not table.renumber else position)
        fields = {column: record[name] for column, name in columns.items()}
        if table.score and split.labelled:
            fields[table.label] = str(fields[table.label])
        elif split.labelled:
            fields[table.label] = _label(fields[table.label], table.labels, classes)
        yield Row(where, place, fields)


def _label(value, labels, classes):
    """A label as the official files write it.

    value: its number or its name in TFDS or in Parquet files.
    """
    if value in classes:
        return labels[classes.index(value)]
    if isinstance(value, numbers.Integral) and 0 <= value < len(labels):
        return labels[value]
    return value if value is None else str(value)
