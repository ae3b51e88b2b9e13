"""The runs of an ablation: each idea's settings and text, and the training that is missing."""

import contextlib
import pathlib
import shlex
import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpt1_jax.configs import zero_shot as zero_shot_config
from ml_collections import ConfigDict

from gpt1_jax import pretraining, rules, storage, user_code, zero_shot
from gpt1_jax.cli import config_file
from gpt1_jax.data import prepare, tokens
from gpt1_jax.errors import UserError
from gpt1_jax.runs import lock, provenance, results, workdir

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


class Idea(NamedTuple):
    """A named difference from the baseline.

    changes: {'model.n_head': '2'}, fields of a pretraining config. config: the whole config with
    these changes. manifest: the manifest of its text.
    """

    name: str
    changes: dict[str, str]
    config: ConfigDict
    manifest: dict

    def of_seed(self, seed: int) -> ConfigDict:
        config = self.config.copy_and_resolve_references()
        config.seed = seed
        return config

    @property
    def tokens(self) -> int:
        """The number of tokens that a run trains on."""
        c = self.config
        n_ctx = c.model.n_ctx
        all_tokens = self.manifest['splits']['train']['tokens']
        steps = c.train.steps or int(c.train.epochs * (all_tokens // n_ctx) / c.batch.size)
        return steps * c.batch.size * n_ctx

    def key(self, seed: int) -> str:
        """Returns 16 hex digits of everything that decides a run's losses: settings, text, the
        user's files, and code."""
        config = self.of_seed(seed).to_dict()
        fields = {
            name: value
            for name, value in rules.flatten(config).items()
            if not workdir.listed(name, workdir.FREE) or workdir.listed(name, OWN)
        }
        return provenance.digest(
            [
                fields,
                self.manifest['fingerprint'],
                user_code.digests(config),
                provenance.code_digest(),
            ]
        )


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Parses '2 heads: model.n_head=2 batch.size=8' to (name, changes). UserError for another
    form."""
    name, _, rest = text.partition(': ')
    with contextlib.suppress(ValueError):
        pairs = [word.split('=', 1) for word in shlex.split(rest)]
        if name and pairs and all(len(pair) == 2 for pair in pairs):
            return name.strip(), dict(pairs)
    raise UserError(f"idea {text!r}: must be 'NAME: FIELD=VALUE FIELD=VALUE'")


def ideas(config: ConfigDict, out: pathlib.Path) -> list[Idea]:
    """Returns the baseline and each idea of a config.

    All are checked before any text is prepared. UserError, with the idea's name, for a mistake in
    an idea.
    """
    changes = {BASELINE: {}}
    for name, changed in map(parse, config.ideas):
        if name in changes:
            raise UserError(f'duplicate idea {name!r}')
        changes[name] = changed
    resolved = {}
    for name, changed in changes.items():
        with _of_idea(name):
            configured = _configured(config.pretrain, changed, out)
            user_code.trust(configured)
            resolved[name] = (
                configured,
                pretraining.resolve(configured, storage.path(out / 'runs' / 'new')),
            )
    manifests: dict[storage.Path, dict] = {}  # by directory of tokens
    for name, (_, setting) in resolved.items():
        if setting.tokens not in manifests:
            with _of_idea(name):
                manifests[setting.tokens] = (
                    storage.read_json(setting.tokens / tokens.MANIFEST)
                    if setting.prepare is None
                    else prepare.prepare(setting.prepare, setting.tokens, lock.hold)
                )
    return [
        Idea(name, changes[name], configured, manifests[setting.tokens])
        for name, (configured, setting) in resolved.items()
    ]


@contextlib.contextmanager
def _of_idea(name):
    try:
        yield
    except UserError as error:
        raise UserError(f'{name}: {error}') from None


def _configured(base, changes, out):
    """Returns the pretraining config with changes."""
    config = config_file.with_fields(base, changes)
    if not config.data.tokens:
        text = provenance.digest([config.data.to_dict(), config.tokenizer.to_dict()])
        config.data.tokens = str(out / f'tokens-{text[:8]}')
    return config


# Training and scoring


def files_of(tasks: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns {task: {file: hash}} of the files that scoring reads. tasks: {task: directory}.
    UserError if a file is missing."""
    return {
        task: zero_shot.files(_scoring(task, directory))[1] for task, directory in tasks.items()
    }


def done(idea: Idea, seed: int, rows: Sequence[dict], files: Mapping[str, Mapping]) -> dict | None:
    """Returns the row of a finished run that is scored on these files of all tasks, or None."""
    key = idea.key(seed)
    return next(
        (
            row
            for row in rows
            if row['key'] == key
            and all(
                row['tasks'].get(task, {}).get('files') == of_task
                for task, of_task in files.items()
            )
        ),
        None,
    )


def row_of(
    idea: Idea, seed: int, config: ConfigDict, out: pathlib.Path, files: Mapping[str, Mapping]
) -> dict:
    """Returns a run's row of OUT/results.jsonl.

    If the run is not done, it is trained or resumed, and scored. files: files_of(config.tasks).
    UserError as in pretraining.run and zero_shot.run.
    """
    row = done(idea, seed, results.read(out / 'results.jsonl', continued=True), files)
    if row is not None:
        return row
    print(f'\n{idea.name}, seed {seed}', flush=True)
    key = idea.key(seed)
    run = pretraining.run(idea.of_seed(seed), out / 'runs' / key)
    measured = results.read(run.metrics)
    curve = [
        (row['step'], row['valid_loss'], row['valid_bits_per_byte'])
        for row in measured
        if 'valid_loss' in row
    ]
    speeds = [row['tokens_per_s'] for row in measured if row.get('tokens_per_s')]
    parameters = (run.path / 'parameters.txt').read_text().split()[-1]  # the table's last line
    row = {
        'kind': 'ablate',
        'key': key,
        'idea': idea.name,
        'changes': idea.changes,
        'seed': seed,
        'loss': curve[-1][1],
        'bits_per_byte': curve[-1][2],
        'curve': curve,
        'tokens': idea.tokens,
        'parameters': int(parameters.replace(',', '')),
        'tokens_per_s': statistics.median(speeds),
        'tasks': {
            task: _scored(task, directory, run, seed) for task, directory in config.tasks.items()
        },
        **provenance.versions(),
    }
    results.append(out / 'results.jsonl', row)
    if not config.keep_checkpoints:
        shutil.rmtree(run.checkpoints, ignore_errors=True)
    return row


def _scored(task, directory, run, seed):
    """Returns the row of a task's first metric over all of its items, at the last step."""
    scored = _scoring(task, directory)
    scored.init_from = str(run.path)
    row = next(row for row in zero_shot.run(scored, [run.steps()[-1]]) if row['group'] is None)
    return {
        name: row[name] for name in ('metric', 'value', 'n', 'group', 'predictions', 'files')
    } | {'seed': seed}


def _scoring(task, directory):
    scored = zero_shot_config.get_config(task)
    scored.data.dir = directory
    return scored
