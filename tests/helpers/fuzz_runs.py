"""Fuzz targets for run directories: everything that programs do with them before they compute."""

import contextlib
import types
import warnings
from unittest import mock

import jax.numpy as jnp
import numpy as np

from fuzz_files import target
from gpt1_jax import finetuning, prepare, pretraining, zero_shot
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.evaluation import fine_tuned, load
from gpt1_jax.parallel import step_cost
from gpt1_jax.runs import checkpoint, session, workdir
from gpt1_jax.training import loop
from tiny import cola, corpus, finetune_config, load_config, override, pretrain_config


class Accepted(Exception):
    """Validation is over, and the computation would begin."""


def make_world(root):
    """A prepared corpus, a pretrained run, a fine-tuned run, CoLA."""
    world = types.SimpleNamespace(
        cola=cola(root / 'cola'),
        prepared=root / 'prepared',
        pretrained=root / 'pretrained',
        tuned=root / 'tuned',
    )
    text = corpus(root / 'text', documents=6, sentences=12)
    prepare.prepare(world.prepared, str(text), '0.3', merges=30, processes=1)
    world.vocabulary = Tokenizer.load(world.prepared / 'tokenizer')
    accepts(pretraining.run, pretraining_config(world), world.pretrained)
    add_steps(world.pretrained)
    accepts(finetuning.run, tuning(world, world.pretrained), world.tuned)
    return world


def add_steps(directory):
    for step in (5, 10):
        (directory / 'checkpoints' / str(step) / 'params').mkdir(parents=True, exist_ok=True)


def pretraining_config(world, **overrides):
    small = dict(model__n_ctx=64, eval__windows=2, batch__size=8)
    return pretrain_config('', data__tokens=str(world.prepared), **small, **overrides)


def tuning(world, init_from):
    return finetune_config('cola', world.cola, init_from=str(init_from), data__n_ctx=None)


def accepts(function, *arguments):
    """Calls an entry point up to its first computation."""
    stop = mock.Mock(side_effect=Accepted)

    def program(*args):
        hash(args)  # the real one caches by them
        state = types.SimpleNamespace(step=np.int32(0), params={'w': jnp.zeros(1)})
        return types.SimpleNamespace(state=state, init=lambda seed: state, mesh=args[3])

    array = {'shape': [1], 'dtype': 'float32', 'digest': '0' * 16}
    meta = {'quality': 0.5, 'arrays': {'params': {'w': array}}}
    with contextlib.ExitStack() as stack:
        for module, name, fake in (
            (pretraining, '_program', program),
            (finetuning, '_program', program),
            (loop, 'fit', stop),
            (step_cost, 'lines', lambda *args: []),
            (session, '_initial_state', lambda run, job, *rest: job.program.state),
            (checkpoint, 'Writer', mock.MagicMock()),
            (checkpoint, 'read_meta', lambda *args: meta),
            (checkpoint, 'restore_params', lambda *args: {}),
            (fine_tuned, 'logits', stop),
            (load, 'pretrained', stop),
        ):
            stack.enter_context(mock.patch.object(module, name, fake))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter('ignore')
        with contextlib.suppress(Accepted):
            function(*arguments)


def runs(root, world):
    """Files of a pretrained and of a fine-tuned run.

    Every program that resumes, evaluates or starts from a run reads them.
    """

    def opened(run):
        return workdir.load(run).step()

    def pretrained(run, directory=None, init_from=None, **options):
        config = pretraining_config(world, init_from=init_from and str(init_from))
        return pretraining.run(config, directory or run, **options)

    def scored_zero_shot(run):
        fields = {'data__dir': str(world.cola), 'init_from': str(run)}
        return zero_shot.run(override(load_config('zero_shot', 'cola'), fields))

    of_pretrained = (
        opened,
        lambda run: finetuning.run(tuning(world, run), run.parent / 'new'),
        lambda run: pretrained(run, run.parent / 'next', init_from=run),
        scored_zero_shot,
        pretrained,
        lambda run: pretrained(run, allow_change=True),
    )
    of_tuned = (
        opened,
        lambda run: fine_tuned.evaluate_run(workdir.load(run), 'dev'),
        lambda run: fine_tuned.evaluate_run(workdir.load(run), 'train', selection='final'),
        lambda run: finetuning.run(tuning(world, world.pretrained), run),
    )
    for path, calls in ((world.pretrained, of_pretrained), (world.tuned, of_tuned)):
        for call in calls:

            def read(directory, call=call):
                add_steps(directory)
                accepts(call, directory)

            yield target(path, read, named=False)
