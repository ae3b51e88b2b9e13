"""A pretrained run made of weights from elsewhere: what `init_from` takes for fine-tuning, zero-shot and the rest."""
import hashlib
import math

import jax
import jax.numpy as jnp

from gpt1_jax import checkpoint, storage, workdir
from gpt1_jax.backbone import backbone, own_fields
from gpt1_jax.errors import UserError
from gpt1_jax.training import TrainState
from gpt1_jax.weights import layout

STEP = 0  # of its one checkpoint: no update of this library
HEADS = 12  # no array's shape tells how many there are
DEFAULTS = {'embd_dropout': 0.1, 'attn_dropout': 0.1, 'resid_dropout': 0.1, 'dtype': 'float32'}


def fields(sizes):
    """A run's 'model' of sizes (n_layer, n_embd, n_head, n_inner, n_ctx, vocab_size), the rest as in the paper.

    UserError for sizes that cannot be a GPT's.
    """
    found = own_fields({'kind': 'gpt'} | DEFAULTS | sizes)
    backbone(found)  # its config checks the values
    return found


def check_tokenizer(tokenizer, rows, where):
    """UserError unless the vocabulary, read from `where`, has the rows of the token embedding."""
    if tokenizer.vocab_size != rows:
        raise UserError(f"{where}: the vocabulary has {tokenizer.vocab_size:,} rows, the weights' token embedding "
                        f'{rows:,}')


def write(out, kind, model, read, tokenizer, paths, left_out=()):
    """Make the run directory `out`; returns the workdir.Run, finished. Again the same is no harm.

    kind: where the weights are from, for the record. model: the run's 'model'. read: as in layout.to_tree. paths: the
    files that were read; their hashes are kept. left_out: what was in them and is not in the run, in words.
    UserError where `out` holds another run.
    """
    hashes = {file.name: storage.sha256(file) for file in paths}
    weights = hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    config = {'kind': 'pretrain', 'model': model,
              'imported': {'from': kind, 'files': hashes, 'left_out': list(left_out)},
              'fingerprint': {'tokens': None, 'tokenizer': tokenizer.fingerprint, 'weights': weights}}
    workdir.check(out)
    params = jax.tree.map(jnp.asarray, layout.to_tree(model, read))  # before anything is written: it may be refused
    run = workdir.start(out, config, tokenizer)
    if STEP not in run.steps():
        zero = jnp.zeros([], jnp.int32)
        writer = checkpoint.Writer(run.checkpoints)
        try:  # without moments: a run goes on from here with a fresh optimizer, as any `init_from`
            writer.save(TrainState(jnp.int32(STEP), params, {'count': zero}, zero, jnp.zeros([], bool)),
                        {'config': config})
        finally:
            writer.close()
    return run


def report(run):
    """A few lines for the terminal."""
    meta = checkpoint.read_meta(run.checkpoints, STEP)
    n = sum(math.prod(entry['shape']) for entry in meta['arrays']['params'].values())
    return '\n'.join([
        f'{run.path}: {n:,} parameters, vocabulary of {run.config["model"]["vocab_size"]:,}, digest '
        f'{checkpoint.params_digest(meta)}',
        *(f'not taken: {name}' for name in run.config['imported']['left_out']),
        f'use it as --config.init_from={run.path} (fine-tuning, zero-shot) or --init_from={run.path}'])
