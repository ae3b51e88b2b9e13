"""Section 5, Zero-shot Behaviors: tasks solved by a pretrained model without fine-tuning, at every
saved step.

gpt1 zero_shot --config=zero_shot:cola --config.init_from=runs/gpt1 --config.data.dir=glue/CoLA

evaluation/zero_shot_heuristics.py describes the scores of each task and their comparison. BLiMP,
which is not in the paper, is a task here as well: --config=zero_shot:blimp.
"""

import time
from typing import NamedTuple

from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, rules, storage, user_code
from gpt1_jax.cli import config_file
from gpt1_jax.configs.zero_shot import RULES
from gpt1_jax.data import splits, tasks
from gpt1_jax.data.rows import BadRows
from gpt1_jax.data.tasks import blimp
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import (
    load,
    log_probs,
    minimal_pairs,
    padding,
    task_metrics,
    zero_shot_heuristics,
)
from gpt1_jax.evaluation.zero_shot_heuristics import Heuristic
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import provenance, results, workdir
from gpt1_jax.weights import from_hub

SAMPLE = 200  # rows that `count_tokens` encodes of each split


class Setting(NamedTuple):
    """A zero-shot config, with its task, its pretrained run and its files looked up."""

    config: ConfigDict
    task: Task
    heuristic: Heuristic
    run: workdir.Run
    results: storage.Path  # the file to append to
    tokenizer: Tokenizer
    n_ctx: int
    # The splits to read: the scored split and, if a threshold is chosen, the training split
    splits: tuple[str, ...]
    hashes: dict[str, str]  # {file name: hash} of their files
    chosen: frozenset[str]  # 'SET/PAIR' of the pairs in config.data.filter


def run(config: ConfigDict, steps: list[int] | None = None) -> list[dict]:
    """Score every saved checkpoint, or config.step, or `steps`.

    Appends to results.jsonl, writes predictions, and returns the rows, one for each checkpoint,
    metric and group of rows (group None: all rows).
    UserError for a mistake in the config, the data or the pretrained run. A step that a run in
    progress deletes before its turn is left out, unless it was asked for.
    """
    setting = resolve(config)
    config = setting.config
    every = steps is None and config.step is None
    if every:
        steps = setting.run.steps()
    steps = [setting.run.step(step) for step in steps or [config.step]]
    bad = BadRows(config.data.skip_bad)
    rows = {split: _rows(setting, split, bad)[0] for split in setting.splits}
    if bad.count:
        print(f'{setting.task.name}: {bad}', flush=True)
    split = config.data.split
    scored = rows[split]
    if setting.chosen:  # raises now, not after minutes of scoring
        minimal_pairs.filtered([row.id for row in scored], setting.chosen)
    mesh = sharding.make_mesh()
    found = []
    for step in steps:
        started = time.perf_counter()
        try:
            origin = {'key': _key(setting, step), **setting.run.origin(step)}
            model, params = load.pretrained(setting.run, step, mesh, setting.heuristic.pairs)
        except UserError:
            if every and step not in setting.run.steps():
                print(f'step {step:,}: deleted meanwhile, not scored', flush=True)
                continue
            raise

        def score(sequences, model=model, params=params):
            return log_probs.last_tokens(model, params, mesh, sequences, config.tokens_per_batch)[0]

        scores, details = zero_shot_heuristics.answer_scores(
            setting.heuristic, score, scored, rows.get('train')
        )
        if setting.heuristic.pairs:
            measured = minimal_pairs.report(
                setting.task, split, scored, scores, score, setting.chosen
            )
        else:
            ids = [row.id for row in scored]
            gold = [row.label for row in scored]
            measured = list(task_metrics.rows(setting.task, split, ids, gold, scores))
        about = {'skipped': bad.count, 'seconds': round(time.perf_counter() - started, 1)}
        for row in measured:
            if '/' not in (row['group'] or ''):  # BLiMP's 67 sets are only in the file
                print(_line(row, step, details), flush=True)
        found += _record(setting, step, scored, scores, measured, details | about | origin)
    if setting.results.parent != setting.run.path:
        print(f'rows in {setting.results}, predictions beside it', flush=True)
    return found


def _rows(setting, split, on_bad, sample=None) -> tuple[list[zero_shot_heuristics.Row], int]:
    """(the encoded rows of a split, the number of its examples). sample: the most rows encoded."""
    data = setting.config.data
    examples = splits.choose(setting.task.read(data.dir, split, on_bad), data.rows)
    return zero_shot_heuristics.encode_all(
        setting.heuristic,
        splits.choose(examples, sample),
        setting.tokenizer,
        setting.n_ctx,
        f'{setting.task.name} {split}',
        on_bad,
    ), len(examples)


