"""Section 3.2: supervised fine-tuning, from pretrained weights or from scratch.

gpt1 finetune --data=my.csv --text=COLUMN --label=COLUMN --init_from=novels --workdir=DIR
gpt1 finetune --config=finetune:cola --workdir=DIR --config.init_from=PRETRAINED \\
    --config.data.dir=glue/CoLA
gpt1 finetune --workdir=DIR --evaluate_only --split=dev
gpt1 finetune --workdir=DIR --evaluate_only --data=labelled.csv
"""

import dataclasses
import functools
import pathlib
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, rules, storage, user_code
from gpt1_jax.cli import config_file, own_data
from gpt1_jax.configs.finetune import RULES
from gpt1_jax.data import batches, examination, inputs, inspection, splits, tasks
from gpt1_jax.data.rows import BadRows
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, one_line, shown
from gpt1_jax.evaluation import fine_tuned, load, task_metrics
from gpt1_jax.models import build as models
from gpt1_jax.models import heads
from gpt1_jax.models.fast import self_check, table
from gpt1_jax.parallel import processes, sharding
from gpt1_jax.runs import checkpoint, origins, provenance, results, session, workdir
from gpt1_jax.training import loop, losses, optimizer_config, transfer
from gpt1_jax.training.intervals import Intervals
from gpt1_jax.training.prefetch import Batches
from gpt1_jax.weights import from_hub

# Fields that name weights or say when to evaluate them. The weights enter a key by their digest.
NOT_IN_KEY = ('init_from', 'init_step', 'n_transfer', 'model.', 'eval.')
LEAST_N_CTX = 16


def run(
    config: ConfigDict,
    directory: str | storage.Path,
    allow_change: bool = False,
    fallback: bool = False,
) -> list[dict]:
    """Fine-tune with a ConfigDict of configs/finetune.py, then score `eval.splits`.

    Returns rows of results.jsonl.
    directory:    the work directory. An unfinished run there is resumed.
    allow_change: as in workdir.compare.
    fallback:     as in session.resume.
    UserError for a mistake in the config, the data or the directory, and if another process works
    in the directory.
    """
    this = plan(resolve(from_hub.located(config)))
    job = build(this)
    started = time.perf_counter()
    run = session.train(job, storage.path(directory), allow_change, fallback)
    details: dict[str, Any] = {} if run.was_changed() else {'key': _key(this.setting)}
    details['tokens'] = int(job.batches.tokens_per_step * job.intervals.total)
    rows = []
    for split in config.eval.splits:
        for selection in config.eval.selections:
            details['seconds'] = time.perf_counter() - started
            rows += evaluate(this, job, run, split, selection, details)
    return rows


def run_key(config: ConfigDict, code: str | None = None) -> str:
    """The 'key' of this run's rows of results.jsonl: 16 hex digits of everything that decides them.

    The code is included (code: provenance.code_digest(), by default of the code here). Equal keys
    mean equal values, so experiments skip runs whose rows exist. Rows of a run whose settings were
    changed on its way have no key. UserError as in `run`.
    """
    return _key(resolve(from_hub.located(config)), code)


def count_tokens(config: ConfigDict) -> int:
    """The number of training tokens, estimated from 200 rows. UserError as in `run`."""
    setting = resolve(from_hub.located(config))
    n = len(setting.examples('train', config.data.train_rows))
    per_epoch, epochs = _length(setting, n)
    rows = epochs * per_epoch * config.batch.size
    return int(rows * _mean_tokens(setting.rows('train', min(200, n))))


def inspect(config: ConfigDict) -> None:
    """Print how rows of the training split are laid out (gpt1_jax.data.inspection)."""
    setting = resolve(from_hub.located(config))
    limit = config.data.train_rows
    examples = setting.examples('train', limit)
    encoded = setting.rows('train', limit)
    print(
        '\n'.join(
            inspection.lines(setting.task, examples, encoded, setting.tokenizer, setting.n_ctx)
        )
    )
    _warn(setting, encoded, setting.rows('dev', config.data.eval_rows))


# Setting


