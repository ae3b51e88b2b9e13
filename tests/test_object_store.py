"""A run whose work directory and token shards are in an object store is the run of a local
directory, also where the store loses requests and replies, or answers 429 and 503."""

import asyncio
import os
import shutil
import types

import jax
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import emulator
import gpt1_jax
import saved
import unreliable
from event_files import points, points_of
from gpt1_jax import finetuning, pretraining, storage, zero_shot
from gpt1_jax.data import corpus as corpus_lib
from gpt1_jax.data.parts import Part
from gpt1_jax.errors import UserError
from gpt1_jax.runs import checkpoint, console, lock, results, retention, session
from short_runs import arrays, rows
from tiny import cola, corpus, finetune_config, load_config, override, pretrain_config

pytestmark = pytest.mark.full

SIZE = {'model__n_ctx': 64, 'train__steps': 30}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Of this test's host."""
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    return tmp_path / 'cache'


@pytest.fixture(scope='module')
def local(tmp_path_factory):
    base = tmp_path_factory.mktemp('local')
    return pretraining.run(
        pretrain_config(corpus(base / 'text'), data__tokens=str(base / 'tokens'), **SIZE),
        base / 'run',
    )


@pytest.fixture
def place(tmp_path):
    return storage.path(f'{emulator.bucket()}/{tmp_path.name}')


@pytest.fixture
def proxy(place, monkeypatch):
    """In front of the store, from now on; it does not fail yet."""
    import gcsfs.retry

    proxy = unreliable.Proxy(os.environ['STORAGE_EMULATOR_HOST'])
    for name in ('STORAGE_EMULATOR_HOST', 'TENSORSTORE_GCS_HTTP_URL'):
        monkeypatch.setenv(name, proxy.url)
    short = types.SimpleNamespace(sleep=lambda seconds: asyncio.sleep(seconds / 50))
    monkeypatch.setattr(gcsfs.retry, 'asyncio', short)
    yield proxy
    proxy.server.shutdown()


def test_a_run_stopped_twice_in_an_unreliable_store_is_the_local_run(
    local, place, proxy, cache, monkeypatch
):
    """Weights, moments, metrics and the steps that are kept; each time on another host, with an
    empty cache."""
    storage.upload(local.path.parent / 'tokens', place / 'tokens')
    config = pretrain_config('', data__tokens=f'{place}/tokens', tensorboard=True, **SIZE)
    proxy.choose = unreliable.InTurn()
    for last in (15, 25):

        def stop(step, *others):
            if step == last:
                raise KeyboardInterrupt  # as a second Ctrl-C

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(console, 'print_line', stop)
            pretraining.run(config, place / 'run')
        shutil.rmtree(cache)
    run = pretraining.run(config, place / 'run')
    assert min(proxy.faults.values()) >= 2, proxy.faults
    proxy.choose = unreliable.reliable
    assert arrays(run, 30) == arrays(local, 30) and rows(run) == rows(local)
    assert points(run.path / 'tensorboard') == points_of(results.read(run.metrics))
    assert [row['step'] for row in results.read(run.path / 'environment.jsonl')] == [0, 10, 20]
    assert run.steps() == local.steps()
    there = {name.split('/')[0] for name in storage.files(run.path)} - {'tensorboard'}
    assert there == {file.name for file in local.path.iterdir()}
    assert list(cache.rglob('*.bin'))  # shards have copies here


def test_fine_tuning_and_zero_shot_read_and_write_there(local, place, tmp_path):
    storage.upload(local.path, place / 'pretrained')
    data = cola(tmp_path / 'cola')
    found = []
    for origin, tuned in (
        (local.path, tmp_path / 'tuned'),
        (place / 'pretrained', place / 'tuned'),
    ):
        finetuning.run(finetune_config('cola', data, init_from=str(origin)), tuned)
        config = load_config('zero_shot', 'cola')
        figures = zero_shot.run(
            override(config, {'init_from': str(origin), 'data__dir': str(data)})
        )
        figures += results.read(tuned / 'results.jsonl')
        loaded = [gpt1_jax.load(str(one)) for one in (origin, tuned)]
        assert [one.path for one in loaded] == [str(origin), str(tuned)]
        arrays = jax.tree.leaves([one.params for one in loaded])
        predictions = storage.read(tuned / 'predictions_dev.jsonl')
        found.append([[row['value'] for row in figures], predictions, *map(np.array, arrays)])
    here, there = found
    assert here[:2] == there[:2] and len(here[0]) > 3
    assert len(here) == len(there) and all(map(np.array_equal, here[2:], there[2:]))


