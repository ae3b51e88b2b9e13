"""Ideas: named differences from a baseline's pretraining config, and their text."""

import contextlib
import pathlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ml_collections import ConfigDict

from gpt1_jax import pretraining, rules, storage, user_code
from gpt1_jax.cli import config_file
from gpt1_jax.data import prepare, prepared
from gpt1_jax.errors import UserError
from gpt1_jax.runs import lock, provenance, workdir
from gpt1_jax.weights import from_hub

BASELINE = 'baseline'
# Fields of workdir.FREE that make another run here: they set the initial weights, rounding, speed
# and memory.
OWN = (
    'init_from',
    'init_step',
    'model.',
    'batch.',
    'mesh.',
    'data.resident',
    'train.skip_nonfinite',
    'eval.batch_size',
)
# Fields that decide how much a trial trains, and on what it is judged
NO_IDEA = (
    'train.',
    'eval.',
    'seed',
    'checkpoint.',
    'log_every',
    'init_from',
    'init_step',
    'data.valid',
    'data.tokens',
)
COUNTED = (  # fields in updates, which grow with the length of a run
    'train.steps',
    'optimizer.warmup_steps',
    'optimizer.decay_steps',
    'eval.every',
    'checkpoint.every',
    'log_every',
)


class Idea(NamedTuple):
    """A named difference from the baseline.

    changes: {'model.n_head': '2'}, fields of a pretraining config. code: {FILE:NAME: SHA-256} of
    the files that changes name. config: the whole config with these changes, which names copies of
    the files. manifest: the manifest of its text.
    """

    name: str
    changes: dict[str, str]
    code: dict[str, str]
    config: ConfigDict
    manifest: dict

    def of_seed(self, seed: int) -> ConfigDict:
        """Returns the config of a trial. Its seed is added to the config's, so that an idea may be
        another seed."""
        config = self.config.copy_and_resolve_references()
        config.seed += seed
        return config

    @property
    def text(self) -> storage.Path:
        """The directory of its prepared text."""
        return storage.path(self.config.data.tokens)

    @property
    def tokens(self) -> int:
        """The number of tokens that a run trains on."""
        c = self.config
        return c.train.steps * c.batch.size * c.model.n_ctx

    def key(self, seed: int) -> str:
        """Returns 16 hex digits of everything that decides a run's losses: settings, text, the
        user's files, and code."""
        config = self.of_seed(seed).to_dict()
        fields = {
            name: value
            for name, value in rules.flatten(config).items()
            if not workdir.listed(name, workdir.FREE) or workdir.listed(name, OWN)
        }
        code = user_code.digests(config).get('code', {})
        for name, value in fields.items():
            if user_code.names_code(value) and value in code:
                fields[name] = [code[value], value.rpartition(':')[2]]  # wherever the file is
        return provenance.digest([fields, self.manifest['fingerprint'], provenance.code_digest()])


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Parses '2 heads: model.n_head=2 batch.size=8' to (name, changes). UserError for another
    form."""
    name, _, rest = text.partition(': ')
    with contextlib.suppress(ValueError):
        pairs = [word.split('=', 1) for word in shlex.split(rest)]
        if name and pairs and all(len(pair) == 2 for pair in pairs):
            changes = dict(pairs)
            for field in changes:
                if workdir.listed(field, NO_IDEA):
                    raise UserError(
                        f'{name}: {field} is not an idea: all ideas have the same updates, seeds '
                        'and validation text'
                    )
            return name.strip(), changes
    raise UserError(f"idea {text!r}: must be 'NAME: FIELD=VALUE FIELD=VALUE'")


def hashes(changes: Mapping[str, str]) -> dict[str, str]:
    """Returns {FILE:NAME: SHA-256} of the user's files that changes name."""
    return {
        value: storage.sha256(file)
        for value in changes.values()
        if user_code.names_code(value) and (file := _file(value)).is_file()
    }


def kept(changes: Mapping[str, str], out: pathlib.Path, code: Mapping[str, str]) -> dict[str, str]:
    """Copies the user's files that changes name to OUT/code, and returns changes that name the
    copies by their absolute paths.

    So the user may edit a file while trials go on, and what is confirmed is what was screened.
    code: {FILE:NAME: SHA-256} of these files, now or when they were copied before.
    """
    return {
        field: _copied(value, out / 'code', code.get(value)) for field, value in changes.items()
    }


