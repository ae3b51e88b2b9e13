"""Section 4.1: "randomly sampled, contiguous sequences of 512 tokens" in minibatches of 64, as a function of the step.

A prepared directory (see encode.py and prepare.py) holds a split as uint16 shards, one stream when laid end to end.
Window i is tokens[i * n_ctx : (i + 1) * n_ctx + 1]: n_ctx inputs and their n_ctx targets, neighbours sharing one token.
Every epoch visits every window once, in an order of its own, so a step number says all there is to know about where
training stands.
"""
import dataclasses
import functools
import hashlib
import json
import os
import re

import numpy as np

from gpt1_jax import storage
from gpt1_jax.errors import UserError, shown

MANIFEST = 'manifest.json'
FORMAT = 2
DTYPE = np.dtype('<u2')  # little-endian on every machine
_GOLDEN = 0x9E3779B97F4A7C15


def read_manifest(directory: str | os.PathLike, tokenizer: str | None = None) -> dict:
    """manifest.json of a prepared directory.

    tokenizer: the fingerprint of the one that it must have been made with. UserError when there is no manifest, it is
    not as `prepare` wrote it, or another tokenizer's.
    """
    file = storage.path(directory) / MANIFEST
    try:
        manifest = json.loads(storage.read(file))
        found = manifest['format']
    except FileNotFoundError:
        raise UserError(f'{directory}: not a prepared corpus (no {MANIFEST} in it): '
                        'run python -m gpt1_jax.prepare') from None
    except OSError as error:
        raise UserError(f'{file}: cannot be read ({error.strerror or error})') from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f'{file}: damaged ({type(error).__name__}: {error})') from None
    if found not in (FORMAT, 1):  # 1 had no digest
        raise UserError(f'{file}: format {shown(found)}, this version reads {FORMAT}')
    if found != 1 and manifest.get('digest') != digest(manifest):
        raise UserError(f'{file}: edited or damaged, it does not match its own digest: prepare the text again')
    try:
        _check(manifest)
    except ValueError as error:
        raise UserError(f'{file}: damaged ({error})') from None
    if tokenizer is not None and manifest['tokenizer'] != tokenizer:
        raise UserError(f"{file}: tokens of another tokenizer ({shown(manifest['tokenizer'][:16])}) than this run's "
                        f'({tokenizer[:16]!r}): prepare the text again')
    return manifest


def digest(manifest: dict) -> str:
    """SHA-256 of all that a manifest says but its own 'digest', in hexadecimal digits."""
    said = {name: value for name, value in manifest.items() if name != 'digest'}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _check(manifest):
    """ValueError for a field of a manifest that is missing, of another kind, or does not fit the others."""
    _fields('the manifest', manifest, tokenizer=str, fingerprint=str, splits=dict)
    for split, entry in manifest['splits'].items():
        if not re.fullmatch(r'[a-z]+', split):  # these and the shards' names become paths
            raise ValueError(f'a split is called {shown(split)}')
        _fields(f'split {split}', entry, documents=int, tokens=int, unknown=int, shards=list)
        for shard in entry['shards']:
            _fields(f'a shard of {split}', shard, file=str, tokens=int, sha256=str)
            if not re.fullmatch(r'\d{5,}\.bin', shard['file']):
                raise ValueError(f'a shard of {split} is called {shown(shard["file"])}')
        if entry['tokens'] != sum(shard['tokens'] for shard in entry['shards']):
            raise ValueError(f'split {split}: its shards do not add up to {entry["tokens"]} tokens')


def _fields(where, entry, **kinds):
    for name, kind in kinds.items():
        value = entry.get(name) if isinstance(entry, dict) else None
        if type(value) is not kind or kind is int and value < 0:
            raise ValueError(f'{name} of {where} is {shown(value)}' if isinstance(entry, dict) else
                             f'{where} is {shown(entry)}')


def open_split(directory: str | os.PathLike, split: str, verify: bool = False) -> 'TokenStream':
    """Maps a split's shards ('train' or 'valid'); nothing is read yet unless `verify`, which compares their hashes too.
    Of shards in an object store copies are mapped, made on this host where there are none, and always verified.

    UserError naming the shard that is missing, has another size, or has other contents than the manifest says.
    """
    directory = storage.path(directory)
    manifest = read_manifest(directory)
    if split not in manifest['splits']:
        raise UserError(f'{directory}: no split {split!r}, only {", ".join(manifest["splits"])}')
    shards = []
    for entry in manifest['splits'][split]['shards']:
        file = directory / split / entry['file']
        if storage.remote(file):
            file = storage.fetch(file, entry['sha256'])
        try:
            size = file.stat().st_size
            if not file.is_file():
                raise UserError(f'{file}: is no file')
        except OSError as error:
            raise UserError(f'{file}: shard cannot be read ({error.strerror})') from None
        if size != entry['tokens'] * DTYPE.itemsize:
            raise UserError(f'{file}: {size} bytes, the manifest says {entry["tokens"]} tokens '
                            f'of {DTYPE.itemsize} bytes')
        if verify and storage.sha256(file) != entry['sha256']:
            raise UserError(f'{file}: damaged, its SHA-256 is not the one in the manifest')
        shards.append(np.memmap(file, DTYPE, mode='r') if size else np.zeros(0, DTYPE))  # nothing cannot be mapped
    return TokenStream(tuple(shards), f'{directory} ({split})', manifest['fingerprint'])


