"""Trials: an idea trained with a seed, and its losses, a row of OUT/results.jsonl."""

import contextlib
import pathlib
import shutil
import statistics
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from gpt1_jax import pretraining, storage, user_code
from gpt1_jax.ablation import text
from gpt1_jax.ablation.ideas import Idea
from gpt1_jax.data import prepared
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.models import build, causality
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import provenance, results

FILE = 'results.jsonl'
WINDOWS = 8  # of validation text, on which the trained model is examined
FIELDS = {'key': str, 'seed': int, 'loss': float, 'bits_per_byte': float, 'curve': list}
FIELDS |= {'updates': int, 'tokens': int, 'text': dict, 'changes': dict, 'ledger': str}


def read(out: pathlib.Path) -> dict[str, dict]:
    """Returns {key: row} of all trials. UserError naming a damaged line."""
    return {row['key']: row for row in results.read(out / FILE, FIELDS, continued=True)}


def train(idea: Idea, seed: int, out: pathlib.Path, head: str, keep: bool = False) -> dict:
    """Trains or resumes a trial, examines it, and returns its row, which is written first.

    What it prints goes to OUT/runs/KEY.log. head: the digest of the ledger's last line. keep: its
    checkpoints. UserError as in pretraining.run, and for a model whose trained weights are not
    causal.
    """
    directory = out / 'runs' / idea.key(seed)
    if _moved(directory, idea):
        shutil.rmtree(directory)
    with logged(directory):
        row = measure(idea, seed, directory) | {'ledger': head}
    results.append(out / FILE, row)
    if not keep:
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


def measure(idea: Idea, seed: int, directory: pathlib.Path) -> dict:
    """Trains or resumes a trial in a directory, examines it, and returns its row."""
    run = pretraining.run(idea.of_seed(seed), directory)
    assert run is not None  # only a dry run has none
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
    _, params = load.pretrained(run, run.steps()[-1], sharding.make_mesh())
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
        'text': text.describe(idea),
        'parameters': sum(x.size for x in jax.tree.leaves(params)),
        'tokens_per_s': statistics.median(speeds),
        'weights': provenance.digest(provenance.describe(params)),
        'examined': examine(idea, run.config['model'], params),
        'device': jax.devices()[0].device_kind,
        **provenance.versions(),
    }


def examine(idea: Idea, fields: dict, params: Any) -> float:
    """Returns by how much a state of the trained model moved that must not, on validation text.

    UserError if it depends on later tokens or other rows (models/causality.py). Before training the
    same is tried with random weights, which do not show what only training opens. fields: the
    backbone's.
    """
    valid = prepared.open_split(idea.text, 'valid')
    n_ctx = idea.config.model.n_ctx
    rows = [valid.window(i, n_ctx)[:-1] for i in valid.evenly_spaced(WINDOWS, n_ctx)]
    model = build.backbone(fields | {'dtype': 'float32'})
    found = causality.examine(model, params, np.stack(rows))
    if found.fault:
        raise UserError(f'after training {found.fault}: the model must be causal')
    return found.largest
