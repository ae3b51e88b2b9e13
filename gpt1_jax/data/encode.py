"""Section 4.1: documents -> tokens, over several processes; killed at any moment, it goes on where it was.

A split is one stream: every document's ids, each document followed by one line-break token (the paper doesn't say how
books are joined). It is cut into shards of uint16, 00000.bin, 00001.bin, ..., each with a .json beside it that says
what it was made from: the tokenizer and a hash of the text. A second run keeps the shards for which that still holds
and makes the others, so its output is the uninterrupted run's, byte for byte, with any number of processes.
"""
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gpt1_jax import storage
from gpt1_jax.data import text as text_lib
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.tokens import DTYPE
from gpt1_jax.errors import UserError, about

SHARD_TOKENS = 2 ** 23  # 16 MiB; what a kill can cost
UNIT_CHARACTERS = 250_000  # what one process is given at a time


@dataclasses.dataclass(frozen=True)
class Unit:
    """A unit of work: whole short documents, or a part of a long one that ends with a line break.

    texts:     (text, unescape_html) pairs, see `text.parts`.
    documents: how many documents begin here.
    """
    texts: tuple[tuple[str, str | bool], ...]
    documents: int

    @functools.cached_property
    def characters(self) -> int:
        return sum(len(text) for text, _ in self.texts)


def units(documents: Iterable[Document], size: int = UNIT_CHARACTERS) -> Iterator[Unit]:
    """Documents -> units of about `size` characters. The stream doesn't depend on where a long document is cut."""
    texts, starts, characters = [], 0, 0
    for document in documents:
        for number, part in enumerate(text_lib.parts(document.text, size)):
            if characters and characters + len(part[0]) > size:
                yield Unit(tuple(texts), starts)
                texts, starts, characters = [], 0, 0
            texts.append(part)
            starts += number == 0
            characters += len(part[0])
    if texts:
        yield Unit(tuple(texts), starts)


def count_words(documents: Iterable[Document], processes: int = 1, characters: int | None = None) -> dict[str, int]:
    """How often each word stands in the documents, for `tokenizer.train`. characters: of them all, if known."""
    counts, report = collections.Counter(), reporter('counting words', 'words', characters)
    documents_read = 0
    for unit, found in ordered_map(_count, units(documents), processes):
        counts.update(found)
        documents_read += unit.documents
        report(documents_read, found.total(), unit.characters)
    return counts


def encode(documents: Iterable[Document], directory: str | os.PathLike, tokenizer: Tokenizer, processes: int = 1,
           label: str = 'encoding', characters: int | None = None, shard_tokens: int = SHARD_TOKENS) -> dict:
    """Writes the documents' shards into `directory` and returns the split's entry of the manifest.

    characters:   of all documents together, if known, for the time left.
    shard_tokens: a shard ends with the unit that brings it to this many.
    Returns {documents, tokens, unknown, shards: [{file, documents, tokens, unknown, sha256}]}. Memory is bounded by a
    shard, a document and a few units a process. UserError when there is no token at all or a process dies.
    """
    directory = pathlib.Path(directory)
    with about(directory):
        directory.mkdir(parents=True, exist_ok=True)
    key = f'{tokenizer.fingerprint} {shard_tokens} {UNIT_CHARACTERS}'
    report = reporter(label, 'tokens', characters)
    shards, rest = _kept(directory, units(documents), key, shard_tokens, tokenizer.unk_id, report)
    documents_read = sum(shard['documents'] for shard in shards)
    arrays, made_from = [], []

    def close():
        with about(directory):
            shards.append(_write_shard(directory, len(shards), arrays, made_from, key))
        arrays.clear()
        made_from.clear()

    for unit, (ids, unknown) in ordered_map(functools.partial(_encode, tokenizer), rest, processes):
        # Only once there is something to put into the next one: no shard is empty.
        if len(ids) and sum(map(len, arrays)) >= shard_tokens:
            close()
        arrays.append(ids)
        made_from.append((unit.documents, unknown, _digest(unit)))
        documents_read += unit.documents
        report(documents_read, len(ids), unit.characters)
    if any(map(len, arrays)):
        close()
    if not shards:
        raise UserError(f'{label}: {documents_read} documents and no word in them')
    for file in directory.iterdir():  # of an earlier run with more text, or half-written
        if re.fullmatch(r'\d{5}\.(bin|json)(\.partial)?', file.name) and (
                file.suffix == '.partial' or int(file.stem) >= len(shards)):
            with about(file):
                file.unlink()
    totals = {name: sum(shard[name] for shard in shards) for name in ('documents', 'tokens', 'unknown')}
    fields = ('file', 'documents', 'tokens', 'unknown', 'sha256')
    return {**totals, 'shards': [{name: shard[name] for name in fields} for shard in shards]}


def ordered_map(work: Callable, items: Iterable, processes: int) -> Iterator[tuple]:
    """(item, work(item)) in order, over spawned processes; with one process, in this one. Reads few items ahead."""
    if processes < 1:
        raise UserError(f'processes is {processes}, must be at least 1')
    if processes == 1:
        for item in items:
            yield item, work(item)
        return
    pool = concurrent.futures.ProcessPoolExecutor(
        processes, multiprocessing.get_context('spawn'), initializer=_start_worker, initargs=(work,))
    waiting = collections.deque()
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
        raise UserError(f'one of {processes} processes was killed, perhaps for want of memory: run again, with fewer '
                        '(what is finished is kept)') from None
    finally:
        pool.shutdown(cancel_futures=True)


