"""Fuzz targets for run directories: everything that programs do with them before they compute."""

import contextlib
import types
import warnings
from unittest import mock

import jax.numpy as jnp
import numpy as np

from fuzz_files import Target, copied
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
        text=corpus(root / 'text', documents=6, sentences=12),
        cola=cola(root / 'cola'),
        prepared=root / 'prepared',
        pretrained=root / 'pretrained',
        tuned=root / 'tuned',
    )
    prepare.prepare(world.prepared, str(world.text), '0.3', merges=30, processes=1)
    world.vocabulary = Tokenizer.load(world.prepared / 'tokenizer')
    accepts(pretraining.run, pretraining_config(world), world.pretrained)
    add_steps(world.pretrained)
    accepts(finetuning.run, tuning(world), world.tuned)
    return world


def add_steps(directory):
    for step in (5, 10):
        (directory / 'checkpoints' / str(step) / 'params').mkdir(parents=True, exist_ok=True)


def pretraining_config(world):
    return pretrain_config(
        '', data__tokens=str(world.prepared), model__n_ctx=64, eval__windows=2, batch__size=8
    )


def tuning(world, **overrides):
    return finetune_config(
        'cola', world.cola, **dict(init_from=str(world.pretrained), data__n_ctx=None) | overrides
    )


def accepts(function, *arguments):
    """Calls an entry point up to its first computation."""

    def stop(*args, **kwargs):
        raise Accepted

    def program(*args):
        hash(args)  # the real one caches by them
        state = types.SimpleNamespace(step=np.int32(0), params={'w': jnp.zeros(1)})
        return types.SimpleNamespace(state=state, init=lambda seed: state, mesh=args[3])

    meta = {
        'quality': 0.5,
        'arrays': {'params': {'w': {'shape': [1], 'dtype': 'float32', 'digest': '0' * 16}}},
    }
    with contextlib.ExitStack() as stack:
        for module, name, fake in (
            (pretraining, '_program', program),
            (finetuning, '_program', program),
            (loop, 'fit', stop),
            (step_cost, 'lines', lambda *args: []),
            (session, 'initial_state', lambda run, program, *rest: program.state),
            (checkpoint, 'Writer', mock.MagicMock()),
            (checkpoint, 'read_meta', lambda *args: meta),
            (checkpoint, 'restore_params', lambda *args: {}),
            (fine_tuned, 'scores', stop),
            (load, 'pretrained', stop),
        ):
            stack.enter_context(mock.patch.object(module, name, fake))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter('ignore')
        with contextlib.suppress(Accepted):
            function(*arguments)


def runs(world):
    """Files of a pretrained and of a fine-tuned run.

    Every program that resumes, evaluates or starts from a run reads them.
    """

    def target(path, number, call):
        def read(directory):
            add_steps(directory)
            accepts(call, directory)

        return Target(f'{path.name}, {number}', copied(path), read, named=False)

    scored = {'data__dir': str(world.cola)}
    pretrained = (
        lambda run: workdir.load(run).step(),
        lambda run: finetuning.run(tuning(world, init_from=str(run)), run.parent / 'new'),
        lambda run: pretraining.run(
            override(pretraining_config(world), {'init_from': str(run)}), run.parent / 'next'
        ),
        lambda run: zero_shot.run(
            override(load_config('zero_shot', 'cola'), scored | {'init_from': str(run)})
        ),
        lambda run: pretraining.run(pretraining_config(world), run),
        lambda run: pretraining.run(pretraining_config(world), run, allow_change=True),
    )
    tuned = (
        lambda run: workdir.load(run).step(),
        lambda run: fine_tuned.evaluate_run(workdir.load(run), 'dev'),
        lambda run: fine_tuned.evaluate_run(workdir.load(run), 'train', selection='final'),
        lambda run: finetuning.run(tuning(world), run),
    )
    return [
        target(path, number, call)
        for path, calls in ((world.pretrained, pretrained), (world.tuned, tuned))
        for number, call in enumerate(calls)
    ]
