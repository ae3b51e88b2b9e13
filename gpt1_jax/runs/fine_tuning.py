"""Resolves a fine-tuning config: its task, its pretrained weights, its files and the key of its
results."""

import dataclasses
import functools
import pathlib
from typing import Any

from ml_collections import ConfigDict

from gpt1_jax import rules, storage, user_code
from gpt1_jax.data import inputs, splits, tasks
from gpt1_jax.data.tasks import own_file
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, fail, shown
from gpt1_jax.models import build
from gpt1_jax.runs import origins, provenance, workdir
from gpt1_jax.training import optimizer_config, transfer

# Fields that name weights or say when to evaluate them. The weights enter a key by their digest.
NOT_IN_KEY = ('init_from', 'init_step', 'n_transfer', 'model.', 'eval.')
LEAST_N_CTX = 16


@dataclasses.dataclass(frozen=True)
class Setting:
    """A fine-tuning config, with everything that can be looked up before its rows are read."""

    config: ConfigDict
    task: Any
    origin: origins.Origin | None  # None without pretraining
    tokenizer: Tokenizer
    sizes: dict  # the backbone's fields
    n_transfer: int  # as in transfer.transfer
    n_ctx: int  # the most tokens of a sequence
    hashes: dict[str, dict[str, str]]  # {split: {file: SHA-256}} of every split that the run reads

    def examples(self, split: str, limit: int | None) -> list:
        """The examples of a split, at most `limit` of them."""
        on_bad = splits.on_bad(self.config.data.skip_bad, [])
        return splits.choose(self.task.read(self.config.data.dir, split, on_bad), limit)

    def rows(self, split: str, limit: int | None) -> list[inputs.Encoded]:
        """The model inputs of a split's rows, at most `limit` of them."""
        data = self.config.data
        return splits.load(
            self.task,
            data.dir,
            split,
            self.tokenizer,
            self.n_ctx,
            self.hashes[split],
            limit,
            data.skip_bad,
        )


def resolve(config: ConfigDict, init_from: storage.Path | None) -> Setting:
    """The Setting of a config that finetune.RULES accept.

    init_from: the run directory that config.init_from names. UserError for mistakes in the config,
    before any row is read.
    """
    if config.task == 'custom' and 'custom' in config:
        _read_labels(config.custom, config.data.dir)

    def check_splits():
        for split in config.eval.splits:
            splits.check_split(tasks.of(config.to_dict()), split)

    scratch = init_from is None
    mistakes = {
        'give --config.init_from=DIR (a pretrained run, or novels), or --config.tokenizer=DIR to '
        'train from scratch': scratch and config.tokenizer is None,
        f'n_transfer = {config.n_transfer} needs weights to transfer: give '
        '--config.init_from=DIR': scratch and config.n_transfer is not None,
        f'config.tokenizer = {config.tokenizer} is for training from scratch: the run of '
        'config.init_from has its own': not scratch and config.tokenizer is not None,
        'give --config.data.dir=DIR, the directory of the data set': not config.data.dir
        and config.task != 'custom',
    }
    rules.all_of(
        lambda: optimizer_config.check(config.optimizer),
        check_splits,
        *(functools.partial(fail, message) for message, made in mistakes.items() if made),
    )
    task = tasks.of(config.to_dict())
    given = {name: value for name, value in config.model.to_dict().items() if value is not None}
    origin = None if init_from is None else origins.open_origin(init_from, config.init_step)
    if origin is None:
        tokenizer = Tokenizer.load(config.tokenizer)
        fields = given | {'vocab_size': tokenizer.vocab_size}
    else:
        tokenizer = origin.run.tokenizer()
        fields = given | _pretrained_sizes(origin.run, given)
    # With the paper's defaults
    sizes = dataclasses.asdict(build.backbone(fields).config) | build.own_fields(fields)
    del sizes['n_special']
    module = build.backbone(sizes)
    backbone = module.config
    optimizer_config.check_code(config.optimizer, lambda: {'backbone': build.shapes(module)})
    if config.optimizer.peak_rate is None:
        config.optimizer.peak_rate = transfer.peak_rate(backbone.n_embd)
    depth = backbone.n_layer
    n_transfer = (
        transfer.NOTHING
        if origin is None
        else depth
        if config.n_transfer is None
        else config.n_transfer
    )
    transfer.check_depth(n_transfer, depth)
    n_ctx = config.data.n_ctx or sizes['n_ctx']
    if n_ctx > sizes['n_ctx']:
        raise UserError(
            f"config.data.n_ctx = {n_ctx} is longer than the model's context, {sizes['n_ctx']}"
        )
    if n_ctx < LEAST_N_CTX:
        raise UserError(
            f'config.data.n_ctx = {n_ctx} leaves no room for text, must be at least {LEAST_N_CTX}'
        )
    read = dict.fromkeys(('train', 'dev', *config.eval.splits))
    hashes = {split: provenance.file_hashes(task.files(config.data.dir, split)) for split in read}
    return Setting(config, task, origin, tokenizer, sizes, n_transfer, n_ctx, hashes)


def _read_labels(custom, directory):
    """Reads the labels of a custom task from its file, if none are given."""
    if (
        custom.label
        and custom.files.get('train')
        and not (custom.labels or custom.score or custom.choices)
    ):
        custom.labels = own_file.labels(
            pathlib.Path(directory, custom.files.train), custom.to_dict()
        )


def _pretrained_sizes(run, given):
    """The sizes that the pretrained weights fix. UserError if a given field differs."""
    if run.config['kind'] != 'pretrain':
        raise UserError(
            f'{run.path}: is a fine-tuned run; fine-tuning starts from a pretrained one'
        )
    pretrained = run.config['model']
    fixed = {
        name: pretrained[name] for name in ('kind', 'vocab_size', *build.sizes(pretrained['kind']))
    }
    for name, value in fixed.items():
        if given.get(name, value) != value:
            raise UserError(
                f'config.model.{name} = {shown(given[name])}, but the checkpoint of {run.path} has '
                f'{value!r}'
            )
    return fixed


def run_key(setting: Setting, code: str | None = None) -> str:
    """16 hex digits of everything that decides the values of a run's rows, see finetune.run_key."""
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
    named = user_code.digests(setting.config.to_dict() | {'model': setting.sizes})
    return provenance.digest(
        [
            settings,
            sizes,
            setting.n_transfer,
            origin,
            setting.tokenizer.fingerprint,
            setting.hashes,
            code or provenance.code_digest(),
            *named.values(),
        ]
    )
