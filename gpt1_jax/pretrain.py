"""Sections 3.1 and 4.1: unsupervised pretraining.

python -m gpt1_jax.pretrain --config=configs/pretrain.py --workdir=DIR --config.data.corpus='books/*.txt'

Run the same command again to go on after any interruption: the result is the same to the bit.
"""
import functools
import math
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import config_flags

from gpt1_jax import (
    checkpoint,
    cli,
    distributed,
    estimate,
    losses,
    optimizer,
    progress,
    resident,
    results,
    resume,
    rules,
    sharding,
    storage,
    tracing,
    training,
    workdir,
)
from gpt1_jax.backbone import backbone, own_fields
from gpt1_jax.data import tokens
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare

RULES = rules.TRAINING | {
    'eval.every': rules.whole(1), 'eval.windows': rules.whole(0), 'eval.batch_size': rules.whole(1),
    'checkpoint.every': rules.whole(1), 'optimizer.warmup_steps': rules.whole(0), 'data.processes': rules.whole(0),
    'checkpoint.keep_steps': rules.several(rules.whole(1)), 'train.steps': rules.optional(rules.whole(1)),
    'train.epochs': rules.positive(), 'data.corpus': rules.text(), 'data.valid': rules.text(),
    'data.text_field': rules.text(), 'data.tokens': rules.optional(rules.text()),
    'data.verify': rules.flag(),
    'data.resident': (lambda x: x in ('auto', 'yes', 'no'), "'auto', 'yes' or 'no'"),
    'tokenizer.source': rules.text(), 'tokenizer.merges': rules.whole(0),
    'tokenizer.vocab_size': rules.optional(rules.whole(0)), 'tokenizer.encoder': rules.text(),
    'tokenizer.bpe': rules.text(),
}


