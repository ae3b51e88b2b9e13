"""Sections 3.1 and 4.1: unsupervised pretraining.

python -m gpt1_jax.pretrain --config=configs/pretrain.py --workdir=DIR --config.data.corpus='books/*.txt'

Run the same command again to go on after any interruption: the result is the same to the bit.
"""
import functools
import math
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import config_flags

from gpt1_jax import (
    checkpoint,
    cli,
    losses,
    optimizer,
    progress,
    results,
    sharding,
    training,
    workdir,
)
from gpt1_jax.backbone import backbone, own_fields
from gpt1_jax.data import tokens
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare

RULES = cli.TRAINING_RULES | {
    'eval.every': cli.whole(1), 'eval.windows': cli.whole(0), 'eval.batch_size': cli.whole(1),
    'checkpoint.every': cli.whole(1), 'optimizer.warmup_steps': cli.whole(0), 'data.processes': cli.whole(0),
    'checkpoint.keep_steps': (lambda x: all(isinstance(s, int) and s > 0 for s in x), 'a tuple of updates'),
    'train.steps': (lambda x: x is None or (isinstance(x, int) and x >= 1), 'a whole number of at least 1, or None'),
    'train.epochs': cli.positive(),
}


def run(config, directory, allow_change=False, dry_run=False):
    """Pretrain as a ConfigDict of configs/pretrain.py says; returns the workdir.Run, finished.

    directory: the work directory. dry_run: report sizes and the estimated time, train nothing, return None.
    UserError for a mistake in the config, the corpus or the directory.
    """
    cli.validate(config, RULES)
    fields = own_fields(config.model.to_dict())
    mesh = sharding.make_mesh(**config.mesh)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    workdir.check(directory)
    tokens_dir = _tokens(config, pathlib.Path(directory))
    tokenizer = Tokenizer.load(tokens_dir / 'tokenizer')
    manifest = tokens.read_manifest(tokens_dir)
    train, valid = (tokens.open_split(tokens_dir, split) for split in ('train', 'valid'))
    model = backbone(fields | {'vocab_size': tokenizer.vocab_size})
    n_ctx, per_epoch = model.config.n_ctx, train.n_windows(model.config.n_ctx) / config.batch.size
    total = config.train.steps or int(config.train.epochs * per_epoch)
    if total < 1:
        raise UserError(f'{tokens_dir}: {train.n_tokens:,} training tokens are less than one batch '
                        f'({config.batch.size} x {n_ctx}): give more text, or config.train.steps')
    if valid.n_windows(n_ctx) < 1:
        raise UserError(f'{tokens_dir}: {valid.n_tokens:,} validation tokens are less than one window of {n_ctx}: hold '
                        'out more (config.data.valid)')
    origin = _origin(config, tokenizer)
    program = _program(model, optimizer.settings(config.optimizer), mesh, config.batch.microbatches)

    def batch(step):
        return {'tokens': tokens.batch(train, step, config.seed, config.batch.size, n_ctx)}

    hyper = {'seed': jnp.uint32(config.seed), 'peak': jnp.float32(config.optimizer.peak_rate),
             'warmup': jnp.float32(config.optimizer.warmup_steps), 'total': jnp.float32(total)}
    for split, entry in manifest['splits'].items():
        print(f"{split} text: {entry['documents']:,} documents, {entry['tokens']:,} tokens, "
              f"{entry['unknown'] / entry['tokens']:.3%} unknown")
    print(f'{total:,} steps of {config.batch.size} x {n_ctx} tokens: {total / per_epoch:.2f} epochs of '
          f'{per_epoch:,.1f} steps', flush=True)
    if config.optimizer.warmup_steps > total / 10:
        print(f'warning: the warm-up of {config.optimizer.warmup_steps:,} steps is more than a tenth of the '
              f"run's {total:,} (config.optimizer.warmup_steps)", flush=True)
    if dry_run:
        return _estimate(program, hyper, batch, total, config.batch.size * n_ctx)

    effective = config.to_dict() | {
        'kind': 'pretrain', 'model': fields | {'vocab_size': tokenizer.vocab_size},
        'fingerprint': {'tokens': manifest['fingerprint'], 'tokenizer': tokenizer.fingerprint}}
    this = workdir.start(directory, effective, tokenizer, allow_change)
    state = _initial_state(config, program, this, origin)
    first = int(state.step)
    progress.print_parameters(program.state.params)
    results.rewind(this.metrics, first)
    writer = checkpoint.Writer(this.checkpoints, config.checkpoint.keep_latest, config.checkpoint.keep_best,
                               config.checkpoint.keep_steps)
    validate = _validation(model, mesh, valid, config.eval.windows, config.eval.batch_size)

    def log(step, metrics):
        results.append(this.metrics, {'step': step} | metrics)
        progress.print_line(step, total, metrics)

    def evaluate(state):
        loss = validate(state.params)
        row = {'step': int(state.step), 'valid_loss': loss, 'valid_perplexity': math.exp(min(loss, 700))}
        results.append(this.metrics, row)
        print(f"step {row['step']:,}  validation loss {loss:.4f}  perplexity {row['valid_perplexity']:.2f}", flush=True)
        return row

    def save(state, step, evaluation):
        writer.save(state, {'config': effective}, None if evaluation is None else -evaluation['valid_loss'])

    print(f'step {first:,} of {total:,}: ' + ('going on' if first else 'starting')
          + f' on {mesh.size} {jax.devices()[0].device_kind} device(s), {dict(mesh.shape)}', flush=True)
    kept = set(config.checkpoint.keep_steps)
    try:
        training.fit(program, state, hyper, batch, total, log=log, log_every=config.log_every, evaluate=evaluate,
                     evaluate_at=lambda s: s % config.eval.every == 0 or s in kept,
                     save=save, save_at=lambda s: s % config.checkpoint.every == 0 or s in kept,
                     tokens_per_step=config.batch.size * n_ctx)
    finally:
        writer.close()
    return this


