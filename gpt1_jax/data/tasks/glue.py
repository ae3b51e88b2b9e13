"""GLUE (Wang et al., 2018): the files and TFDS names that all its tasks share."""
from gpt1_jax.data.tasks.reading import Split

TEST = 'glue_test'  # the split of test.tsv: unlabelled, for a submission to GLUE; ids are those in the file


def splits(config: str, train: int, dev: int, test: int, columns: tuple[str, ...] = (),
           id_column: str = 'index') -> dict[str, Split]:
    """The splits of a GLUE task, from train.tsv, dev.tsv and test.tsv or TFDS's glue/CONFIG.

    train, dev, test: numbers of rows. columns: see Split. id_column: of test.tsv.
    """
    return {'train': Split(('train.tsv',), train, (f'glue/{config}:train',), columns),
            'dev': Split(('dev.tsv',), dev, (f'glue/{config}:validation',), columns),
            TEST: test_split(('test.tsv',), test, f'glue/{config}:test', id_column)}


def test_split(files: tuple[str, ...], rows: int, tfds: str, id_column: str = 'index') -> Split:
    """An unlabelled split. files: names; the first that exists is read."""
    return Split(files, rows, (tfds,), labelled=False, id_column=id_column)
