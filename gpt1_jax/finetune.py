"""Section 3.2: supervised fine-tuning, from pretrained weights or from scratch.

python -m gpt1_jax.finetune --config=configs/finetune.py:cola --workdir=DIR \\
    --config.init_from=PRETRAINED --config.data.dir=glue/CoLA
python -m gpt1_jax.finetune --workdir=DIR --evaluate_only --split=dev
"""
import dataclasses
import functools
import time
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import config_flags

from gpt1_jax import (
    backbone,
    checkpoint,
    cli,
    distributed,
    evaluation,
    losses,
    optimizer,
    progress,
    results,
    resume,
    rules,
    sharding,
    storage,
    tracing,
    training,
    transfer,
    workdir,
)
from gpt1_jax.data import batches, inspection, rows, tasks
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, about, shown

RULES = rules.TRAINING | {
    'task': rules.text(), 'data.dir': rules.text(), 'data.skip_bad': rules.flag(),
    'data.n_ctx': rules.optional(rules.whole(0)),
    'tokenizer': rules.optional(rules.text()), 'results': rules.optional(rules.text()),
    'n_transfer': rules.optional(rules.whole(transfer.NOTHING)),
    'lm_weight': rules.between(0, rules.LARGEST), 'classifier_dropout': rules.between(0, 1),
    'batch.eval_size': rules.whole(1, 65536), 'batch.lengths': rules.whole(1, 512),
    'batch.fixed_lengths': rules.several(rules.whole(1)), 'train.evaluate_every': rules.whole(1),
    'data.train_rows': rules.optional(rules.whole(1)), 'data.eval_rows': rules.optional(rules.whole(1)),
    'eval.splits': rules.several(rules.text()),
    'eval.selections': (lambda x: x and set(x) <= set(evaluation.SELECTIONS), "a tuple of 'best' and 'final'"),
    'optimizer.warmup': rules.between(0, 1), 'train.epochs': rules.whole(1),
}
# Settings that say where things are, or when they are looked at: what they hold enters a run's key by its digest.
PLACES = ('init_from', 'init_step', 'n_transfer', 'model.', 'eval.')


class Setting(NamedTuple):
    """What a config comes to once its task, its origin and its files are looked up.

    origin: (pretrained run, step, digest of its parameters), or None. sizes: the backbone's. hashes: {split: of its
    files}, of every split that the run reads.
    """
    task: Any
    origin: tuple | None
    tokenizer: Tokenizer
    sizes: dict
    n_transfer: int
    n_ctx: int
    hashes: dict