def _tokens(config, directory):
    """The directory of prepared shards, made now if this is the only process."""
    tokens_dir = pathlib.Path(config.data.tokens or directory / 'tokens')
    if not config.data.corpus:
        if not (tokens_dir / 'manifest.json').exists():
            raise UserError(f'{tokens_dir}: nothing prepared there, and config.data.corpus is empty: '
                            'give the text to train on')
    elif jax.process_count() == 1:
        wanted = config.tokenizer
        merges = wanted.merges if wanted.source == 'train' and wanted.vocab_size is None else None
        prepare(tokens_dir, corpus=_several(config.data.corpus), valid=_several(config.data.valid),
                tokenizer=wanted.source, encoder=wanted.encoder, bpe=wanted.bpe, merges=merges,
                vocab_size=wanted.vocab_size, processes=config.data.processes or None,
                text_field=config.data.text_field)
    elif not (tokens_dir / 'manifest.json').exists():
        raise UserError(f'{tokens_dir}: no finished manifest; '
                        'with several processes run python -m gpt1_jax.prepare first')
    return tokens_dir


def _several(names):
    """'a.txt,books/*.txt' -> its parts; a file whose own name has a comma stays one."""
    return names if ',' not in names or os.path.exists(names) else names.split(',')


@functools.lru_cache
def _program(model, settings, mesh, microbatches):
    def init(seed):
        return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']

    def loss(params, batch, key, hyper):
        hidden, table = model.apply({'params': params}, batch['tokens'][:, :-1], key)
        return jnp.mean(losses.pretraining_loss(hidden, table, batch['tokens'][:, 1:])), {}

    return training.make_program(init, loss, optimizer.adam(**dict(settings)), optimizer.warmup_cosine, mesh,
                                 microbatches)


def _origin(config, tokenizer):
    """The run whose weights this one begins with, or None. UserError where its tokenizer is another one."""
    if config.init_from is None:
        return None
    other = workdir.load(config.init_from)
    if other.tokenizer().fingerprint != tokenizer.fingerprint:
        raise UserError(f'{config.init_from}: its tokenizer is another one; prepare the corpus with '
                        f'--config.tokenizer.source={config.init_from}/tokenizer')
    return other


def _initial_state(config, program, this, origin):
    """The latest checkpoint of this run, or fresh weights, or another run's."""
    found = checkpoint.steps(this.checkpoints)
    if found:
        return checkpoint.restore(this.checkpoints, found[-1], program.state)
    state = program.init(jnp.uint32(config.seed))
    if origin is None:
        return state
    params = checkpoint.restore_params(origin.checkpoints, origin.step(config.init_step), program.state.params)
    return state._replace(params=params)


def _validation(model, mesh, stream, windows, size):
    """A function params -> mean loss in nats a token over the validation windows."""
    n_ctx, available = model.config.n_ctx, stream.n_windows(model.config.n_ctx)
    chosen = np.unique(np.linspace(0, available - 1, min(windows or available, available)).round().astype(int))
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    size = -(-min(size, len(chosen)) // devices) * devices

    @functools.partial(jax.jit, in_shardings=(None, sharding.batch_sharding(mesh), sharding.batch_sharding(mesh)))
    def total_loss(params, rows, weight):
        hidden, table = model.apply({'params': params}, rows[:, :-1])
        return jnp.sum(losses.pretraining_loss(hidden, table, rows[:, 1:]) * weight)
    total_loss = training.on_mesh(total_loss, mesh)

    def validate(params):
        sums = []
        for first in range(0, len(chosen), size):
            indices = chosen[first:first + size]
            rows = np.stack([stream.window(i, n_ctx) for i in np.resize(indices, size)])
            sums.append(total_loss(params, rows, (np.arange(size) < len(indices)).astype(np.float32)))
        return sum(map(float, sums)) / len(chosen)
    return validate


def _estimate(program, hyper, batch, total, tokens_per_step):
    """Time three steps and print what the whole run would take."""
    state = program.init(jnp.uint32(0))
    progress.print_parameters(state.params)
    started = time.perf_counter()
    state, metrics = program.step(state, program.place(batch(0)), hyper)
    jax.block_until_ready(metrics)
    compiled = time.perf_counter()
    for step in range(1, 4):
        state, metrics = program.step(state, program.place(batch(step)), hyper)
    jax.block_until_ready(metrics)
    seconds = (time.perf_counter() - compiled) / 3
    print(f'dry run: {tokens_per_step / seconds:,.0f} tokens/s over three steps after {compiled - started:.0f} s of '
          f'compiling; {total:,} steps would take {progress.duration(seconds * total)}')


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/pretrain.py',
                                    'What to run; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('workdir', None, 'Directory of the run; an unfinished run there is continued.')
    flags.DEFINE_bool('allow_change', False, 'Go on with a run although its length, rate or the like changed.')
    flags.DEFINE_bool('dry_run', False, 'Prepare the text, print sizes and an estimated time, train nothing.')


def main():
    f = flags.FLAGS
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    run(f.config, f.workdir, f.allow_change, f.dry_run)


if __name__ == '__main__':
    cli.run(main, _define_flags)
