"""What is fuzzed of run directories and of interrupted preparations: all that programs do before they compute."""
import contextlib
import json
import types
import warnings
from unittest import mock

import jax.numpy as jnp
import numpy as np

import fuzz_files
from gpt1_jax import finetune, prepare, pretrain, zero_shot
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned, load
from gpt1_jax.parallel import step_cost
from gpt1_jax.runs import checkpoint, session, workdir
from gpt1_jax.training import loop
from tiny import cola, corpus, finetune_config, load_config, override, pretrain_config


class Accepted(Exception):
    """Validation is over: what follows computes."""


def make_world(root):
    """A prepared corpus, a pretrained run, a fine-tuned one, CoLA."""
    world = types.SimpleNamespace(
        text=corpus(root / 'text', documents=6, sentences=12), cola=cola(root / 'cola'), prepared=root / 'prepared',
        pretrained=root / 'pretrained', tuned=root / 'tuned')
    prepare.prepare(world.prepared, str(world.text), '0.3', merges=30, processes=1)
    world.vocabulary = Tokenizer.load(world.prepared / 'tokenizer')
    for run, directory, config in ((pretrain.run, world.pretrained, pretraining), (finetune.run, world.tuned, tuning)):
        accepts(run, config(world), directory)
        for step in (5, 10):
            (directory / 'checkpoints' / str(step) / 'params').mkdir(parents=True)
    assert (world.tuned / 'config.json').exists()
    return world


def pretraining(world):
    return pretrain_config('', data__tokens=str(world.prepared), model__n_ctx=64, eval__windows=2, batch__size=8)


def tuning(world, **overrides):
    return finetune_config('cola', world.cola, **dict(init_from=str(world.pretrained), data__n_ctx=None) | overrides)


@contextlib.contextmanager
def nothing_computed():
    """Entry points run up to their first computation, which raises Accepted instead."""
    def stop(*args, **kwargs):
        raise Accepted

    def program(*args):
        hash(args)  # the real one caches by them
        state = types.SimpleNamespace(step=np.int32(0), params={'w': jnp.zeros(1)})
        return types.SimpleNamespace(state=state, init=lambda seed: state, mesh=args[3])

    meta = {'quality': 0.5, 'arrays': {'params': {'w': {'shape': [1], 'dtype': 'float32', 'digest': '0' * 16}}}}
    with contextlib.ExitStack() as stack:
        for module, name, fake in (
                (pretrain, '_program', program), (finetune, '_program', program), (loop, 'fit', stop),
                (step_cost, 'lines', lambda *args: []),
                (session, 'initial_state', lambda run, program, *rest: program.state),
                (checkpoint, 'Writer', mock.MagicMock()), (checkpoint, 'read_meta', lambda *args: meta),
                (checkpoint, 'restore_params', lambda *args: {}), (fine_tuned, 'scores', stop),
                (load, 'pretrained', stop)):
            stack.enter_context(mock.patch.object(module, name, fake))
        yield


def accepts(function, *arguments):
    """Calls an entry point as far as its first computation."""
    with nothing_computed(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with contextlib.suppress(Accepted):
            function(*arguments)


# Run directories

def runs(world):
    """config.json of a pretrained and of a fine-tuned run, read by all that start from one."""
    def started(directory):
        accepts(finetune.run, tuning(world, init_from=str(directory)), directory.parent / 'new')
        accepts(pretrain.run, override(pretraining(world), {'init_from': str(directory)}), directory.parent / 'next')
        accepts(zero_shot.run, override(load_config('zero_shot', 'cola'), {
            'data__dir': str(world.cola), 'init_from': str(directory)}))

    def refuses(*calls):
        """All of the calls are made; the first refusal is raised, if any."""
        errors = []
        for call in calls:
            try:
                call()
            except UserError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def pretrained(directory):
        refuses(lambda: accepts(lambda: workdir.load(directory).step()), lambda: started(directory),
                lambda: accepts(pretrain.run, pretraining(world), directory),
                lambda: accepts(pretrain.run, pretraining(world), directory, True))

    def tuned(directory):
        refuses(lambda: accepts(lambda: workdir.load(directory).step()),
                lambda: accepts(fine_tuned.evaluate_run, workdir.load(directory), 'dev'),
                lambda: accepts(fine_tuned.evaluate_run, workdir.load(directory), 'train', None, 'final'),
                lambda: accepts(finetune.run, tuning(world), directory))

    found = []
    for path, read in ((world.pretrained, pretrained), (world.tuned, tuned)):
        def whole(directory, read=read):
            for step in (5, 10):
                (directory / 'checkpoints' / str(step) / 'params').mkdir(parents=True, exist_ok=True)
            read(directory)
        found.append(fuzz_files.Target(path.name, fuzz_files.copied(path), whole, named=False))
    return found


def interrupted(world):
    """A preparation that was interrupted before its end: it gives what an undisturbed one gives, or is refused."""
    whole = fuzz_files.copied(world.prepared)

    def read(directory):
        manifest = prepare.prepare(directory, str(world.text), '0.3', merges=30, processes=1)
        assert manifest == json.loads(whole['manifest.json'])
        assert {name: content for name, content in fuzz_files.copied(directory).items() if '.bin' in name} == {
            name: content for name, content in whole.items() if '.bin' in name}

    return [fuzz_files.Target('interrupted preparation', {
        name: content for name, content in whole.items() if name != 'manifest.json'}, read)]
