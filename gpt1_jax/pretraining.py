"""Sections 3.1 and 4.1: unsupervised pretraining.

gpt1 pretrain --workdir=DIR --config.data.corpus='books/*.txt'
gpt1 pretrain --workdir=DIR --config.data.corpus='books/*.txt' --init_from=novels --minutes=60

A laptop, two minutes   --config=notebook, 0.9M parameters; it brings its corpus
One GPU                 --config=pretrain --config.model.dtype=bfloat16, the paper's 116M parameters
A night of two cores    --config=overnight_cpu:pretrain, 6.9M parameters

Rerun an interrupted command to resume it. On the same devices and versions the result is the same
to the bit (on a GPU with --deterministic).
"""

import functools
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, metrics, rules, storage, user_code
from gpt1_jax.cli import config_file
from gpt1_jax.configs.pretrain import RULES, get_config, warmup_steps
from gpt1_jax.data import counts, prepare, prepared, windows
from gpt1_jax.data.corpus import Join
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import text_generation
from gpt1_jax.models import build as models
from gpt1_jax.models import causality
from gpt1_jax.models.fast import self_check, table
from gpt1_jax.parallel import processes, sharding, step_cost
from gpt1_jax.runs import checkpoint, console, lock, origins, session, workdir
from gpt1_jax.training import device_data, loop, losses, optimizer_config, profiling, validation
from gpt1_jax.training.intervals import Intervals
from gpt1_jax.training.prefetch import Batches
from gpt1_jax.weights import from_hub

# Epochs of a run that begins with another run's weights. The paper trains for 100 epochs
EPOCHS_AFTER = 3
FEW_UPDATES = 100  # fewer hardly train anything


def run(
    config: ConfigDict,
    directory: str | storage.Path,
    allow_change: bool = False,
    dry_run: bool = False,
    fallback: bool = False,
    minutes: float | None = None,
) -> workdir.Run | None:
    """Pretrain with a ConfigDict of configs/pretrain.py, and return the finished workdir.Run.

    directory:    the work directory.
    allow_change: as in workdir.compare.
    dry_run:      report sizes and the estimated time, train nothing, return None.
    fallback:     as in session.resume.
    minutes:      train for about so long, in place of train.steps. The number of updates follows
                  from the time of three updates. A run that goes on keeps its number.
    UserError for a mistake in the config, the corpus or the directory, and if another process works
    in the directory.
    """
    rules.require({'minutes': (minutes, rules.optional(rules.positive()))})
    user_code.trust(config)
    setting = resolve(from_hub.located(config), storage.path(directory))
    job = build(plan(setting, minutes))
    if not dry_run:
        return session.train(job, setting.directory, allow_change, fallback)
    workdir.compare(setting.directory, job.config, allow_change, job.intervals.total)
    console.estimate(job)
    return None


def begin_from(config: ConfigDict, name: str, given: Any = ()) -> ConfigDict:
    """The config of a run that begins with the weights of another run.

    It gets the other run's sizes, dropout and vocabulary, and EPOCHS_AFTER epochs. Fields that
    differ from configs/pretrain.py stay. name: as config.init_from. given: names of fields that
    stay in any case. UserError if there is no such run.
    """
    rules.validate(config, RULES)
    model = workdir.load(from_hub.local_run(name)).config['model']
    sizes = {field: model[field] for field in ('kind', *models.sizes(model['kind']))}
    # Weights that were trained without dropout lose more to it than the further training brings
    dropouts = {field: rate for field, rate in model.items() if field.endswith('_dropout')}
    others = {'tokenizer.source': name, 'train.epochs': EPOCHS_AFTER}
    wanted = rules.flatten({'model': sizes | dropouts}) | others
    config = config.copy_and_resolve_references()
    if config.tokenizer.source == 'train':
        config.tokenizer.vocab_size = None
    present = rules.flatten(config)
    defaults = rules.flatten(get_config())
    for field in wanted.keys() - given:
        if present.get(field) == defaults.get(field):
            config.update_from_flattened_dict({field: wanted[field]})
    config.init_from = name
    return config


# Setting


class Setting(NamedTuple):
    """A pretraining config, with everything that can be looked up before its text is read."""

    config: ConfigDict
    directory: storage.Path
    there: workdir.Run | None  # the run in the directory, which goes on
    model: dict[str, Any]  # the backbone's fields but vocab_size
    mesh: jax.sharding.Mesh
    tokens: storage.Path  # the directory of the prepared text
    prepare: prepare.PrepareConfig | None  # how to prepare the text, None if it must exist
    # The other run whose weights are read. None also for a run that resumes
    origin: origins.Origin | None
    digest: str | None  # of the weights with which the run begins, None for random weights


