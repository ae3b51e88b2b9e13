"""--config: a path, or a config of the package, and its fields in --help; the answers to mistakes
in flags."""

import re
import sys

import pytest
from absl import flags
from gpt1_jax.configs.pretrain import RULES, warmup_steps

from gpt1_jax import cli, pretraining, rules
from gpt1_jax.cli import config_file, config_help
from gpt1_jax.errors import UserError
from refusal import refusal
from tiny import ROOT, load_config


def test_a_name_without_a_file_is_that_of_a_packaged_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_file.path_of('finetune:rte') == f'{ROOT}/configs/finetune.py:rte'


@pytest.mark.parametrize(
    'given, hint',
    [
        ('pretrian', ", did you mean 'pretrain'[?]"),
        ('elsewhere/finetune.py:rte', ", did you mean 'finetune'[?]"),
        ('zzz.py', '; packaged: ablate, babylm, custom, '),
    ],
)
def test_another_name_is_one_line_with_what_there_is(tmp_path, monkeypatch, given, hint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f'^--config={given}: no such file{hint}'):
        config_file.path_of(given)


def test_the_help_of_pretrain_says_which_config_suits_which_machine():
    names = re.findall(r'^[A-Z].* --config=([\w:]+)', pretraining.__doc__, re.MULTILINE)
    assert names == ['notebook', 'pretrain', 'overnight_cpu:pretrain']
    for name in names:
        config = config_file.load(name)
        assert {*rules.flatten(config), *config} >= RULES.keys()
    assert config_file.load('notebook').data.corpus == 'novels'


def test_a_config_of_experiments_names_its_part_for_the_program(monkeypatch):
    for given, message in {
        'overnight_cpu': ': give --config=overnight_cpu:pretrain$',
        'one_gpu': 'a program of experiments/$',
    }.items():
        with pytest.raises(UserError, match=message):
            config_of(monkeypatch, f'--config={given}', default='pretrain')


def config_of(monkeypatch, *words, default='finetune:cola'):
    values = flags.FlagValues()
    monkeypatch.setattr(flags, 'FLAGS', values)
    monkeypatch.setattr(sys, 'argv', ['program', *words])
    config_file.define(default, 'what to run')
    values(sys.argv)
    return values.config


@pytest.mark.parametrize(
    'words',
    [
        ['--config', 'finetune:rte', '--config.batch.size=7'],
        ['--config.batch.size=7', '--config=finetune:rte'],
    ],
)
def test_overrides_stand_before_or_after_the_config(monkeypatch, words):
    config = config_of(monkeypatch, *words)
    assert (config.task, config.batch.size) == ('rte', 7)


def test_a_config_without_a_value_is_not_the_default(monkeypatch):
    with pytest.raises(UserError, match='^--config=: no such file; packaged: '):
        config_of(monkeypatch, '--config=finetune:rte', '--config')


def test_an_unknown_field_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['gpt1 pretrain', '--config.train.lr=3'])
    with pytest.raises(SystemExit):
        cli._exit_if_bad(config_of, monkeypatch, *sys.argv[1:])
    assert capsys.readouterr().err.startswith('error: config has no field train.lr')


@pytest.mark.parametrize(
    'default, given, owner',
    [
        ('pretrain', 'finetune:cola', 'for gpt1 finetune'),
        ('experiments', 'pretrain', 'for gpt1 pretrain'),
        ('pretrain', 'small_cpu', 'not for gpt1 pretrain, but for a program of experiments/'),
    ],
)
def test_a_config_of_another_program_is_named_before_its_overrides_are_read(
    monkeypatch, default, given, owner
):
    with pytest.raises(UserError, match=f'^this config is {owner}$'):
        config_of(monkeypatch, f'--config={given}', '--config.data.corpus=text', default=default)


def test_none_unsets_a_field_and_commas_make_a_list(monkeypatch):
    config = config_of(
        monkeypatch,
        '--config=custom',
        '--config.data.n_ctx=None',
        '--config.custom.choices=sports,politics',
        "--config.eval.splits=('dev','test')",
    )
    assert config.data.n_ctx is None and config.eval.splits == ('dev', 'test')
    assert config.custom.choices == ('sports', 'politics')