def _copied(value, folder, digest):
    """FILE:NAME of the copy, or the value itself if there is neither such a file nor a copy."""
    if digest is None:
        return value
    file = _file(value)
    copy = folder.resolve() / f'{file.stem}-{digest[:8]}{file.suffix}'
    if file.is_file() and storage.sha256(file) == digest:
        folder.mkdir(parents=True, exist_ok=True)
        storage.write(copy, file.read_bytes())
    return f'{copy}:{value.rpartition(":")[2]}' if copy.is_file() else value


def _file(value):
    return pathlib.Path(value.rpartition(':')[0])


def configured(base: ConfigDict, changes: Mapping[str, str], out: pathlib.Path) -> ConfigDict:
    """Returns the pretraining config with changes. Its prepared text has a place in OUT."""
    config = config_file.with_fields(base, changes)
    if not config.data.tokens:
        text = provenance.digest([config.data.to_dict(), config.tokenizer.to_dict()])
        config.data.tokens = str(out / f'tokens-{text[:8]}')
    return config


def lengthened(config: ConfigDict, factor: float) -> ConfigDict:
    """Returns a pretraining config for so many times the updates, with everything in proportion."""
    fields = rules.flatten(config)
    config = config.copy_and_resolve_references()
    config.update_from_flattened_dict(
        {name: max(1, round(fields[name] * factor)) for name in COUNTED if fields[name]}
    )
    return config


def build(
    base: ConfigDict,
    several: Mapping[str, Mapping[str, str]],
    out: pathlib.Path,
    length: int = 1,
    code: Mapping[str, dict[str, str]] | None = None,
) -> dict[str, Idea]:
    """Returns {name: Idea} of {name: changes}. Prepares their text if necessary.

    length: how many times the config's updates a trial takes. code: of each idea, as in `kept`. All
    ideas but those about the text are checked before any text is prepared. UserError naming each
    idea that has a mistake.
    """
    code = code or {}
    manifests: dict[storage.Path, dict] = {}  # by the directory of the text
    resolved: dict[str, tuple] = {}

    def resolve(name):
        changes = kept(several[name], out, code.get(name, {}))
        config = configured(_with_text(base, changes, out), changes, out)
        config = lengthened(config, length)
        setting = pretraining.resolve(from_hub.located(config), out / 'runs' / 'new')
        resolved[name] = config, setting

    # Another training text has the vocabulary of the baseline's text, which must be prepared before
    for own_text in (False, True):
        of_group = [name for name, each in several.items() if ('data.corpus' in each) == own_text]
        # The baseline comes first: its mistake is that of all ideas too
        for_each(of_group[:1], resolve)
        for_each(of_group[1:], resolve)
        for name in of_group:
            _, setting = resolved[name]
            if setting.tokens not in manifests:
                with of_idea(name):
                    manifests[setting.tokens] = (
                        storage.read_json(setting.tokens / prepared.MANIFEST)
                        if setting.prepare is None
                        else prepare.prepare(setting.prepare, setting.tokens, lock.hold)
                    )
    return {
        name: Idea(name, dict(changes), code.get(name, {}), config, manifests[setting.tokens])
        for name, changes in several.items()
        for config, setting in [resolved[name]]
    }


def _with_text(base, changes, out):
    """The baseline for an idea. If the idea is another training text, it has the baseline's
    vocabulary. UserError if it would not have the baseline's validation text."""
    if 'data.corpus' not in changes:
        return base
    share = str(base.data.valid)
    if share.replace('.', '', 1).isdigit():
        raise UserError(
            f'data.corpus: the baseline holds out {share} of its own text, so another text has '
            'another validation text: give --config.pretrain.data.valid=FILES'
        )
    base = base.copy_and_resolve_references()
    base.tokenizer.source = f'{configured(base, {}, out).data.tokens}/tokenizer'
    base.data.tokens = ''
    return base


@contextlib.contextmanager
def of_idea(name: str) -> Iterator[None]:
    """Puts an idea's name before the message of a UserError."""
    try:
        yield
    except UserError as error:
        raise UserError(f'{name}: {error}') from None


def for_each(names: Iterable[str], do: Callable[[str], None]) -> None:
    """Calls do(name) for each idea. UserError with the mistakes of all of them."""
    mistakes = []
    for name in names:
        try:
            with of_idea(name):
                do(name)
        except UserError as error:
            mistakes.append(str(error))
    if mistakes:
        raise UserError('; '.join(mistakes))
