"""A run's directory: config.json, parameters.txt, environment.jsonl, tokenizer/, checkpoints/,
metrics.jsonl, tensorboard/, results.jsonl, predictions. No other module creates it or compares its
config."""

import contextlib
import dataclasses
import datetime
import json
import platform
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from gpt1_jax import storage, user_code
from gpt1_jax.configs.finetune import FIXED, FREE, SCORING
from gpt1_jax.data.tokenizer import SETTINGS_FILE, Tokenizer
from gpt1_jax.errors import UserError, os_line, shown
from gpt1_jax.models import build
from gpt1_jax.parallel import processes
from gpt1_jax.rules import flatten
from gpt1_jax.runs import checkpoint, console, lock, provenance, results

# {prefix of a digest's name in config.json: what the digest stands for}, for messages
CONTENTS = {
    'fingerprint.tokens': 'the prepared text',
    'fingerprint.tokenizer': 'the vocabulary',
    'fingerprint.weights': 'the model that was imported',
    'fingerprint.origin': 'the checkpoint that training began with',
    'fingerprint.files.': 'the data file ',
    'fingerprint.code.': 'the code ',
}


@dataclasses.dataclass(frozen=True)
class Run:
    """A run in its directory, as init_from, evaluation and export read it.

    config: the contents of config.json.
    """

    path: storage.Path
    config: dict

    @property
    def checkpoints(self) -> storage.Path:
        return storage.absolute(self.path / 'checkpoints')  # as Orbax wants it

    @property
    def metrics(self) -> storage.Path:
        return self.path / 'metrics.jsonl'

    @property
    def outputs(self) -> storage.Path:
        """The directory to which evaluations write.

        It is the run's directory, or for a run that was imported into the cache the working
        directory.
        """
        imported = storage.absolute(storage.cache('')) in storage.absolute(self.path).parents
        return storage.path('.') if imported else self.path

    @property
    def results(self) -> storage.Path:
        return self.outputs / 'results.jsonl'

    def predictions(self, name: str) -> storage.Path:
        return self.outputs / f'predictions_{name}.jsonl'

    def trained_with(self, hashes: dict[str, str]) -> bool:
        """Whether the run was trained with files of these hashes.

        Also True if the run does not record its files (imported weights).
        """
        known = self.config['fingerprint'].get('files')
        return not known or {*hashes.values()} <= {*known.values()}

    def tokenizer(self) -> Tokenizer:
        """The run's tokenizer. CheckpointError if the run was trained with another tokenizer."""
        directory = self.path / 'tokenizer'
        tokenizer = Tokenizer.load(directory)
        expected = self.config['fingerprint'].get('tokenizer')
        if expected is not None and tokenizer.fingerprint != expected:
            raise checkpoint.CheckpointError(
                f"{directory}: is not this run's tokenizer: its "
                f'fingerprint is {tokenizer.fingerprint[:16]}, config.json says '
                f'{str(expected)[:16]}'
            )
        return tokenizer

    def steps(self) -> list[int]:
        """The saved steps, ascending."""
        return checkpoint.steps(self.checkpoints)

    def progress(self) -> tuple[int | None, int | None]:
        """(the latest saved step, the steps of the whole training). None if unknown.

        Imported weights have step 0.
        """
        saved = self.steps()
        return (
            (saved[-1], checkpoint.read_meta(self.checkpoints, saved[-1]).get('total'))
            if saved
            else (None, None)
        )

    def step(self, chosen: int | None = None) -> int:
        """The chosen step, by default a fine-tuned run's best or a pretrained run's latest step.

        UserError if there is no such step. CheckpointError if another run saved it.
        """
        found = self.steps()
        if not found:
            raise UserError(f'{self.path}: no complete checkpoint yet')
        if chosen is None:
            chosen = (
                checkpoint.best_step(self.checkpoints)
                if self.config['kind'] == 'finetune'
                else found[-1]
            )
        if chosen not in found:
            raise UserError(
                f'{self.path}: no checkpoint of step {shown(chosen)}; there are '
                f'{", ".join(map(str, found))}'
            )
        self.check_checkpoint(chosen)
        return chosen

    def origin(self, step: int) -> dict:
        """The fields of a row of results.jsonl about its parameters, device and code."""
        return {
            'run': str(self.path),
            'step': step,
            'digest': self.digest(step),
            'device': jax.devices()[0].device_kind,
            **provenance.versions(),
        }

    def was_changed(self) -> bool:
        """Whether some steps were trained or evaluated with other settings, by --allow_change."""
        found = False
        for row in results.read(self.path / 'environment.jsonl', results.OF_A_START):
            found = row['step'] > 0 and (found or bool(row.get('changed')))
        return found

    def trained(self) -> bool:
        """Whether the run has computed anything: a saved step, or a row of metrics."""
        return bool(self.steps()) or self.metrics.exists()

    def digest(self, step: int) -> str:
        """One digest of all parameters of a saved step, 16 hex digits."""
        return checkpoint.params_digest(checkpoint.read_meta(self.checkpoints, step))

    def check_checkpoint(self, step: int) -> None:
        """CheckpointError if a checkpoint's config does not belong to config.json's run.

        Then the seed, the task, the data or the sizes differ. Some sizes, such as n_head, do not
        show in any array's shape.
        """
        saved = checkpoint.read_meta(self.checkpoints, step).get('config', self.config)
        differing = changed(saved, self.config)
        fixed = _of_another_run(differing)
        if fixed:
            raise checkpoint.CheckpointError(
                f"{self.checkpoints / str(step)}: is not this run's "
                f'checkpoint, or config.json was edited ({"; ".join(fixed)})'
            )


