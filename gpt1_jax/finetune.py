"""Section 3.2: supervised fine-tuning, from pretrained weights or from scratch.

python -m gpt1_jax.finetune --config=configs/finetune.py:cola --workdir=DIR \\
    --config.init_from=PRETRAINED --config.data.dir=glue/CoLA
python -m gpt1_jax.finetune --workdir=DIR --evaluate_only --split=dev
"""
import functools
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, storage
from gpt1_jax.cli import config_file
from gpt1_jax.data import batches, inspection
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned, task_metrics
from gpt1_jax.models import heads, precision
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.models.kernels import self_check
from gpt1_jax.parallel import processes, sharding
from gpt1_jax.runs import checkpoint, fine_tuning, results, session, workdir
from gpt1_jax.runs import config_rules as rules
from gpt1_jax.training import loop, losses, optimizer, transfer
from gpt1_jax.weights import from_hub

RULES = rules.TRAINING | {
    'task': rules.text(), 'data.dir': rules.text(), 'data.skip_bad': rules.flag(),
    'data.n_ctx': rules.optional(rules.whole(0)),
    'tokenizer': rules.optional(rules.text()), 'results': rules.optional(rules.text()),
    'n_transfer': rules.optional(rules.whole(transfer.NOTHING)),
    'lm_weight': rules.between(0, rules.LARGEST), 'classifier_dropout': rules.between(0, 1),
    'batch.eval_size': rules.whole(1, 65536), 'batch.lengths': rules.whole(1, 512),
    'batch.fixed_lengths': rules.several(rules.whole(1)), 'batch.sort_window': rules.optional(rules.whole(1)),
    'train.evaluate_every': rules.whole(1),
    'data.train_rows': rules.optional(rules.whole(1)), 'data.eval_rows': rules.optional(rules.whole(1)),
    'eval.splits': rules.several(rules.text()),
    'eval.selections': (lambda x: x and set(x) <= set(fine_tuned.SELECTIONS), "a tuple of 'best' and 'final'"),
    'optimizer.warmup': rules.between(0, 1), 'train.epochs': rules.whole(1),
}

def run(config: ConfigDict, directory: str | os.PathLike, allow_change: bool = False,
        fallback: bool = False) -> list[dict]:
    """Fine-tune as a ConfigDict of configs/finetune.py says, then score `eval.splits`; returns rows of results.jsonl.

    directory: the work directory; an unfinished run there is continued. fallback: as in resume.resume.
    UserError for a mistake in the config, the data or the directory, and where another process works in it.
    """
    setting = _setting(config)
    config = fine_tuning.with_sort_window_of(directory, config)
    results.check(config.results)
    with workdir.hold(directory) as check_lock:
        mesh = sharding.make_mesh(**config.mesh)
        sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
        task = setting.task
        train, dev = _read_rows(config, setting)
        shapes = batches.sizes_of(train + dev, setting.n_ctx, config.batch.lengths, config.batch.fixed_lengths)
        total = config.train.epochs * batches.steps_per_epoch(train, config.batch.size)
        model = heads.task_model(task, setting.sizes, config.classifier_dropout)
        program = make_program(config, setting, model, mesh, shapes)
        training = _training_batches(config, train, shapes)

        this = session.open_run(directory, _effective_config(config, setting, shapes), setting.tokenizer, allow_change)
        _print_plan(config, setting, train, dev, shapes, total)
        pretrained = functools.partial(_transferred, setting, program)
        state = session.initial_state(this, program, config.seed, fallback, pretrained)
        started = time.perf_counter()
        scored = {}  # (split, step) -> predictions, which need not be made again at the end
        with session.Session(this, program, state, total, check_lock) as current:
            def predict(params):
                return fine_tuned.scores(task, model, mesh, params, dev, config.batch.eval_size, shapes)
            evaluate = _evaluation(task, predict, dev, current, scored)
            hyper = _hyperparameters(config, total)
            loop.fit(program, state, hyper, training, _schedule(config, total), current, evaluate)
        details = {'key': fine_tuning.run_key(config, setting), 'tokens': int(training.tokens_per_step * total)}
        return _score(config, this, scored, started, details)


def run_key(config: ConfigDict, code: str | None = None) -> str:
    """What this run's rows of results.jsonl will have as 'key': 16 hex digits over all that decides their values, the
    code included. Equal keys, equal values: experiments skip runs whose rows are there. UserError as `run`.

    code: provenance.code_digest() of the code that made the row; default that of the code here.
    """
    return fine_tuning.run_key(config, _setting(config), code)


