"""What a fine-tuning config comes to: its task, its pretrained weights, its files; and the key of its results."""
import dataclasses
import os
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from gpt1_jax import storage
from gpt1_jax.data import inputs, splits, tasks
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, about, fail, shown
from gpt1_jax.models import build
from gpt1_jax.runs import checkpoint, provenance, workdir
from gpt1_jax.training import transfer

# Fields that name weights, or say when they are looked at: the weights themselves enter a key, by their digest.
NOT_IN_KEY = ('init_from', 'init_step', 'n_transfer', 'model.', 'eval.')
LEAST_N_CTX = 16


class Origin(NamedTuple):
    """The checkpoint that fine-tuning starts from. digest: of its parameters."""
    run: workdir.Run
    step: int
    digest: str


class Setting(NamedTuple):
    """What a config comes to once its task, its origin and its files are looked up.

    origin: None without pretraining. sizes: the backbone's fields. n_transfer: as in transfer.transfer. n_ctx: tokens
    that a sequence is cut to. hashes: {split: {file: SHA-256}} of every split that the run reads.
    """
    task: Any
    origin: Origin | None
    tokenizer: Tokenizer
    sizes: dict
    n_transfer: int
    n_ctx: int
    hashes: dict[str, dict[str, str]]


def resolve(config: ConfigDict) -> Setting:
    """The Setting of a config that finetune.RULES accept. UserError for a mistake in it, before any row is read."""
    task = tasks.of(config.to_dict())
    origin, tokenizer, sizes = _origin(config)
    n_transfer = _n_transfer(config, origin, sizes)
    for split in config.eval.splits:
        splits.check_split(task, split)
    n_ctx = config.data.n_ctx or sizes['n_ctx']
    if n_ctx > sizes['n_ctx']:
        raise UserError(f"config.data.n_ctx = {n_ctx} is longer than the model's context, {sizes['n_ctx']}")
    if n_ctx < LEAST_N_CTX:
        raise UserError(f'config.data.n_ctx = {n_ctx} leaves no room for text, must be at least {LEAST_N_CTX}')
    read = ('train', 'dev', *config.eval.splits)
    hashes = {split: provenance.file_hashes(task.files(config.data.dir, split)) for split in read}
    return Setting(task, origin, tokenizer, sizes, n_transfer, n_ctx, hashes)


def run_key(config: ConfigDict, setting: Setting, code: str | None = None) -> str:
    """16 hex digits over all that decides the values of a run's rows, see finetune.run_key."""
    fields = workdir.flatten(config.to_dict())
    settings = {name: value for name, value in fields.items()
                if not workdir.listed(name, workdir.FREE + NOT_IN_KEY)}
    # Rows of versions without these three fields lack them. The latter two change no result.
    if settings['batch.sort_window'] is None:
        del settings['batch.sort_window']
    sizes = {name: value for name, value in setting.sizes.items() if name not in ('kernels', 'precision')}
    origin = None
    if setting.origin is not None and setting.n_transfer != transfer.NOTHING:
        origin = setting.origin.digest
    return provenance.digest([settings, sizes, setting.n_transfer, origin, setting.tokenizer.fingerprint,
                              setting.hashes, code or provenance.code_digest()])


def with_sort_window_of(directory: str | os.PathLike, config: ConfigDict) -> ConfigDict:
    """The config with batch.sort_window of the run in a directory, unless the config names one: a run that was started
    when the default was another goes on with the batches it started with."""
    file = storage.path(directory) / 'config.json'
    with about(file):  # a name that can be none
        if config.batch.sort_window is not None or not file.exists():
            return config
    config = config.copy_and_resolve_references()
    config.batch.sort_window = workdir.flatten(workdir.load(directory).config).get('batch.sort_window')
    return config


def training_examples(config: ConfigDict, setting: Setting) -> list:
    """The examples of the training split that the config chooses, as read."""
    on_bad = [].append if config.data.skip_bad else fail
    return splits.choose(setting.task.read(config.data.dir, 'train', on_bad), config.data.train_rows)


def encoded_rows(config: ConfigDict, setting: Setting, split: str, limit: int | None) -> list[inputs.Encoded]:
    """The model inputs of a split's rows, at most `limit` of them."""
    return splits.load(setting.task, config.data.dir, split, setting.tokenizer, setting.n_ctx, setting.hashes[split],
                       limit, config.data.skip_bad)


def _n_transfer(config, origin, sizes):
    """Layers to transfer: by default all of them where there are pretrained weights."""
    depth = build.backbone(sizes).config.n_layer
    if config.n_transfer is not None and origin is None:
        raise UserError(f'n_transfer = {config.n_transfer} needs weights to transfer: give --config.init_from=DIR')
    if origin is None:
        n_transfer = transfer.NOTHING
    elif config.n_transfer is None:
        n_transfer = depth
    else:
        n_transfer = config.n_transfer
    transfer.check_depth(n_transfer, depth)
    return n_transfer


def _origin(config):
    """(Origin or None, tokenizer, the backbone's fields) of what a run starts from."""
    if not config.data.dir and config.task != 'custom':
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    given = {name: value for name, value in config.model.to_dict().items() if value is not None}
    if config.init_from is None:
        if config.tokenizer is None:
            raise UserError('give --config.init_from=DIR (a pretrained run), '
                            'or --config.tokenizer=DIR to train from scratch')
        tokenizer = Tokenizer.of(config.tokenizer)
        return None, tokenizer, _with_defaults(given | {'vocab_size': tokenizer.vocab_size})
    run = workdir.load(config.init_from)
    if run.config['kind'] != 'pretrain':
        raise UserError(f'{config.init_from}: is a fine-tuned run; fine-tuning starts from a pretrained one')
    sizes = _with_defaults(given | _pretrained_sizes(config.init_from, run, given))
    step = run.step(config.init_step)
    digest = checkpoint.params_digest(checkpoint.read_meta(run.checkpoints, step))
    return Origin(run, step, digest), run.tokenizer(), sizes


def _pretrained_sizes(path, run, given):
    """The sizes that the pretrained weights fix. UserError where a field that was given says otherwise."""
    pretrained = {'kind': 'gpt'} | run.config['model']
    fixed = {name: pretrained[name] for name in ('kind', 'vocab_size', *build.SIZES[pretrained['kind']])}
    for name, value in fixed.items():
        if given.get(name, value) != value:
            raise UserError(f'config.model.{name} = {shown(given[name])}, but the checkpoint of {path} has {value!r}')
    return fixed


def _with_defaults(fields):
    """The fields that a kind of model reads, with the paper's values where none is given."""
    sizes = build.own_fields(fields) | dataclasses.asdict(build.backbone(fields).config)
    return {name: value for name, value in sizes.items() if name != 'n_special'}
