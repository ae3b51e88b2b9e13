"""Sections 3.1 and 4.1: unsupervised pretraining.

python -m gpt1_jax.pretrain --config=configs/pretrain.py --workdir=DIR --config.data.corpus='books/*.txt'

After any interruption run the same command again: the run goes on, and its result is the same to the bit.
"""
import contextlib
import functools
import os
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, storage
from gpt1_jax.cli import config_file
from gpt1_jax.data import tokens, unigram, words
from gpt1_jax.data.joining import Join
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, about
from gpt1_jax.evaluation import sampled_text
from gpt1_jax.metrics import language_modelling
from gpt1_jax.models import precision
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.models.kernels import self_check
from gpt1_jax.parallel import processes, sharding, step_cost
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import checkpoint, origins, pretraining_plan, session, workdir
from gpt1_jax.runs import config_rules as rules
from gpt1_jax.training import device_data, loop, losses, optimizer, validation
from gpt1_jax.weights import from_hub

RULES = rules.TRAINING | {
    'eval.every': rules.whole(1), 'eval.windows': rules.whole(0), 'eval.batch_size': rules.whole(1),
    'eval.sample': rules.whole(0, 512),
    'checkpoint.every': rules.whole(1), 'optimizer.warmup_steps': rules.whole(0), 'data.processes': rules.whole(0),
    'checkpoint.keep_steps': rules.several(rules.whole(1)), 'checkpoint.keep_words': rules.several(rules.whole(1)),
    'train.steps': rules.optional(rules.whole(1)),
    'train.epochs': rules.positive(), 'data.corpus': rules.text(), 'data.valid': rules.text(),
    'data.text_field': rules.text(), 'data.tokens': rules.optional(rules.text()),
    'data.join_by': rules.optional(rules.text()), 'data.join_characters': rules.optional(rules.whole(1)),
    'data.join_with': rules.optional(rules.text()),
    'data.verify': rules.flag(),
    'data.resident': (lambda x: x in ('auto', 'yes', 'no'), "'auto', 'yes' or 'no'"),
    'tokenizer.source': rules.text(), 'tokenizer.merges': rules.whole(0),
    'tokenizer.vocab_size': rules.optional(rules.whole(0)), 'tokenizer.encoder': rules.text(),
    'tokenizer.bpe': rules.text(), 'tokenizer.characters': rules.optional(rules.whole(1, 2 ** 62)),
}


def run(config: ConfigDict, directory: str | os.PathLike, allow_change: bool = False, dry_run: bool = False,
        fallback: bool = False) -> workdir.Run | None:
    """Pretrain as a ConfigDict of configs/pretrain.py says; returns the workdir.Run, finished.

    directory: the work directory. dry_run: report sizes and the estimated time, train nothing, return None.
    fallback: as in resume.resume.
    UserError for a mistake in the config, the corpus or the directory, and where another process works in it.
    """
    rules.validate(config, RULES)
    optimizer.check(config.optimizer)
    with contextlib.nullcontext(lambda: None) if dry_run else workdir.hold(directory) as check_lock:
        own_fields(config.model.to_dict())  # a mistake in the model is told before the text is prepared
        mesh = sharding.make_mesh(**config.mesh)
        sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
        text = _open_text(config, directory)
        model = backbone(_model_fields(config, text))
        total = _count_steps(config, text, model.config.n_ctx)
        config = _with_kept_words(config, text, model.config.n_ctx, total)
        origin, digest = origins.find(config.init_from, config.init_step, text.tokenizer, directory)
        program = make_program(config, model, mesh)
        batches = device_data.batches(text.train, model.config.n_ctx, config.batch.size, config.seed, mesh,
                                      config.data.resident)
        hyper = hyperparameters(config, total)
        unigram_loss = unigram.unigram_loss(text.train)
        pretraining_plan.print_plan(config, text.manifest, text.train, total, model.config.n_ctx, unigram_loss)
        if dry_run:
            return pretraining_plan.estimate(config, program, hyper, batches, total)

        this = session.open_run(directory, _effective_config(config, text, digest), text.tokenizer, allow_change)
        transfer = None if origin is None else functools.partial(_weights_of, origin, config.init_step, program)
        state = session.initial_state(this, program, config.seed, fallback, transfer)
        warn = unigram.plateau_warning(unigram_loss, config.optimizer.warmup_steps)
        flops = step_cost.flops_per_token(program.state.params, model.config.n_ctx)
        with session.Session(this, program, state, total, check_lock, warn, flops) as current:
            pretraining_plan.print_start(config, program, state, total, batches)
            schedule = loop.Schedule(total, config.log_every, config.eval.every, config.checkpoint.every,
                                     config.checkpoint.keep_steps)
            evaluate = _evaluation(config, model, mesh, text, current)
            loop.fit(program, state, hyper, batches, schedule, current, evaluate)
    return this


