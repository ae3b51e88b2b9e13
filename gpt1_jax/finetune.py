"""Section 3.2: supervised fine-tuning, from pretrained weights or from scratch.

python -m gpt1_jax.finetune --config=configs/finetune.py:cola --workdir=DIR \\
    --config.init_from=PRETRAINED --config.data.dir=glue/CoLA
python -m gpt1_jax.finetune --workdir=DIR --evaluate_only --split=dev
"""
import functools
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
    metrics,
    optimizer,
    progress,
    results,
    sharding,
    training,
    transfer,
    workdir,
)
from gpt1_jax.data import batches, inputs, tasks
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.heads import TaskModel
from gpt1_jax.model import GPT, GPTConfig

SIZES = ('n_layer', 'n_embd', 'n_head', 'n_inner', 'n_ctx')
RULES = cli.TRAINING_RULES | {
    'lm_weight': cli.between(0, float('inf')), 'classifier_dropout': cli.between(0, 1), 'batch.eval_size': cli.whole(1),
    'batch.lengths': cli.whole(1),
    'optimizer.warmup': cli.between(0, 1), 'train.epochs': cli.whole(1),
}


def run(config, directory, allow_change=False):
    """Fine-tune as a ConfigDict of configs/finetune.py says, then score `eval.splits`; returns rows of results.jsonl.

    directory: the work directory; an unfinished run there is continued. The parameters that were best on dev by the
    task's first metric are the ones that are scored. UserError for a mistake in the config, the data or the directory.
    """
    cli.validate(config, RULES)
    task = tasks.get(config.task)
    mesh = sharding.make_mesh(**config.mesh)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    origin, tokenizer, sizes = _origin(config)
    n_transfer = sizes['n_layer'] if config.n_transfer is None else config.n_transfer
    if config.n_transfer is not None and origin is None:
        raise UserError(f'n_transfer = {n_transfer} needs weights to transfer: give --config.init_from=DIR')
    n_transfer = transfer.NOTHING if origin is None else n_transfer
    transfer.check_depth(n_transfer, sizes['n_layer'])
    for split in config.eval.splits:
        _check_split(task, split)
    n_ctx = config.data.n_ctx or sizes['n_ctx']
    if n_ctx > sizes['n_ctx']:
        raise UserError(f"config.data.n_ctx = {n_ctx} is longer than the model's context, {sizes['n_ctx']}")
    if n_ctx < 16:
        raise UserError(f'config.data.n_ctx = {n_ctx} leaves no room for text, must be at least 16')

    train, dev = (inputs.encode_all(task.read(config.data.dir, split), task, tokenizer, n_ctx)
                  for split in ('train', 'dev'))
    if len(train) < config.batch.size:
        raise UserError(f'{config.data.dir}: {len(train)} training rows are less than '
                        f'config.batch.size = {config.batch.size}')
    static = batches.lengths(train + dev, n_ctx, config.batch.lengths)
    total = config.train.epochs * batches.steps_per_epoch(train, config.batch.size)
    sizes = config.model.to_dict() | sizes | {'vocab_size': tokenizer.vocab_size}
    model = _model(task, sizes, config.classifier_dropout)
    program = _program(model, optimizer.settings(config.optimizer), mesh, config.batch.microbatches,
                       len(train[0].sequences))

    effective = config.to_dict() | {
        'kind': 'finetune', 'model': sizes, 'n_transfer': n_transfer, 'labels': list(task.labels),
        'lengths': list(static),
        'fingerprint': {
            'tokenizer': tokenizer.fingerprint, 'origin': origin and origin[2],
            'files': results.file_hashes(task.files(config.data.dir, 'train') + task.files(config.data.dir, 'dev'))}}
    this = workdir.start(directory, effective, tokenizer, allow_change)
    print(f'{task.name}: {len(train):,} training and {len(dev):,} dev rows, {sum(r.cut for r in train)} and '
          f'{sum(r.cut for r in dev)} of them cut to {n_ctx} tokens; lengths {", ".join(map(str, static))}; '
          f'{total:,} steps of {config.batch.size} rows', flush=True)
    progress.print_parameters(program.state.params)

    hyper = {'seed': jnp.uint32(config.seed), 'peak': jnp.float32(config.optimizer.peak_rate),
             'warmup': jnp.float32(config.optimizer.warmup * total), 'total': jnp.float32(total),
             'lm_weight': jnp.float32(config.lm_weight)}
    state, started = _initial_state(config, program, this, origin, n_transfer), time.perf_counter()
    results.rewind(this.metrics, int(state.step))
    writer = checkpoint.Writer(this.checkpoints, config.checkpoint.keep_latest, config.checkpoint.keep_best)
    per_epoch = total // config.train.epochs
    gold = np.array([row.label for row in dev])

    def batch(step):
        return batches.train_batch(train, step, config.seed, config.batch.size, static)

    def log(step, values):
        results.append(this.metrics, {'step': step} | values)
        progress.print_line(step, total, values)

    def evaluate(state):
        scores = predict(model, mesh, state.params, dev, config.batch.eval_size, static)
        found = metrics.compute(task.metrics, gold, scores)
        results.append(this.metrics, {'step': int(state.step)} | {f'dev_{k}': v for k, v in found.items()})
        print(f'step {int(state.step):,}  ' + '  '.join(f'dev {k} {v:.4f}' for k, v in found.items()), flush=True)
        return found

    def save(state, step, evaluation):
        writer.save(state, {'config': effective}, None if evaluation is None else evaluation[task.metrics[0]])

    tokens_per_step = config.batch.size * np.mean([sum(map(len, row.sequences)) for row in train])
    try:
        training.fit(program, state, hyper, batch, total, log=log, log_every=config.log_every, evaluate=evaluate,
                     evaluate_at=lambda s: s % per_epoch == 0, save=save, save_at=lambda s: s % per_epoch == 0,
                     tokens_per_step=tokens_per_step)
    finally:
        writer.close()
    return [row for split in config.eval.splits for row in evaluate_run(
        this, split, seconds=time.perf_counter() - started, tokens=int(tokens_per_step * total))]


