"""A run whose work directory and token shards are in an object store is the run of a local directory."""
import re
import shutil

import jax
import numpy as np
import pytest

import emulator
import gpt1_jax
import saved
from event_files import points, points_of
from gpt1_jax import finetune, prepare, pretrain, storage, zero_shot
from gpt1_jax.data import corpus as corpus_lib
from gpt1_jax.data.parts import Part
from gpt1_jax.errors import UserError
from gpt1_jax.runs import checkpoint, console, results, resume, retention, workdir
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
    """A run of 30 steps in local directories: (its text, its directory)."""
    base = tmp_path_factory.mktemp('local')
    text = corpus(base / 'text')
    pretrain.run(pretrain_config(text, data__tokens=str(base / 'tokens'), **SIZE), base / 'run')
    return text, base / 'run'


def config_of(place, **overrides):
    return pretrain_config('', data__corpus='', data__tokens=f'{place}/tokens', **SIZE, **overrides)


@pytest.fixture(scope='module')
def prepared(local):
    """The text of `local`, its shards copied to the store."""
    place = storage.path(f'{emulator.bucket()}/prepared')
    storage.upload(local[1].parent / 'tokens', place / 'tokens')
    return place


def digests(directory, step=30):
    return checkpoint.read_meta(directory / 'checkpoints', step)['arrays']


def rows(directory):
    return [{name: value for name, value in row.items() if name not in ('tokens_per_s', 'seconds_left')}
            for row in results.read(directory / 'metrics.jsonl')]


def test_a_run_stopped_twice_is_the_local_run(local, prepared, cache, monkeypatch):
    """Weights, moments, metrics and the steps that are kept; once on another host, with an empty cache."""
    place, said = storage.path(f'{emulator.bucket()}/run'), console.print_line

    def stops_at(last):
        def say(step, *others):
            if step == last:
                raise KeyboardInterrupt  # as a second Ctrl-C
            said(step, *others)
        return say
    for last in (15, 25):
        monkeypatch.setattr(console, 'print_line', stops_at(last))
        with pytest.raises(KeyboardInterrupt):
            pretrain.run(config_of(prepared, tensorboard=True), place)
        shutil.rmtree(cache)
    monkeypatch.setattr(console, 'print_line', said)
    run = pretrain.run(config_of(prepared, tensorboard=True), place)
    assert digests(place) == digests(local[1])
    assert rows(place) == rows(local[1])
    assert points(place / 'tensorboard') == points_of(results.read(place / 'metrics.jsonl'))
    assert [row['step'] for row in results.read(place / 'environment.jsonl')] == [0, 10, 20]
    assert run.steps() == workdir.load(local[1]).steps()
    assert {name.split('/')[0] for name in storage.files(place)} == {
        'config.json', 'parameters.txt', 'environment.jsonl', 'tokenizer', 'checkpoints', 'metrics.jsonl',
        'tensorboard'}
    step = f'checkpoints/{run.steps()[-1]}/'
    assert {name.removeprefix(step) for name in storage.files(place) if name.startswith(step)} >= {
        'commit_success.txt', 'meta/data.json'}
    assert sorted(p.name for p in cache.rglob('*.bin'))  # shards have copies here


def test_fine_tuning_and_zero_shot_read_and_write_there(local, prepared, tmp_path):
    place = storage.path(f'{emulator.bucket()}/pretrained')
    storage.upload(local[1], place)
    data, here = cola(tmp_path / 'cola'), tmp_path / 'fine-tuned'
    found = [finetune.run(finetune_config('cola', data, init_from=str(origin)), directory)
             for origin, directory in ((local[1], here), (place, storage.path(f'{emulator.bucket()}/fine-tuned')))]
    assert [row['value'] for row in found[0]] == [row['value'] for row in found[1]]
    there = storage.path(f'{emulator.bucket()}/fine-tuned')
    assert storage.read(there / 'predictions_dev.jsonl') == storage.read(here / 'predictions_dev.jsonl')
    assert [row['value'] for row in results.read(there / 'results.jsonl')] == [
        row['value'] for row in results.read(here / 'results.jsonl')]
    values = [[row['value'] for row in zero_shot.run(override(
        load_config('zero_shot', 'cola'), {'init_from': str(origin), 'data__dir': str(data)}))]
        for origin in (local[1], place)]
    assert values[0] == values[1] and len(values[0]) > 1
    for origin, copy in ((local[1], place), (here, there)):
        one, other = gpt1_jax.load(origin), gpt1_jax.load(str(copy))
        assert other.path == str(copy) and other.step == one.step
        assert all(map(np.array_equal, jax.tree.leaves(one.params), jax.tree.leaves(other.params)))