def load(path: str | storage.Path) -> Run:
    """The Run in a directory.

    UserError if the directory has no run, or if its config.json is damaged or names code that is
    not trusted (user_code.py).
    """
    path = storage.path(path)
    config = read_config(path)
    file = path / 'config.json'
    try:
        # Before the first step nothing was trained with the code
        if checkpoint.steps(path / 'checkpoints'):
            user_code.check(path, config['fingerprint'].get('code', {}))
        model = config['model']
        missing = {'kind', 'vocab_size', *build.sizes(model.get('kind', 'gpt'))} - model.keys()
        if missing:
            raise UserError(f'model.{min(missing)} is missing')
        build.backbone(model)
    except UserError as error:
        raise UserError(f'{file}: {error}') from None
    return Run(path, config)


def read_config(path: str | storage.Path) -> dict:
    """The contents of a run's config.json. Only the groups are checked.

    UserError if the directory has no config.json, or a damaged one.
    """
    path = storage.path(path)
    file = path / 'config.json'
    if not file.is_file():
        hint = ''
        if not path.exists() and len(path.parts) == 1:
            hint = '; a model of the Hugging Face Hub is hf:USER/NAME'
        raise UserError(f'{path}: not a run directory (no config.json in it){hint}')
    config = storage.read_json(file)
    if not (
        isinstance(config, dict)
        and config.get('kind') in ('pretrain', 'finetune')
        and isinstance(config.get('model'), dict)
        and isinstance(config.get('fingerprint'), dict)
    ):
        raise UserError(
            f"{file}: not a run's config: its kind, model or fingerprint is missing or damaged"
        )
    return config


def check(path: storage.Path, kind: str = '') -> Run | None:
    """The Run in a directory, or None if it has none yet.

    UserError if the path is a file, or holds something other than a run of this kind.
    """
    # A process that was killed before it wrote config.json leaves these
    leftovers = ('tokens', 'tokenizer', 'environment.jsonl', 'config.json.partial', lock.FILE)
    if path.exists() and not path.is_dir():
        raise UserError(f'{path}: is a file, not a directory')
    if (path / 'config.json').exists():
        there = load(path)
        if kind and there.config['kind'] != kind:
            names = {'pretrain': 'a pretraining run', 'finetune': 'a fine-tuning run'}
            raise UserError(f'{path} holds {names[there.config["kind"]]}: use a new --workdir')
        return there
    if path.is_dir() and any(file.name not in leftovers for file in path.iterdir()):
        raise UserError(f'{path}: neither empty nor a run directory')
    return None


@contextlib.contextmanager
def hold(path: storage.Path) -> Iterator[Callable[[], None]]:
    """Hold a run directory's lock (lock.hold). Of several processes only process 0 holds it.

    Yields a function that raises UserError once another process has taken the lock over. UserError
    in every process if the lock is held elsewhere.
    """
    check(path)
    with contextlib.ExitStack() as stack:
        held = None
        refusal = ''
        if processes.primary():
            try:
                held = stack.enter_context(lock.hold(path))
            except (UserError, OSError) as error:  # raised below in every process, or others wait
                refusal = os_line(error) if isinstance(error, OSError) else str(error)
        refusal = processes.from_primary(refusal)
        if refusal:
            raise UserError(refusal)
        yield held.check if held else lambda: None


