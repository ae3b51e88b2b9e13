"""A stranger's run executes nothing unasked: FILE:NAME in its config.json runs with --trust_code
only."""

import importlib.util
import json
import pathlib
import re

import pytest
from test_predict import MODEL, fitted, tokenizer

import gpt1_jax
import saved
from gpt1_jax import __main__ as command_line
from gpt1_jax import finetuning, pretraining, user_code, verify
from gpt1_jax.ablation import ledger
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir
from tiny import cola, corpus, finetune_config, pretrain_config, python

PAYLOAD = """
import pathlib
import optax
from gpt1_jax.models.gpt import GPT, GPTConfig

with (pathlib.Path(__file__).parent / 'ran').open('a') as file:
    file.write('ran ')


class Net(GPT):
    config: GPTConfig


def gelu(x):
    return x


def sgd(learning_rate):
    return optax.sgd(learning_rate)
"""
# Runs each command line, a list of words, in a process that has the imports already; prints
# [status, output, whether there is a mark now] of each.
COMMANDS = """
import json, os, runpy, sys, tempfile
import gpt1_jax.finetuning, gpt1_jax.verify, gpt1_jax.zero_shot, gpt1_jax.weights.export_hugging_face

lines, mark = json.loads(sys.argv[1])
for words in lines:
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.argv = ['gpt1', *words]
            runpy.run_module('gpt1_jax', run_name='__main__', alter_sys=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        print(json.dumps([status, output.read().decode(), os.path.exists(mark)]), flush=True)
"""


class Stranger:
    """Two runs, pretrained and fine-tuned, and a search. They name a file that leaves a mark when
    it runs."""

    def __init__(self, base):
        self.base = base
        self.file = base / 'payload.py'
        self.file.write_text(PAYLOAD)
        self.net = f'{self.file}:Net'
        corpus(base / 'text')
        cola(base / 'CoLA')
        model = MODEL | {'kind': self.net, 'vocab_size': tokenizer().vocab_size}
        user_code.trust({'model': model})
        code = user_code.digests({'model': model})
        path, params = fitted(base, 'cola', model=model, code=code)
        self.tuned = str(path)
        config = {'kind': 'pretrain', 'model': model, 'fingerprint': code}
        del params['backbone']['embed']['specials']
        run = saved.run(base / 'pretrained', config, tokenizer(), params['backbone'])
        self.pretrained = str(run.path)
        self.search = base / 'search'
        self.search.mkdir()
        adopted = {'stage': 'adopt', 'idea': 'a', 'changes': {'model.kind': self.net}}
        ledger.append(self.search, adopted | {'code': {}, 'of': 'x'})

    def ran(self):
        """Whether the file has run since the last call."""
        mark = self.base / 'ran'
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found


@pytest.fixture(scope='module')
def stranger(tmp_path_factory):
    return Stranger(tmp_path_factory.mktemp('stranger'))


@pytest.fixture
def fresh(monkeypatch, stranger):
    """The stranger's runs, in a process that has trusted and run nothing yet."""
    monkeypatch.setattr(user_code, '_trusted', set())
    monkeypatch.setattr(user_code, '_modules', {})
    stranger.ran()
    return stranger


def commands(stranger):
    """{program: the words that read a stranger's run}."""
    run = f'--init_from={stranger.pretrained}'
    config_run = f'--config.init_from={stranger.pretrained}'
    of_cola = f'--config.data.dir={stranger.base}/CoLA'
    out = f'{stranger.base}/out'
    return {
        'pretrain': ['--config.data.corpus=novels', config_run, f'--workdir={out}'],
        'finetune': [config_run, of_cola, f'--workdir={out}'],
        'predict': [
            f'--init_from={stranger.tuned}',
            f'--input={stranger.base}/CoLA/dev.tsv',
            f'--output={out}',
        ],
        'zero_shot': [config_run, of_cola],
        'perplexity': [run, f'--text={stranger.base}/text'],
        'generate': [run, '--prompt=The cat', '--tokens=2'],
        'lm_eval': [run, '--tasks=blimp'],
        'verify': [f'--workdir={stranger.pretrained}'],
        'hugging_face': [f'--export={stranger.pretrained}', f'--out={out}'],
        'ablate': [
            f'--out={stranger.search}',
            '--idea=2 heads: model.n_head=2',
            '--config.pretrain.train.steps=1',
        ],
    }