@dataclasses.dataclass(frozen=True)
class Setting:
    """A fine-tuning config, with everything that can be looked up before its rows are read."""

    config: ConfigDict
    results: storage.Path | None  # config.results
    origin: origins.Origin | None  # None without pretraining
    tokenizer: Tokenizer
    sizes: dict  # the backbone's fields
    n_transfer: int  # as in transfer.transfer
    n_ctx: int  # the most tokens of a sequence
    code: dict[str, Any]  # the digests of the user's code that the config or the backbone names

    @functools.cached_property
    def task(self) -> Task:
        """The Task, which knows its labels: those of a table are read. UserError in its config."""
        task = tasks.of(self.config.to_dict())
        for split in self.config.eval.splits:
            splits.check_split(task, split)
        return task

    @functools.cached_property
    def hashes(self) -> dict[str, dict[str, str]]:
        """{split: {file: SHA-256}} of every split that the run reads."""
        directory = self.config.data.dir
        return {
            split: provenance.file_hashes(self.task.files(directory, split))
            for split in dict.fromkeys(('train', 'dev', *self.config.eval.splits))
        }

    def examples(self, split: str, limit: int | None) -> list:
        """The examples of a split, at most `limit` of them."""
        bad = BadRows(self.config.data.skip_bad)
        return splits.choose(self.task.read(self.config.data.dir, split, bad), limit)

    def rows(self, split: str, limit: int | None) -> list[inputs.Encoded]:
        """The model inputs of a split's rows, at most `limit` of them."""
        data = self.config.data
        return splits.load(
            self.task,
            data.dir,
            split,
            self.tokenizer,
            self.n_ctx,
            storage.json_digest(self.hashes[split]),
            limit,
            data.skip_bad,
        )


def resolve(config: ConfigDict) -> Setting:
    """The Setting of a config. UserError for its mistakes, before any row is read.

    config: as from_hub.located returns it.
    """
    rules.validate(config, RULES)
    user_code.trust(config)
    config = config.copy_and_resolve_references()
    if config.task == 'custom' and 'custom' in config:
        config.data.dir = config.custom.get('data')
    target = storage.path(config.results) if config.results else None
    results.check(target)
    if not config.data.dir and config.task != 'custom':
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    given = {name: value for name, value in config.model.to_dict().items() if value is not None}
    n_transfer = config.n_transfer
    if config.init_from is None:
        if config.tokenizer is None:
            flag = '--init_from=novels' if config.task == 'custom' else '--config.init_from=novels'
            raise UserError(
                f'give {flag} (or a pretrained run), or --config.tokenizer=DIR to train from '
                'scratch'
            )
        if n_transfer is not None:
            raise UserError(
                f'n_transfer = {n_transfer} needs weights to transfer: give --config.init_from=DIR'
            )
        n_transfer = transfer.NOTHING
        origin = None
        tokenizer = Tokenizer.load(config.tokenizer)
        fields = given | {'vocab_size': tokenizer.vocab_size}
    else:
        if config.tokenizer is not None:
            raise UserError(
                f'config.tokenizer = {config.tokenizer} is for training from scratch: the run of '
                'config.init_from has its own'
            )
        origin = origins.open_origin(storage.path(config.init_from), config.init_step)
        tokenizer = origin.run.tokenizer()
        fields = given | _pretrained_sizes(origin.run, given)
    # With the paper's defaults
    sizes = dataclasses.asdict(models.backbone(fields).config) | models.own_fields(fields)
    del sizes['n_special']
    module = models.backbone(sizes)
    backbone = module.config
    optimizer_config.check(config.optimizer, lambda: {'backbone': models.shapes(module)})
    if config.optimizer.peak_rate is None:
        config.optimizer.peak_rate = transfer.peak_rate(backbone.n_embd)
    depth = backbone.n_layer
    if n_transfer is None:
        n_transfer = depth
    n_ctx = config.data.n_ctx or sizes['n_ctx']
    rules.require(
        {
            'config.n_transfer': (n_transfer, rules.whole(transfer.NOTHING, depth)),
            'config.data.n_ctx': (n_ctx, rules.whole(LEAST_N_CTX, sizes['n_ctx'])),
        }
    )
    code = user_code.digests(config.to_dict() | {'model': sizes})
    return Setting(config, target, origin, tokenizer, sizes, n_transfer, n_ctx, code)


def _pretrained_sizes(run, given):
    """The sizes that the pretrained weights fix. UserError if a given field differs."""
    if run.config['kind'] != 'pretrain':
        raise UserError(
            f'{run.path}: is a fine-tuned run; fine-tuning starts from a pretrained one'
        )
    pretrained = run.config['model']
    fixed = {
        name: pretrained[name] for name in ('kind', 'vocab_size', *models.sizes(pretrained['kind']))
    }
    for name, value in fixed.items():
        if given.get(name, value) != value:
            raise UserError(
                f'config.model.{name} = {shown(given[name])}, but the checkpoint of {run.path} has '
                f'{value!r}'
            )
    return fixed


