"""Mistakes that a config's rules, the machine and the data find; test_programs.py has those in
flags."""

import re

import pytest

from gpt1_jax import pretraining
from gpt1_jax.data import bpe_training
from gpt1_jax.errors import UserError
from tiny import cola, command, corpus, load_config, override, pretrain_config, python


def test_a_value_for_a_whole_group_of_fields_is_one_line(tmp_path):
    done = command('pretrain', '--config.optimizer=adam', f'--workdir={tmp_path}', check=2)
    assert done.stderr.startswith('error: config has no field optimizer, did you mean')
    assert done.stderr.count('\n') == 1


@pytest.mark.full
def test_a_program_of_the_experiments_shows_the_fields_of_its_config():
    done = python('-m', 'experiments.tables', '--config', 'configs/small_cpu.py', '--help')
    assert '\n  finetune.batch.size: int = ' in done.stdout and 'Traceback' not in done.stderr


@pytest.mark.full
def test_a_warning_about_data_is_one_line(tmp_path):
    data = cola(tmp_path / 'cola')
    bpe_training.train(['the cat sat'], merges=3).save(tmp_path / 'tokenizer')
    done = command(
        'finetune',
        '--config=configs/finetune.py:cola',
        '--inspect',
        f'--config.data.dir={data}',
        f'--config.tokenizer={tmp_path / "tokenizer"}',
        check=0,
    )
    assert done.stderr == (
        f'warning: {data}/train.tsv (cola train): 40 rows, the published set has 8,551\n'
        f'warning: {data}/dev.tsv (cola dev): 13 rows, the published set has 1,043\n'
    )


@pytest.mark.parametrize(
    'code, message',
    [
        pytest.param(
            'from gpt1_jax import cli; import jax.numpy as jnp; cli.run(lambda: jnp.zeros(10 ** '
            '14, jnp.int8).block_until_ready(), lambda: None)',
            r'(.*\n)*error: RESOURCE_EXHAUSTED: Out of memory .*microbatches.*remat(.*\n)*',
            marks=pytest.mark.full,
        ),
        (
            "import runpy, sys; sys.modules['lm_eval'] = None; sys.argv = ['lm_eval', "
            "'--init_from=runs', '--tasks=a']; runpy.run_module('gpt1_jax.lm_eval', "
            "run_name='__main__')",
            r'error: lm-evaluation-harness is not installed: pip install '
            r"'gpt1_jax\[lm-eval\]'\n",
        ),
    ],
    ids=['memory', 'harness'],
)
def test_a_full_memory_or_a_missing_harness_is_one_line_that_says_what_helps(code, message):
    done = python('-c', code, check=1)
    assert re.fullmatch(message, done.stderr) and 'Traceback' not in done.stderr
    assert done.stdout == ''


@pytest.mark.parametrize(
    'fields',
    [
        {'batch__size': 2**31},
        {'optimizer__peak_rate': float('nan')},
        {'checkpoint__keep_steps': (None,)},
        {'batch__size': -4, 'optimizer__b1': 1.5, 'log_every': 0},
    ],
    ids=', '.join,
)
def test_all_fields_with_a_wrong_value_are_named_at_once(tmp_path, fields):
    config = load_config('pretrain')
    with config.ignore_type():
        override(config, fields)
    with pytest.raises(UserError) as caught:
        pretraining.run(config, tmp_path)
    for field in fields:
        assert re.search(rf'config\.{field.replace("__", ".")} is .*, must be ', str(caught.value))


@pytest.mark.parametrize(
    'overrides, message',
    [
        (
            {'batch__size': 12},
            r'batch\.size = 12 in 1 microbatch\(es\) is not divisible by 8 devices',
        ),
        (
            {'model__n_ctx': 4000},
            'training tokens are less than one batch of 8 x 4000: give more text, or a smaller',
        ),
    ],
)
def test_what_does_not_fit_the_devices_or_the_text_is_refused(tmp_path, overrides, message):
    text = corpus(tmp_path / 'text', documents=8, sentences=2)
    with pytest.raises(UserError, match=message):
        pretraining.run(pretrain_config(text, **overrides), tmp_path / 'run')


@pytest.mark.full
def test_a_platform_that_jax_does_not_have_is_one_line(tmp_path):
    """With an empty cache, in which jax is first asked for a device inside a trace."""
    env = {'JAX_PLATFORMS': 'cuda', 'GPT1_JAX_CACHE': str(tmp_path)}
    found = command('generate', '--init_from=novels', '--prompt=x', check=1, env=env)
    assert found.stderr.count('\n') == 1
    assert found.stderr.startswith('error: JAX_PLATFORMS=cuda: jax has no such device here')