def _record(setting, step, rows, scores, measured, details):
    """Write a checkpoint's metrics and predictions. Returns the rows of results.jsonl.

    details: further fields of the rows, with the key and the checkpoint's origin, because the
    checkpoint may be deleted by now.
    """
    task = setting.task
    config = setting.config
    # With the key in the name, predictions to which rows of results.jsonl point are never replaced
    # by predictions of other rows, files or code.
    name = (
        f'predictions_zero_shot_{task.name}_{config.data.split}_{step}_{details["key"][:8]}.jsonl'
    )
    predictions = setting.results.parent / name
    details |= {
        'files': setting.hashes,
        'predictions': str(predictions),
        'config': config.to_dict(),
    }
    found = [{'kind': 'zero_shot'} | row | details for row in measured]
    results.write_predictions(
        predictions, [row.id for row in rows], [row.label for row in rows], scores
    )
    results.append_new(setting.results, found, follow=bool(setting.config.results))
    return found


def _line(row, step, details):
    group = f' {row["group"]}' if row['group'] else ''
    interval = f'{row["low"]:.4f} to {row["high"]:.4f}, ' if 'low' in row else ''
    described = ''.join(f', {name} {value:.3f}' for name, value in details.items())
    described += f', {row["ties"]:,} ties' if 'ties' in row else ''
    return (
        f'{row["task"]}{group} zero-shot, step {step:,}: {row["metric"]} {row["value"]:.4f} '
        f'({interval}n = {row["n"]:,}{described})'
    )


def run_key(config: ConfigDict, step: int, code: str | None = None) -> str:
    """16 hex digits of everything that decides a row of results.jsonl.

    A row with this key need not be computed again. code: provenance.code_digest() of the code that
    made the row, by default of the code here.
    """
    return _key(resolve(config), step, code)


def _key(setting, step, code=None):
    config = setting.config
    run = setting.run
    parts = [
        config.task,
        user_code.digests(config),
        config.data.split,
        config.data.rows,
        config.data.skip_bad,
        setting.hashes,
        run.digest(run.step(step)),
        code or provenance.code_digest(),
        run.config['model'].get('kind', 'gpt'),
    ]
    return provenance.digest(parts)


def count_tokens(config: ConfigDict) -> int:
    """The number of tokens that scoring one checkpoint reads, padding included.

    Estimated from up to 200 rows of each split.
    """
    setting = resolve(config)
    total = 0.0
    for split in setting.splits:
        sample, n = _rows(setting, split, BadRows(config.data.skip_bad), SAMPLE)
        sequences, _ = log_probs.distinct(
            [sequence for row in sample for sequence in row.sequences]
        )
        groups = padding.grouped(sequences, setting.n_ctx)
        total += sum(group.shape.tokens for group in groups) / len(sample) * n
    return round(total)


def resolve(config: ConfigDict) -> Setting:
    """The Setting of a config. UserError for its mistakes, before any row is read."""
    rules.validate(config, RULES)
    config = config.copy_and_resolve_references()
    user_code.trust(config)
    task = tasks.get(config.task)
    heuristic = zero_shot_heuristics.of(task)
    if not config.init_from:
        raise UserError('give --config.init_from=DIR, a pretrained run')
    if not config.data.dir:
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    splits.check_split(task, config.data.split, labelled=True)
    run = load.open_pretrained(from_hub.local_run(config.init_from))
    config.init_from = str(run.path)
    target = storage.path(config.results) if config.results else run.results
    results.check(target)
    names = tuple(dict.fromkeys((*['train'] * heuristic.threshold, config.data.split)))
    paths = {file for name in names for file in task.files(config.data.dir, name)}
    hashes = provenance.file_hashes(sorted(paths))
    chosen: frozenset[str] = frozenset()
    if config.data.filter:
        if config.task != blimp.BLIMP.name:
            raise UserError(f'config.data.filter is for blimp, not for {config.task}')
        chosen = blimp.read_filter(config.data.filter)
        hashes |= provenance.file_hashes([config.data.filter])
    return Setting(
        config,
        task,
        heuristic,
        run,
        target,
        run.tokenizer(),
        run.config['model']['n_ctx'],
        names,
        hashes,
        chosen,
    )


def _define_flags():
    config_file.define(
        'zero_shot:cola',
        'zero_shot:TASK, or a file of your own: FILE.py:TASK; --config.FIELD=VALUE sets a field.',
    )


def main() -> None:
    run(flags.FLAGS.config)


if __name__ == '__main__':
    cli.run(main, _define_flags)
