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
from experiments import claims, figure2_layers, figure2_zero_shot, table5_ablations, tables
from experiments.reproduce import __main__ as reproduce
from experiments.reproduce import clock as clock_lib
from experiments.reproduce import inputs, plan, report
from gpt1_jax.errors import Interrupted, UserError
from tiny import load_config, override

pytestmark = pytest.mark.full

MEASURED = {'tokens_per_s': 500_000.0, 'step_seconds': 64 * 512 / 500_000, 'flops_per_token': 752.75e6,
            'device': '1 x NVIDIA H200', 'mfu': 0.38}


def test_time_used_adds_up_over_starts(tmp_path):
    for _ in range(2):
        clock = clock_lib.Clock(tmp_path / 'clock.json', 100)
        for stage in ('small', 'large'):
            with clock.counting(stage):
                time.sleep(0.1)
                inside = clock.used
    used = clock.used
    assert 0.4 <= used < 10 and used - inside < 0.1 + inside and clock.left == 100 - used
    time.sleep(0.1)
    assert clock.used == used  # outside, no time counts
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
    with pytest.raises(Interrupted), clock_lib.stoppable(), clock.counting('a'):
        time.sleep(30)
    assert time.monotonic() - began < 20
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_from_outside_interrupts_too():
    with pytest.raises(Interrupted, match='rerun the same command'), clock_lib.stoppable():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)


def test_a_stop_is_no_failure_of_what_is_under_way():
    """Writing a checkpoint, reading a row, a run: each takes any Exception for its own."""
    with pytest.raises(Interrupted), clock_lib.stoppable(), contextlib.suppress(Exception):
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


def test_time_is_spent_in_the_order_of_priority():
    config = reproduce.checked(load_config('one_gpu'), 'out')
    stages = plan.all_runs(config, (100, 200))
    assert list(stages) == ['pretrain', 'zero_shot', 'small', 'large', 'layers', 'race', 'pretrain_lstm',
                            'zero_shot_lstm', 'lstm', 'grid']
    assert [one.name for one in stages['small'][:4]] == [
        'cola-full-0', 'cola-no_pretraining-0', 'cola-no_aux-0', 'mrpc-full-0']
    assert len(stages['small']) == 6 * 3 * 3 and len(stages['large']) == 6 * 3
    assert [one.seed for one in stages['small']] == sorted(one.seed for one in stages['small'])
    assert [one.config.n_transfer for one in stages['layers']] == [0, 2, 4, 6, 8, 10]
    assert {one.steps for one in stages['zero_shot']} == {(100, 200)}
    assert plan.runs(config, 'lstm', (100,)) == [] != stages['lstm']


@pytest.mark.parametrize('name', ['reproduce', 'small_cpu', 'overnight_cpu'])
def test_the_stages_have_every_run_of_the_tables_and_figures(name, monkeypatch):
    config = reproduce.checked(load_config(name), 'out')
    planned = {one.name for specs in plan.all_runs(config, (1,)).values() for one in specs}
    config.lstm, config.zero_shot_steps = 'lstm', (1,)
    depth = config.pretrain.model.n_layer
    monkeypatch.setattr(figure2_layers, 'conditions', lambda _: {n: f'layers_{n}' for n in range(depth)})
    wanted = [*claims.specs(config), *table5_ablations.specs(config), *figure2_zero_shot.specs(config),
              *(spec for spec in tables.specs(config, (2, 3, 4)) if spec.task != 'wnli')]
    assert {one.name for one in wanted} <= planned


@pytest.mark.parametrize('change, message', [
    (dict(stages=('pretrain', 'smal')), "config.stages: 'smal' is not one of"),
    (dict(runs__small__tasks=('colaa',)), "config.runs.small.tasks: there is no task 'colaa'"),
    (dict(runs__small__conditions=('fulll',)), "config.runs.small: 'fulll' is not one of full,"),
    (dict(minutes=None), 'give --minutes'), (dict(pretrained='nowhere'), 'nowhere: not a run directory')])
def test_what_is_wrong_with_a_plan_is_said_before_it_starts(change, message):
    with pytest.raises(UserError, match=message):
        reproduce.checked(override(load_config('one_gpu'), change), 'out')


def test_a_plan_fills_its_seconds_and_saves_a_dozen_updates_up_to_the_last():
    config = reproduce.checked(load_config('one_gpu'), 'out')
    made = plan.make(config, MEASURED, 30)  # 600 of 30 minutes x 0.35
    assert made['steps'] == int(600 * 0.9 / 0.065536) == 8239 and made['tokens'] == 8239 * 64 * 512
    assert len(made['saved']) == 12 and made['saved'][-1] == 8239 and made['saved'][0] == 16
    settings = plan.pretraining(config, made)
    assert (settings.train.steps, settings.optimizer.warmup_steps) == (8239, 330)
    assert settings.checkpoint.keep_steps == tuple(made['saved'])
    with pytest.raises(UserError, match='give more --minutes'):
        plan.make(config, MEASURED, 629)


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


def test_the_papers_hundred_epochs_follow_from_the_measured_speed():
    lines = report.paper_scale(MEASURED, 3.6)
    one, eight, tpus = (line for line in lines if line.startswith(('| 1 x', '| 8 of', '| TPU')))
    assert one == '| 1 x NVIDIA H200 | 500,000 | 2 d 7:33:20 | $200 |'  # 100e9 / 500,000 = 200,000 s
    assert eight.startswith('| 8 of them | 3,600,000 | 7:42:57 | $222 |')
    assert f'{256 * 197e12 * 0.4 / 752.75e6:,.0f}' in tpus


def test_throughput_and_mfu_are_told_by_tenths():
    rows = [{'step': step, 'loss': 5.0, 'tokens_per_s': 500_000.0 * (1 + (step > 50))} for step in range(5, 101, 5)]
    lines = report.throughput(MEASURED | {'steps': 100}, rows)
    assert lines[2] == '| 5 to 10 | 500,000 | 38.0% | 5.000 |' and lines[-2].split(' | ')[2] == '76.0%'


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