def resolve(config: ConfigDict, directory: storage.Path) -> Setting:
    """The Setting of a config. UserError for its mistakes, before any text is read.

    config: as from_hub.located returns it.
    """
    rules.validate(config, RULES)
    fields = models.own_fields(config.model.to_dict())
    described = fields | {'vocab_size': 1}
    shapes = functools.partial(models.shapes, models.backbone(described))
    optimizer_config.check(config.optimizer, shapes)
    causality.check(described)
    mesh = sharding.make_mesh(**config.mesh)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    there = workdir.check(directory, 'pretrain')
    tokens = storage.path(config.data.tokens) if config.data.tokens else directory / 'tokens'
    is_prepared = (tokens / prepared.MANIFEST).exists()
    text = None
    if config.data.corpus and jax.process_count() == 1:
        text = prepare_config(config.data, config.tokenizer)
        _check_vocabulary(text.tokenizer, is_prepared)
    elif not is_prepared:
        raise UserError(
            f'{tokens}: no prepared text there: give config.data.corpus, the text to train on, or '
            '(with several processes always) config.data.tokens, where gpt1 prepare wrote it'
        )
    origin, digest = origins.find(config.init_from, config.init_step, there)
    if origin:
        origins.check_sizes(origin, fields, config.init_from)
    if origin and text and text.tokenizer == 'train' and not is_prepared:
        raise UserError(
            f'config.init_from = {config.init_from}: its weights are of its own vocabulary, give '
            f'--config.tokenizer.source={config.init_from}'
        )
    return Setting(config, directory, there, fields, mesh, tokens, text, origin, digest)


def prepare_config(data: ConfigDict, vocabulary: ConfigDict) -> prepare.PrepareConfig:
    """The PrepareConfig for the text of config.data and the vocabulary of config.tokenizer."""
    between = ' ' if data.join_with is None else data.join_with
    join = Join(data.join_by, data.join_characters, between, data.split_at)
    merges = (
        vocabulary.merges
        if vocabulary.source == 'train' and vocabulary.vocab_size is None
        else None
    )
    return prepare.PrepareConfig(
        _several(data.corpus),
        _several(data.valid),
        vocabulary.source,
        vocabulary.encoder,
        vocabulary.bpe,
        merges,
        vocabulary.vocab_size,
        data.processes or None,
        data.text_field,
        verify=data.verify,
        join=join,
        characters=vocabulary.characters,
        split_files=data.split_files,
        skip_bad=data.skip_bad,
    )


def _check_vocabulary(source, is_prepared):
    """UserError if the vocabulary that config.tokenizer.source names is not there."""
    try:
        if source not in ('train', 'published'):
            Tokenizer.load(source)
    except UserError as error:
        hint = (
            '; the text is prepared: leave config.data.corpus out to continue with it'
            if is_prepared
            else ''
        )
        raise UserError(f'config.tokenizer.source: {error}{hint}') from None


def _several(names):
    """'a.txt,books/*.txt' -> its parts. A file with a comma in its name stays one part."""
    return names if ',' not in names or os.path.exists(names) else names.split(',')


# Plan


class Plan(NamedTuple):
    """A pretraining of which everything is known, before anything of it is computed."""

    setting: Setting
    config: ConfigDict  # with the number of updates and of the warm-up
    tokenizer: Tokenizer
    manifest: dict[str, Any]  # of the prepared text
    train: windows.TokenStream
    valid: windows.TokenStream
    model: Any
    batches: Batches
    total: int  # updates
    unigram_loss: float
    contents: dict[str, Any]  # of config.json


