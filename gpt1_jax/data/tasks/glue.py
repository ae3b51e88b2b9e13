"""GLUE (Wang et al., 2018): the layout of its folders, which all its tasks share."""
from gpt1_jax.data.tasks.reading import Split

TEST = 'glue_test'  # test.tsv: without labels, for a submission; ids are the file's own index


def splits(config: str, train: int, dev: int, test: int, columns: tuple[str, ...] = (),
           id_column: str = 'index') -> dict[str, Split]:
    """train.tsv, dev.tsv and test.tsv, with their numbers of rows and the splits of TFDS's glue/CONFIG."""
    return {'train': Split(('train.tsv',), train, (f'glue/{config}:train',), columns),
            'dev': Split(('dev.tsv',), dev, (f'glue/{config}:validation',), columns),
            TEST: test_split('test.tsv', test, f'glue/{config}:test', id_column)}


def test_split(file: str | tuple[str, ...], rows: int, tfds: str, id_column: str = 'index') -> Split:
    """A file without labels. file: its name, or several to look for."""
    return Split((file,) if isinstance(file, str) else file, rows, (tfds,), labelled=False, id_column=id_column)
