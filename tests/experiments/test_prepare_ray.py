"""Section 4.1: a corpus prepared by Ray, with one of its processes killed, is the corpus prepared
at once."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from experiments.launch import prepare_ray
from gpt1_jax.data import bpe_training, prepared
from gpt1_jax.data.parts import Part
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare
from tiny import ROOT, sentence

WAIT = 300  # seconds; for a busy machine
PARTS = 3


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """A directory with corpus.parquet, a tokenizer in vocabulary/, and the corpus prepared at once
    in whole/."""
    here = tmp_path_factory.mktemp('made')
    rng = random.Random(0)
    texts = ['\n'.join(sentence(rng) for _ in range(300)) for _ in range(12)]
    pyarrow.parquet.write_table(
        pyarrow.table({'body': texts}), here / 'corpus.parquet', row_group_size=1
    )
    bpe_training.train(texts, merges=60).save(here / 'vocabulary')
    prepare(
        here / 'whole',
        str(here / 'corpus.parquet'),
        0.3,
        str(here / 'vocabulary'),
        text_field='body',
    )
    return here


@contextlib.contextmanager
def started(made, home, out, field):
    """The program, in the directory of `made` with relative paths, and its own HOME, where Ray
    keeps a token."""
    pytest.importorskip('ray', reason='needs the extra: ray')
    home.mkdir()
    environment = os.environ | {
        'PYTHONPATH': str(ROOT),
        'HOME': str(home),
        'RAY_USAGE_STATS_ENABLED': '0',
    }
    line = [
        sys.executable,
        '-m',
        'experiments.launch.prepare_ray',
        f'--out={out}',
        '--corpus=corpus.parquet',
        '--valid=0.3',
        '--tokenizer=vocabulary',
        f'--text_field={field}',
        f'--parts={PARTS}',
    ]
    program = subprocess.Popen(
        line, cwd=made, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield program
    finally:
        program.kill()


def kill_holder(part: pathlib.Path, program):
    """Kill the process that prepares a part, once it has begun; its number stands in the part's
    lock."""
    deadline = time.monotonic() + WAIT
    while not (part / 'tokenizer' / 'tokenizer.json').exists():
        assert program.poll() is None and time.monotonic() < deadline, program.communicate()
        time.sleep(0.01)
    os.kill(json.loads((part / '.lock').read_text())['pid'], signal.SIGKILL)
    assert not (part / prepared.MANIFEST).exists()


@pytest.mark.full
def test_a_part_that_dies_is_run_again_and_the_merged_streams_are_those_of_one_run(made, tmp_path):
    out = tmp_path / 'out'
    with started(made, tmp_path / 'home', out, 'body') as program:
        kill_holder(out / Part(1, PARTS).name, program)
        said, errors = program.communicate(timeout=WAIT)
    assert program.returncode == 0, errors
    assert f'{PARTS} of {PARTS} parts\ntrain: ' in said
    assert prepared.read_manifest(out)['inputs'] == prepared.read_manifest(made / 'whole')[
        'inputs'
    ] | {'parts': PARTS}
    for split in ('train', 'valid'):
        one, merged = (
            np.concatenate(prepared.open_split(directory, split, verify=True).shards)
            for directory in (made / 'whole', out)
        )
        np.testing.assert_array_equal(merged, one)


@pytest.mark.full
def test_a_mistake_in_the_input_is_one_line_and_not_tried_again(made, tmp_path):
    with started(made, tmp_path / 'home', tmp_path / 'out', 'text') as program:
        said, errors = program.communicate(timeout=WAIT)
    assert (program.returncode, said) == (1, '')
    assert (
        errors.splitlines()[-1]
        == f"error: {made / 'corpus.parquet'}: no column 'text' (columns: body)"
    )
    assert 'Traceback' not in errors


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'ray', None)  # an import of it fails
    with pytest.raises(UserError, match=r"Ray is not installed: pip install 'gpt1_jax\[ray\]'"):
        prepare_ray.run('out', ['corpus'], '0.3', 'vocabulary', 'text', parts=2)
