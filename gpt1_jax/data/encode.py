"""Section 4.1: tokenizes documents with several processes. A run that is killed can be resumed.

A split is one stream of ids in which a line-break token follows each document (the paper does not
say how books are joined). The stream is cut into uint16 shards, 00000.bin, 00001.bin, ..., and each
shard has a record of its sources (shards.py). A second run keeps the shards whose records still
match and makes the others. The result is the same, byte for byte, with any number of interruptions
and processes.

With the published vocabulary, three documents that are a unit of work each, and shard_tokens=6:

    'Hello, world!'  3570 240 1276 267 40477        5 tokens, 00000.bin continues
    'Yes.\\nNo.'      685 239 40477 664 239 40477    now 11 tokens, 00000.bin ends
    'Bye!'           3877 267 40477                 00001.bin
"""

import collections
import concurrent.futures
import contextlib
import functools
import itertools
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gpt1_jax.data import bpe_training, shards
from gpt1_jax.data import text as text_lib
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.windows import DTYPE
from gpt1_jax.errors import UserError

SHARD_TOKENS = 2**23  # 16 MiB, the most work that a kill can lose
UNIT_CHARACTERS = 250_000  # the work that a process gets at a time
# Characters. For fewer, starting a process (which imports spaCy) costs more than it saves
WORTH_A_PROCESS = 10_000_000


class Unit(NamedTuple):
    """A unit of work: whole short documents, or parts of a long document.

    documents: the number of documents that begin in this unit.
    """

    texts: tuple[text_lib.Part, ...]
    documents: int
    characters: int


def units(documents: Iterable[Document], size: int = UNIT_CHARACTERS) -> Iterator[Unit]:
    """Groups documents into units of about `size` characters.

    A cut inside a long document does not change its ids.
    """
    texts: list[text_lib.Part] = []
    starts = characters = 0
    for document in documents:
        for number, part in enumerate(text_lib.parts(document.text, size)):
            if characters and characters + len(part.text) > size:
                yield Unit(tuple(texts), starts, characters)
                texts = []
                starts = 0
                characters = 0
            texts.append(part)
            starts += number == 0
            characters += len(part.text)
        del document  # frees its text before the next document is read
    if texts:
        yield Unit(tuple(texts), starts, characters)


def count_words(
    documents: Iterable[Document], processes: int = 1, characters: int | None = None
) -> dict[str, int]:
    """Counts how often each word occurs in the documents, for `bpe_training.train`.

    characters: as in `encode`.
    """
    counts: collections.Counter[str] = collections.Counter()
    report = reporter('counting words', 'words', characters)
    for unit, unit_counts in ordered_map(_count, units(documents), processes):
        counts.update(unit_counts)
        report(unit.documents, unit_counts.total(), unit.characters)
    return counts