def run(config, directory, allow_change=False, fallback=False):
    """Fine-tune as a ConfigDict of configs/finetune.py says, then score `eval.splits`; returns rows of results.jsonl.

    directory: the work directory; an unfinished run there is continued. fallback: as in resume.resume.
    UserError for a mistake in the config, the data or the directory.
    """
    setting = _setting(config)
    results.check(config.results)
    mesh = sharding.make_mesh(**config.mesh)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    task, tokenizer, sizes = setting.task, setting.tokenizer, setting.sizes
    train, dev = (_rows(config, setting, split) for split in ('train', 'dev'))
    if len(train) < config.batch.size:
        raise UserError(f'{config.data.dir}: {len(train)} training rows are less than '
                        f'config.batch.size = {config.batch.size}')
    shapes = batches.sizes_of(train + dev, setting.n_ctx, config.batch.lengths, config.batch.fixed_lengths)
    total = config.train.epochs * batches.steps_per_epoch(train, config.batch.size)
    model = evaluation.task_model(task, sizes, config.classifier_dropout)
    program = _program(model, optimizer.settings(config.optimizer), mesh, config.batch.microbatches,
                       config.batch.loss_chunks, shapes.sequences, task.squared)

    effective = config.to_dict() | {
        'kind': 'finetune', 'model': sizes, 'n_transfer': setting.n_transfer, 'labels': list(task.labels),
        'lengths': list(shapes.lengths), 'fingerprint': {
            'tokenizer': tokenizer.fingerprint, 'origin': setting.origin and setting.origin[2],
            'files': setting.hashes['train'] | setting.hashes['dev']}}
    distributed.agree({f'config.{name}': value for name, value in workdir.flatten(effective).items()}
                      | {'the code': results.code_digest()})
    this = workdir.start(directory, effective, tokenizer, allow_change, distributed.primary())
    distributed.barrier('the work directory is there')
    print(f'{task.name}: {len(train):,} training and {len(dev):,} dev rows, {sum(r.cut for r in train)} and '
          f'{sum(r.cut for r in dev)} of them cut to {setting.n_ctx} tokens; lengths '
          f'{", ".join(map(str, shapes.lengths))}; {total:,} steps of {config.batch.size} rows', flush=True)
    print('\n'.join(progress.parameters(program.state.params)), flush=True)

    hyper = {'seed': np.uint32(config.seed), 'peak': np.float32(config.optimizer.peak_rate),
             'warmup': np.float32(config.optimizer.warmup * total), 'total': np.float32(total),
             'lm_weight': np.float32(config.lm_weight), 'skips': np.int32(config.train.skip_nonfinite)}
    state, started = _initial_state(config, program, this, setting, fallback), time.perf_counter()
    workdir.describe(this, int(state.step), program.state.params, distributed.primary())
    log_file = results.Log(this.metrics, int(state.step), distributed.primary(), config.tensorboard)
    writer = checkpoint.Writer(this.checkpoints, config.checkpoint.keep_latest, config.checkpoint.keep_best)
    between = total // config.train.epochs * config.train.evaluate_every
    gold = np.array([row.label for row in dev])
    scored = {}  # what an evaluation said need not be computed again at the end

    train_batch = batches.train_batches(train, config.seed, config.batch.size, shapes)

    def batch(step, chosen):
        return {name: array[chosen] for name, array in train_batch(step).items()}

    def log(step, values):
        log_file.append({'step': step} | values)
        writer.check()
        progress.print_line(step, total, values)

    def evaluate(state):
        step = int(state.step)
        scored['dev', step] = evaluation.predict(task, model, mesh, state.params, dev, config.batch.eval_size, shapes)
        found = evaluation.compute(task, gold, scored['dev', step])
        log_file.append({'step': step} | {f'dev_{k}': v for k, v in found.items()})
        print(f'step {step:,}  ' + '  '.join(f'dev {k} {v:.4f}' for k, v in found.items()), flush=True)
        return found

    def save(state, step, evaluation):
        log_file.upload()
        writer.save(state, {'config': effective}, None if evaluation is None else evaluation[task.metrics[0]])

    tokens_per_step = config.batch.size * np.mean([sum(map(len, row.sequences)) for row in train])
    try:
        training.fit(program, state, hyper, batch, config.batch.size, total, log=log, log_every=config.log_every,
                     evaluate=evaluate, evaluate_at=lambda s: s % between == 0, save=save,
                     save_at=lambda s: s % between == 0, tokens_per_step=tokens_per_step,
                     trace=tracing.Trace(rules.span(config.profile), this.path / 'profile'),
                     show=progress.print_step)
    finally:
        writer.close()
    details = {'key': _key(config, setting), 'tokens': int(tokens_per_step * total)}
    return [row for split in config.eval.splits for selection in config.eval.selections
            for row in evaluation.evaluate_run(this, split, selection=selection, scored=scored,
                                               seconds=time.perf_counter() - started, **details)]


def key(config, code=None):
    """What this run's rows of results.jsonl will have as 'key': 16 hex digits over all that decides their values, the
    code included. Equal keys, equal figures: experiments skip what is there. UserError as `run`.

    code: results.code_digest() of the code that made the row; default that of the code here.
    """
    return _key(config, _setting(config), code)