def test_a_corpus_is_read_there(tmp_path):
    """Every kind of file, by directory, name and pattern, whole and in parts, as from the local disk."""
    import pyarrow
    import pyarrow.parquet
    local = tmp_path / 'mixed'
    (local / 'deep').mkdir(parents=True)
    (local / 'a.txt').write_text('The cat.')
    (local / 'deep' / 'b.jsonl.zst').write_bytes(pyarrow.compress(b'{"text": "sat"}\n' * 9, 'zstd', asbytes=True))
    (local / 'dataset_infos.json').write_text('{}')
    (local / '.git').mkdir()
    for hidden in ('._a.txt', '.git/note.txt'):
        (local / hidden).write_bytes(b'\0\5\x16\7')  # as macOS leaves them
    pyarrow.parquet.write_table(pyarrow.table({'text': [f'Row {i}.' for i in range(60)]}), local / 'c.parquet',
                                row_group_size=7)
    place = f'{emulator.bucket()}/mixed'
    storage.upload(local, storage.path(place))

    def read(*spec, part=None):
        return [(one.name.replace(place, str(local)), one.text) for one in corpus_lib.documents(spec, part=part)]
    assert sorted(read(place)) == sorted(read(str(local))) and len(read(place)) == 70
    for names in (['deep/b.jsonl.zst'], ['c.parquet', 'a.txt'], ['*.txt'], ['**/*.zst'], ['?[.e]*']):
        assert read(*(f'{place}/{name}' for name in names)) == read(*(f'{local}/{name}' for name in names)), names
    found = [read(f'{place}/', part=Part(i, 4)) for i in range(4)]
    assert sum(found, []) == read(place) and all(found[:2])
    arguments = dict(valid=0.2, merges=9, processes=1)
    assert prepare.prepare(tmp_path / 'from', corpus=f'{place}/c.parquet', **arguments) == \
        prepare.prepare(tmp_path / 'to', corpus=str(local / 'c.parquet'), **arguments)
    with pytest.raises(UserError, match='all 60 texts of valid are also in corpus'):
        prepare.prepare(tmp_path / 'both', corpus=f'{place}/c.parquet', valid=str(local / 'c.parquet'))
    for name, message in (('absent.txt', 'no such file or directory'), ('*.bin', 'no file matches this pattern'),
                          ('dataset_infos.json', 'line 1 has no field'), ('absent', 'no such file or directory')):
        with pytest.raises(UserError, match=f'{re.escape(name)}: {message}'):
            read(f'{place}/{name}')


@pytest.fixture
def three(tmp_path):
    """Steps 1 to 3 of a run, each test's its own: (directory, program, {step: arrays})."""
    place = storage.path(f'{emulator.bucket()}/three/{tmp_path.name}')
    return place, *saved.saved(place, 3, keep_latest=3)


def test_what_is_not_committed_is_no_step_and_goes(three):
    place, program, history = three
    (place / '3' / retention.COMMITTED).unlink()  # a save, or a removal, that was cut short
    assert checkpoint.steps(place) == [1, 2]
    state = resume.resume(place, program.state)
    writer = checkpoint.Writer(place, keep_latest=2)
    assert not [name for name in storage.files(place) if name.startswith('3/')]
    writer.save(saved.advanced(program, state), {})
    writer.close()
    assert checkpoint.steps(place) == [2, 3] and not [name for name in storage.files(place) if name.startswith('1/')]
    assert saved.same(checkpoint.restore(place, 3, program.state), history[3])