def reporter(label: str, noun: str, characters: int | None = None) -> Callable[[int, int, int], None]:
    """report(documents so far, new tokens, new characters, kept=False) -> a line on stderr now and then.

    kept: found done by an earlier run, so no part of the rate.
    """
    begin = printed = time.monotonic()
    tokens = done = before = 0
    pause = 1 if sys.stderr.isatty() else 10  # seconds

    def report(documents, new_tokens, new_characters, kept=False):
        nonlocal printed, tokens, done, before
        done += new_characters
        if kept:
            before += new_characters
            return
        tokens += new_tokens
        now = time.monotonic()
        if now - printed < pause:
            return
        printed = now
        line = f'{label}: {documents:,} documents, {tokens:,} {noun}, {tokens / (now - begin):,.0f} {noun}/s'
        if characters and done < characters:
            left = round((now - begin) * (characters - done) / (done - before))
            line += f', {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left'
        print(line, file=sys.stderr, flush=True)

    return report


def write_json(file: pathlib.Path, value) -> None:
    """Writes a JSON file that appears complete or not at all."""
    storage.write(file, json.dumps(value, indent=1, ensure_ascii=False).encode('utf-8', 'backslashreplace') + b'\n')


def _kept(directory, stream, key, shard_tokens, unk_id, report):
    """The shards of an earlier run that the stream of units still begins with, and the rest of that stream."""
    shards, documents = [], 0
    while True:
        file = directory / f'{len(shards):05d}.bin'
        taken = []
        try:
            shard = json.loads(file.with_suffix('.json').read_bytes())
            counts = [shard[name] for name in ('units', 'documents', 'tokens', 'unknown')]
            fits = (all(type(n) is int for n in counts) and shard['key'] == key
                    and file.stat().st_size == shard['tokens'] * DTYPE.itemsize
                    and storage.sha256(file) == shard['sha256'])
            if fits:
                taken = list(itertools.islice(stream, shard['units']))
                fits = (_digests(map(_digest, taken)) == shard['made_from'] and shard['file'] == file.name
                        and shard['documents'] == sum(unit.documents for unit in taken)
                        and shard['unknown'] == int(np.count_nonzero(np.fromfile(file, DTYPE) == unk_id)))
            if fits and shard['tokens'] < shard_tokens:  # closed by the end of the text: it must still end there
                following = list(itertools.islice(stream, 1))
                taken += following
                fits = not following
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            fits = False
        if not fits:
            return shards, itertools.chain(taken, stream)
        documents += shard['documents']
        for unit in taken:
            report(documents, 0, unit.characters, kept=True)
        shards.append(shard)


def _write_shard(directory, number, arrays, made_from, key):
    """Writes a shard and, after it, the .json that vouches for it. Returns what the .json holds."""
    data = np.concatenate(arrays).astype(DTYPE).tobytes()
    file = directory / f'{number:05d}.bin'
    # First, or a kill between the two writes below could leave an old .json beside a new shard.
    file.with_suffix('.json').unlink(missing_ok=True)
    storage.write(file, data)
    shard = {'file': file.name, 'documents': sum(documents for documents, _, _ in made_from),
             'tokens': len(data) // DTYPE.itemsize, 'unknown': sum(unknown for _, unknown, _ in made_from),
             'sha256': hashlib.sha256(data).hexdigest(), 'key': key, 'units': len(made_from),
             'made_from': _digests(digest for _, _, digest in made_from)}
    write_json(file.with_suffix('.json'), shard)
    return shard


def _digest(unit):
    """What a unit's tokens depend on."""
    digest = hashlib.sha256(f'{unit.documents}'.encode())
    for text, unescape in unit.texts:
        digest.update(f'\n{unescape} {len(text)} '.encode() + text.encode('utf-8', 'surrogatepass'))
    return digest.digest()


def _digests(digests):
    return hashlib.sha256(b''.join(digests)).hexdigest()


def _encode(tokenizer, unit):
    """In a worker: a unit's ids, uint16[n], and how many of them are unknown."""
    ids = []
    for text, unescape in unit.texts:
        found = tokenizer.encode(text, unescape)
        if found:
            ids += found
            ids.append(tokenizer.newline_id)
    ids = np.array(ids, DTYPE)
    return ids, int(np.count_nonzero(ids == tokenizer.unk_id))


def _count(unit):
    """In a worker: a unit's words."""
    counts = collections.Counter()
    for text, unescape in unit.texts:
        for words in text_lib.lines(text, unescape):
            counts.update(words)
    return counts


def _start_worker(work):
    """In a worker, once: keeps the work to do, and ends with the parent even if that is killed."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and says so once

    def end_with_parent():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _work_on(item):
    return _work(item)


@contextlib.contextmanager
def _no_main_module():
    """Hides the running script while a process is spawned, which would import it again: and jax with it, or start
    itself over where it has no `if __name__ == '__main__'`. The work is importable from here without it."""
    main = sys.modules['__main__']
    sys.modules['__main__'] = types.ModuleType('__main__')
    try:
        yield
    finally:
        sys.modules['__main__'] = main