@pytest.mark.parametrize(
    'field, words, value',
    [
        ('batch.size', '=7', 7),
        ('data.valid', '=0.4', '0.4'),
        ('init_from', '=None', None),
        ('checkpoint.keep_steps', '=1,2', (1, 2)),
        ('checkpoint.keep_steps', '=1,2 --config.checkpoint.keep_steps=(3,)', (3,)),
        ('optimizer.peak_rate', '=1e-3', 1e-3),
        ('model.remat', '', True),
    ],
)
def test_a_field_gets_a_value_of_its_type(monkeypatch, field, words, value):
    config = config_of(monkeypatch, *f'--config.{field}{words}'.split(), default='pretrain')
    assert rules.flatten(config)[field] == value


@pytest.mark.parametrize(
    'source, argument, message',
    [
        ('def get_config(:', '', 'mine.py: SyntaxError: invalid syntax (mine.py, line 1)'),
        ('x = 1', '', 'mine.py: no function get_config in it'),
        ('def get_config(): return {}', '', 'mine.py: get_config returns dict, must return an ml_'),
        ('def get_config(): return data', '', "mine.py: line 1: NameError: name 'data' is not"),
        ('def get_config(): return 1', ':x', 'mine.py: TypeError: get_config() takes 0 positional'),
        (None, 'babylm:10', "babylm.py: no track '10', did you mean '10M'? (there are 10M, 100M"),
    ],
)
def test_what_is_wrong_with_a_config_file_or_its_argument_is_one_line(
    tmp_path, source, argument, message
):
    if source is not None:
        (tmp_path / 'mine.py').write_text(source)
        argument = f'{tmp_path}/mine.py{argument}'
    assert message in refusal(config_file.load, argument)


@pytest.mark.parametrize(
    'given', ['pretrain', 'finetune:rte', 'zero_shot:cola', 'custom', 'overnight_cpu:lstm']
)
def test_help_has_a_line_for_every_field_with_its_comment(given):
    config, comments = config_help.load(given)
    assert not [name for name, *_ in config_help.fields(config) if not comments[name]]
    assert max(map(len, config_help.lines(config, comments))) <= config_help.WIDTH


def test_a_comment_is_that_of_the_field_where_several_configs_have_one_of_its_name():
    comments = config_help.load('overnight_cpu:pretrain')[1]
    assert comments['optimizer.peak_rate'] == 'peak learning rate (4.1: 2.5e-4)'
    comments = config_help.load('small_cpu')[1]
    assert comments['finetune.optimizer.peak_rate'].startswith('peak learning rate (4.1: 6.25e-5')
    assert comments['curves.tasks'] == 'a curve each'


def test_the_papers_numbers_are_the_defaults():
    sizes = dict(n_layer=12, n_embd=768, n_head=12, n_inner=3072, n_ctx=512)
    rates = dict(embd_dropout=0.1, attn_dropout=0.1, resid_dropout=0.1)
    adam = dict(peak_rate=2.5e-4, weight_decay=0.01, b1=0.9, b2=0.999, eps=1e-8)
    c = load_config('pretrain')
    assert {**c.model} | sizes | rates == {**c.model}
    assert {**c.optimizer} | adam == {**c.optimizer}
    assert (c.batch.size, c.train.epochs, c.tokenizer.merges) == (64, 100, 40000)
    assert warmup_steps(c.optimizer.warmup_steps, total=10**6) == 2000
    f = load_config('finetune')
    adam = dict(warmup=0.002, schedule='linear', weight_decay=0.01)
    assert {**f.optimizer} | adam == {**f.optimizer} and f.classifier_dropout == 0.1
    for f in (load_config('experiments').finetune, load_config('one_gpu').finetune):
        assert (f.optimizer.peak_rate, f.train.epochs) == (6.25e-5, 3)
        assert (f.batch.size, f.lm_weight) == (32, 0.5)


@pytest.mark.parametrize(
    'word, message',
    [
        ('--rows=2.5', 'flag --rows=2.5: invalid literal for int'),
        ('--sure=perhaps', "flag --sure=perhaps: ('Non-boolean argument"),
        ('--rows=2', 'flag --prompt=None: Flag --prompt must have a value other than None'),
    ],
)
def test_values_of_the_wrong_type_and_missing_flags_are_named(monkeypatch, capsys, word, message):
    values = flags.FlagValues()
    flags.DEFINE_integer('rows', 1, '', flag_values=values)
    flags.DEFINE_bool('sure', True, '', flag_values=values)
    flags.DEFINE_string('prompt', None, '', flag_values=values, required=True)
    monkeypatch.setattr(flags, 'FLAGS', values)
    with pytest.raises(SystemExit) as caught:
        cli._exit_if_bad(values, ['program', word])
    printed = capsys.readouterr().err
    assert caught.value.code == 2 and printed.count('\n') == 1
    assert printed.startswith(f'error: {message}')
