"""An unknown flag is answered with the one that was meant."""
import pytest

from gpt1_jax.cli import config_file, config_help, unknown_flags

PRETRAIN = ['workdir', 'config', *(f'config.{name}' for name, *_ in config_help.fields(config_file.load('pretrain')))]


@pytest.mark.parametrize('given, meant', [
    ('batch_size', 'config.batch.size'), ('batch.size', 'config.batch.size'), ('n_layer', 'config.model.n_layer'),
    ('weight_decay', 'config.optimizer.weight_decay'), ('warmup', 'config.optimizer.warmup_steps'),
    ('micro-batches', 'config.batch.microbatches'), ('wrokdir', 'workdir'),
    ('steps', 'config.train.steps'), ('seeds', 'config.seed')])
def test_a_slip_names_the_field(given, meant):
    assert unknown_flags.suggestion(given, PRETRAIN) == f', did you mean --{meant}?'


def test_nothing_is_said_where_nothing_is_like_it():
    assert unknown_flags.suggestion('zzz', PRETRAIN) == ''
