"""Nothing of the working directory runs unasked: every program and every function of the Python
interface works in a directory that is full of files that leave a mark when they run."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from gpt1_jax import __main__ as command_line
from gpt1_jax.cli import config_file
from tiny import ROOT, cola, command, corpus, python, small_flags

PAYLOAD = """
import os
with open({mark!r}, 'a') as file:
    file.write({name!r} + ' ')
"""
# Modules that the programs import only with an extra, or in some environments
OPTIONAL = ('tensorboardX', 'wandb', 'trackio', 'gcsfs', 'huggingface_hub', 'lm_eval', 'ray')
OPTIONAL += ('pandas', 'torch', 'tensorflow', 'sitecustomize', 'usercustomize', 'IPython')
IMPORTED = """
import sys
import gpt1_jax.api, gpt1_jax.zero_shot, gpt1_jax.verify, gpt1_jax.ablation.ablate
import gpt1_jax.weights.hugging_face, gpt1_jax.lm_eval
print(' '.join({name.partition('.')[0] for name in sys.modules}))
"""
# The console script that pip installs is this one
GPT1 = 'import sys\nfrom gpt1_jax.__main__ import main\nsys.exit(main())\n'
DOORS = """
import sys
import gpt1_jax

rows, text, runs = sys.argv[1:]
if __name__ == '__main__':
    novels = gpt1_jax.load('novels')
    novels.generate('The', tokens=2)
    small = {'train.steps': 1, 'model.n_layer': 1, 'model.n_embd': 16, 'model.n_head': 2,
             'model.n_inner': 16, 'model.n_ctx': 16, 'batch.size': 2, 'tokenizer.merges': 60,
             'data.valid': '0.2', 'data.processes': 2, 'optimizer.warmup_steps': 1,
             'eval.every': 1, 'eval.windows': 2, 'eval.batch_size': 2}
    small = gpt1_jax.pretrain(text, f'{runs}/python', fields=small)
    tuned = gpt1_jax.finetune(rows, f'{runs}/python_tuned', text='text', label='label',
                              init_from=small.path, fields={'train.epochs': 1})
    tuned.classify(['The cat sat.'])
"""


class Stranger:
    """A working directory of payloads, with the files of a user elsewhere."""

    def __init__(self, base):
        self.base = base
        self.here = base / 'stranger'
        self.mark = base / 'ran'
        self.names = set()
        self.here.mkdir()
        for name in config_file.packaged():
            self.add(name)
            self.add(f'{name}.py')
        imported = python('-c', IMPORTED, check=0).stdout.split()
        for name in {*imported, *sys.stdlib_module_names, *OPTIONAL} - {'__main__'}:
            self.add(f'{name}.py')
        # Names of tasks, and of files that libraries look for
        for name in ('blimp', 'rte', 'tokenizer_config.json', 'matplotlibrc'):
            self.add(name)
        # A run of the packaged model's name, which names code
        novels = self.here / 'novels'
        novels.mkdir()
        run = {'kind': 'pretrain', 'model': {'kind': f'{self.here}/payload.py:Net'}}
        (novels / 'config.json').write_text(json.dumps(run))
        self.add('payload.py')
        self.script = base / 'bin' / 'gpt1'
        self.script.parent.mkdir()
        self.script.write_text(GPT1)
        self.doors = base / 'bin' / 'doors.py'
        self.doors.write_text(DOORS)
        self.text = corpus(base / 'text')
        self.cola = cola(base / 'CoLA')
        self.rows = base / 'rows.csv'
        lines = [f'{"good" if i % 2 else "bad"} {i},{i % 2}' for i in range(40)]
        self.rows.write_text('\n'.join(['text,label', *lines]) + '\n')

    def add(self, name):
        self.names.add(name)
        (self.here / name).write_text(PAYLOAD.format(mark=str(self.mark), name=name))

    def run(self, *words):
        """Run Python on these words in the stranger's directory."""
        environment = os.environ | {'PYTHONPATH': str(ROOT), 'GPT1_JAX_HUGE_PAGES': '1'}
        return subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self.here,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def ran(self):
        """The names of the files that have run since the last call."""
        names = self.mark.read_text() if self.mark.exists() else ''
        self.mark.unlink(missing_ok=True)
        return names


@pytest.fixture(scope='module')
def stranger(tmp_path_factory):
    return Stranger(tmp_path_factory.mktemp('unasked'))


