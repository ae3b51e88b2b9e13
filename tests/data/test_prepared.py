"""The manifest and the shards of a prepared directory."""

import json
import re

import numpy as np
import pytest

from gpt1_jax import storage
from gpt1_jax.data import prepared
from refusal import refusal, refused_flips

EMPTY = {'documents': 0, 'tokens': 0, 'unknown': 0, 'shards': []}


def write(directory, *shards):
    """A prepared directory whose train split has these shards."""
    entries = []
    (directory / 'train').mkdir(parents=True)
    for number, ids in enumerate(shards):
        file = directory / 'train' / f'{number:05d}.bin'
        np.array(ids, '<u2').tofile(file)
        entries.append({'file': file.name, 'tokens': len(ids), 'sha256': storage.sha256(file)})
    train = EMPTY | {'tokens': sum(map(len, shards)), 'shards': entries}
    manifest = {'format': 2, 'tokenizer': 't' * 64, 'fingerprint': 'f', 'splits': {'train': train}}
    edit(directory, manifest)


def edit(directory, manifest, seal=True, **changes):
    """Write a manifest with some of its fields changed; with its digest made again unless not
    `seal`."""
    manifest = manifest | changes
    if seal:
        manifest['digest'] = prepared.digest(manifest)
    (directory / 'manifest.json').write_text(json.dumps(manifest))


def read(directory):
    return json.loads((directory / 'manifest.json').read_text())


def shard(directory):
    return directory / 'train' / '00001.bin'


@pytest.mark.parametrize(
    'damage, message',
    [
        (lambda d: shard(d).unlink(), '00001.bin: No such file'),
        (lambda d: shard(d).write_bytes(b'123'), '00001.bin: 3 bytes, the manifest says 2 tokens'),
        (lambda d: shard(d).write_bytes(b'1234'), '00001.bin: damaged, its SHA-256 is not the one'),
        (
            lambda d: (d / 'manifest.json').unlink(),
            'not a prepared corpus .no manifest.json in it.: run gpt1 prepare',
        ),
        (lambda d: (d / 'manifest.json').write_text('{'), 'manifest.json: not JSON'),
        (lambda d: edit(d, read(d), format=3), 'manifest.json: not a manifest of format 2'),
        (
            lambda d: edit(d, read(d), seal=False, vocab_size=7),
            'manifest.json: edited or damaged, it does not match its ',
        ),
        (lambda d: edit(d, read(d), splits={'valid': EMPTY}), "no split 'train', only valid"),
    ],
)
def test_what_is_missing_or_damaged_is_named(tmp_path, damage, message):
    write(tmp_path, [1, 2], [3, 4])
    damage(tmp_path)
    assert re.search(message, refusal(prepared.open_split, tmp_path, 'train', verify=True))


def test_a_manifest_of_another_tokenizer_is_named_and_hashes_are_compared_where_asked(tmp_path):
    write(tmp_path, [1, 2])
    (tmp_path / 'train' / '00000.bin').write_bytes(b'1234')
    # Without `verify` sizes alone are compared
    assert prepared.open_split(tmp_path, 'train').n_tokens == 2
    assert prepared.read_manifest(tmp_path, 't' * 64)['tokenizer'] == 't' * 64
    assert f"of another tokenizer ({'t' * 16}) than this run's ({'u' * 16})" in refusal(
        prepared.read_manifest, tmp_path, 'u' * 64
    )


def test_no_flipped_bit_of_a_manifest_is_believed(tmp_path):
    write(tmp_path, [1, 2], [3, 4])
    file = tmp_path / 'manifest.json'
    # Not white space
    assert refused_flips(file, lambda: prepared.read_manifest(tmp_path)) > 0.9 * file.stat().st_size
