"""Writes imported weights as a pretrained run, which `init_from` and every program take."""
import hashlib
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax import storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.runs import checkpoint, workdir
from gpt1_jax.training.loop import TrainState
from gpt1_jax.weights import names

STEP = 0  # of its only checkpoint: not trained by this library
HEADS = 12  # the default: no array's shape says how many heads there are
DEFAULTS = {'embd_dropout': 0.1, 'attn_dropout': 0.1, 'resid_dropout': 0.1, 'dtype': 'float32'}


def fields(sizes: dict) -> dict:
    """A run's 'model' with these sizes (n_layer, n_embd, n_head, n_inner, n_ctx, vocab_size), the rest the paper's.

    UserError for values that GPTConfig refuses.
    """
    model = own_fields({'kind': 'gpt'} | DEFAULTS | sizes)
    backbone(model)  # its config checks the values
    return model


def check_tokenizer(tokenizer: Tokenizer, rows: int, where: pathlib.Path) -> None:
    """UserError unless the vocabulary, read from `where`, has the rows of the token embedding."""
    if tokenizer.vocab_size != rows:
        raise UserError(f"{where}: the vocabulary has {tokenizer.vocab_size:,} rows, the weights' token embedding "
                        f'{rows:,}')


def write(out: str | pathlib.Path, kind: str, model: dict, read: Callable[[str], np.ndarray], tokenizer: Tokenizer,
          paths: Sequence[pathlib.Path], left_out: Sequence[str] = ()) -> workdir.Run:
    """Make the run directory `out`; returns the finished workdir.Run. Doing it again changes nothing.

    kind: where the weights are from, for the record. model: the run's 'model'. read: as in names.to_tree. paths: the
    files that were read, whose hashes are recorded. left_out: arrays in them that are not in the run, in words.
    UserError where `out` holds another run.
    """
    hashes = {file.name: storage.sha256(file) for file in paths}
    return save(out, kind, model, lambda: names.to_tree(model, read), tokenizer, hashes, left_out)


def save(out: str | pathlib.Path, kind: str, model: dict, make: Callable[[], Any], tokenizer: Tokenizer,
         hashes: dict[str, str], left_out: Sequence[str] = ()) -> workdir.Run:
    """`write` for parameters that `make` returns. hashes: {name: hash} of what they were made from."""
    weights = hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    config = {'kind': 'pretrain', 'model': model,
              'imported': {'from': kind, 'files': hashes, 'left_out': list(left_out)},
              'fingerprint': {'tokens': None, 'tokenizer': tokenizer.fingerprint, 'weights': weights}}
    workdir.check(out)
    params = jax.tree.map(jnp.asarray, make())  # may raise: before anything is written
    with workdir.hold(out):
        run = workdir.start(out, config, tokenizer)
        if STEP not in run.steps():
            zero = jnp.zeros([], jnp.int32)
            # Without Adam's moments: training from it starts with a fresh optimizer, as with any `init_from`.
            state = TrainState(jnp.int32(STEP), params, {'count': zero}, zero, jnp.zeros([], bool))
            writer = checkpoint.Writer(run.checkpoints)
            try:
                writer.save(state, {'config': config})
            finally:
                writer.close()
    return run


def report(run: workdir.Run) -> str:
    """What was imported and how to use it: a few lines for the terminal."""
    meta = checkpoint.read_meta(run.checkpoints, STEP)
    n = sum(math.prod(entry['shape']) for entry in meta['arrays']['params'].values())
    return '\n'.join([
        f'{run.path}: {n:,} parameters, vocabulary of {run.config["model"]["vocab_size"]:,}, digest '
        f'{checkpoint.params_digest(meta)}',
        *(f'not taken: {name}' for name in run.config['imported']['left_out']),
        f'use it as --config.init_from={run.path} (fine-tuning, zero-shot) or --init_from={run.path}'])