def run(config, directory, allow_change=False, dry_run=False, fallback=False):
    """Pretrain as a ConfigDict of configs/pretrain.py says; returns the workdir.Run, finished.

    directory: the work directory. dry_run: report sizes and the estimated time, train nothing, return None.
    fallback: as in resume.resume.
    UserError for a mistake in the config, the corpus or the directory.
    """
    rules.validate(config, RULES)
    fields = own_fields(config.model.to_dict())
    mesh = sharding.make_mesh(**config.mesh)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    workdir.check(directory)
    tokens_dir = _tokens(config, directory)
    tokenizer = Tokenizer.load(tokens_dir / 'tokenizer')
    manifest = tokens.read_manifest(tokens_dir, tokenizer.fingerprint)
    train, valid = (tokens.open_split(tokens_dir, split, config.data.verify) for split in ('train', 'valid'))
    model = backbone(fields | {'vocab_size': tokenizer.vocab_size})
    n_ctx, per_epoch = model.config.n_ctx, train.n_windows(model.config.n_ctx) / config.batch.size
    total = config.train.steps or int(config.train.epochs * per_epoch)
    if total >= 2 ** 31:
        raise UserError(f'{total:.3g} updates are more than are counted: give fewer config.train.epochs')
    if total < 1 or per_epoch == 0:
        raise UserError(f'{tokens_dir}: {train.n_tokens:,} training tokens are less than one batch '
                        f'({config.batch.size} x {n_ctx}): give more text, or config.train.steps')
    if valid.n_windows(n_ctx) < 1:
        raise UserError(f'{tokens_dir}: {valid.n_tokens:,} validation tokens are less than one window of {n_ctx}: hold '
                        'out more (config.data.valid)')
    origin = _origin(config, tokenizer)
    program = make_program(config, model, mesh)
    corpus = resident.place(train, n_ctx, mesh, config.data.resident)

    def batch(step, rows):
        asked = train, step, config.seed, config.batch.size, n_ctx, rows
        return {'tokens': tokens.batch(*asked)} if corpus is None else {'window': tokens.numbers(*asked)}

    hyper = hyperparameters(config, total) | ({} if corpus is None else {'corpus': corpus})
    for split, entry in manifest['splits'].items():
        print(f"{split} text: {entry['documents']:,} documents, {entry['tokens']:,} tokens, "
              f"{entry['unknown'] / max(1, entry['tokens']):.3%} unknown")
    print(f'{total:,} steps of {config.batch.size} x {n_ctx} tokens: {total / per_epoch:.2f} epochs of '
          f'{per_epoch:,.1f} steps', flush=True)
    if config.optimizer.warmup_steps > total / 10:
        print(f'warning: the warm-up of {config.optimizer.warmup_steps:,} steps is more than a tenth of the '
              f"run's {total:,} (config.optimizer.warmup_steps)", flush=True)
    if dry_run:
        return _estimate(program, hyper, batch, total, config.batch.size, n_ctx)

    effective = config.to_dict() | {
        'kind': 'pretrain', 'model': fields | {'vocab_size': tokenizer.vocab_size},
        'fingerprint': {'tokens': manifest['fingerprint'], 'tokenizer': tokenizer.fingerprint}}
    distributed.agree({f'config.{name}': value for name, value in workdir.flatten(effective).items()}
                      | {'the code': results.code_digest(), 'the prepared text': manifest['fingerprint']})
    this = workdir.start(directory, effective, tokenizer, allow_change, distributed.primary())
    distributed.barrier('the work directory is there')
    state = _initial_state(config, program, this, origin, fallback)
    first = int(state.step)
    print('\n'.join(progress.parameters(program.state.params)), flush=True)
    print('\n'.join(estimate.lines(program.state, config.model.dtype, config.batch.size, n_ctx,
                                   config.batch.microbatches)), flush=True)
    workdir.describe(this, first, program.state.params, distributed.primary())
    metrics = results.Log(this.metrics, first, distributed.primary(), config.tensorboard)
    writer = checkpoint.Writer(this.checkpoints, config.checkpoint.keep_latest, config.checkpoint.keep_best,
                               config.checkpoint.keep_steps)
    validate = _validation(model, mesh, valid, config.eval.windows, config.eval.batch_size,
                           config.batch.loss_chunks)

    def log(step, values):
        metrics.append({'step': step} | values)
        writer.check()
        progress.print_line(step, total, values)

    def evaluate(state):
        loss = validate(state.params)
        row = {'step': int(state.step), 'valid_loss': loss, 'valid_perplexity': math.exp(min(loss, 700))}
        metrics.append(row)
        print(f"step {row['step']:,}  validation loss {loss:.4f}  perplexity {row['valid_perplexity']:.2f}", flush=True)
        return row

    def save(state, step, evaluation):
        metrics.upload()
        writer.save(state, {'config': effective}, None if evaluation is None else -evaluation['valid_loss'])

    print(f'step {first:,} of {total:,}: ' + ('going on' if first else 'starting')
          + f' on {mesh.size} {jax.devices()[0].device_kind} device(s) of {jax.process_count()} process(es), '
          + f'{dict(mesh.shape)}; tokens {resident.where(corpus)}', flush=True)
    kept = set(config.checkpoint.keep_steps)
    try:
        training.fit(program, state, hyper, batch, config.batch.size, total, log=log, log_every=config.log_every,
                     evaluate=evaluate,
                     evaluate_at=lambda s: s % config.eval.every == 0 or s in kept,
                     save=save, save_at=lambda s: s % config.checkpoint.every == 0 or s in kept,
                     tokens_per_step=config.batch.size * n_ctx,
                     trace=tracing.Trace(rules.span(config.profile), this.path / 'profile'),
                     show=progress.print_step)
    finally:
        writer.close()
    return this


def _tokens(config, directory):
    """The directory of prepared shards, made now if this is the only process."""
    tokens_dir = storage.path(config.data.tokens or storage.path(directory) / 'tokens')
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


def make_program(config, model, mesh):
    """The compiled functions (training.Program) of a pretraining config: what `run` trains, for any mesh."""
    return _program(model, optimizer.settings(config.optimizer), mesh, config.batch.microbatches,
                    config.batch.loss_chunks)


