"""Writes the zip file for the GLUE leaderboard (Section 4.2) from fine-tuned runs.

python -m experiments.glue_submission --config=configs/experiments.py --out=submission.zip \\
    --config.submission.cola=runs/cola --config.submission.mnli=runs/mnli ...

The zip has eleven files for nine tasks: MNLI has two test sets, and MNLI's model also predicts AX.
If a task has no run in config.submission, its run of the tables with the first seed is taken from
config.out (`experiments.tables` with --config.keep_checkpoints=True). The parameters that were best
on dev are used, as in the released code. --selection=final uses the last parameters. The rows of
each file are compared with its test file, and the same predictions give the same bytes.
"""

import io
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags
from ml_collections import ConfigDict

from experiments.lib import run_list, runner
from gpt1_jax import cli, metrics, storage
from gpt1_jax.cli import config_file
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import results, workdir

NLI = ('entailment', 'neutral', 'contradiction')
TWO_WAY = ('entailment', 'not_entailment')
BINARY = ('0', '1')
HEADER = 'index\tprediction'


class Member(NamedTuple):
    """A file of the zip.

    task, split: the task whose model predicts the file, and the split. labels: the allowed
    predictions, or () for a number from 0 to 5.
    """

    task: str
    split: str
    labels: tuple[str, ...]


MEMBERS = {
    'CoLA.tsv': Member('cola', 'glue_test', BINARY),
    'SST-2.tsv': Member('sst2', 'glue_test', BINARY),
    'MRPC.tsv': Member('mrpc', 'glue_test', BINARY),
    'STS-B.tsv': Member('stsb', 'glue_test', ()),
    'QQP.tsv': Member('qqp', 'glue_test', BINARY),
    'MNLI-m.tsv': Member('mnli', 'glue_test', NLI),
    'MNLI-mm.tsv': Member('mnli', 'glue_test_mismatched', NLI),
    'QNLI.tsv': Member('qnli', 'glue_test', TWO_WAY),
    'RTE.tsv': Member('rte', 'glue_test', TWO_WAY),
    'WNLI.tsv': Member('wnli', 'glue_test', BINARY),
    'AX.tsv': Member('mnli', 'ax', NLI),
}  # GLUE's diagnostic set, by the model of MNLI
TASKS = tuple(dict.fromkeys(member.task for member in MEMBERS.values()))


def run(config: ConfigDict, out: str | pathlib.Path, selection: str = 'best') -> None:
    """Predict every test set with its task's run, and write the zip `out`.

    A set of another size than the published set gets a warning, because the leaderboard would
    refuse it. config: configs/experiments.py's. Its `submission` names a run directory for a task.
    selection: 'best' or 'final' parameters. UserError with all missing runs and test files.
    """
    runs = open_runs(config)
    members = {}
    for name, member in MEMBERS.items():
        tuned = runs[member.task]
        path = tuned.predictions(f'{member.split}_final' if selection == 'final' else member.split)
        fine_tuned.evaluate_run(tuned, member.split, selection=selection)
        ids, scores = read_scores(path)
        wanted = [
            example.id
            for example in tasks.get(member.task).read(tuned.config['data']['dir'], member.split)
        ]
        check(name, ids, wanted, tuned.config['labels'])
        members[name] = lines(name, ids, scores, tuned.config['labels'])
    write(out, members)


def open_runs(config: ConfigDict) -> dict[str, workdir.Run]:
    """Return {task: its run}, from `config.submission` or of the tables. UserError with every
    missing run and test file."""
    runs = {}
    problems = []
    for task in TASKS:
        try:
            runs[task] = _open(config.submission[task] or _of_tables(config, task), task)
        except UserError as error:
            problems.append(f'{task}: {error}')
            continue
        for member in (member for member in MEMBERS.values() if member.task == task):
            try:
                tasks.get(task).files(runs[task].config['data']['dir'], member.split)
            except UserError as error:
                problems.append(f'{task}: {error}')
    if problems:
        raise UserError(
            f'a submission needs all nine tasks and their test files: {"; ".join(problems)}'
        )
    return runs