def test_a_corpus_is_read_there(tmp_path, place):
    """Every kind of file, by directory, name and pattern, whole and in parts, as from the local
    disk."""
    local = tmp_path / 'mixed'
    (local / 'deep').mkdir(parents=True)
    (local / 'a.txt').write_text('The cat.')
    lines = pyarrow.compress(b'{"text": "sat"}\n' * 9, 'zstd', asbytes=True)
    (local / 'deep' / 'b.jsonl.zst').write_bytes(lines)
    (local / '._a.txt').write_bytes(b'\0\5\x16\7')  # as macOS leaves them
    table = pyarrow.table({'text': [f'Row {i}.' for i in range(60)]})
    pyarrow.parquet.write_table(table, local / 'c.parquet', row_group_size=7)
    storage.upload(local, place)

    def read(where, *names, part=None):
        found = corpus_lib.documents([f'{where}/{name}' for name in names], part=part)
        return [(one.name.replace(str(where), ''), one.text) for one in found]

    for names in ([''], ['c.parquet', 'a.txt'], ['**/*.zst'], ['?[.e]*']):
        assert sorted(read(place, *names)) == sorted(read(local, *names)) != []
    found = [read(place, '', part=Part(i, 4)) for i in range(4)]
    assert sum(found, []) == read(place, '') and all(found[:2])
    with pytest.raises(UserError, match=r'\*.bin: no file matches this pattern'):
        read(place, '*.bin')


def test_what_is_not_committed_is_no_step_and_goes(place):
    program, history = saved.saved(place, 3, keep_latest=3)
    (place / '3' / retention.COMMITTED).unlink()  # a save, or a removal, that was cut short
    assert checkpoint.steps(place) == [1, 2]
    state = session.resume(place, program.state)
    writer = checkpoint.Writer(place, keep_latest=2)
    writer.save(saved.advanced(program, state), {})
    writer.close()
    assert checkpoint.steps(place) == [2, 3] and not (place / '1').exists()
    assert saved.same(checkpoint.restore(place, 3, program.state), history[3])


def test_a_write_whose_reply_is_lost_is_written_once(place, proxy, tmp_path):
    """Objects, checkpoint markers, rows that are appended, locks and deletions."""
    (tmp_path / 'files').mkdir()
    (tmp_path / 'files' / 'a').write_text('a')
    proxy.choose = unreliable.Once()
    storage.write(place / 'object', b'1')
    (place / 'text').write_text('2')  # as Orbax writes
    storage.upload(tmp_path / 'files', place)
    assert [storage.read(place / name) for name in ('object', 'text', 'a')] == [b'1', b'2', b'a']
    for n in (1, 2):
        results.append(place / 'rows.jsonl', {'n': n})
    assert results.read(place / 'rows.jsonl') == [{'n': 1}, {'n': 2}]
    with lock.hold(place / 'locked') as held:
        held.check()
    assert not (place / 'locked' / lock.FILE).exists()
    for name in ('commit_success.txt', 'd/0'):
        storage.write(place / '7' / name, b'')
    retention.delete(place / '7')
    assert not (place / '7').exists() and proxy.faults['lost reply'] > 9


def test_a_step_whose_manifests_lose_their_replies_is_written_again(place, proxy):
    """TensorStore repeats such a write, finds an array there, its own, and gives up."""
    lost = set()

    def choose(method, path, body):
        name = path.partition('&name=')[2].partition('&')[0]
        if method != 'POST' or not name.endswith('manifest.ocdbt') or name in lost:
            return None
        lost.add(name)
        return 'lost reply'

    proxy.choose = choose
    program, history = saved.saved(place, 2)
    assert len(lost) >= 4 and checkpoint.steps(place) == [1, 2]
    for step in (1, 2):
        assert saved.same(checkpoint.restore(place, step, program.state), history[step])


def test_a_store_that_stays_away_is_named_and_no_directory_seems_absent(place, proxy):
    file = place / 'run' / 'object'
    storage.write(file, b'1')
    proxy.choose = lambda *request: 'lost request'
    with pytest.raises(OSError, match=f'ServerDisconnectedError.*{file}'):
        storage.write(file, b'2')
    with pytest.raises(Exception, match='disconnected'):
        (place / 'run').is_dir()