class Text(NamedTuple):
    """The prepared text of a run."""
    directory: pathlib.Path
    tokenizer: Tokenizer
    manifest: dict
    train: tokens.TokenStream
    valid: tokens.TokenStream


def _open_text(config, directory):
    """The Text of a run, prepared now where it is not yet. UserError for a mistake in the corpus or in `directory`."""
    workdir.check(directory)
    prepared = _prepared(config, directory)
    tokenizer = Tokenizer.load(prepared / 'tokenizer')
    manifest = tokens.read_manifest(prepared, tokenizer.fingerprint)
    train = tokens.open_split(prepared, 'train', config.data.verify)
    valid = tokens.open_split(prepared, 'valid', config.data.verify)
    return Text(prepared, tokenizer, manifest, train, valid)


def _prepared(config, directory):
    """The directory of prepared shards, made now if this is the only process."""
    tokens_dir = storage.path(config.data.tokens or storage.path(directory) / 'tokens')
    with about(tokens_dir):  # a name that can be none
        prepared = (tokens_dir / 'manifest.json').exists()
    if not config.data.corpus:
        if not prepared:
            raise UserError(f'{tokens_dir}: nothing prepared there, and config.data.corpus is empty: '
                            'give the text to train on')
    elif jax.process_count() == 1:
        wanted = config.tokenizer
        if config.init_from is not None and wanted.source == 'train' and not prepared:
            workdir.load(config.init_from)  # a path that is no run is told first
            raise UserError(f'config.init_from = {config.init_from}: its weights are of its own vocabulary, give '
                            f'--config.tokenizer.source={config.init_from}/tokenizer')
        merges = wanted.merges if wanted.source == 'train' and wanted.vocab_size is None else None
        prepare(tokens_dir, corpus=_several(config.data.corpus), valid=_several(config.data.valid),
                tokenizer=wanted.source, encoder=wanted.encoder, bpe=wanted.bpe, merges=merges,
                vocab_size=wanted.vocab_size, processes=config.data.processes or None,
                text_field=config.data.text_field, verify=config.data.verify, join=_join(config.data),
                characters=wanted.characters)
    elif not prepared:
        raise UserError(f'{tokens_dir}: no finished manifest; '
                        'with several processes run python -m gpt1_jax.prepare first')
    return tokens_dir


def _join(data):
    """Which rows of the corpus form a document."""
    return Join(data.join_by, data.join_characters, ' ' if data.join_with is None else data.join_with)


def _several(names):
    """'a.txt,books/*.txt' -> its parts; a file whose own name has a comma stays one."""
    return names if ',' not in names or os.path.exists(names) else names.split(',')


def _count_steps(config, text, n_ctx):
    """Steps of the whole training. UserError where the text is too short for it."""
    per_epoch = text.train.n_windows(n_ctx) / config.batch.size
    total = config.train.steps or int(config.train.epochs * per_epoch)
    if total >= 2 ** 31:
        raise UserError(f'{total:.3g} steps are too many, an int32 must hold them: give fewer config.train.epochs')
    if total < 1 or per_epoch == 0:
        raise UserError(f'{text.directory}: {text.train.n_tokens:,} training tokens are less than one batch '
                        f'({config.batch.size} x {n_ctx}): give more text, or config.train.steps')
    if text.valid.n_windows(n_ctx) < 1:
        raise UserError(f'{text.directory}: {text.valid.n_tokens:,} validation tokens are less than one window of '
                        f'{n_ctx}: hold out more (config.data.valid)')
    return total


def _with_kept_words(config, text, n_ctx, total):
    """The config with the updates of checkpoint.keep_words among checkpoint.keep_steps, and in checkpoint.words_at."""
    if config.checkpoint.keep_words:
        words_per_step = words.per_step(text.manifest, config.batch.size * n_ctx)
        steps = words.steps_at(config.checkpoint.keep_words, words_per_step, total)
        print(words.line(steps, words_per_step), flush=True)
        config = ConfigDict(config.to_dict())
        config.checkpoint.words_at = {str(step): count for step, count in steps.items()}
        config.checkpoint.keep_steps = tuple(sorted({*config.checkpoint.keep_steps, *steps}))
    return config


