"""What a resumed run says of its metrics.jsonl."""
import json
import shutil

import pytest

from gpt1_jax import pretrain
from tiny import corpus, pretrain_config


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, directory) of a run that was stopped after 4 of 6 steps, with a row a step."""
    base = tmp_path_factory.mktemp('run')
    config = pretrain_config(corpus(base / 'text'), train__steps=4, log_every=1)
    return config, pretrain.run(config, base / 'run').path


@pytest.mark.parametrize('rows, missing', [(4, None), (2, '3 to 4'), (0, '1 to 4')])
def test_missing_rows_are_reported(run, rows, missing, tmp_path, capsys):
    config, directory = run
    copy = tmp_path / 'run'
    shutil.copytree(directory, copy)
    lines = [line for line in (copy / 'metrics.jsonl').read_text().splitlines() if 'learning_rate' in json.loads(line)]
    (copy / 'metrics.jsonl').write_text(''.join(f'{line}\n' for line in lines[:rows]))
    with config.unlocked():
        longer = config.copy_and_resolve_references()
        longer.train.steps = 6
    pretrain.run(longer, copy, allow_change=True)
    notices = [line for line in capsys.readouterr().out.splitlines() if line.startswith('notice:')]
    assert notices == ([f'notice: {copy}/metrics.jsonl has no rows for steps {missing}'] if missing else [])