def encode(
    documents: Iterable[Document],
    directory: str | os.PathLike,
    tokenizer: Tokenizer,
    processes: int = 1,
    label: str = 'encoding',
    characters: int | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> dict:
    """Writes the documents' shards into `directory` and returns the split's entry in the manifest.

    characters:   the characters of all documents together, if known, to estimate the time left.
    shard_tokens: a shard ends with the unit that brings it to this many tokens.
    Returns {documents, tokens, unknown, shards: [{file, documents, tokens, unknown, sha256}]}.
    Memory holds a shard, a document and a few units for each process.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    key = _key(tokenizer, shard_tokens)
    report = reporter(label, 'tokens', characters)
    work = functools.partial(_encode, tokenizer)

    done, rest = shards.keep(directory, units(documents), key, shard_tokens, report)
    arrays: list[np.ndarray] = []
    made_from: list[tuple[int, bytes]] = []

    def close():
        data = np.concatenate(arrays).tobytes()
        done.append(shards.write(directory, len(done), data, made_from, key))
        arrays.clear()
        made_from.clear()

    for unit, ids in ordered_map(work, rest, processes):
        # A shard is closed when there are ids for the next shard, so that no shard is empty.
        if len(ids) and sum(map(len, arrays)) >= shard_tokens:
            close()
        arrays.append(ids)
        made_from.append(shards.source(unit))
        report(unit.documents, len(ids), unit.characters)
    if any(map(len, arrays)):
        close()
    shards.remove_others(directory, len(done))
    return _entry(done)


def holds(
    documents: Iterable[Document],
    directory: pathlib.Path,
    tokenizer: Tokenizer,
    shard_tokens: int,
    entry: dict,
) -> bool:
    """Whether a split's shards match its documents and its entry in the manifest.

    Further fields of the entry do not matter. Hashes shards and documents, encodes and writes
    nothing.
    """
    done, rest = shards.keep(
        directory,
        units(documents),
        _key(tokenizer, shard_tokens),
        shard_tokens,
        lambda *counts: None,
    )
    found = _entry(done)
    return (
        entry is not None
        and found == {name: entry.get(name) for name in found}
        and next(rest, None) is None
    )


def _key(tokenizer, shard_tokens):
    return f'{tokenizer.fingerprint} {shard_tokens} {UNIT_CHARACTERS}'


def _entry(records):
    """The entry in the manifest for shards with these records."""
    totals = {
        name: sum(record[name] for record in records) for name in ('documents', 'tokens', 'unknown')
    }
    return {
        **totals,
        'shards': [{name: record[name] for name in shards.FIELDS} for record in records],
    }


def ordered_map(work: Callable, items: Iterable, processes: int) -> Iterator[tuple]:
    """Yields (item, work(item)) in order, computed by spawned processes.

    With processes=1 this process does the work. Reads few items ahead. UserError if a process dies.
    """
    if processes == 1:
        for item in items:
            yield item, work(item)
        return
    pool = concurrent.futures.ProcessPoolExecutor(
        processes, multiprocessing.get_context('spawn'), initializer=_start_worker, initargs=(work,)
    )
    waiting: collections.deque[tuple[Any, concurrent.futures.Future]] = collections.deque()
    items = iter(items)
    try:
        while True:
            for item in itertools.islice(items, 4 * processes - len(waiting)):
                with _no_main_module():
                    waiting.append((item, pool.submit(_work_on, item)))
            if not waiting:
                break
            item, future = waiting.popleft()
            yield item, future.result()
    except concurrent.futures.process.BrokenProcessPool:
        raise UserError(
            f'one of {processes} processes was killed, perhaps for want of memory: run again, with '
            'fewer (finished shards are kept)'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def n_processes(wanted: int | None, characters: int) -> int:
    """The number of processes that tokenize so many characters.

    wanted: the most processes, by default one for each core.
    """
    if wanted is None:  # the cores that this process may use; macOS only knows the number of cores
        wanted = (
            len(os.sched_getaffinity(0))
            if hasattr(os, 'sched_getaffinity')
            else os.cpu_count() or 1
        )
    return min(wanted, 1 + characters // WORTH_A_PROCESS)


def reporter(label: str, noun: str, characters: int | None = None) -> Callable[..., None]:
    """Returns a function report(documents, tokens, characters) that prints progress on stderr.

    The function is called with the counts of each further unit. tokens=None says that the unit was
    on disk, so it does not count for the rate.
    """
    begin = printed = time.monotonic()
    documents = tokens = done = before = 0
    pause = 1 if sys.stderr.isatty() else 10  # seconds

    def report(new_documents, new_tokens, new_characters):
        nonlocal printed, documents, tokens, done, before
        documents += new_documents
        done += new_characters
        if new_tokens is None:
            before += new_characters
            return
        tokens += new_tokens
        now = time.monotonic()
        if now - printed < pause:
            return
        printed = now
        line = (
            f'{label}: {documents:,} documents, {tokens:,} {noun}, {tokens / (now - begin):,.0f} '
            f'{noun}/s'
        )
        if characters and done < characters:
            left = round((now - begin) * (characters - done) / (done - before))
            line += f', {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left'
        print(line, file=sys.stderr, flush=True)

    return report


def _encode(tokenizer, unit):
    """Returns a unit's ids, uint16[n]. Runs in a worker."""
    ids = []
    for part in unit.texts:
        part_ids = tokenizer.encode(part.text, part.unescape_html)
        ids += part_ids
        if part_ids and not part.goes_on:
            ids.append(tokenizer.newline_id)
    return np.array(ids, DTYPE)


def _count(unit):
    """Counts how often each word occurs in a unit. Runs in a worker."""
    return bpe_training.count_words(unit.texts)


def _start_worker(work):
    """Stores the function to run in a new worker, and makes the worker end with its parent.

    The worker also ends if the parent is killed.
    """
    global _work
    _work = work
    # Ctrl-C also reaches the parent, which reports it once
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _work_on(item):
    return _work(item)


@contextlib.contextmanager
def _no_main_module():
    """Hides the running script while a process is spawned.

    A spawned process imports the running script again, which would load jax, or rerun a script
    without `if __name__ == '__main__'`. The workers need only this module. SIGINT is blocked
    meanwhile, and the workers inherit the block. A SIGINT that arrives meanwhile interrupts this
    process afterwards. PYTHONSAFEPATH keeps the workers from importing modules of the working
    directory before they have this process's sys.path.
    """
    main = sys.modules['__main__']
    sys.modules['__main__'] = types.ModuleType('__main__')
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    safe_path = os.environ.get('PYTHONSAFEPATH')
    os.environ['PYTHONSAFEPATH'] = '1'
    try:
        yield
    finally:
        if safe_path is None:
            del os.environ['PYTHONSAFEPATH']
        else:
            os.environ['PYTHONSAFEPATH'] = safe_path
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.modules['__main__'] = main
