"""A few words while a model trains: they change nothing of the training."""
import pytest

from gpt1_jax import pretrain
from gpt1_jax.runs import results
from short_runs import points_of
from tiny import corpus, pretrain_config

pytestmark = pytest.mark.full


def trained(text, directory, capsys, **fields):
    run = pretrain.run(pretrain_config(text, train__steps=20, **fields), directory)
    rows = points_of(results.read(run.metrics))
    return capsys.readouterr().out, {name: rows[name] for name in ('loss', 'grad_norm', 'valid_loss')}


def test_the_losses_are_those_of_a_run_without_samples(tmp_path, capsys):
    text = corpus(tmp_path / 'text')
    said, rows = trained(text, tmp_path / 'with', capsys, eval__sample=5)
    silent, others = trained(text, tmp_path / 'without', capsys)
    samples = [line for line in said.splitlines() if ' | ' in line]
    assert rows == others and len(samples) == 2 and ' | ' not in silent
    prompts = {line.split(' | ')[0] for line in samples}
    assert len(prompts) == 1 and all(line.split(' | ')[1] for line in samples)