def count_tokens(config: ConfigDict) -> dict[str, int]:
    """{'rows', 'steps', 'tokens'} of training: tokens estimated from 200 rows. UserError as `run`."""
    setting = _setting(config)
    n = len(fine_tuning.training_examples(config, setting))
    sample = fine_tuning.encoded_rows(config, setting, 'train', min(200, n))
    steps = config.train.epochs * (n // config.batch.size)
    return {'rows': n, 'steps': steps, 'tokens': int(steps * config.batch.size * _mean_tokens(sample))}


def inspect(config: ConfigDict) -> None:
    """Print how rows of the training split are laid out (gpt1_jax.data.inspection)."""
    setting = _setting(config)
    examples = fine_tuning.training_examples(config, setting)
    encoded = fine_tuning.encoded_rows(config, setting, 'train', config.data.train_rows)
    print('\n'.join(inspection.lines(setting.task, examples, encoded, setting.tokenizer, setting.n_ctx)))


def _setting(config):
    rules.validate(config, RULES)
    optimizer.check(config.optimizer)
    return fine_tuning.resolve(config)


def _read_rows(config, setting):
    """The encoded rows of train and dev. UserError where they are too few for a batch."""
    train = fine_tuning.encoded_rows(config, setting, 'train', config.data.train_rows)
    dev = fine_tuning.encoded_rows(config, setting, 'dev', config.data.eval_rows)
    if len(train) < config.batch.size:
        raise UserError(f'{config.data.dir}: {len(train)} training rows are less than '
                        f'config.batch.size = {config.batch.size}')
    return train, dev


def _training_batches(config, train, shapes):
    """The loop.Batches of the training rows."""
    of_step = batches.train_batches(train, config.seed, config.batch.size, shapes, config.batch.sort_window)

    def read(step, rows):
        return {name: array[rows] for name, array in of_step(step).items()}
    return loop.Batches(read, config.batch.size, config.batch.size * _mean_tokens(train))


def _mean_tokens(rows):
    """Real tokens of a row, on average."""
    return np.mean([sum(map(len, row.sequences)) for row in rows])


def _effective_config(config, setting, shapes):
    """What config.json holds."""
    train, dev = setting.hashes['train'], setting.hashes['dev']
    if any(train[name] != dev[name] for name in train.keys() & dev.keys()):  # train/data.csv and dev/data.csv
        train, dev = ({f'{split}/{name}': digest for name, digest in of_split.items()}
                      for split, of_split in (('train', train), ('dev', dev)))
    origin = None if setting.origin is None else setting.origin.digest
    return config.to_dict() | {
        'kind': 'finetune', 'model': setting.sizes, 'n_transfer': setting.n_transfer,
        'labels': list(setting.task.labels), 'lengths': list(shapes.lengths),
        'fingerprint': {'tokenizer': setting.tokenizer.fingerprint, 'origin': origin, 'files': train | dev}}


def make_program(config: ConfigDict, setting: fine_tuning.Setting, model: TaskModel, mesh: jax.sharding.Mesh,
                 shapes: batches.Sizes) -> loop.Program:
    """The compiled functions of a fine-tuning config."""
    self_check.check(model.backbone.config)
    return _program(model, optimizer.settings(config.optimizer), config.optimizer.schedule, mesh,
                    config.batch.microbatches, config.batch.loss_chunks, shapes.sequences, setting.task.squared)


@functools.lru_cache
def _program(model, settings, schedule, mesh, microbatches, chunks, sequences, squared=False):
    """Seed, learning rate, length and lambda are arguments of the step, so a sweep over them compiles once."""
    target_loss = losses.squared_loss if squared else losses.task_loss

    def loss(params, batch, key, hyper):
        """Eq. 5: L2 + lambda * L1."""
        B, K, L = batch['tokens'].shape
        present = batch['present']
        logits, hidden, table = model.apply({'params': params}, batch['tokens'], batch['extract'], key, present)
        task = jnp.mean(target_loss(logits, batch['target']))
        tokens = batch['tokens'].reshape(B * K, L)
        mask = batch['mask'].reshape(B * K, L)
        lm = losses.auxiliary_lm_loss(hidden, table, tokens, mask, chunks).reshape(B, K)
        lm = jnp.mean(jnp.sum(lm * present, axis=1) / jnp.sum(present, axis=1))  # of an example's own sequences
        return task + hyper['lm_weight'] * lm, {'task_loss': task, 'lm_loss': lm}

    init = functools.partial(heads.init_params, model, sequences)
    adam = optimizer.adam(**dict(settings))
    return loop.make_program(init, loss, adam, optimizer.SCHEDULES[schedule], mesh, microbatches,
                             precision.of(model.backbone.config))


def _hyperparameters(config, total):
    """The scalars that a step takes besides state and batch."""
    return {'seed': np.uint32(config.seed), 'skips': np.int32(config.train.skip_nonfinite),
            'lm_weight': np.float32(config.lm_weight),
            **optimizer.hyperparameters(config.optimizer, config.optimizer.warmup * total, total)}


def _schedule(config, total):
    """Evaluate and save after every so many epochs."""
    every = total // config.train.epochs * config.train.evaluate_every
    return loop.Schedule(total, config.log_every, evaluate_every=every, save_every=every)


def _transferred(setting, program, fresh):
    """The fresh parameters with the pretrained weights put in; the head and the specials stay as drawn."""
    if setting.origin is None or setting.n_transfer == transfer.NOTHING:
        return fresh
    backbone = program.state.params['backbone']
    embeddings = {name: array for name, array in backbone['embed'].items() if name != 'specials'}
    pretrained = checkpoint.restore_params(setting.origin.run.checkpoints, setting.origin.step,
                                           backbone | {'embed': embeddings})
    return fresh | {'backbone': transfer.transfer(fresh['backbone'], pretrained, setting.n_transfer)}


def _evaluation(task, predict, dev, current, scored):
    """What loop.fit takes as `evaluate`: logs dev's metrics and keeps the predictions in `scored`; the task's first
    metric decides which state is best."""
    gold = np.array([row.label for row in dev])

    def evaluate(state):
        step = int(state.step)
        scored['dev', step] = predict(params=state.params)
        values = task_metrics.compute(task, gold, scored['dev', step])
        current.append(step, {f'dev_{name}': value for name, value in values.items()})
        print(f'step {step:,}  ' + '  '.join(f'dev {name} {value:.4f}' for name, value in values.items()), flush=True)
        return values[task.metrics[0]]
    return evaluate


def _score(config, this, scored, started, details):
    """The rows of results.jsonl of every split and selection that the config asks for."""
    rows = []
    for split in config.eval.splits:
        for selection in config.eval.selections:
            seconds = time.perf_counter() - started
            rows += fine_tuned.evaluate_run(this, split, selection=selection, scored=scored, seconds=seconds,
                                            results_file=config.results and storage.path(config.results), **details)
    return rows


def _print_plan(config, setting, train, dev, shapes, total):
    cut_train = sum(row.cut for row in train)
    cut_dev = sum(row.cut for row in dev)
    print(f'{setting.task.name}: {len(train):,} training and {len(dev):,} dev rows, {cut_train} and {cut_dev} of them '
          f'cut to {setting.n_ctx} tokens; lengths {", ".join(map(str, shapes.lengths))}; '
          f'{total:,} steps of {config.batch.size} rows', flush=True)


def _define_flags():
    cli.define_process_flags()
    config_file.define('finetune:cola', 'What to run, config:TASK.')
    flags.DEFINE_string('workdir', None, 'Directory of the run; an unfinished run there is continued.')
    flags.DEFINE_bool('allow_change', False, 'Go on with a run although its length, rate or the like changed.')
    flags.DEFINE_bool('fallback', False, 'Where the newest checkpoint is damaged, go on from the newest sound one.')
    flags.DEFINE_bool('inspect', False, 'Show how three training rows are laid out, and counts; no training.')
    flags.DEFINE_bool('evaluate_only', False, 'Score the finished run in --workdir; no training.')
    flags.DEFINE_string('split', 'dev', 'With --evaluate_only: the split to score.')
    flags.DEFINE_string('selection', 'best', "With --evaluate_only: parameters 'best' on dev, or of the 'final' step.")
    flags.DEFINE_string('data_dir', None, 'With --evaluate_only: where the files are now; default where they were.')


def main() -> None:
    f = flags.FLAGS
    processes.start(f.coordinator, f.processes, f.process, f.deterministic)
    f.config.init_from = from_hub.local_run(f.config.init_from)
    if f.inspect:
        inspect(f.config)
        return
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    if f.evaluate_only:
        fine_tuned.evaluate_run(workdir.load(f.workdir), f.split, f.data_dir, f.selection)
    else:
        run(f.config, f.workdir, f.allow_change, f.fallback)


if __name__ == '__main__':
    cli.run(main, _define_flags)
