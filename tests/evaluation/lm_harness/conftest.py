"""The model that the tests of lm-evaluation-harness share."""
import pytest

import harness_model
from gpt1_jax.evaluation import load
from gpt1_jax.runs import workdir
from gpt1_jax.weights import import_run


@pytest.fixture(scope='session')
def pretrained(tmp_path_factory):
    return harness_model.write(tmp_path_factory.mktemp('harness') / 'run')


@pytest.fixture(scope='session')
def model(pretrained):
    return load.pretrained(workdir.load(pretrained), import_run.STEP, harness_model.MESH)


@pytest.fixture(scope='session')
def lm(model):
    from gpt1_jax.evaluation import lm_harness  # it needs the extra, without which the tests are skipped
    return lm_harness.GPT1(*model, harness_model.MESH, harness_model.TOKENIZER, harness_model.BATCH)
