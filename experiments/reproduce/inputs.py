"""A job's inputs, prepared before it starts: OUT/tokens, the books as shards with their tokenizer, and with config.pack
OUT/data, a copy of the data set files that the runs read. OUT is then all that another machine needs.
"""
import glob
import pathlib
import shutil
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from experiments.lib import run_list
from experiments.lib.run_list import Run, has_data, splits_read
from gpt1_jax import prepare as prepare_lib
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError

HELD_OUT = 0.02  # fraction of a corpus without validation books


def prepare(config: ConfigDict, specs_of: Callable[[ConfigDict], Sequence[Run]], books: str | None,
            data: str | None, again: bool) -> None:
    """Tokenize the books and, with config.pack, copy the data sets into OUT.

    config: configs/reproduce.py's, with the paths of a job. specs_of: config -> all its runs. books, data: the
    program's flags; files that exist in OUT are kept. again: both must be given. UserError for a missing flag.
    """
    if config.pack and data:
        originals = config.copy_and_resolve_references()
        originals.data = str(data)
        run_list.check(originals, pretrained=False)
        copy(specs_of(originals), pathlib.Path(data), pathlib.Path(config.data))
    elif config.pack and (again or not pathlib.Path(config.data).exists()):
        raise UserError('give --books=DIR and --data=DIR')
    run_list.check(config, pretrained=False)
    pathlib.Path(config.out).mkdir(parents=True, exist_ok=True)
    if books:
        tokenize(config, books)
    elif not has_text(config) and not given(config):
        raise UserError('give --books=DIR')


def given(config: ConfigDict, model: str = 'pretrained') -> bool:
    """Whether config[model], 'pretrained' or 'lstm', names a model from outside this job."""
    return bool(config[model]) and pathlib.Path(config[model]).parent != pathlib.Path(config.out)


def tokens_of(config: ConfigDict) -> pathlib.Path:
    """The directory of the tokenized books."""
    return pathlib.Path(config.pretrain.data.tokens or pathlib.Path(config.out) / 'tokens')


def has_text(config: ConfigDict) -> bool:
    """Whether the books are tokenized."""
    return (tokens_of(config) / 'manifest.json').exists()


def tokenizer_of(config: ConfigDict) -> pathlib.Path:
    """The directory of the tokenizer: the given pretrained run's, or that of the books."""
    return (pathlib.Path(config.pretrained) if given(config) else tokens_of(config)) / 'tokenizer'


def tokenize(config: ConfigDict, books: str) -> None:
    """Write the shards of the books, with a given pretrained run's tokenizer if there is one."""
    wanted = config.pretrain.tokenizer
    train, valid = corpus(books, config.books, config.valid_books)
    source = str(tokenizer_of(config)) if given(config) else wanted.source
    trained = source == 'train'
    prepare_lib.prepare(
        tokens_of(config), train, valid, source, encoder=wanted.encoder or None, bpe=wanted.bpe or None,
        merges=wanted.merges if trained and wanted.vocab_size is None else None,
        vocab_size=wanted.vocab_size if trained else None, characters=wanted.characters if trained else None,
        processes=config.pretrain.data.processes or None, text_field=config.pretrain.data.text_field)


def corpus(books: str | pathlib.Path, limit: int | None = None,
           valid_limit: int | None = None) -> tuple[list[str], list[str] | float]:
    """(training files, validation files or the fraction to hold out) of a directory with train/ and valid/, a directory
    of .txt files, or a glob pattern. limit, valid_limit: at most so many, evenly spaced by name; default all."""
    path = pathlib.Path(books)
    train, valid = path / 'train', path / 'valid'
    if train.is_dir() and valid.is_dir():
        found, held_out = train.glob('*.txt'), valid.glob('*.txt')
    else:
        found, held_out = path.rglob('*.txt') if path.is_dir() else glob.glob(str(books)), ()
    found, held_out = (sorted(map(str, names)) for names in (found, held_out))
    if not found:
        raise UserError(f'--books={books}: no .txt files there')
    return _spaced(found, limit), _spaced(held_out, valid_limit) or HELD_OUT


def _spaced(names, limit):
    if limit is None or len(names) <= limit:
        return names
    return [names[i * len(names) // limit] for i in range(limit)]


def copy(specs: Sequence[Run], source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy the files under `source` that runs read to the same places under `target`; existing files are kept."""
    target.mkdir(parents=True, exist_ok=True)
    read = {(run.task, run.config.data.dir, split) for run in specs for split in splits_read(run)}
    for task, directory, split in sorted(read):
        if has_data(task, directory, split):
            for file in map(pathlib.Path, tasks.get(task).files(directory, split)):
                copied = target / file.relative_to(source)
                if not copied.exists():
                    copied.parent.mkdir(parents=True, exist_ok=True)
                    partial = copied.with_name(f'{copied.name}.partial')  # a file is complete or missing
                    shutil.copyfile(file, partial)
                    partial.replace(copied)