def _key(setting, code=None):
    """The result of `run_key` for a Setting."""
    settings = {
        name: value
        for name, value in rules.flatten(setting.config.to_dict()).items()
        if not workdir.listed(name, (*workdir.FREE, *NOT_IN_KEY))
    }
    sizes = {
        name: value for name, value in setting.sizes.items() if name not in ('kernels', 'precision')
    }
    origin = None
    if setting.origin is not None and setting.n_transfer != transfer.NOTHING:
        origin = setting.origin.digest
    return provenance.digest(
        [
            settings,
            sizes,
            setting.n_transfer,
            origin,
            setting.tokenizer.fingerprint,
            setting.hashes,
            code or provenance.code_digest(),
            *setting.code.values(),
        ]
    )


# Plan


class Plan(NamedTuple):
    """A fine-tuning of which everything is known, before anything of it is computed."""

    setting: Setting
    model: heads.TaskModel
    mesh: jax.sharding.Mesh
    rows: dict[str, list[inputs.Encoded]]  # of each split
    shapes: batches.Sizes
    per_epoch: int  # updates
    total: int  # updates
    contents: dict[str, Any]  # of config.json
    scored: dict[tuple[str, int], np.ndarray]  # {(split, step): scores}, of evaluations so far


def plan(setting: Setting) -> Plan:
    """The Plan of a Setting. Reads and encodes its rows. UserError for a mistake in the rows."""
    config = setting.config
    mesh = sharding.make_mesh(**config.mesh)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    limits = {'train': config.data.train_rows} | dict.fromkeys(setting.task.unlabelled)
    rows = {
        split: setting.rows(split, limits.get(split, config.data.eval_rows))
        for split in setting.hashes
    }
    train = rows['train']
    dev = rows['dev']
    per_epoch, epochs = _length(setting, len(train))
    total = epochs * per_epoch
    lengths = config.batch.lengths or transfer.lengths(total)
    shapes = batches.sizes_of(train + dev, setting.n_ctx, lengths, config.batch.fixed_lengths)
    _print_plan(setting, train, dev, shapes, total)
    _warn(setting, train, dev)
    values = config.to_dict()
    contents = values | {
        'train': values['train'] | {'epochs': epochs},
        'kind': 'finetune',
        'model': setting.sizes,
        'n_transfer': setting.n_transfer,
        'labels': list(setting.task.labels),
        'lengths': list(shapes.lengths),
        'fingerprint': {
            'tokenizer': setting.tokenizer.fingerprint,
            'origin': None if setting.origin is None else setting.origin.digest,
            'files': {
                f'{split}/{name}': digest
                for split in ('train', 'dev')
                for name, digest in setting.hashes[split].items()
            },
            **setting.code,
        },
    }
    model = models.task_model(setting.task, setting.sizes, config.classifier_dropout)
    return Plan(setting, model, mesh, rows, shapes, per_epoch, total, contents, scored={})


def _warn(setting, train, dev):
    """Prints probable mistakes in the rows."""
    config = setting.config
    column = config.custom.label if config.task == 'custom' else ''
    for line in examination.warnings(setting.task, train, dev, column):
        print(f'warning: {line}', flush=True)


def _mean_tokens(rows):
    """The number of real tokens of a row, on average."""
    return np.mean([sum(map(len, row.sequences)) for row in rows])


def _length(setting, n):
    """(updates of an epoch, epochs) with n training rows."""
    config = setting.config
    if n < config.batch.size:
        raise UserError(
            f'{setting.task.files(config.data.dir, "train")[0]}: {n} training rows are less than '
            f'config.batch.size = {config.batch.size}'
        )
    per_epoch = n // config.batch.size
    return per_epoch, config.train.epochs or transfer.epochs(per_epoch)


