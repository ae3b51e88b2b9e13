"""Trials: an idea trained with a seed, its losses and scores, a row of OUT/results.jsonl."""

import contextlib
import pathlib
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence

from ml_collections import ConfigDict

from gpt1_jax import pretraining, storage, user_code, zero_shot
from gpt1_jax.ablation.ideas import Idea
from gpt1_jax.configs import zero_shot as zero_shot_config
from gpt1_jax.runs import provenance, results

FILE = 'results.jsonl'


def files_of(tasks: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns {task: {file: hash}} of the files that scoring reads. tasks: {task: directory}.
    UserError if a file is missing."""
    return {
        task: zero_shot.files(_scoring(task, directory))[1] for task, directory in tasks.items()
    }


def done(idea: Idea, seed: int, rows: Sequence[dict], files: Mapping[str, Mapping]) -> dict | None:
    """Returns the row of a finished trial that is scored on these files of all tasks, or None."""
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


def train(idea: Idea, seed: int, config: ConfigDict, out: pathlib.Path) -> dict:
    """Trains or resumes a trial, scores it, and returns its row, which is written first.

    What it prints goes to OUT/runs/KEY.log. config: as configs/ablate.py returns it. UserError as
    in pretraining.run and zero_shot.run.
    """
    directory = out / 'runs' / idea.key(seed)
    if _moved(directory, idea):
        shutil.rmtree(directory)
    with logged(directory):
        row = _train(idea, seed, config, directory)
    results.append(out / FILE, row)
    if not config.keep_checkpoints:
        shutil.rmtree(directory / 'checkpoints', ignore_errors=True)
    return row


@contextlib.contextmanager
def logged(directory: pathlib.Path) -> Iterator[None]:
    """Appends what a run prints to DIRECTORY.log."""
    directory.parent.mkdir(exist_ok=True)
    log = directory.with_name(f'{directory.name}.log')
    with (
        open(log, 'a', encoding='utf-8', opener=storage.open_own) as file,
        contextlib.redirect_stdout(file),
    ):
        yield


def _moved(directory, idea):
    """Whether a trial's run names copies of files in another place, where OUT was before."""
    file = directory / 'config.json'
    if not file.exists():
        return False
    code = storage.read_json(file)['fingerprint'].get('code', {})
    return code != user_code.digests(idea.config.to_dict()).get('code', {})


def _train(idea, seed, config, directory):
    run = pretraining.run(idea.of_seed(seed), directory)
    measured = results.read(run.metrics)
    curve = [
        (row['step'], row['valid_loss'], row['valid_bits_per_byte'])
        for row in measured
        if 'valid_loss' in row
    ]
    speeds = []  # of every update: a row may be about a single one, after a checkpoint
    before = 0
    for row in measured:
        if row.get('tokens_per_s'):
            speeds += [row['tokens_per_s']] * (row['step'] - before)
            before = row['step']
    parameters = (run.path / 'parameters.txt').read_text().split()[-1]  # the table's last line
    return {
        'kind': 'ablate',
        'key': directory.name,
        'idea': idea.name,
        'changes': idea.changes,
        'seed': seed,
        'loss': curve[-1][1],
        'bits_per_byte': curve[-1][2],
        'curve': curve,
        'updates': idea.config.train.steps,
        'tokens': idea.tokens,
        'text': {
            'bytes': idea.manifest['splits']['valid']['bytes'],
            'tokenizer': idea.manifest['tokenizer'],
        },
        'parameters': int(parameters.replace(',', '')),
        'tokens_per_s': statistics.median(speeds),
        'tasks': {
            task: _scored(task, directory, run, seed) for task, directory in config.tasks.items()
        },
        **provenance.versions(),
    }


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
