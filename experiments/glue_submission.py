"""Writes the zip file for the GLUE leaderboard (Section 4.2) from fine-tuned runs.

python -m experiments.glue_submission --config=configs/experiments.py --out=submission.zip \\
    --config.submission.cola=runs/cola --config.submission.mnli=runs/mnli ...

The zip has eleven files for nine tasks: MNLI has two test sets, and MNLI's model also predicts AX.
If a task has no run in config.submission, its run of the tables with the first seed is taken from
config.out (`experiments.tables` with --config.keep_checkpoints=True). The parameters that were best
on dev are used, as in the released code. --selection=final uses the last parameters.
"""

import io
import pathlib
import zipfile
from collections.abc import Sequence

import numpy as np
from absl import flags
from ml_collections import ConfigDict

from experiments.lib import run_list, runner
from gpt1_jax import cli, storage
from gpt1_jax.cli import config_file
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import results, workdir

MEMBERS = {  # of the zip, each with the task whose model predicts it, and the split
    'CoLA.tsv': ('cola', 'glue_test'),
    'SST-2.tsv': ('sst2', 'glue_test'),
    'MRPC.tsv': ('mrpc', 'glue_test'),
    'STS-B.tsv': ('stsb', 'glue_test'),
    'QQP.tsv': ('qqp', 'glue_test'),
    'MNLI-m.tsv': ('mnli', 'glue_test'),
    'MNLI-mm.tsv': ('mnli', 'glue_test_mismatched'),
    'QNLI.tsv': ('qnli', 'glue_test'),
    'RTE.tsv': ('rte', 'glue_test'),
    'WNLI.tsv': ('wnli', 'glue_test'),
    'AX.tsv': ('mnli', 'ax'),  # GLUE's diagnostic set
}


def run(config: ConfigDict, out: str | pathlib.Path, selection: str = 'best') -> None:
    """Predict every test set with its task's run, and write the zip `out`.

    A set of another size than the published set gets a warning, because the leaderboard would
    refuse it. config: configs/experiments.py's. Its `submission` names a run directory for a task.
    selection: 'best' or 'final' parameters. UserError with all missing runs and test files.
    """
    runs = open_runs(config)
    content = io.BytesIO()
    with zipfile.ZipFile(content, 'w') as archive:
        for name, (task, split) in MEMBERS.items():
            fine_tuned.evaluate_run(runs[task], split, selection=selection)
            path = runs[task].predictions(f'{split}_final' if selection == 'final' else split)
            archive.writestr(name, member(results.read(path), runs[task].config['labels']))
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    storage.write(out, content.getvalue())


def open_runs(config: ConfigDict) -> dict[str, workdir.Run]:
    """Return {task: its run}, from `config.submission` or of the tables. UserError with every
    missing run and test file."""
    runs = {}
    problems = []
    for task, split in MEMBERS.values():
        try:
            runs[task] = runs.get(task) or _open(config, task)
            tasks.get(task).files(runs[task].config['data']['dir'], split)
        except UserError as error:
            problems.append(f'{task}: {error}')
    if problems:
        raise UserError(
            'a submission needs all nine tasks and their test files: '
            f'{"; ".join(dict.fromkeys(problems))}'
        )
    return runs


def _open(config, task):
    """Return a task's Run. UserError if there is none, or none with weights."""
    directory = config.submission[task] or _of_tables(config, task)
    run = workdir.load(directory)
    if run.config['kind'] != 'finetune' or run.config['task'] != task:
        raise UserError(f'{directory}: a run of {run.config.get("task", "pretraining")}')
    if not run.steps():
        raise UserError(
            f'{directory}: no complete checkpoint (experiments keep them with '
            '--config.keep_checkpoints)'
        )
    return run


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


def member(rows: Sequence[dict], labels: Sequence[str]) -> str:
    """Return the text of a member. rows: of predictions, with a score for each label, or a single
    value, which is kept in STS-B's range: a squared loss may leave it."""
    text = 'index\tprediction\n'
    for row in rows:
        scores = row['scores']
        if len(scores) == 1:
            predicted = f'{np.clip(scores[0], 0, 5):.3f}'
        else:
            predicted = labels[int(np.argmax(scores))]
        text += f'{row["id"]}\t{predicted}\n'
    return text


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
    print(f'{f.out}: {len(MEMBERS)} files')


if __name__ == '__main__':
    cli.run(main, _define_flags)