def plan(setting: Setting, minutes: float | None = None) -> Plan:
    """The Plan of a Setting. Prepares its text if necessary. UserError for a mistake in the text.

    minutes: as in `run`.
    """
    config = setting.config.copy_and_resolve_references()
    there = setting.there
    tokenizer, manifest, train, valid = _text(setting)
    fields = setting.model | {'vocab_size': tokenizer.vocab_size}
    model = models.backbone(fields)
    n_ctx = model.config.n_ctx
    size = config.batch.size
    per_epoch = train.n_windows(n_ctx) / size
    steps = config.train.steps if minutes is None else _steps_there(there)
    total = steps or int(config.train.epochs * per_epoch)
    _check_length(setting.tokens, total, train, valid, n_ctx, size)
    batches = device_data.batches(
        train, n_ctx, size, config.seed, setting.mesh, config.data.resident
    )
    if minutes is not None and steps is None:
        total = steps = _steps_in(
            minutes, make_program(config, model, setting.mesh), config, batches
        )
    warmup = config.optimizer.warmup_steps
    if warmup is None and there is not None and there.trained():
        # Also if the run now becomes longer
        warmup = there.config.get('optimizer', {}).get('warmup_steps')
    config.train.steps = steps
    config.optimizer.warmup_steps = warmup_steps(warmup, total)
    at = {}
    if config.checkpoint.keep_words:
        words_per_step = counts.words_per_step(manifest, size * n_ctx)
        at = counts.steps_at(config.checkpoint.keep_words, words_per_step, total)
        print(counts.words_line(at, words_per_step), flush=True)
    kept = session.steps_to_keep(there, config.checkpoint.keep_steps, at)
    unigram_loss = counts.unigram_loss(train)
    console.print_plan(
        manifest, per_epoch, total, n_ctx, size, unigram_loss, config.optimizer.warmup_steps
    )
    values = config.to_dict()
    contents = values | {
        'kind': 'pretrain',
        'model': fields,
        'checkpoint': values['checkpoint'] | kept,
        'fingerprint': {
            'tokens': manifest['fingerprint'],
            'tokenizer': tokenizer.fingerprint,
            'origin': setting.digest,
            **user_code.digests(values),
        },
    }
    return Plan(
        setting,
        config,
        tokenizer,
        manifest,
        train,
        valid,
        model,
        batches,
        total,
        unigram_loss,
        contents,
    )


def _text(setting):
    """(tokenizer, manifest, train, valid) of the text of a Setting. Prepares it if necessary."""
    config = setting.config
    origin = setting.origin
    if setting.prepare is not None:

        def hold(directory):
            """Its own text is in the directory of the run, which has a lock."""
            return lock.hold(directory) if config.data.tokens else workdir.hold(setting.directory)

        # Text that is there without a run is a dry run's, perhaps
        replace = not config.data.tokens and setting.there is None
        prepare.prepare(setting.prepare, setting.tokens, hold, replace)
    tokenizer = Tokenizer.load(setting.tokens / 'tokenizer')
    manifest = prepared.read_manifest(setting.tokens, tokenizer.fingerprint)
    streams = [
        prepared.open_split(setting.tokens, split, config.data.verify)
        for split in ('train', 'valid')
    ]
    if origin is not None and origin.run.tokenizer().fingerprint != tokenizer.fingerprint:
        raise UserError(
            f'{origin.run.path}: its tokenizer is another one; prepare the corpus with '
            f'--config.tokenizer.source={origin.run.path}'
        )
    return tokenizer, manifest, *streams


def _steps_there(there):
    """The number of updates of a run that was started with minutes, None without a run."""
    if there is None:
        return None
    steps = there.config.get('train', {}).get('steps')
    if steps is None:
        raise UserError(f'{there.path}: its run was not started with minutes: leave them out')
    return steps


def _steps_in(minutes, program, config, batches):
    """The number of updates that take so many minutes here, from the time of three updates."""
    hyper = hyperparameters(config, 1)
    seconds, _ = profiling.time_step(program, hyper, batches)
    # Each process has measured its own time
    total = int(processes.from_primary(str(max(1, int(60 * minutes / seconds)))))
    if total < FEW_UPDATES:
        print(
            f'warning: {total:,} updates of {seconds:.2g} s in {minutes:g} minutes are few: give '
            'more minutes, a smaller model or a smaller batch',
            flush=True,
        )
    return total


def _check_length(directory, total, train, valid, n_ctx, size):
    if total < 1 or train.n_windows(n_ctx) < 1:
        raise UserError(
            f'{directory}: {train.n_tokens:,} training tokens are less than one batch of {size} x '
            f'{n_ctx}: give more text, or a smaller --config.batch.size or --config.model.n_ctx'
        )
    if valid.n_windows(n_ctx) < 1:
        raise UserError(
            f'{directory}: {valid.n_tokens:,} validation tokens are less than one window of '
            f'{n_ctx}: hold out more, such as --config.data.valid=0.1, or give a smaller '
            '--config.model.n_ctx'
        )


# Job


def build(plan: Plan) -> session.Job:
    """The Job of a Plan."""
    setting = plan.setting
    config = plan.config
    total = plan.total
    program = make_program(config, plan.model, setting.mesh, total)
    intervals = Intervals(
        total,
        config.log_every,
        config.eval.every,
        config.checkpoint.every,
        plan.contents['checkpoint']['keep_steps'],
    )

    def start(fresh):
        origin = setting.origin
        if origin is None:
            return fresh
        return checkpoint.restore_params(origin.run.checkpoints, origin.step, program.state.params)

    return session.Job(
        plan.contents,
        plan.tokenizer,
        program,
        plan.batches,
        hyperparameters(config, total),
        intervals,
        start,
        functools.partial(_evaluation, plan),
        step_cost.flops_per_token(program.state.params, plan.model.config.n_ctx),
        counts.plateau_warning(plan.unigram_loss, config.optimizer.warmup_steps),
    )


