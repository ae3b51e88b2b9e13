"""Runs, and their exports, that several tests of the weights share."""

import shutil

import pytest

import exports
import released
from gpt1_jax.weights import hugging_face
from tiny import finetune_config


@pytest.fixture(scope='session')
def base(tmp_path_factory):
    return tmp_path_factory.mktemp('hugging_face')


@pytest.fixture(scope='session')
def pretrained(base):
    return exports.pretrained(base / 'pretrained')


@pytest.fixture(scope='session')
def exported(base, pretrained):
    hugging_face.export(pretrained.path, base / 'exported')
    return base / 'exported'


@pytest.fixture(scope='session')
def released_run(base):
    """The published vocabulary's layout."""
    released.write(base / 'released')
    return hugging_face.convert(
        base / 'released', base / 'released_run', origin='openai-community/openai-gpt'
    )


@pytest.fixture(scope='session')
def tuned(base, released_run):
    return exports.fine_tuned(base / 'tuned', finetune_config('cola', 'CoLA'), released_run)


@pytest.fixture(scope='session')
def classifier(base, tuned):
    hugging_face.export(tuned.path, base / 'classifier', license='apache-2.0')
    return base / 'classifier'


@pytest.fixture
def transformers():
    return pytest.importorskip('transformers')


@pytest.fixture
def theirs(released_run, base, tmp_path):
    """A directory to spoil."""
    if not (base / 'to_spoil').exists():
        hugging_face.export(released_run.path, base / 'to_spoil')
    shutil.copytree(base / 'to_spoil', tmp_path / 'theirs')
    return tmp_path / 'theirs'
