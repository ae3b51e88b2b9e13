"""A pretrained run made of weights from elsewhere: what `init_from` takes for fine-tuning, zero-shot and the rest."""
import hashlib

import jax
import jax.numpy as jnp

from gpt1_jax import checkpoint, results, storage, workdir
from gpt1_jax.backbone import backbone, own_fields
from gpt1_jax.errors import UserError, shown
from gpt1_jax.training import TrainState
from gpt1_jax.weights import layout

STEP = 0  # of its one checkpoint: no update of this library
DEFAULTS = {'embd_dropout': 0.1, 'attn_dropout': 0.1, 'resid_dropout': 0.1, 'dtype': 'float32'}


def fields(sizes):
    """A run's 'model' of sizes (n_layer, n_embd, n_head, n_inner, n_ctx, vocab_size), the rest as in the paper.

    UserError for sizes that cannot be a GPT's.
    """
    found = own_fields({'kind': 'gpt'} | DEFAULTS | sizes)
    backbone(found)  # its config checks the values
    return found


def check_tokenizer(tokenizer, model, where):
    """UserError unless the embedding has the vocabulary's rows."""
    if tokenizer.vocab_size != model['vocab_size']:
        raise UserError(f"{where}: the vocabulary has {tokenizer.vocab_size:,} rows, the weights' token embedding "
                        f"{model['vocab_size']:,}")


def write(out, kind, model, read, tokenizer, paths):
    """Make the run directory `out`; returns the workdir.Run, finished. Again the same is no harm.

    kind: where the weights are from, for the record. model: the run's 'model'. read: as in layout.to_tree. paths: the
    files that were read; their hashes are kept. UserError where `out` holds another run.
    """
    hashes = {file.name: storage.sha256(file) for file in paths}
    weights = hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    config = {'kind': 'pretrain', 'model': model, 'imported': {'from': kind, 'files': hashes},
              'fingerprint': {'tokens': None, 'tokenizer': tokenizer.fingerprint, 'weights': weights}}
    workdir.check(out)
    tree = layout.to_tree(model, read)  # before anything is written: it may be refused
    run = workdir.start(out, config, tokenizer)
    if STEP not in run.steps():
        params = jax.tree.map(jnp.asarray, tree)
        zero = jnp.zeros([], jnp.int32)
        writer = checkpoint.Writer(run.checkpoints)
        try:  # without moments: a run goes on from here with a fresh optimizer, as any `init_from`
            writer.save(TrainState(jnp.int32(STEP), params, {'count': zero}, zero, jnp.zeros([], bool)),
                        {'config': config, 'versions': results.versions()})
        finally:
            writer.close()
    return run


def report(run):
    """Two lines for the terminal."""
    arrays = checkpoint.read_meta(run.checkpoints, STEP)['arrays']['params']
    n = sum(_size(entry['shape']) for entry in arrays.values())
    return (f'{run.path}: {n:,} parameters, vocabulary of {run.config["model"]["vocab_size"]:,}, digest '
            f'{checkpoint.params_digest(checkpoint.read_meta(run.checkpoints, STEP))}\n'
            f'use it as --config.init_from={run.path} (fine-tuning, zero-shot) or --init_from={run.path}')


def _size(shape):
    n = 1
    for length in shape:
        n *= length
    return n


def whole_numbers(value, where):
    """The value, a list of positive whole numbers. UserError otherwise."""
    if not isinstance(value, list) or not all(type(n) is int and 0 < n < 2 ** 31 for n in value):
        raise UserError(f'{where} is {shown(value)}, must be a list of whole numbers')
    return value