def plan(config):
    """{'rows', 'steps', 'tokens'} of training: tokens estimated from 200 rows. UserError as `run`."""
    setting = _setting(config)
    n = len(rows.choose(setting.task.read(config.data.dir, 'train', [] if config.data.skip_bad else None),
                        config.data.train_rows))
    sample = rows.load(setting.task, config.data.dir, 'train', setting.tokenizer, setting.n_ctx,
                       setting.hashes['train'], min(200, n), config.data.skip_bad)
    steps = config.train.epochs * (n // config.batch.size)
    each = np.mean([sum(map(len, row.sequences)) for row in sample])
    return {'rows': n, 'steps': steps, 'tokens': int(steps * config.batch.size * each)}


def inspect(config):
    """Print how rows of the training split are laid out (gpt1_jax.data.inspection)."""
    setting = _setting(config)
    examples = setting.task.read(config.data.dir, 'train', [] if config.data.skip_bad else None)
    examples = rows.choose(examples, config.data.train_rows)
    encoded = rows.load(setting.task, config.data.dir, 'train', setting.tokenizer, setting.n_ctx,
                        setting.hashes['train'], config.data.train_rows, config.data.skip_bad)
    print('\n'.join(inspection.lines(setting.task, examples, encoded, setting.tokenizer, setting.n_ctx)))


@functools.lru_cache
def _program(model, settings, mesh, microbatches, chunks, sequences, squared=False):
    """The compiled training step; seed, rate, length and lambda are its arguments, so a sweep compiles once."""
    def loss(params, batch, key, hyper):
        B, K, L = batch['tokens'].shape
        present = batch['present']
        logits, hidden, table = model.apply({'params': params}, batch['tokens'], batch['extract'], key, present)
        task = jnp.mean((losses.squared_loss if squared else losses.task_loss)(logits, batch['target']))
        tokens, mask = batch['tokens'].reshape(B * K, L), batch['mask'].reshape(B * K, L)
        lm = losses.auxiliary_lm_loss(hidden, table, tokens, mask, chunks).reshape(B, K)
        lm = jnp.mean(jnp.sum(lm * present, axis=1) / jnp.sum(present, axis=1))  # of an example's own sequences
        return task + hyper['lm_weight'] * lm, {'task_loss': task, 'lm_loss': lm}

    return training.make_program(functools.partial(evaluation.initial, model, sequences), loss,
                                 optimizer.adam(**dict(settings)), optimizer.warmup_linear, mesh, microbatches)


def _rows(config, setting, split):
    limit = config.data.train_rows if split == 'train' else config.data.eval_rows
    return rows.load(setting.task, config.data.dir, split, setting.tokenizer, setting.n_ctx, setting.hashes[split],
                     limit, config.data.skip_bad)


def _setting(config):
    """The Setting of a config. UserError for whatever is wrong with it before any row is read."""
    rules.validate(config, RULES)
    task = tasks.of(config.to_dict())
    origin, tokenizer, sizes = _origin(config)
    depth = backbone.backbone(sizes).config.n_layer
    n_transfer = depth if config.n_transfer is None else config.n_transfer
    if config.n_transfer is not None and origin is None:
        raise UserError(f'n_transfer = {n_transfer} needs weights to transfer: give --config.init_from=DIR')
    n_transfer = transfer.NOTHING if origin is None else n_transfer
    transfer.check_depth(n_transfer, depth)
    for split in config.eval.splits:
        rows.check_split(task, split)
    n_ctx = config.data.n_ctx or sizes['n_ctx']
    if n_ctx > sizes['n_ctx']:
        raise UserError(f"config.data.n_ctx = {n_ctx} is longer than the model's context, {sizes['n_ctx']}")
    if n_ctx < 16:
        raise UserError(f'config.data.n_ctx = {n_ctx} leaves no room for text, must be at least 16')
    hashes = {split: results.file_hashes(task.files(config.data.dir, split))
              for split in ('train', 'dev', *config.eval.splits)}
    return Setting(task, origin, tokenizer, sizes, n_transfer, n_ctx, hashes)


def _key(config, setting, code=None):
    settings = {name: value for name, value in workdir.flatten(config.to_dict()).items()
                if not workdir.listed(name, workdir.FREE + PLACES)}
    origin = None if setting.origin is None or setting.n_transfer == transfer.NOTHING else setting.origin[2]
    # Kernels do not change what is computed; rows from before there was a choice have it not.
    sizes = {name: value for name, value in setting.sizes.items() if name != 'kernels'}
    return results.digest([settings, sizes, setting.n_transfer, origin,
                           setting.tokenizer.fingerprint, setting.hashes, code or results.code_digest()])


def _origin(config):
    """((run, step, params digest) or None, tokenizer, the backbone's sizes) of what a run starts from."""
    if not config.data.dir and config.task != 'custom':
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    own = {name: value for name, value in config.model.to_dict().items() if value is not None}
    if config.init_from is None:
        if config.tokenizer is None:
            raise UserError('give --config.init_from=DIR (a pretrained run), '
                            'or --config.tokenizer=DIR to train from scratch')
        directory = storage.path(config.tokenizer)
        with about(directory):  # a name that can be none
            directory = directory / 'tokenizer' if (directory / 'tokenizer').is_dir() else directory
        tokenizer = Tokenizer.load(directory)
        return None, tokenizer, _defaults(own | {'vocab_size': tokenizer.vocab_size})
    other = workdir.load(config.init_from)
    if other.config['kind'] != 'pretrain':
        raise UserError(f'{config.init_from}: is a fine-tuned run; fine-tuning starts from a pretrained one')
    theirs = {'kind': 'gpt'} | other.config['model']
    fixed = {name: theirs[name] for name in ('kind', 'vocab_size', *backbone.SIZES[theirs['kind']])}
    for name, value in fixed.items():
        if name == 'n_ctx' and type(own.get(name)) is int and own[name] > value:
            raise UserError(f"config.model.n_ctx = {shown(own[name])} is longer than the checkpoint's context, {value}")
        if own.get(name, value) != value:
            raise UserError(f'config.model.{name} = {shown(own[name])}, but the checkpoint of {config.init_from} has '
                            f'{value!r}')
    step = other.step(config.init_step)
    digest = checkpoint.params_digest(checkpoint.read_meta(other.checkpoints, step))
    return (other, step, digest), other.tokenizer(), _defaults(own | fixed)


def _defaults(fields):
    """The fields that a kind of model reads, with the paper's values where none is given."""
    sizes = backbone.own_fields(fields) | dataclasses.asdict(backbone.backbone(fields).config)
    return {name: value for name, value in sizes.items() if name != 'n_special'}


def _initial_state(config, program, this, setting, fallback):
    """Where this run left off, or fresh weights with the pretrained ones put in."""
    state = resume.resume(this.checkpoints, program.state, fallback)
    if state is not None:
        return state
    state = program.init(np.uint32(config.seed))
    if setting.origin is None or setting.n_transfer == transfer.NOTHING:
        return state
    other, step, _ = setting.origin
    like = program.state.params['backbone']
    without_specials = like | {'embed': {k: v for k, v in like['embed'].items() if k != 'specials'}}
    pretrained = checkpoint.restore_params(other.checkpoints, step, without_specials)
    weights = transfer.transfer(state.params['backbone'], pretrained, setting.n_transfer)
    return state._replace(params=state.params | {'backbone': weights})


def _define_flags():
    cli.define_process_flags()
    config_flags.DEFINE_config_file('config', 'configs/finetune.py:cola', 'What to run, config:TASK.')
    flags.DEFINE_string('workdir', None, 'Directory of the run; an unfinished run there is continued.')
    flags.DEFINE_bool('allow_change', False, 'Go on with a run although its length, rate or the like changed.')
    flags.DEFINE_bool('fallback', False, 'Where the newest checkpoint is damaged, go on from the newest sound one.')
    flags.DEFINE_bool('inspect', False, 'Show how three training rows are laid out, and counts; no training.')
    flags.DEFINE_bool('evaluate_only', False, 'Score the finished run in --workdir; no training.')
    flags.DEFINE_string('split', 'dev', 'With --evaluate_only: the split to score.')
    flags.DEFINE_string('selection', 'best', "With --evaluate_only: parameters 'best' on dev, or of the 'final' step.")
    flags.DEFINE_string('data_dir', None, 'With --evaluate_only: where the files are now; default where they were.')


def main():
    f = flags.FLAGS
    distributed.start(f.coordinator, f.processes, f.process, f.deterministic)
    if f.inspect:
        return inspect(f.config)
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    if f.evaluate_only:
        evaluation.evaluate_run(workdir.load(f.workdir), f.split, f.data_dir, f.selection)
    else:
        run(f.config, f.workdir, f.allow_change, f.fallback)


if __name__ == '__main__':
    cli.run(main, _define_flags)
