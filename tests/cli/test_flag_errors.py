"""A mistake in a flag is answered with the flag, and with what was meant or is wanted."""
import sys

import pytest
from absl import flags

from gpt1_jax import cli
from gpt1_jax.cli import config_file, config_help, flag_errors

PRETRAIN = ['workdir', 'config', *(f'config.{name}' for name, *_ in config_help.fields(config_file.load('pretrain')))]


@pytest.mark.parametrize('given, meant', [
    ('batch_size', 'config.batch.size'), ('batch.size', 'config.batch.size'), ('n_layer', 'config.model.n_layer'),
    ('weight_decay', 'config.optimizer.weight_decay'), ('warmup', 'config.optimizer.warmup_steps'),
    ('micro-batches', 'config.batch.microbatches'), ('wrokdir', 'workdir'),
    ('steps', 'config.train.steps'), ('seeds', 'config.seed'), ('zzz', None)])
def test_a_slip_names_the_field_that_is_like_it_if_any(given, meant):
    assert flag_errors.suggestion(given, PRETRAIN) == (f', did you mean --{meant}?' if meant else '')


def error_of(monkeypatch, capsys, define, *words):
    """What a program with these flags prints for a command line."""
    monkeypatch.setattr(flags, 'FLAGS', flags.FlagValues())
    monkeypatch.setattr(sys, 'argv', ['program', *words])
    with pytest.raises(SystemExit) as caught:
        cli._exit_if_bad(define, flags.FLAGS)
        cli._exit_if_bad(flags.FLAGS, sys.argv)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize('word, wanted', [
    ('--rows=many', 'a whole number'), ('--rows=2.5', 'a whole number'), ('--rate=fast', 'a number'),
    ('--sure=perhaps', 'True or False')])
def test_a_value_of_the_wrong_type_is_named_with_what_it_must_be(monkeypatch, capsys, word, wanted):
    def define(values):
        for kind, name in ((flags.DEFINE_integer, 'rows'), (flags.DEFINE_float, 'rate'), (flags.DEFINE_bool, 'sure')):
            kind(name, 1, name, flag_values=values)
    assert error_of(monkeypatch, capsys, define, word) == f'error: {word}: must be {wanted}\n'


def test_flags_that_must_be_given_are_asked_for_with_their_help(monkeypatch, capsys):
    def define(values):
        for name, text in (('prompt', 'the text to continue'), ('init_from', 'a run')):
            flags.DEFINE_string(name, None, text, flag_values=values, required=True)
    assert error_of(monkeypatch, capsys, define) in (
        'error: give --prompt (the text to continue), --init_from (a run)\n',
        'error: give --init_from (a run), --prompt (the text to continue)\n')