def _model_fields(config, text):
    return own_fields(config.model.to_dict()) | {'vocab_size': text.tokenizer.vocab_size}


def _effective_config(config, text, origin):
    """What config.json holds. origin: the digest of the weights that the run begins with, None of random ones."""
    fingerprint = {'tokens': text.manifest['fingerprint'], 'tokenizer': text.tokenizer.fingerprint, 'origin': origin}
    return config.to_dict() | {'kind': 'pretrain', 'model': _model_fields(config, text), 'fingerprint': fingerprint}


def make_program(config: ConfigDict, model: Any, mesh: jax.sharding.Mesh) -> loop.Program:
    """The compiled functions of a pretraining config: what `run` trains, for any mesh.

    The step takes the tokens on the devices (device_data.place) as a further argument where a batch is the numbers of
    its windows.
    """
    self_check.check(model.config)
    return _program(model, optimizer.settings(config.optimizer), config.optimizer.schedule, mesh,
                    config.batch.microbatches, config.batch.loss_chunks)


@functools.lru_cache
def _program(model, settings, schedule, mesh, microbatches, chunks):
    def init(seed):
        return model.init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))['params']

    def loss(params, batch, key, hyper, corpus=None):
        ids = batch['tokens'] if corpus is None else device_data.windows(corpus, batch['window'])
        hidden, table = model.apply({'params': params}, ids[:, :-1], key)
        return jnp.mean(losses.pretraining_loss(hidden, table, ids[:, 1:], chunks)), {}

    adam = optimizer.adam(**dict(settings))
    return loop.make_program(init, loss, adam, optimizer.SCHEDULES[schedule], mesh, microbatches,
                             precision.of(model.config))


def hyperparameters(config: ConfigDict, total: int) -> dict[str, np.generic]:
    """The scalars that a step takes besides state and batch. total: steps of the whole training."""
    return {'seed': np.uint32(config.seed), 'skips': np.int32(config.train.skip_nonfinite),
            **optimizer.hyperparameters(config.optimizer, config.optimizer.warmup_steps, total)}


def _weights_of(origin, step, program, fresh):
    """The parameters of another run in place of the fresh ones."""
    return checkpoint.restore_params(origin.checkpoints, origin.step(step), program.state.params)


def _evaluation(config, model, mesh, text, current):
    """What loop.fit takes as `evaluate`: logs the validation loss; the smaller it is, the better the state."""
    mean_loss = validation.mean_loss(model, mesh, text.valid, config.eval.windows, config.eval.batch_size,
                                     config.batch.loss_chunks)
    held_out = text.manifest['splits']['valid']
    sample = sampled_text.sampler(_model_fields(config, text), mesh, text.tokenizer, text.valid, config.eval.sample)

    def evaluate(state):
        step = int(state.step)
        loss = mean_loss(state.params)
        perplexity = language_modelling.perplexity(loss)
        found = {'valid_loss': loss, 'valid_perplexity': perplexity}
        line = f'step {step:,}  validation loss {loss:.4f}  perplexity {perplexity:.2f}'
        if 'bytes' in held_out:  # 0.1.0 did not count them
            bits = language_modelling.bits_per_byte(loss, held_out['bytes'] / held_out['tokens'])
            found['valid_bits_per_byte'] = bits
            line += f'  {bits:.3f} bits a byte'
        current.append(step, found)
        print(line, flush=True)
        if sample:
            print(f'  {sample(state.params)}', flush=True)
        return -loss
    return evaluate


def _define_flags():
    cli.define_process_flags()
    config_file.define('pretrain', 'What to run; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('workdir', None, 'Directory of the run; an unfinished run there is continued.')
    flags.DEFINE_bool('allow_change', False, 'Go on with a run although its length, rate or the like changed.')
    flags.DEFINE_bool('fallback', False, 'Where the newest checkpoint is damaged, go on from the newest sound one.')
    flags.DEFINE_bool('dry_run', False, 'Prepare the text, print sizes and an estimated time, train nothing.')


def main() -> None:
    f = flags.FLAGS
    processes.start(f.coordinator, f.processes, f.process, f.deterministic)
    if f.workdir is None:
        raise UserError('give --workdir=DIR')
    f.config.init_from = from_hub.local_run(f.config.init_from)
    run(f.config, f.workdir, f.allow_change, f.dry_run, f.fallback)


if __name__ == '__main__':
    cli.run(main, _define_flags)