def make_program(
    config: ConfigDict, model: Any, mesh: jax.sharding.Mesh, total: int = 1
) -> loop.Program:
    """The compiled functions of a pretraining config.

    If a batch is the numbers of its windows, the step takes the tokens on the devices
    (device_data.place) as a further argument. total: steps of the whole training, for a user's
    schedule.
    """
    self_check.check(model.config)
    warmup = warmup_steps(config.optimizer.warmup_steps, total)
    schedule = optimizer_config.schedule_key(config.optimizer, warmup, total)
    return _program(
        model,
        optimizer_config.settings(config.optimizer),
        schedule,
        mesh,
        config.batch.microbatches,
        config.batch.loss_chunks,
    )


@functools.lru_cache
def _program(model, settings, schedule, mesh, microbatches, chunks):
    def init(seed):
        return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']

    def loss(params, batch, key, hyper, corpus=None):
        ids = batch['tokens'] if corpus is None else device_data.windows(corpus, batch['window'])
        hidden, rows = model.apply({'params': params}, ids[:, :-1], key)
        vocabulary = rows[: model.config.vocab_size]
        ops = table.ops(model.config)
        of_windows = losses.pretraining_loss(hidden, vocabulary, ids[:, 1:], chunks=chunks, ops=ops)
        return jnp.mean(of_windows), {}

    return loop.make_program(
        init,
        loss,
        optimizer_config.make(settings),
        optimizer_config.schedule(*schedule),
        mesh,
        microbatches,
        models.precision(model.config),
    )


def hyperparameters(config: ConfigDict, total: int) -> dict[str, np.generic]:
    """The scalars that a step takes besides state and batch. total: steps of the whole training."""
    warmup = warmup_steps(config.optimizer.warmup_steps, total)
    return optimizer_config.hyperparameters(config, warmup, total)


def _evaluation(plan, current):
    """The `evaluate` of loop.fit, which logs the validation loss. A smaller loss is better."""
    config = plan.config
    mesh = plan.setting.mesh
    # So many rows fit into memory in training
    rows = min(config.eval.batch_size, config.batch.size // config.batch.microbatches)
    mean_loss = validation.mean_loss(
        plan.model, mesh, plan.valid, config.eval.windows, rows, config.batch.loss_chunks
    )
    sample = text_generation.sampler(
        plan.contents['model'], mesh, plan.tokenizer, plan.valid, config.eval.sample
    )
    held_out = plan.manifest['splits']['valid']
    bytes_per_token = held_out['bytes'] / held_out['tokens']

    def evaluate(state):
        step = int(state.step)
        loss = mean_loss(state.params)
        perplexity = metrics.perplexity(loss)
        bits = metrics.bits_per_byte(loss, bytes_per_token)
        current.append(
            step, {'valid_loss': loss, 'valid_perplexity': perplexity, 'valid_bits_per_byte': bits}
        )
        print(
            f'step {step:,}  validation loss {loss:.4f}  perplexity {perplexity:.2f}  {bits:.3f} '
            'bits a byte',
            flush=True,
        )
        if sample:
            print(f'  {sample(state.params)}', flush=True)
        return -loss

    return evaluate


def _define_flags():
    cli.define_process_flags()
    config_file.define(
        'pretrain',
        'A config by its name, or a file of your own: FILE.py; --config.FIELD=VALUE sets a field.',
    )
    cli.define_run_flags()
    flags.DEFINE_string(
        'init_from',
        None,
        'Begin with the weights of this run, its sizes, dropout and vocabulary: novels, DIR or '
        f'hf:USER/NAME; {EPOCHS_AFTER} epochs unless told.',
    )
    flags.DEFINE_float(
        'minutes',
        None,
        'Train for about so long: three updates are timed, and the number of updates is fixed.',
    )
    flags.DEFINE_bool(
        'dry_run', False, 'Prepare the text, print sizes and an estimated time, train nothing.'
    )


def main() -> None:
    f = flags.FLAGS
    processes.start(f.coordinator, f.processes, f.process, f.deterministic)
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    config = f.config
    if f.init_from is not None:
        config = begin_from(config, f.init_from, config_file.overrides)
    run(config, f.workdir, f.allow_change, f.dry_run, f.fallback, f.minutes)


if __name__ == '__main__':
    cli.run(main, _define_flags)
