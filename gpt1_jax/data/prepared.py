"""A prepared directory (prepare.py): the manifest, and each split as uint16 shards of tokens."""

import errno
import os

import numpy as np

from gpt1_jax import storage
from gpt1_jax.data.windows import DTYPE, TokenStream
from gpt1_jax.errors import UserError

MANIFEST = 'manifest.json'
FORMAT = 2


def read_manifest(directory: str | os.PathLike, tokenizer: str | None = None) -> dict:
    """The manifest.json of a prepared directory.

    tokenizer: the fingerprint of the tokenizer to which the tokens must belong. UserError if the
    manifest is missing, edited or damaged, or if the tokens belong to another tokenizer.
    """
    file = storage.path(directory) / MANIFEST
    try:
        manifest = storage.parse_json(storage.read(file), str(file))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f'{directory}: not a prepared corpus (no {MANIFEST} in it): run gpt1 prepare'
        ) from None
    if not isinstance(manifest, dict) or manifest.get('format') != FORMAT:
        raise UserError(f'{file}: not a manifest of format {FORMAT}: prepare the text again')
    if manifest.get('digest') != digest(manifest):
        raise UserError(
            f'{file}: edited or damaged, it does not match its own digest: prepare the text again'
        )
    if tokenizer is not None and manifest['tokenizer'] != tokenizer:
        raise UserError(
            f'{file}: tokens of another tokenizer ({manifest["tokenizer"][:16]}) than this '
            f"run's ({tokenizer[:16]}): prepare the text again"
        )
    return manifest


def digest(manifest: dict) -> str:
    """SHA-256 of a manifest without its field 'digest', in hexadecimal digits."""
    return storage.json_digest(
        {name: value for name, value in manifest.items() if name != 'digest'}
    )


def open_split(directory: str | os.PathLike, split: str, verify: bool = False) -> TokenStream:
    """Opens the tokens of a split ('train' or 'valid'), memory-mapped.

    The sizes of shards are always compared with the manifest. verify: also compare their SHA-256,
    which reads all shards. Shards in an object store are first copied to the local disk, unless
    copies exist, and always verified. UserError naming a shard that is missing or differs from the
    manifest.
    """
    root = storage.path(directory)
    manifest = read_manifest(root)
    if split not in manifest['splits']:
        raise UserError(f'{root}: no split {split!r}, only {", ".join(manifest["splits"])}')
    shards = []
    for entry in manifest['splits'][split]['shards']:
        folder = root / entry['part'] if 'part' in entry else root  # merging.py
        file = folder / split / entry['file']
        if storage.remote(file):
            file = storage.fetch(file, entry['sha256'])
        if not file.exists():
            raise UserError(f'{file}: {os.strerror(errno.ENOENT)}')
        size = file.stat().st_size
        if size != entry['tokens'] * DTYPE.itemsize:
            raise UserError(
                f'{file}: {size} bytes, the manifest says {entry["tokens"]} tokens of '
                f'{DTYPE.itemsize} bytes'
            )
        if verify and storage.sha256(file) != entry['sha256']:
            raise UserError(f'{file}: damaged, its SHA-256 is not the one in the manifest')
        shards.append(np.memmap(file, DTYPE, mode='r'))
    return TokenStream(tuple(shards), f'{root} ({split})', manifest['fingerprint'])