def evaluate_run(this, split, data_dir=None, **details):
    """Score a fine-tuned run's best parameters on a split: predictions_SPLIT.jsonl, a row of results.jsonl a metric.

    this: workdir.Run. data_dir: where the files are now; default where they were. details: further fields of the rows.
    """
    config = this.config
    if config['kind'] != 'finetune':
        raise UserError(f'{this.path}: not a fine-tuned run')
    task, tokenizer, mesh = tasks.get(config['task']), this.tokenizer(), sharding.make_mesh()
    _check_split(task, split)
    directory = data_dir or config['data']['dir']
    n_ctx = config['data']['n_ctx'] or config['model']['n_ctx']
    rows = inputs.encode_all(task.read(directory, split), task, tokenizer, n_ctx)
    model = _model(task, config['model'], config['classifier_dropout'])
    step = this.step()
    shapes = jax.eval_shape(lambda: _init(model, len(rows[0].sequences), 0))
    params = checkpoint.restore_params(this.checkpoints, step, sharding.targets(shapes, mesh))
    lengths = sorted({*config['lengths'], *batches.lengths(rows, n_ctx, 1)})  # this split's rows may be longer
    scores = predict(model, mesh, params, rows, config['batch']['eval_size'], lengths)
    gold = [row.label for row in rows]
    results.write_predictions(this.predictions(split), [row.id for row in rows], gold, scores)
    origin = {
        'selection': f'best dev {task.metrics[0]} over epochs', 'seed': config['seed'],
        'run': str(this.path), 'step': step,
        'digest': checkpoint.params_digest(checkpoint.read_meta(this.checkpoints, step)),
        'predictions': str(this.predictions(split)), 'files': results.file_hashes(task.files(directory, split)),
        **details, 'config': config, 'device': jax.devices()[0].device_kind, **results.versions()}
    found = []
    for name, value in metrics.compute(task.metrics, np.array(gold), scores).items():
        found.append({'kind': 'finetune', 'task': task.name, 'split': split, 'n': len(rows), 'metric': name,
                      'value': value} | origin)
        print(f'{task.name} {split}: {name} {value:.4f} (n = {len(rows):,}, parameters of step {step:,})', flush=True)
    results.append_new(config['results'] or this.results, found)
    return found