def start(path: storage.Path, config: dict, tokenizer: Tokenizer) -> Run:
    """Create a run directory, or open an existing directory to continue its run.

    Of several processes only process 0 writes. config.json stays as it is until `write_config`.
    config: the effective config, a nested dict with 'kind' and 'fingerprint'. UserError for another
    run's tokenizer.
    """
    if not processes.primary():
        return Run(path, config)
    storage.mkdir(path)
    if not (path / 'tokenizer' / SETTINGS_FILE).exists() or not Run(path, config).trained():
        tokenizer.save(path / 'tokenizer')
    elif Tokenizer.load(path / 'tokenizer').fingerprint != tokenizer.fingerprint:
        raise UserError(f'{path / "tokenizer"}: is another tokenizer: use a new --workdir')
    return Run(path, config)


def write_config(run: Run) -> None:
    """Write config.json, which makes the directory a run's directory."""
    storage.write(run.path / 'config.json', json.dumps(run.config, indent=1).encode() + b'\n')


def describe(run: Run, step: int, params: Any, changes: list[str]) -> None:
    """Append this start to environment.jsonl, then write config.json and parameters.txt.

    A start has its first step, the changes in the config, the time, the host, the versions and the
    devices. parameters.txt is the table of parameters. Of several processes only process 0 writes.
    """
    if not processes.primary():
        return
    total = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f'{total:,} parameters, listed in {run.path}/parameters.txt', flush=True)
    for line in changes:
        print(f'changed: {line}', flush=True)
    results.append(
        run.path / 'environment.jsonl',
        {
            'step': step,
            'changed': changes,
            'time': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
            'host': platform.node(),
            'platform': platform.platform(),
            **provenance.versions(),
            'environment': provenance.environment(params),
        },
    )
    write_config(run)
    storage.write(
        run.path / 'parameters.txt', '\n'.join([*console.parameters(params), '']).encode()
    )


def changed(old: dict, new: dict) -> dict[str, str]:
    """{'batch.size': 'batch.size: 8 -> 16'} of the fields that differ between two configs.

    Fields in FREE are left out.
    """
    old = json.loads(json.dumps(flatten(old)))  # tuples become lists, as in config.json
    new = json.loads(json.dumps(flatten(new)))
    lines = {}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name) and not listed(name, FREE):
            lines[name] = f'{name}: {shown(old.get(name))} -> {shown(new.get(name))}'
            for prefix, what in CONTENTS.items():
                if name.startswith(prefix):
                    lines[name] = f'{what}{name.removeprefix(prefix)} has other contents'
    return lines


def compare(
    path: storage.Path, config: dict, allow_change: bool = False, total: int | None = None
) -> list[str]:
    """The changes in the config since the run in a directory, a line for each field.

    [] if nothing was trained there.
    config:       as in `start`.
    allow_change: continue although the length, the learning rate or a similar field changed.
    total:        the steps of the whole training.
    UserError if the run there cannot be continued with this config. UserError also if all its steps
    are made, so that other settings would train nothing.
    """
    there = check(path, config['kind'])
    if there is None or not there.trained():
        return []
    # Before a first step, the code may be mended
    code = {} if there.steps() else {'code': config['fingerprint'].get('code')}
    lines = changed(there.config | {'fingerprint': there.config['fingerprint'] | code}, config)
    fixed = _of_another_run(lines)
    if fixed:
        raise UserError(f'{path} holds another run ({"; ".join(fixed)}): use a new --workdir')
    made = max(there.steps(), default=0)
    new = '; '.join(line for k, line in lines.items() if not listed(k, SCORING))
    if new and total is not None and made > total:
        raise UserError(
            f'{path}: step {made:,} is there already: the new settings ({new}) must give at least '
            f'{made:,} steps, not {total:,}'
        )
    if new and made == total:
        raise UserError(
            f'{path}: the run is finished, nothing is left to train with the new settings ({new}): '
            'use a new --workdir'
        )
    if lines and not allow_change:
        raise UserError(
            f'{path} holds a run with other settings ({"; ".join(lines.values())}): give '
            '--allow_change to continue with the new ones'
        )
    return list(lines.values())


def _of_another_run(lines):
    """The lines of `changed` that are about fields in FIXED."""
    return [
        line for name, line in lines.items() if listed(name, FIXED) and not listed(name, SCORING)
    ]


def listed(field: str, names: Iterable[str]) -> bool:
    """Whether a field such as 'model.dtype' is named in FREE, SCORING, FIXED or a similar list.

    In a list 'model.' stands for all fields of model.
    """
    return any(field == name or (name.endswith('.') and field.startswith(name)) for name in names)