def test_no_program_runs_the_code_that_only_a_run_names(stranger):
    stranger.ran()
    by_program = commands(stranger)
    assert {*by_program} == {*command_line.PROGRAMS} - {'prepare', 'metrics'}  # which read no run
    if importlib.util.find_spec('lm_eval') is None:
        del by_program['lm_eval']
    lines = [[name, *words] for name, words in by_program.items()]
    lines.append(['finetune', '--evaluate_only', f'--workdir={stranger.tuned}'])
    trusted = [[name, *by_program[name], '--trust_code'] for name in ('generate', 'predict')]
    given = json.dumps([lines + trusted, str(stranger.base / 'ran')])
    shown = python('-c', COMMANDS, given, env={'GPT1_JAX_HUGE_PAGES': '0'}, check=0).stdout
    *refused, first, second = map(json.loads, shown.splitlines())
    for words, (status, output, ran) in zip(lines, refused, strict=True):
        place = stranger.tuned if stranger.tuned in ' '.join(words) else stranger.pretrained
        last = output.splitlines()[-1]
        place = 'baseline' if words[0] == 'ablate' else f'{place}/config.json'
        expected = f'error: {place}: config.model.kind = {stranger.net}: is code'
        assert (status, ran) == (1, False), (words, output)
        assert last.startswith(expected), (words, output)
        assert f'read {stranger.file}, then give --trust_code' in last
    for status, output, ran in (first, second):
        assert (status, ran) == (0, True), output


def test_python_runs_it_with_trust_code_and_only_that_of_this_run(fresh, tmp_path):
    refused = r'pretrained/config.json: config.model.kind = .*trust_code=True'
    with pytest.raises(UserError, match=refused):
        gpt1_jax.load(fresh.pretrained)
    assert not fresh.ran()
    assert gpt1_jax.load(fresh.pretrained, trust_code=True).kind == 'pretrain'
    assert fresh.ran()
    other = tmp_path / 'other.py'
    other.write_text(PAYLOAD)
    with pytest.raises(UserError, match='other.py:gelu: is code'):
        workdir.load(_edited(fresh, tmp_path, model={'ops': {'gelu': f'{other}:gelu'}}))
    assert not (tmp_path / 'ran').exists()


def test_a_command_whose_own_config_names_the_code_runs_it(fresh):
    config = finetune_config('cola', fresh.base / 'CoLA', init_from=fresh.pretrained)
    with pytest.raises(UserError, match='is code, which this command does not name'):
        finetuning.resolve(config)
    config.model.kind = fresh.net
    assert finetuning.resolve(config).sizes['kind'] == fresh.net
    assert fresh.ran()


def test_trust_in_one_name_of_a_file_is_not_trust_in_another(fresh):
    user_code.trust({'model': {'kind': fresh.net}})
    with pytest.raises(UserError, match='payload.py:gelu: is code'):
        user_code.load(f'{fresh.file}:gelu', 'config.model.ops.gelu')
    assert not fresh.ran()


@pytest.mark.parametrize('name', ['optax:adam.__globals__.get', 'optax:adam.__globals__', ':gelu'])
def test_a_name_that_leads_out_of_a_library_or_has_no_file_is_one_line(name):
    with pytest.raises(UserError, match=f'^config.model.ops.gelu = {re.escape(name)}: '):
        user_code.load(name, 'config.model.ops.gelu')


def test_a_run_that_is_resumed_may_not_name_other_code(fresh, tmp_path):
    run = _edited(fresh, tmp_path, model={'ops': {'gelu': f'{fresh.file}:gelu'}})
    with pytest.raises(UserError, match='payload.py:gelu: is code'):
        pretraining.run(pretrain_config(fresh.base / 'text', train__steps=2), run)
    assert not fresh.ran()


@pytest.mark.parametrize(
    'model',
    [
        {'ops': [['gelu', 'PAYLOAD:gelu']]},
        {'kind': ['PAYLOAD:Net']},
        {'kind': 'PAYLOAD:os.system'},
        {'ops': {'gelu': 'optax:contrib._muon.jax.device_get'}},
        {'kind': 'optax:lion'},
    ],
)
def test_no_form_of_a_config_runs_anything(fresh, tmp_path, model):
    model = json.loads(json.dumps(model).replace('PAYLOAD', str(fresh.file)))
    with pytest.raises(UserError):
        workdir.load(_edited(fresh, tmp_path, model=model))
    assert not fresh.ran()


def test_verify_does_not_run_the_optimizer_of_a_stranger(fresh, tmp_path):
    sgd = f'{fresh.file}:sgd'
    config = pretrain_config(fresh.base / 'text', train__steps=2, optimizer__kind=sgd)
    run = pretraining.run(config, tmp_path / 'run')
    user_code._trusted.clear()
    user_code._modules.clear()
    assert fresh.ran()
    gpt1_jax.load(run.path)  # needs no optimizer
    with pytest.raises(UserError, match=f'config.json: config.optimizer.kind = {sgd}: is code'):
        verify.run(run.path)
    assert not fresh.ran()


def _edited(stranger, tmp_path, model):
    """The directory of a run whose config.json has these fields of the model."""
    directory = tmp_path / 'run'
    directory.mkdir()
    config = json.loads((pathlib.Path(stranger.pretrained) / 'config.json').read_text())
    config['model'] = config['model'] | {'kind': 'gpt'} | model
    config['fingerprint'] = {}
    (directory / 'config.json').write_text(json.dumps(config))
    return directory