def _print_plan(setting, train, dev, shapes, total):
    cut_train, cut_dev = (sum(row.truncated for row in rows) for rows in (train, dev))
    print(
        one_line(
            f'{setting.task.name}: {len(train):,} training and {len(dev):,} dev rows, {cut_train} '
            f'and {cut_dev} of them cut to {setting.n_ctx} tokens; lengths '
            f'{", ".join(map(str, shapes.lengths))}; {total:,} steps of '
            f'{setting.config.batch.size} rows, peak rate {setting.config.optimizer.peak_rate:.3g}'
        ),
        flush=True,
    )
    if total < transfer.UPDATES:
        print(
            f'warning: {total} updates are few for the new weights: train more epochs or with a '
            'smaller batch',
            flush=True,
        )


# Job


def build(plan: Plan) -> session.Job:
    """The Job of a Plan."""
    setting = plan.setting
    config = setting.config
    train = plan.rows['train']
    model = plan.model
    size = config.batch.size
    of_step = batches.train_batches(train, config.seed, size, plan.shapes, config.batch.by_length)

    def read(step, rows):
        return {name: array[rows] for name, array in of_step(step).items()}

    warmup = config.optimizer.warmup * plan.total
    hyper = {
        'lm_weight': np.float32(config.lm_weight),
        **optimizer_config.hyperparameters(config, warmup, plan.total),
    }
    self_check.check(model.backbone.config)
    program = _program(
        model,
        optimizer_config.settings(config.optimizer),
        optimizer_config.schedule_key(config.optimizer, warmup, plan.total),
        plan.mesh,
        config.batch.microbatches,
        config.batch.loss_chunks,
        plan.shapes.sequences,
        setting.task.squared,
        config.lm_weight > 0,
    )

    def start(fresh):
        """Puts the pretrained weights in. The head and the special embeddings stay as drawn."""
        origin = setting.origin
        backbone = program.state.params['backbone']
        if origin is None or setting.n_transfer == transfer.NOTHING:
            return fresh
        embeddings = {
            name: array for name, array in backbone['embed'].items() if name != 'specials'
        }
        pretrained = checkpoint.restore_params(
            origin.run.checkpoints, origin.step, backbone | {'embed': embeddings}
        )
        transferred = transfer.transfer(fresh['backbone'], pretrained, setting.n_transfer)
        return fresh | {'backbone': transferred}

    # Evaluate and save after so many epochs
    every = config.train.evaluate_every * plan.per_epoch
    return session.Job(
        plan.contents,
        setting.tokenizer,
        program,
        Batches(read, size, size * _mean_tokens(train)),
        hyper,
        Intervals(plan.total, config.log_every, evaluate_every=every, save_every=every),
        start,
        functools.partial(_evaluation, plan),
    )


@functools.lru_cache
def _program(model, settings, schedule, mesh, microbatches, chunks, sequences, squared, auxiliary):
    """Compiles the functions of a fine-tuning.

    Seed, learning rate, length and lambda are arguments of the step, so a sweep over them compiles
    once. auxiliary: whether lambda is above 0. At 0 the LM loss is not computed.
    """
    target_loss = losses.squared_loss if squared else losses.task_loss

    def loss(params, batch, key, hyper):
        """Eq. 5: L2 + lambda * L1."""
        B, K, L = batch['tokens'].shape
        present = batch['present']
        logits, hidden, rows = model.apply(
            {'params': params}, batch['tokens'], batch['extract'], key, present
        )
        task = jnp.mean(target_loss(logits, batch['target']))
        if not auxiliary:
            return task, {'task_loss': task}
        tokens, mask = (batch[name].reshape(B * K, L) for name in ('tokens', 'mask'))
        ops = table.ops(model.backbone.config)
        lm = losses.auxiliary_lm_loss(hidden, rows, tokens, mask, chunks=chunks, ops=ops)
        lm = lm.reshape(B, K)
        # The mean over the sequences that an example has
        lm = jnp.mean(jnp.sum(lm * present, axis=1) / jnp.sum(present, axis=1))
        return task + hyper['lm_weight'] * lm, {'task_loss': task, 'lm_loss': lm}

    init = functools.partial(models.init_params, model, sequences)
    return loop.make_program(
        init,
        loss,
        optimizer_config.make(settings),
        optimizer_config.schedule(*schedule),
        mesh,
        microbatches,
        models.precision(model.backbone.config),
    )


