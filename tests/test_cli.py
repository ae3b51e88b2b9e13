"""A user's mistake is one line and a non-zero exit."""
import re
import subprocess
import sys

import pytest

from gpt1_jax import pretrain
from gpt1_jax.data import bpe_training
from gpt1_jax.errors import UserError
from tiny import ROOT, cola, command, corpus, load_config, override, pretrain_config

pytestmark = pytest.mark.full


def complaint(found):
    """The one line of a failed command, without 'error: '."""
    assert found.returncode != 0, found.stdout
    lines = [line for line in found.stderr.splitlines() if line.startswith('error: ')]
    assert len(lines) == 1 and 'Traceback' not in found.stderr, found.stderr
    return lines[0].removeprefix('error: ')


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('cli') / 'text')


def pretrain_command(tmp_path, *arguments):
    return complaint(command('pretrain', '--config=configs/pretrain.py', f'--workdir={tmp_path / "run"}', *arguments))


def test_an_unknown_field_names_the_near_miss(tmp_path):
    line = pretrain_command(tmp_path, '--config.batch.sise=8')
    assert 'sise' in line and 'size' in line.replace('sise', '')


def test_a_key_that_a_dict_of_the_config_lacks_is_named_with_its_flag(tmp_path):
    (tmp_path / 'mine.py').write_text('from gpt1_jax.configs import experiments\nget_config = experiments.get_config\n')
    flag = '--config.zero_shot.blimp.data.rows'
    line = complaint(command('pretrain', f'--config={tmp_path / "mine.py"}', f'{flag}=5'))
    assert line == (f"{flag}: the config has no 'blimp' there (a config file can add names to overrides such as "
                    'config.tasks)')


def test_an_unknown_flag_names_the_field_that_was_meant(tmp_path):
    line = pretrain_command(tmp_path, '--batch_size=8')
    assert line == "Unknown command line flag 'batch_size', did you mean --config.batch.size?"
    assert "'zzz'" in pretrain_command(tmp_path, '--zzz=8')


def test_a_value_of_the_wrong_type_names_the_field(tmp_path):
    assert 'batch.size' in pretrain_command(tmp_path, '--config.batch.size=many')


def test_a_missing_config_file_is_named(tmp_path):
    found = command('pretrain', '--config=configs/nothing.py', f'--workdir={tmp_path}')
    assert 'configs/nothing.py' in complaint(found)


def test_a_warning_about_data_is_one_line(tmp_path):
    data = cola(tmp_path / 'cola')
    bpe_training.train(['the cat sat'], merges=3).save(tmp_path / 'tokenizer')
    done = command('finetune', '--config=configs/finetune.py:cola', '--inspect', f'--config.data.dir={data}',
                   f'--config.tokenizer={tmp_path / "tokenizer"}', check=0)
    assert done.stderr == f'warning: {data}/train.tsv (cola train): 40 rows, the published set has 8,551\n' * 2


def test_no_corpus_at_all_says_what_to_give(tmp_path):
    assert 'config.data.corpus is empty' in pretrain_command(tmp_path)


def test_no_workdir_says_what_to_give():
    assert 'give --workdir=DIR' in complaint(command('pretrain', '--config=configs/pretrain.py'))


def test_a_full_memory_is_one_line_that_says_what_takes_less():
    code = ('from gpt1_jax import cli; import jax.numpy as jnp; '
            'cli.run(lambda: jnp.zeros(10 ** 14, jnp.int8).block_until_ready(), lambda: None)')
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert re.match('RESOURCE_EXHAUSTED: Out of memory allocating 10+ bytes.*microbatches.*remat', complaint(done))


def test_all_bad_fields_are_listed_at_once(tmp_path):
    config = override(load_config('pretrain'), {'batch__size': -4, 'optimizer__b1': 1.5, 'log_every': 0})
    with pytest.raises(UserError) as caught:
        pretrain.run(config, tmp_path)
    assert str(caught.value) == (
        'config.log_every is 0, must be a whole number from 1 to 2,147,483,647; '
        'config.batch.size is -4, must be a whole number from 1 to 2,147,483,647; '
        'config.optimizer.b1 is 1.5, must be a number of at least 0 and below 1')


def test_a_batch_that_the_devices_do_not_divide_names_both(tmp_path):
    config = override(load_config('pretrain'), {'batch__size': 12})
    with pytest.raises(UserError, match=r'batch\.size = 12 in 1 microbatch\(es\) is not divisible by 8 devices'):
        pretrain.run(config, tmp_path)


def test_a_directory_that_holds_something_else_is_left_alone(tmp_path, text):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'thesis.txt').write_text('all my work')
    line = pretrain_command(tmp_path, f'--config.data.corpus={text}', '--config.tokenizer.merges=50',
                            '--config.train.steps=1', '--config.model.n_ctx=16')
    assert line == f'{tmp_path / "run"}: neither empty nor a run directory'
    assert (tmp_path / 'run' / 'thesis.txt').read_text() == 'all my work'


def test_fine_tuning_without_an_origin_says_what_to_give(tmp_path):
    line = complaint(command('finetune', '--config=configs/finetune.py:cola', f'--workdir={tmp_path / "run"}',
                             f'--config.data.dir={cola(tmp_path / "cola")}'))
    assert 'give --config.init_from=DIR' in line


@pytest.mark.parametrize('field, value', [
    ('batch.size', 2 ** 31), ('optimizer.peak_rate', float('nan')), ('mesh.data', 'all'), ('mesh', 7),
    ('data.corpus', 1.5), ('checkpoint.keep_steps', (None,)), ('seed', 2 ** 32)])
def test_a_field_of_another_kind_is_named(tmp_path, field, value):
    config = load_config('pretrain')
    *parents, name = field.split('.')
    with config.ignore_type():
        target = config
        for parent in parents:
            target = target[parent]
        target[name] = value
    with pytest.raises(UserError, match=f'^config.{field}[.a-z]* is .*, must be '):
        pretrain.run(config, tmp_path)


def test_more_updates_than_can_be_counted_are_refused(tmp_path):
    text = corpus(tmp_path / 'text')
    with pytest.raises(UserError, match='steps are too many, an int32 must hold them: give fewer config.train.epochs'):
        pretrain.run(pretrain_config(text, train__steps=None, train__epochs=10 ** 9), tmp_path / 'run')


def test_text_of_less_than_a_window_is_refused_whatever_the_steps(tmp_path):
    text = corpus(tmp_path / 'text', documents=8, sentences=2)
    with pytest.raises(UserError, match='training tokens are less than one batch .8 x 4000.: give more text'):
        pretrain.run(pretrain_config(text, train__steps=3, model__n_ctx=4000), tmp_path / 'run')
