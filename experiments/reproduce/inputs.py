"""A job's inputs, prepared before it starts: OUT/tokens, the books as shards with their tokenizer, and with config.pack
OUT/data, a copy of the data set files that the runs read. OUT is then all that another machine needs.
"""
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable

from ml_collections import ConfigDict

from experiments.lib import run_list
from experiments.lib.run_list import Run, has_data
from experiments.reproduce import plan
from gpt1_jax import pretrain, storage
from gpt1_jax.data import corpus, tasks
from gpt1_jax.data import prepare as prepare_lib
from gpt1_jax.errors import UserError
from gpt1_jax.runs import lock

HELD_OUT = 0.02  # fraction of a corpus without validation books


def prepare(config: ConfigDict, books: str | None, data: str | None) -> None:
    """Tokenize the books and, with config.pack, copy the data sets into OUT.

    config: configs/reproduce.py's, with the paths of a job. books, data: the program's flags, needed the first time;
    files that exist in OUT are kept.
    """
    if config.pack and data:
        originals = config.copy_and_resolve_references()
        originals.data = str(data)
        run_list.check(originals, pretrained=False)
        runs = itertools.chain(*plan.all_runs(originals).values())
        copy(runs, pathlib.Path(data), pathlib.Path(config.data))
    elif config.pack and not pathlib.Path(config.data).exists():
        raise UserError('give --books=DIR and --data=DIR')
    run_list.check(config, pretrained=False)
    pathlib.Path(config.out).mkdir(parents=True, exist_ok=True)
    if books:
        tokenize(config, books)
    elif not plan.has_text(config) and not plan.given(config):
        raise UserError('give --books=DIR')


def tokenize(config: ConfigDict, books: str) -> None:
    """Write the shards of the books, with a given pretrained run's tokenizer if there is one."""
    vocabulary = config.pretrain.tokenizer
    if plan.given(config):
        vocabulary = ConfigDict(dict.fromkeys(vocabulary) | {'source': str(plan.tokenizer_of(config))})
    train, valid = books_of(books, config.books, config.valid_books)
    wanted = dataclasses.replace(pretrain.prepare_config(config.pretrain.data, vocabulary), corpus=train, valid=valid)
    prepare_lib.prepare(wanted, plan.tokens_of(config), lock.hold)


def books_of(books: str | pathlib.Path, limit: int | None = None,
             valid_limit: int | None = None) -> tuple[list[str], list[str] | float]:
    """(training files, validation files or the fraction to hold out) of a directory with train/ and valid/, another
    directory, or a pattern. limit, valid_limit: at most so many, evenly spaced by name; default all."""
    def spaced(spec, limit):
        files = corpus.sources(spec)
        n = min(limit or len(files), len(files))
        return [files[i * len(files) // n] for i in range(n)]
    train, valid = (pathlib.Path(books) / split for split in ('train', 'valid'))
    if train.is_dir() and valid.is_dir():
        return spaced(train, limit), spaced(valid, valid_limit)
    return spaced(books, limit), HELD_OUT


def copy(runs: Iterable[Run], source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy the files under `source` that runs read to the same places under `target`; existing files are kept.

    UserError for a set that is elsewhere, as those of Parquet and TFDS are.
    """
    target.mkdir(parents=True, exist_ok=True)
    read = {(run.task, run.config.data.dir, split) for run in runs for split in run.splits_read}
    for task, directory, split in sorted(read):
        if has_data(task, directory, split):
            if directory.startswith(run_list.SOURCES) or not pathlib.Path(directory).is_relative_to(source):
                raise UserError(f'{task}: config.pack copies the files of directories in --data, not {directory}')
            for file in map(pathlib.Path, tasks.get(task).files(directory, split)):
                copied = target / file.relative_to(source)
                if not copied.exists():
                    copied.parent.mkdir(parents=True, exist_ok=True)
                    storage.write(copied, file.read_bytes())  # all of it or nothing