def _of_tables(config, task):
    """Return the directory of the tables' run of a task with its first seed."""
    if config.pretrained and config.data:
        seeds = run_list.seeds_of(config, task)[:1]
        (run,) = run_list.finetune_runs(config, task, 'full', seeds=seeds, keep=True)
        run = runner.look_up(run, results.read(runner.results_path(config)), config.any_version)
        if run.status == 'done':
            return run.rows[0]['run']
        if run.error:
            raise UserError(run.error)
    raise UserError(
        f'no run: give --config.submission.{task}=DIR, or make the tables with '
        '--config.keep_checkpoints=True'
    )


def check(name: str, ids: Sequence[str], wanted: Sequence[str], labels: Sequence[str]) -> None:
    """Raise UserError for a member that the leaderboard would refuse.

    The error names a label, the number of rows, or the first row with another index than the test
    file. ids: of the predictions. wanted: the indices of the test file, in order. labels: of the
    model.
    """
    allowed = MEMBERS[name].labels
    for label in labels:
        if allowed and label not in allowed:
            raise UserError(f'{name}: prediction {label!r} is not one of {", ".join(allowed)}')
    if len(ids) != len(wanted):
        raise UserError(f'{name}: {len(ids):,} rows, must be {len(wanted):,}')
    for row, (found, index) in enumerate(zip(ids, wanted), 2):
        if found != index:
            raise UserError(
                f'{name}: row {row}: index {found!r}, but the test set has {index} there'
            )


def lines(name: str, ids: Sequence[str], scores: np.ndarray, labels: Sequence[str]) -> str:
    """Return the text of a member. scores: float[n, labels], or float[n, 1] for STS-B. labels: the
    names in score order."""
    wanted = len(labels) if MEMBERS[name].labels else 1
    if scores.shape[1] != wanted:
        raise UserError(f'{name}: {scores.shape[1]} scores a row, must be {wanted}')
    if MEMBERS[name].labels:
        predictions = [labels[i] for i in scores.argmax(-1)]
    else:  # in the leaderboard's range, which a squared loss may leave
        predictions = [f'{value:.3f}' for value in np.clip(scores[:, 0], 0, 5)]
    return ''.join([f'{HEADER}\n', *(f'{a}\t{b}\n' for a, b in zip(ids, predictions, strict=True))])


def write(out: str | pathlib.Path, members: Mapping[str, str]) -> None:
    """Write {name: text} as a zip, all or nothing. The same members give the same bytes, as the zip
    has no times and no compression."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, 'w', zipfile.ZIP_STORED) as archive:
        for name, text in members.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            # Always Unix, so that the bytes do not depend on the machine
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    storage.write(out, content.getvalue())


def read_scores(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Return (ids, scores float[n, labels]) of a predictions file, labelled or not. UserError with
    the number of a wrong line."""
    rows = results.read(path)
    for number, row in enumerate(rows, 1):
        if cause := metrics.wrong_with(row):
            raise UserError(f'{path}: line {number}: {cause}')
    if len({len(row['scores']) for row in rows}) != 1:
        raise UserError(f'{path}: its lines have different numbers of scores')
    return [row['id'] for row in rows], np.array([row['scores'] for row in rows], np.float64)


def _open(directory, task):
    """Return the Run in a directory. UserError if it is not a run of the task or has no weights."""
    run = workdir.load(directory)
    if run.config['kind'] != 'finetune' or run.config['task'] != task:
        raise UserError(f'{directory}: a run of {run.config.get("task", "pretraining")}')
    if not run.steps():
        raise UserError(
            f'{directory}: no complete checkpoint (experiments keep them with '
            '--config.keep_checkpoints)'
        )
    return run


def _define_flags():
    config_file.define('experiments', 'Its `submission`: a run directory for a task.')
    flags.DEFINE_string('out', 'submission.zip', 'The zip to write.')
    flags.DEFINE_enum(
        'selection',
        'best',
        fine_tuned.SELECTIONS,
        'Parameters: best on dev, or those of the last step.',
    )


def main() -> None:
    f = flags.FLAGS
    run_list.find_models(f.config)
    run(f.config, f.out, f.selection)
    print(f'{f.out}: {len(MEMBERS)} files, checked')


if __name__ == '__main__':
    cli.run(main, _define_flags)
