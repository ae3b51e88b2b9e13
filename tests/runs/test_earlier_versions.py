"""Runs that commit b21a1d1 left half finished resume here with the losses that they would have had there."""
import pathlib
import tarfile

import pytest

from gpt1_jax import finetune, pretrain, verify
from gpt1_jax.runs import results
from gpt1_jax.training import optimizer
from tiny import ROOT, finetune_config, pretrain_config


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs of tiny models, stopped at steps 15 of 30 and 10 of 20, and the metrics of those that were not."""
    with tarfile.open(ROOT / 'tests' / 'fixtures' / 'runs_of_b21a1d1.tar.xz') as archive:
        archive.extractall(tmp_path, filter='data')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _figures(path):
    names = ('step', 'loss', 'lm_loss', 'task_loss', 'grad_norm', 'valid_loss', 'dev_accuracy')
    return [{name: row[name] for name in names if name in row} for row in results.read(pathlib.Path(path))]


def _assert_same(found, expected):
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected):
        assert row == pytest.approx(wanted, rel=2e-6)  # another CPU rounds otherwise


def test_a_pretraining_run_resumes_and_is_verified(runs):
    pretrain.run(pretrain_config('text', checkpoint__every=15), 'pretrain')
    _assert_same(_figures('pretrain/metrics.jsonl'), _figures('pretrain_metrics.jsonl'))
    rates = {row['step']: row['learning_rate'] for row in results.read(pathlib.Path('pretrain/metrics.jsonl'))
             if 'learning_rate' in row and row['step'] > 15}  # until then a row had the mean over its steps
    schedule = optimizer.warmup_cosine(0.01, 3, 30)
    assert rates == pytest.approx({step: float(schedule(step - 1)) for step in (20, 25, 30)}, abs=1e-8)
    assert verify.run('pretrain')[0].startswith('steps 15 to 30 replayed: ')


def test_a_fine_tuning_run_resumes_and_its_results_are_the_same(runs):
    config = finetune_config('cola', 'cola', init_from='pretrain_finished', init_step=30, train__epochs=4)
    rows = finetune.run(config, 'finetune')
    _assert_same(_figures('finetune/metrics.jsonl'), _figures('finetune_metrics.jsonl'))
    expected = {(row['metric'], row['step']): row['value']
                for row in results.read(pathlib.Path('finetune_results.jsonl'))}
    assert {(row['metric'], row['step']): row['value'] for row in rows} == expected