def batch(stream: 'TokenStream', step: int, seed: int, batch_size: int, n_ctx: int, rows: slice = slice(None)):
    """The windows of one step: int32[rows, n_ctx + 1]. Arguments as of `numbers`."""
    chosen = numbers(stream, step, seed, batch_size, n_ctx, rows)
    return np.array([stream.window(i, n_ctx) for i in chosen], np.int32).reshape(-1, n_ctx + 1)


def numbers(stream: 'TokenStream', step: int, seed: int, batch_size: int, n_ctx: int, rows: slice = slice(None)):
    """The numbers of one step's windows: int32[rows].

    step:       counts from 0; the only state.
    batch_size: rows of the global batch, over all hosts.
    rows:       which of them to return; any slicing gives rows of the same global batch.
    The windows of all steps form one endless row, epoch after epoch; a batch may end one epoch and begin the next.
    UserError when the stream is shorter than one window.
    """
    n_windows = stream.n_windows(n_ctx)
    if n_windows < 1:
        raise UserError(f'{stream.name}: {stream.n_tokens} tokens, one window of {n_ctx} needs {n_ctx + 1}')
    positions = range(step * batch_size, (step + 1) * batch_size)[rows]
    places = (divmod(position, n_windows) for position in positions)
    return np.array([permutation(seed, epoch, n_windows)[place] for epoch, place in places], np.int32)


@functools.lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """The order of an epoch's n windows: int64[n], read-only.

    The numbers 0..n-1 sorted by a hash of (seed, epoch, number): ours, because numpy may change its generators.
    """
    key = _mix(_mix(np.array([seed % 2 ** 64], np.uint64)) + np.array([epoch], np.uint64))
    order = np.argsort(_mix(key + np.arange(n, dtype=np.uint64)), kind='stable')
    order.flags.writeable = False
    return order


def _mix(x):
    """One step of SplitMix64 (Steele, Lea and Flood 2014), a bijection of uint64[...]: arithmetic is modulo 2**64."""
    x = x + np.uint64(_GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclasses.dataclass(frozen=True, eq=False)
class TokenStream:
    """The tokens of a split, memory-mapped.

    shards:      uint16 arrays, in order.
    name:        for messages.
    fingerprint: of the prepared directory: its tokenizer and the contents of all its shards.
    """
    shards: tuple[np.ndarray, ...] = dataclasses.field(repr=False)
    name: str
    fingerprint: str

    @functools.cached_property
    def _starts(self):
        return np.cumsum([0] + [len(shard) for shard in self.shards])

    @property
    def n_tokens(self) -> int:
        return int(self._starts[-1])

    def n_windows(self, n_ctx: int) -> int:
        """Windows of n_ctx targets at stride n_ctx; what is left at the end is not used."""
        return max(0, (self.n_tokens - 1) // n_ctx)

    def rows(self, n_ctx: int) -> np.ndarray:
        """All tokens, uint16[n_windows + 1, n_ctx]: window i is row i and the first token of row i + 1. The last row
        is filled up with zeros."""
        filling = np.zeros(-self.n_tokens % n_ctx, DTYPE)
        return np.concatenate([*self.shards, filling]).reshape(-1, n_ctx)

    def window(self, i: int, n_ctx: int) -> np.ndarray:
        """Window i: int32[n_ctx + 1]. IndexError when there is no such window."""
        if not 0 <= i < self.n_windows(n_ctx):
            raise IndexError(f'{self.name}: window {i} of {self.n_windows(n_ctx)}')
        result = np.empty(n_ctx + 1, np.int32)
        start, filled = int(i) * n_ctx, 0
        shard = int(np.searchsorted(self._starts, start, side='right')) - 1
        while filled <= n_ctx:
            offset = start + filled - self._starts[shard]
            piece = self.shards[shard][offset:offset + n_ctx + 1 - filled]
            result[filled:filled + len(piece)] = piece
            filled += len(piece)
            shard += 1
        return result