def hyperparameters(config, total):
    """The scalar arrays that a step takes besides state and batch. total: updates of the whole training. Where tokens
    are resident, `run` adds them as 'corpus', and a batch is the numbers of its windows."""
    return {'seed': np.uint32(config.seed), 'peak': np.float32(config.optimizer.peak_rate),
            'warmup': np.float32(config.optimizer.warmup_steps), 'total': np.float32(total),
            'skips': np.int32(config.train.skip_nonfinite)}


@functools.lru_cache
def _program(model, settings, mesh, microbatches, chunks):
    def init(seed):
        return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']

    def loss(params, batch, key, hyper):
        ids = resident.windows(hyper['corpus'], batch['window']) if 'window' in batch else batch['tokens']
        hidden, table = model.apply({'params': params}, ids[:, :-1], key)
        return jnp.mean(losses.pretraining_loss(hidden, table, ids[:, 1:], chunks)), {}

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


def _initial_state(config, program, this, origin, fallback):
    """Where this run left off, or fresh weights, or another run's."""
    state = resume.resume(this.checkpoints, program.state, fallback)
    if state is not None:
        return state
    state = program.init(np.uint32(config.seed))
    if origin is None:
        return state
    params = checkpoint.restore_params(origin.checkpoints, origin.step(config.init_step), program.state.params)
    return state._replace(params=params)


def _validation(model, mesh, stream, windows, size, chunks):
    """A function params -> mean loss in nats a token over the validation windows."""
    n_ctx, available = model.config.n_ctx, stream.n_windows(model.config.n_ctx)
    chosen = np.unique(np.linspace(0, available - 1, min(windows or available, available)).round().astype(int))
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    size = -(-min(size, len(chosen)) // devices) * devices

    @jax.jit
    def total_loss(params, batch):
        hidden, table = model.apply({'params': params}, batch['tokens'][:, :-1])
        return jnp.sum(losses.pretraining_loss(hidden, table, batch['tokens'][:, 1:], chunks) * batch['weight'])
    total_loss = training.on_mesh(total_loss, mesh)

    def validate(params):
        sums = []
        for first in range(0, len(chosen), size):
            indices = chosen[first:first + size]

            def read(rows):
                return {'tokens': np.stack([stream.window(i, n_ctx) for i in np.resize(indices, size)[rows]]),
                        'weight': (np.arange(size) < len(indices)).astype(np.float32)[rows]}
            sums.append(total_loss(params, sharding.place(read, size, mesh)))
        return sum(map(float, sums)) / len(chosen)
    return validate


def _estimate(program, hyper, batch, total, size, n_ctx):
    """Time three steps and print what the whole run would take."""
    def placed(step):
        return program.place(lambda rows: batch(step, rows), size)
    state, tokens_per_step = program.init(np.uint32(0)), size * n_ctx
    print('\n'.join(progress.parameters(state.params)), flush=True)
    started = time.perf_counter()
    state, metrics = program.step(state, placed(0), hyper)
    jax.block_until_ready(metrics)
    compiled = time.perf_counter()
    for step in range(1, 4):
        state, metrics = program.step(state, placed(step), hyper)
    jax.block_until_ready(metrics)
    seconds = (time.perf_counter() - compiled) / 3
    print(f'dry run: {tokens_per_step / seconds:,.0f} tokens/s over three steps after {compiled - started:.0f} s of '
          f'compiling; {total:,} steps would take {progress.duration(seconds * total)}')


def _define_flags():
    cli.define_process_flags()
    config_flags.DEFINE_config_file('config', 'configs/pretrain.py',
                                    'What to run; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('workdir', None, 'Directory of the run; an unfinished run there is continued.')
    flags.DEFINE_bool('allow_change', False, 'Go on with a run although its length, rate or the like changed.')
    flags.DEFINE_bool('fallback', False, 'Where the newest checkpoint is damaged, go on from the newest sound one.')
    flags.DEFINE_bool('dry_run', False, 'Prepare the text, print sizes and an estimated time, train nothing.')


def main():
    f = flags.FLAGS
    distributed.start(f.coordinator, f.processes, f.process, f.deterministic)
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    run(f.config, f.workdir, f.allow_change, f.dry_run, f.fallback)


if __name__ == '__main__':
    cli.run(main, _define_flags)
