"""What --config names: a path, or a config that comes with the package."""
import sys

import pytest
from absl import flags

from gpt1_jax.cli import config_file
from gpt1_jax.errors import UserError
from tiny import ROOT


def test_a_name_without_a_file_is_that_of_a_packaged_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_file.path_of('finetune:rte') == f'{ROOT}/configs/finetune.py:rte'
    monkeypatch.chdir(ROOT)
    assert config_file.path_of('finetune') == 'configs/finetune.py'


@pytest.mark.parametrize('given, hint', [
    ('pretrian', ", did you mean 'pretrain'[?]"), ('elsewhere/finetune.py:rte', ': --config=finetune:rte is the one'),
    ('zzz.py', '; packaged: ablate, babylm, custom, ')])
def test_another_name_is_one_line_with_what_there_is(tmp_path, monkeypatch, given, hint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(flags.IllegalFlagValueError, match=f'^--config={given}: no such file{hint}'):
        config_file.path_of(given)


def config_of(monkeypatch, *words, default='finetune:cola'):
    """The config of a command line."""
    values = flags.FlagValues()
    monkeypatch.setattr(flags, 'FLAGS', values)
    monkeypatch.setattr(sys, 'argv', ['program', *words])
    monkeypatch.setattr(config_file, '_unset', [])
    original = config_file.config_flags.DEFINE_config_file
    with monkeypatch.context() as patch:
        patch.setattr(config_file.config_flags, 'DEFINE_config_file',
                      lambda *given: original(*given, flag_values=values))
        config_file.define(default, 'what to run')
    values(sys.argv)
    config_file.unset(values.config)
    return values.config


@pytest.mark.parametrize('words', [
    ['--config=finetune:rte', '--config.batch.size=7'], ['--config', 'finetune:rte', '--config.batch.size=7'],
    ['-config=finetune:rte', '--config.batch.size=7'], ['--config.batch.size=7', '--config=finetune:rte']])
def test_the_flag_takes_both_ways_of_writing_and_overrides_before_and_after_it(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    config = config_of(monkeypatch, *words)
    assert (config.task, config.batch.size) == ('rte', 7)


@pytest.mark.parametrize('given', ['finetune:cola', 'zero_shot:cola'])
def test_a_config_of_another_program_is_named_before_its_overrides_are_read(monkeypatch, given):
    with pytest.raises(UserError, match=f'^this config is for gpt1 {given.partition(":")[0]}$'):
        config_of(monkeypatch, f'--config={given}', '--config.data.corpus=text', default='pretrain')


def test_none_unsets_a_field_and_commas_make_a_list(monkeypatch):
    config = config_of(monkeypatch, '--config=custom:dream', '--config.custom.cut=None', '--config.data.n_ctx=None',
                       '--config.custom.labels=sports,politics', '--config.batch.fixed_lengths=16,32',
                       "--config.eval.splits=('dev','test')")
    assert config.custom.cut is None and config.data.n_ctx is None
    assert config.custom.labels == ('sports', 'politics') and config.batch.fixed_lengths == (16, 32)
    assert config.eval.splits == ('dev', 'test')


@pytest.mark.parametrize('source, argument, message', [
    ('def get_config(:', '', 'line 1: invalid syntax'), ('x = 1', '', 'no function get_config in it'),
    ("def get_config():\n    return {'a': 1}", '', 'get_config returns dict, must return an ml_collections.ConfigDict'),
    ('def get_config():\n    return data', '', "line 2: NameError: name 'data' is not defined"),
    ('def get_config():\n    return 1', ':x', 'its get_config takes no argument, remove :x')])
def test_what_is_wrong_with_a_config_file_is_one_line(tmp_path, source, argument, message):
    (tmp_path / 'mine.py').write_text(source)
    with pytest.raises(UserError) as caught:
        config_file.load(f'{tmp_path}/mine.py{argument}')
    assert str(caught.value) == f'{tmp_path}/mine.py: {message}'


@pytest.mark.parametrize('given, message', [
    ('custom:nonsense', r"custom.py: no example 'nonsense' .there are own, sentiment, "),
    ('babylm:10', r"babylm.py: no track '10', did you mean '10M'\? .there are 10M, 100M, cpu"),
])
def test_an_unknown_argument_of_a_packaged_config_is_one_line(given, message):
    with pytest.raises(UserError, match=message):
        config_file.load(given)
