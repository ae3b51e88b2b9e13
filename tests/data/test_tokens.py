"""Section 4.1: windows and batches as a function of the step."""

import json
import re

import numpy as np
import pytest

from gpt1_jax import storage
from gpt1_jax.data import tokens
from refusal import refusal, refused_flips


def write(directory, *shards):
    """A prepared directory whose train split has these shards."""
    entries = []
    (directory / 'train').mkdir(parents=True)
    for number, ids in enumerate(shards):
        file = directory / 'train' / f'{number:05d}.bin'
        np.array(ids, '<u2').tofile(file)
        entries.append({'file': file.name, 'tokens': len(ids), 'sha256': storage.sha256(file)})
    train = {'documents': 1, 'tokens': sum(map(len, shards)), 'unknown': 0, 'shards': entries}
    edit(
        directory,
        {'format': 2, 'tokenizer': 't' * 64, 'fingerprint': 'f', 'splits': {'train': train}},
    )
    return directory


def edit(directory, manifest, seal=True, **changes):
    """Write a manifest with some of its fields changed; with its digest made again unless not
    `seal`."""
    manifest = manifest | changes
    if seal:
        manifest['digest'] = tokens.digest(manifest)
    (directory / 'manifest.json').write_text(json.dumps(manifest))


def read(directory):
    return json.loads((directory / 'manifest.json').read_text())


@pytest.fixture
def stream(tmp_path):
    """0 .. 22 in shards of 5, 1, 4, 13."""
    return tokens.open_split(
        write(tmp_path, range(5), range(5, 6), range(6, 10), range(10, 23)), 'train'
    )


def test_evenly_spaced_windows_are_the_nearest_to_equal_steps(stream):
    """Of windows 0 to 4: 0, 1.33, 2.67, 4."""
    assert stream.evenly_spaced(4, 4).tolist() == [0, 1, 3, 4]
    assert stream.evenly_spaced(9, 4).tolist() == [0, 1, 2, 3, 4]


def test_windows_overlap_by_one_token_and_cross_shards(stream):
    assert stream.n_tokens == 23
    assert stream.n_windows(4) == 5
    assert [stream.window(i, 4).tolist() for i in range(5)] == [
        [0, 1, 2, 3, 4],
        [4, 5, 6, 7, 8],
        [8, 9, 10, 11, 12],
        [12, 13, 14, 15, 16],
        [16, 17, 18, 19, 20],
    ]
    assert stream.window(0, 22).tolist() == list(range(23))
    odd = tokens.TokenStream((np.array([65534, 40478, 0], '<u2'),), 'x', 'f').window(0, 2)
    assert odd.tolist() == [65534, 40478, 0] and odd.dtype == np.int32


def test_a_window_needs_one_token_more_than_it_predicts_and_lies_within_the_stream(stream):
    for n_tokens, n_windows in ((0, 0), (1, 0), (4, 0), (5, 1), (8, 1), (9, 2)):
        assert (
            tokens.TokenStream((np.zeros(n_tokens, np.uint16),), 'x', 'f').n_windows(4) == n_windows
        )
    for i in (5, -1):
        with pytest.raises((IndexError, ValueError)):
            stream.window(i, 4)
    assert '(train): 23 tokens, one window of 23 needs 24' in refusal(
        tokens.batch, stream, 0, 0, 1, 23
    )


@pytest.mark.parametrize('size, steps', [(3, 10), (10, 3)])
def test_every_epoch_visits_every_window_once_in_an_order_of_its_own(stream, size, steps):
    # Batches over 5 windows, of six epochs, run across their ends.
    first = np.concatenate(
        [tokens.batch(stream, step, 7, size, 4)[:, 0] // 4 for step in range(steps)]
    )
    epochs = first.reshape(6, 5)
    assert all(sorted(epoch) == [0, 1, 2, 3, 4] for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) > 3


def test_the_order_is_the_same_for_ever():
    # Written down once: a change would break every resumed run.
    assert tokens.permutation(0, 0, 8).tolist() == [4, 0, 1, 7, 6, 2, 5, 3]
    assert tokens.permutation(1, 0, 8).tolist() == [3, 5, 2, 4, 1, 0, 6, 7]
    assert tokens.permutation(0, 1, 8).tolist() == [7, 0, 1, 6, 3, 4, 5, 2]


def test_splitmix_gives_its_published_numbers():
    # The reference generator's first outputs from state 1234567: it hashes the states
    # 1234567 + k * golden.
    states = np.array([1234567], np.uint64) + np.arange(3, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    assert tokens._mix(states).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_any_slicing_gives_rows_of_the_same_global_batch(stream):
    whole = tokens.batch(stream, 3, 1, 8, 4)
    assert whole.shape == (8, 5) and whole.dtype == np.int32
    for rows in (slice(0, 4), slice(4, 8), slice(2, 3), slice(1, 8, 2), slice(8, 8)):
        assert tokens.batch(stream, 3, 1, 8, 4, rows).tolist() == whole[rows].tolist()
    numbers = tokens.window_numbers(stream, 3, 1, 8, 4)
    assert numbers.shape == (8,) and numbers.dtype == np.int32
    assert whole.tolist() == [stream.window(i, 4).tolist() for i in numbers]


def test_rows_are_all_tokens_with_zeros_after_the_end(stream):
    assert stream.rows(4).tolist() == [*np.arange(20).reshape(5, 4).tolist(), [20, 21, 22, 0]]
    assert stream.rows(23).tolist() == [list(range(23))] and stream.rows(4).dtype == np.uint16


EMPTY = {'documents': 0, 'tokens': 0, 'unknown': 0, 'shards': []}


@pytest.mark.parametrize(
    'damage, message',
    [
        (lambda d: (d / 'train' / '00001.bin').unlink(), '00001.bin: No such file'),
        (
            lambda d: (d / 'train' / '00001.bin').write_bytes(b'123'),
            '00001.bin: 3 bytes, the manifest says 2 tokens of 2',
        ),
        (
            lambda d: (d / 'train' / '00001.bin').write_bytes(b'1234'),
            '00001.bin: damaged, its SHA-256 is not the one',
        ),
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
    assert re.search(message, refusal(tokens.open_split, tmp_path, 'train', verify=True))


def test_a_manifest_of_another_tokenizer_is_named_and_hashes_are_compared_where_asked(tmp_path):
    write(tmp_path, [1, 2])
    (tmp_path / 'train' / '00000.bin').write_bytes(b'1234')
    # Without `verify` sizes alone are compared
    assert tokens.open_split(tmp_path, 'train').n_tokens == 2
    assert tokens.read_manifest(tmp_path, 't' * 64)['tokenizer'] == 't' * 64
    assert f"of another tokenizer ({'t' * 16}) than this run's ({'u' * 16})" in refusal(
        tokens.read_manifest, tmp_path, 'u' * 64
    )


def test_no_flipped_bit_of_a_manifest_is_believed(tmp_path):
    write(tmp_path, [1, 2], [3, 4])
    file = tmp_path / 'manifest.json'
    # Not white space
    assert refused_flips(file, lambda: tokens.read_manifest(tmp_path)) > 0.9 * file.stat().st_size