def _evaluation(plan, current):
    """The `evaluate` of loop.fit, which logs dev's metrics and keeps the scores.

    The task's first metric decides which state is best.
    """
    task = plan.setting.task
    gold = np.array([row.label for row in plan.rows['dev']])

    def evaluate(state):
        step = int(state.step)
        scores = _scores(plan, 'dev', step, state.params, plan.shapes)
        values = task_metrics.compute(task, gold, scores)
        current.append(step, {f'dev_{name}': value for name, value in values.items()})
        print(
            f'step {step:,}  '
            + '  '.join(f'dev {name} {value:.4f}' for name, value in values.items()),
            flush=True,
        )
        return values[task.metrics[0]]

    return evaluate


def _scores(plan, split, step, params, shapes):
    task = plan.setting.task
    size = plan.setting.config.batch.eval_size
    outputs = fine_tuned.logits(plan.model, plan.mesh, params, plan.rows[split], size, shapes)
    found = plan.scored[split, step] = fine_tuned.read_out(task, outputs)
    return found


def evaluate(
    plan: Plan,
    job: session.Job,
    run: workdir.Run,
    split: str,
    selection: str,
    details: dict[str, Any],
) -> list[dict]:
    """Scores a split with the best or the final parameters of a run that was trained.

    selection, details and the result are as in fine_tuned.record.
    """
    task = plan.setting.task
    step = fine_tuned.selected(run, selection)
    if (split, step) not in plan.scored:
        params = checkpoint.restore_params(run.checkpoints, step, job.program.state.params)
        shapes = load.sizes(task, plan.shapes.lengths, plan.setting.n_ctx)
        _scores(plan, split, step, params, shapes)
    return fine_tuned.record(
        run,
        task,
        split,
        plan.rows[split],
        plan.scored[split, step],
        step,
        selection,
        plan.setting.hashes[split],
        results_file=plan.setting.results,
        **details,
    )


# The command line


def _define_flags():
    cli.define_process_flags()
    config_file.define(
        'custom' if config_file.given('data') else 'finetune:cola',
        'finetune:TASK, or a file of your own: FILE.py:TASK; --config.FIELD=VALUE sets a field.',
    )
    cli.define_run_flags()
    own_data.define_flags()
    flags.DEFINE_bool(
        'inspect', False, 'Show how three training rows are laid out, and counts; no training.'
    )
    flags.DEFINE_bool(
        'evaluate_only',
        False,
        'Score the finished run in --workdir; no training. With --data=FILE on all rows of a '
        'labelled file in the columns of the run.',
    )
    flags.DEFINE_string(
        'split',
        None,
        "With --evaluate_only: the split to score; default 'dev', of --data=FILE 'test'",
    )
    flags.DEFINE_string(
        'selection',
        'best',
        "With --evaluate_only: parameters 'best' on dev, or of the 'final' step.",
    )
    flags.DEFINE_string(
        'data_dir', None, 'With --evaluate_only: where the files are now; default where they were.'
    )


def main() -> None:
    f = flags.FLAGS
    processes.start(f.coordinator, f.processes, f.process, f.deterministic)
    if f.inspect:
        inspect(own_data.filled(f.config))
    elif f.workdir is None:
        raise UserError('give --workdir=DIR')
    elif f.evaluate_only:
        _evaluate_only()
    else:
        for name in ('split', 'selection', 'data_dir'):
            if f[name].present:
                raise UserError(
                    f'--{name} goes with --evaluate_only; what training scores and reads is in '
                    '--config.eval.splits, --config.eval.selections and --config.data.dir'
                )
        run(own_data.filled(f.config), f.workdir, f.allow_change, f.fallback)


def _evaluate_only():
    """Score a run as the flags say. UserError for a flag that would have no effect."""
    f = flags.FLAGS
    of_training = ('text', 'label', 'choices', 'score', 'init_from')
    given = [f'config.{field}' for field in config_file.overrides]
    given += [name for name in of_training if f[name].present]
    if given:
        raise UserError(
            f'--{given[0]} has no effect with --evaluate_only: config and columns are those of the '
            'run'
        )
    run = workdir.load(storage.path(f.workdir))
    split = f.split or 'dev'
    if f.data and not pathlib.Path(f.data).is_dir():
        if run.config.get('task') != 'custom':
            raise UserError(
                f'--data={f.data}: of {run.config.get("task")} give --data_dir=DIR, with its files'
            )
        if f.split not in (None, 'test'):
            raise UserError(f'--split={f.split}: --data=FILE is scored as the split test')
        split = 'test'
    fine_tuned.evaluate_run(run, split, f.data or f.data_dir, f.selection, encoding=f.encoding)


if __name__ == '__main__':
    cli.run(main, _define_flags)