def predict(model, mesh, params, rows, size, lengths):
    """Logits of every row, float32[n, labels or choices], in order.

    rows: list of inputs.Encoded. lengths: for padding.
    """
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    size, scores = -(-size // devices) * devices, None
    for indices, batch in batches.eval_batches(rows, size, lengths):
        logits = np.asarray(_logits(model, mesh)(params, batch['tokens'], batch['extract']))
        scores = np.zeros((len(rows), logits.shape[1]), np.float32) if scores is None else scores
        scores[indices] = logits[:len(indices)]
    return scores


def _model(task, sizes, classifier_dropout):
    """The task's model; sizes: the fields of GPTConfig. Three specials: start, delimiter, extract."""
    return TaskModel(GPT(GPTConfig(n_special=3, **sizes)), task.head, len(task.labels), classifier_dropout)


def _check_split(task, split):
    if split not in task.splits:
        raise UserError(f'{task.name} has no split {split!r} (there are {", ".join(task.splits)})')


def _init(model, sequences, seed):
    tokens, extract = jnp.zeros((1, sequences, 1), jnp.int32), jnp.zeros((1, sequences), jnp.int32)
    return model.init(jax.random.key(seed), tokens, extract)['params']


@functools.lru_cache
def _program(model, settings, mesh, microbatches, sequences):
    """The compiled training step; seed, rate, length and lambda are its arguments, so a sweep compiles once."""
    def loss(params, batch, key, hyper):
        B, K, L = batch['tokens'].shape
        logits, hidden, table = model.apply({'params': params}, batch['tokens'], batch['extract'], key)
        task = jnp.mean(losses.task_loss(logits, batch['label']))
        tokens, mask = batch['tokens'].reshape(B * K, L), batch['mask'].reshape(B * K, L)
        lm = jnp.mean(losses.auxiliary_lm_loss(hidden, table, tokens, mask))
        return task + hyper['lm_weight'] * lm, {'task_loss': task, 'lm_loss': lm}

    return training.make_program(functools.partial(_init, model, sequences), loss, optimizer.adam(**dict(settings)),
                                 optimizer.warmup_linear, mesh, microbatches)


@functools.lru_cache
def _logits(model, mesh):
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, rows, rows))
    def logits(params, tokens, extract):
        return model.apply({'params': params}, tokens, extract)[0]
    return training.on_mesh(logits, mesh)


def _origin(config):
    """((run, step, params digest) or None, tokenizer, model sizes) of what a run starts from."""
    own = {name: config.model[name] for name in SIZES if config.model[name] is not None}
    if not config.data.dir:
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    if config.init_from is None:
        if config.tokenizer is None:
            raise UserError('give --config.init_from=DIR (a pretrained run), '
                            'or --config.tokenizer=DIR to train from scratch')
        directory = pathlib.Path(config.tokenizer)
        directory = directory / 'tokenizer' if (directory / 'tokenizer').is_dir() else directory
        return None, Tokenizer.load(directory), {name: getattr(GPTConfig(), name) for name in SIZES} | own
    other = workdir.load(config.init_from)
    if other.config['kind'] != 'pretrain':
        raise UserError(f'{config.init_from}: is a fine-tuned run; fine-tuning starts from a pretrained one')
    sizes = {name: other.config['model'][name] for name in SIZES}
    for name, value in own.items():
        if name == 'n_ctx' and value > sizes[name]:
            raise UserError(f"config.model.n_ctx = {value} is longer than the checkpoint's context, {sizes[name]}")
        if value != sizes[name]:
            raise UserError(f'config.model.{name} = {value}, '
                            f'but the checkpoint of {config.init_from} has {sizes[name]}')
    step = other.step(config.init_step)
    digest = checkpoint.params_digest(checkpoint.read_meta(other.checkpoints, step))
    return (other, step, digest), other.tokenizer(), sizes


def _initial_state(config, program, this, origin, n_transfer):
    """The latest checkpoint of this run, or fresh weights with the pretrained ones put in."""
    found = checkpoint.steps(this.checkpoints)
    if found:
        return checkpoint.restore(this.checkpoints, found[-1], program.state)
    state = program.init(jnp.uint32(config.seed))
    if origin is None:
        return state
    other, step, _ = origin
    like = program.state.params['backbone']
    without_specials = like | {'embed': {k: v for k, v in like['embed'].items() if k != 'specials'}}
    pretrained = checkpoint.restore_params(other.checkpoints, step, without_specials)
    backbone = transfer.transfer(state.params['backbone'], pretrained, n_transfer)
    return state._replace(params=state.params | {'backbone': backbone})


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/finetune.py:cola', 'What to run, config:TASK.')
    flags.DEFINE_string('workdir', None, 'Directory of the run; an unfinished run there is continued.')
    flags.DEFINE_bool('allow_change', False, 'Go on with a run although its length, rate or the like changed.')
    flags.DEFINE_bool('evaluate_only', False, 'Score the finished run in --workdir; no training.')
    flags.DEFINE_string('split', 'dev', 'With --evaluate_only: the split to score.')
    flags.DEFINE_string('data_dir', None, 'With --evaluate_only: where the files are now; default where they were.')


def main():
    f = flags.FLAGS
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    if f.evaluate_only:
        evaluate_run(workdir.load(f.workdir), f.split, f.data_dir)
    else:
        run(f.config, f.workdir, f.allow_change)


if __name__ == '__main__':
    cli.run(main, _define_flags)
