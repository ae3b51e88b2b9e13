"""A run whose object store loses requests and replies, or answers 429 and 503, is the run of a local directory."""
import asyncio
import os
import types

import pytest

import emulator
import saved
import unreliable
from gpt1_jax import pretrain, storage
from gpt1_jax.runs import checkpoint, console, lock, results, retention
from tiny import corpus, pretrain_config

pytestmark = pytest.mark.full

SIZE = {'model__n_ctx': 16, 'train__steps': 20, 'checkpoint__every': 10}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """(a directory in the store, the proxy in front of it), which does not fail yet."""
    import gcsfs.retry
    bucket = emulator.bucket()
    storage.path(f'{bucket}/any')  # imports the client
    proxy = unreliable.Proxy(os.environ['STORAGE_EMULATOR_HOST'])
    for name in ('STORAGE_EMULATOR_HOST', 'TENSORSTORE_GCS_HTTP_URL'):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    short = types.SimpleNamespace(sleep=lambda seconds: asyncio.sleep(seconds / 50))
    monkeypatch.setattr(gcsfs.retry, 'asyncio', short)
    yield storage.path(f'{bucket}/unreliable/{tmp_path.name}'), proxy
    proxy.server.shutdown()


def rows(directory):
    return [{name: value for name, value in row.items() if name not in ('tokens_per_s', 'seconds_left')}
            for row in results.read(directory / 'metrics.jsonl')]


def interrupt(step, *others):
    if step == 15:
        raise KeyboardInterrupt


def test_a_run_there_is_the_local_run_to_the_bit(store, tmp_path, monkeypatch):
    place, proxy = store
    text = corpus(tmp_path / 'text')
    pretrain.run(pretrain_config(text, data__tokens=str(tmp_path / 'tokens'), **SIZE), tmp_path / 'run')
    storage.upload(tmp_path / 'tokens', place / 'tokens')
    proxy.choose = unreliable.InTurn()
    config = pretrain_config('', data__corpus='', data__tokens=f'{place}/tokens', **SIZE)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(console, 'print_line', interrupt)
        pretrain.run(config, place / 'run')
    pretrain.run(config, place / 'run')
    assert min(proxy.faults.values()) >= 2, proxy.faults
    proxy.choose = unreliable.reliable
    there, here = ((checkpoint.steps(one / 'checkpoints'), checkpoint.read_meta(one / 'checkpoints', 20)['arrays'],
                    rows(one)) for one in (place / 'run', tmp_path / 'run'))
    assert there == here


def test_a_write_whose_reply_is_lost_is_written_once(store, tmp_path):
    """Objects, checkpoint markers, conditional writes, rows that are appended, locks and deletions."""
    place, proxy = store
    (tmp_path / 'files').mkdir()
    (tmp_path / 'files' / 'a').write_bytes(b'a')
    proxy.choose = unreliable.Once()
    storage.write(place / 'object', b'1')
    (place / 'text').write_text('2')  # as Orbax writes
    storage.upload(tmp_path / 'files', place)
    assert [storage.read(place / name) for name in ('object', 'text', 'a')] == [b'1', b'2', b'a']
    first = storage.replace(place / 'swapped', b'3', storage.ABSENT)
    assert first == storage.generation(place / 'swapped')
    assert storage.replace(place / 'swapped', b'4', storage.ABSENT) is None
    assert storage.read(place / 'swapped') == b'3'
    for row in ({'n': 1}, {'n': 2}):
        results.append(place / 'rows.jsonl', row)
    assert results.read(place / 'rows.jsonl') == [{'n': 1}, {'n': 2}]
    with lock.hold(place / 'locked') as held:
        held.check()
    assert storage.generation(place / 'locked' / lock.FILE) == storage.ABSENT
    for name in ('commit_success.txt', 'd/0'):
        storage.write(place / '7' / name, b'')
    retention.delete(place / '7')
    assert not (place / '7').exists()
    assert proxy.faults['lost reply'] > 9


def test_a_step_whose_manifests_lose_their_replies_is_written_again(store):
    """TensorStore repeats such a write, finds an array there, its own, and gives up."""
    place, proxy = store
    lost = set()

    def choose(method, path, body):
        path = path.partition('&name=')[2].partition('&')[0]
        if method != 'POST' or not path.endswith('manifest.ocdbt') or path in lost:
            return None
        lost.add(path)
        return 'lost reply'
    proxy.choose = choose
    program, history = saved.saved(place, 2)
    assert len(lost) >= 4 and checkpoint.steps(place) == [1, 2]
    assert all(saved.same(checkpoint.restore(place, step, program.state), history[step]) for step in (1, 2))


def test_a_store_that_stays_away_is_named_and_no_directory_seems_absent(store):
    place, proxy = store
    storage.write(place / 'run' / 'object', b'1')
    proxy.choose = lambda *request: 'lost request'
    for call in (lambda: storage.write(place / 'run' / 'object', b'2'), lambda: storage.read(place / 'run' / 'object')):
        with pytest.raises(OSError, match=f'ServerDisconnectedError.*{place}/run/object'):
            call()
    with pytest.raises(Exception, match='disconnected'):
        (place / 'run').is_dir()