def commands(stranger):
    """Command lines of all programs, each of which succeeds. Later ones read earlier ones' runs."""
    runs = stranger.base / 'runs'
    small = small_flags(
        model__n_ctx=32, model__n_inner=64, train__steps=2, checkpoint__every=2, eval__every=2
    )
    return {
        'prepare': [
            f'--corpus={stranger.text}',
            '--valid=0.2',
            '--merges=60',
            '--processes=2',
            f'--out={runs}/tokens',
        ],
        'pretrain': [f'--config.data.corpus={stranger.text}', *small, f'--workdir={runs}/small'],
        'finetune': [
            f'--data={stranger.rows}',
            '--text=text',
            '--label=label',
            f'--init_from={runs}/small',
            '--config.train.epochs=1',
            f'--workdir={runs}/tuned',
        ],
        'predict': [
            f'--init_from={runs}/tuned',
            f'--input={stranger.rows}',
            f'--output={runs}/out.csv',
        ],
        'zero_shot': [
            '--config=zero_shot:cola',
            f'--config.init_from={runs}/small',
            f'--config.data.dir={stranger.cola}',
        ],
        'perplexity': [f'--init_from={runs}/small', f'--text={stranger.text}/00.txt'],
        'generate': ['--init_from=novels', '--prompt=The cat', '--tokens=2'],
        'metrics': [f'--predictions={runs}/tuned/predictions_dev.jsonl'],
        'verify': [f'--workdir={runs}/small'],
        'hugging_face': [f'--export={runs}/small', f'--out={runs}/export'],
        'ablate': [
            f'--out={runs}/search',
            '--dry_run',
            '--config.seeds=1',
            '--idea=1 head: model.n_head=1',
        ],
    }


def test_the_packaged_model_and_config_are_taken_and_no_file_of_their_names(stranger):
    found = stranger.run(stranger.script, 'generate', *commands(stranger)['generate'])
    assert (stranger.ran(), found.returncode) == ('', 0), found.stderr
    found = stranger.run(stranger.script, 'pretrain', '--config=pretrain', '--help')
    assert not stranger.ran()
    assert 'train.steps: int or None' in found.stdout, found.stderr


@pytest.mark.full
def test_no_program_runs_a_file_of_the_working_directory(stranger):
    by_program = commands(stranger)
    assert {*by_program} == {*command_line.PROGRAMS} - {'lm_eval'}  # it reads data sets of the Hub
    for program, words in by_program.items():
        found = stranger.run(stranger.script, program, *words)
        assert (stranger.ran(), found.returncode) == ('', 0), (program, found.stderr)


@pytest.mark.full
def test_nor_does_a_data_set_that_names_a_class(stranger):
    """TFDS would import the module of the class that features.json names."""
    place = stranger.here / 'tfds' / 'glue' / 'cola' / '2.0.0'
    place.mkdir(parents=True, exist_ok=True)
    (place / 'dataset_info.json').write_text('{"name": "glue", "version": "2.0.0"}')
    features = {'pythonClassName': 'payload.Evil', 'featuresDict': {'features': {}}}
    (place / 'features.json').write_text(json.dumps(features))
    found = stranger.run(
        stranger.script,
        'finetune',
        '--config=finetune:cola',
        '--config.data.dir=tfds:tfds',
        '--config.init_from=novels',
        '--inspect',
    )
    assert (stranger.ran(), found.returncode) == ('', 1), found.stderr
    assert 'payload.Evil' in found.stderr.splitlines()[-1]


@pytest.mark.full
def test_nor_does_python_m(stranger):
    package = stranger.here / 'gpt1_jax.py'  # Python itself would take it for the package
    package.unlink(missing_ok=True)
    found = stranger.run('-m', 'gpt1_jax', 'generate', *commands(stranger)['generate'])
    assert (stranger.ran(), found.returncode) == ('', 0), found.stderr


@pytest.mark.full
def test_nor_does_a_program_in_python(stranger):
    found = stranger.run(stranger.doors, stranger.rows, stranger.text, stranger.base / 'python')
    assert (stranger.ran(), found.returncode) == ('', 0), found.stderr


def test_a_config_that_the_command_names_may_import_its_neighbours(tmp_path):
    (tmp_path / 'neighbour.py').write_text('STEPS = 7\n')
    (tmp_path / 'wave.py').write_text('raise RuntimeError("shadows the library")\n')
    (tmp_path / 'mine.py').write_text(
        'import wave\nfrom gpt1_jax.configs import pretrain\nimport neighbour\n\n\n'
        'def get_config():\n    config = pretrain.get_config()\n'
        '    config.train.steps = neighbour.STEPS\n    return config\n'
    )
    where = dict(cwd=tmp_path, env={'PYTHONPATH': str(ROOT)})
    found = command('pretrain', '--config=mine.py', '--help', **where)
    assert 'train.steps: int = 7 ' in found.stdout, found.stderr


def test_a_file_without_an_ending_is_named_with_its_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = pathlib.Path('mine')
    here.write_text('from gpt1_jax.configs.pretrain import get_config\n')
    with pytest.raises(Exception, match='the file of this name is --config=./mine'):
        config_file.load('mine')
    assert config_file.load('./mine').train.epochs == 100
