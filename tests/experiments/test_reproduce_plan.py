"""The plan of a job and its clock: which runs in which order, device minutes that survive a kill."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import official
from experiments import figure2_layers, tables
from experiments.reproduce import __main__ as reproduce
from experiments.reproduce import clock as clock_lib
from experiments.reproduce import inputs, plan
from gpt1_jax.errors import Interrupted, UserError
from tiny import load_config, override

pytestmark = pytest.mark.full

@pytest.mark.quick
def test_time_used_adds_up_over_starts(tmp_path):
    for _ in range(2):
        clock = clock_lib.Clock(tmp_path / 'clock.json', 100)
        for stage in ('small', 'large'):
            with clock.counting(stage):
                time.sleep(0.1)
    used = clock.used
    time.sleep(0.1)  # outside, no time counts
    assert 0.4 <= clock.used == used < 10 and clock.left == 100 - used
    written = json.loads((tmp_path / 'clock.json').read_text())
    assert written.keys() == {'small', 'large'} and sum(written.values()) == pytest.approx(used, abs=0.2)


def test_a_kill_loses_at_most_what_was_not_noted(tmp_path):
    code = ('import sys, time\nfrom experiments.reproduce import clock as clock_lib\nclock_lib.EVERY = 0.05\n'
            'with clock_lib.Clock(sys.argv[1], 100).counting("a"):\n    print("in", flush=True)\n    time.sleep(60)')
    with subprocess.Popen([sys.executable, '-c', code, tmp_path / 'clock.json'], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(0.6)
        process.kill()
    assert 0.2 <= clock_lib.Clock(tmp_path / 'clock.json', 100).used < 10


@pytest.mark.parametrize('limits', [{'total': 0.2}, {'total': 100, 'start': 0.2}])
def test_past_the_total_or_this_starts_limit_the_work_is_interrupted(tmp_path, limits, monkeypatch):
    monkeypatch.setattr(clock_lib, 'EVERY', 0.05)
    before = signal.getsignal(signal.SIGTERM)
    began = time.monotonic()
    clock = clock_lib.Clock(tmp_path / 'clock.json', **limits)
    with pytest.raises(Interrupted), clock.counting('a'):
        time.sleep(30)
    assert time.monotonic() - began < 20
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_from_outside_interrupts_and_is_no_failure_of_what_is_under_way(tmp_path):
    """Writing a checkpoint, reading a row, a run: each takes any Exception for its own."""
    clock = clock_lib.Clock(tmp_path / 'clock.json')
    with pytest.raises(Interrupted, match='rerun the same command'), clock.counting('a'), contextlib.suppress(
            Exception):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)


def test_a_damaged_clock_is_named(tmp_path):
    (tmp_path / 'clock.json').write_text('{')
    with pytest.raises(UserError, match=r'clock\.json: damaged'):
        clock_lib.Clock(tmp_path / 'clock.json', 100)


def test_one_gpu_is_the_papers_model_in_half_an_hour():
    config = load_config('one_gpu')
    model, tuned = config.pretrain.model, config.finetune
    assert (model.n_layer, model.n_embd, model.n_head, model.n_ctx) == (12, 768, 12, 512)
    assert (config.pretrain.batch.size, config.minutes, config.seeds_small) == (64, 30, (0, 1, 2))
    assert (tuned.optimizer.peak_rate, tuned.train.epochs, tuned.lm_weight) == (6.25e-5, 3, 0.5)


@pytest.mark.quick
def test_time_is_spent_in_the_order_of_priority():
    config = reproduce.checked(load_config('one_gpu'), 'out')
    stages = plan.all_runs(config)
    assert list(stages) == ['pretrain', 'zero_shot', 'small', 'large', 'layers', 'race', 'pretrain_lstm',
                            'zero_shot_lstm', 'lstm', 'grid']
    assert [one.name for one in stages['small'][:4]] == [
        'cola-full-0', 'cola-no_pretraining-0', 'cola-no_aux-0', 'mrpc-full-0']
    assert len(stages['small']) == 6 * 3 * 3 and len(stages['large']) == 6 * 3
    assert [one.seed for one in stages['small']] == sorted(one.seed for one in stages['small'])
    assert [one.config.n_transfer for one in stages['layers']] == [0, 2, 4, 6, 8, 10]
    assert plan.runs(config, 'lstm') == [] != stages['lstm']


@pytest.mark.parametrize('name', ['reproduce', 'small_cpu', 'overnight_cpu'])
def test_the_stages_have_every_run_of_the_tables_and_figures(name, monkeypatch):
    config = reproduce.checked(load_config(name), 'out')
    planned = {one.name for one in plan.every_run(config)}
    config.lstm, config.zero_shot_steps = 'lstm', (1,)
    depth = config.pretrain.model.n_layer
    monkeypatch.setattr(figure2_layers, 'conditions', lambda _: {n: f'layers_{n}' for n in range(depth)})
    wanted = {one.name for name, part in tables.PARTS.items() for one in part.specs(config)
              if one.task != 'wnli' and name not in ('figure_blimp', 'gains')}
    assert wanted <= planned


@pytest.mark.parametrize('change, message', [
    (dict(stages=('pretrain', 'smal')), "config.stages: 'smal' is not one of"),
    (dict(runs__small__tasks=('colaa',)), "config.runs.small.tasks: there is no task 'colaa'"),
    (dict(runs__small__conditions=('fulll',)), "config.runs.small: 'fulll' is not one of full,"),
    (dict(minutes=None), 'give --minutes'), (dict(pretrained='nowhere'), 'nowhere: not a run directory')])
def test_what_is_wrong_with_a_plan_is_said_before_it_starts(change, message):
    with pytest.raises(UserError, match=message):
        reproduce.checked(override(load_config('one_gpu'), change), 'out')


def test_pretraining_fills_its_share_of_the_minutes_and_saves_a_dozen_updates_up_to_the_last(monkeypatch):
    config = reproduce.checked(load_config('one_gpu'), 'out')
    monkeypatch.setattr(plan, 'measure', lambda *_: {'tokens_per_s': 500_000.0, 'step_seconds': 0.065536})
    p = plan.pretraining(config, 30)  # 600 of 30 minutes x 0.35
    assert (p.train.steps, p.optimizer.warmup_steps) == (int(600 * 0.9 / 0.065536), 330)
    saved = p.checkpoint.keep_steps
    assert len(saved) == 12 and saved[0] == 16 and saved[-1] == 8239
    with pytest.raises(UserError, match='give more --minutes'):
        plan.pretraining(config, 629)


@pytest.mark.quick
def test_books_are_evenly_spaced_and_validation_books_are_used_where_there_are(tmp_path):
    for name in [*(f'train/{i}.txt' for i in range(6)), 'valid/0.txt', 'valid/1.txt']:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    train, valid = inputs.corpus(tmp_path, 3, 1)
    assert [pathlib.Path(name).name for name in train] == ['0.txt', '2.txt', '4.txt']
    assert valid == [f'{tmp_path}/valid/0.txt']
    assert inputs.corpus(f'{tmp_path}/train/*.txt', 100) == (
        [f'{tmp_path}/train/{i}.txt' for i in range(6)], inputs.HELD_OUT)
    with pytest.raises(UserError, match='no .txt files'):
        inputs.corpus(tmp_path / 'nothing')


def test_every_split_that_is_scored_is_packed(tmp_path, monkeypatch):
    """Test labels that are public, too: whether they are there is asked of the originals."""
    (tmp_path / 'sets' / 'StoryCloze').mkdir(parents=True)
    files = {f'cloze_test_{name}__spring2016.csv' for name in ('val', 'test')}
    for file in files:
        official.story_cloze(tmp_path / 'sets' / 'StoryCloze' / file)
    monkeypatch.setattr(inputs, 'tokenize', lambda *_: None)
    config = reproduce.checked(load_config('one_gpu'), tmp_path / 'out')
    for _ in range(2):  # the second time one file is missing
        inputs.prepare(config, plan.every_run, 'books', str(tmp_path / 'sets'), again=True)
        packed = tmp_path / 'out' / 'data' / 'StoryCloze'
        assert {file.name for file in packed.iterdir()} == files
        (packed / min(files)).unlink()
