"""Writes imported weights as a run, which `init_from` and every program take."""

import contextlib
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax import storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.runs import checkpoint, workdir
from gpt1_jax.training.loop import TrainState

STEP = 0  # of its only checkpoint, which this library did not train
HEADS = 12  # the default: no array's shape shows the number of heads


def fields(sizes: dict) -> dict:
    """A run's 'model' with these sizes, and with the paper's values for all other fields.

    sizes: n_layer, n_embd, n_head, n_inner, n_ctx, vocab_size. UserError for values that GPTConfig
    refuses.
    """
    defaults = {'embd_dropout': 0.1, 'attn_dropout': 0.1, 'resid_dropout': 0.1, 'dtype': 'float32'}
    model = own_fields({'kind': 'gpt'} | defaults | sizes)
    backbone(model)  # its config checks the values
    return model


def save(
    out: storage.Path,
    origin: str,
    model: dict,
    params: Any,
    tokenizer: Tokenizer,
    hashes: dict[str, str],
    left_out: Sequence[str] = (),
) -> workdir.Run:
    """Makes the run directory `out` and returns the finished workdir.Run.

    Repeating it changes nothing.

    origin: of the weights, for the record.
    model: the run's, as `fields` returns it.
    params: a tree of float32 arrays.
    hashes: {name: hash} of the files from which they were made.
    left_out: arrays that are not in the run, in words.

    UserError if `out` holds another run.
    """
    weights = hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    config = {
        'kind': 'pretrain',
        'model': model,
        'imported': {'from': origin, 'files': hashes, 'left_out': list(left_out)},
        'fingerprint': {'tokens': None, 'tokenizer': tokenizer.fingerprint, 'weights': weights},
    }
    params = jax.tree.map(jnp.asarray, params)
    with workdir.hold(out):
        workdir.compare(out, config)
        run = workdir.start(out, config, tokenizer)
        workdir.write_config(run)
        zero = jnp.zeros([], jnp.int32)
        # Adam's moments are not stored: training from this run starts with a fresh optimizer, as
        # with any `init_from`.
        state = TrainState(jnp.int32(STEP), params, {'count': zero}, zero, jnp.zeros([], bool))
        with contextlib.closing(checkpoint.Writer(run.checkpoints)) as writer:
            writer.save(state, {'config': config})  # not if the step is there already
    return run


def report(run: workdir.Run) -> str:
    """Returns lines for the terminal: the imported model and how to use it."""
    arrays = checkpoint.read_meta(run.checkpoints, STEP)['arrays']['params'].values()
    return '\n'.join(
        [
            f'{run.path}: {sum(math.prod(array["shape"]) for array in arrays):,} parameters, '
            f'vocabulary of {run.config["model"]["vocab_size"]:,}, digest {run.digest(STEP)}',
            *(f'left out: {name}' for name in run.config['imported']['left_out']),
            f'use it as --config.init_from={run.path} (fine-tuning, zero-shot) or '
            f'--init_from={run.path}',
        ]
    )
