"""Section 5, Zero-shot Behaviors: a pretrained model's tasks without fine-tuning, at every saved update.

python -m gpt1_jax.zero_shot --config=configs/zero_shot.py:cola --config.init_from=runs/gpt1 --config.data.dir=glue/CoLA

What is scored and compared is in heuristics.py.
"""
import functools
import time

import jax
import numpy as np
from absl import flags
from ml_collections import config_flags

from gpt1_jax import checkpoint, cli, heuristics, metrics, results, rules, scoring, sharding
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError

SAMPLE = 200  # rows that an estimate encodes
RULES = {
    'tokens_per_batch': rules.whole(1, 2 ** 24), 'step': rules.optional(rules.whole(0)),
    'data.rows': rules.optional(rules.whole(1)), 'data.dir': rules.text(), 'data.split': rules.text(),
    'data.skip_bad': rules.flag(), 'task': rules.text(), 'init_from': rules.optional(rules.text()),
    'results': rules.optional(rules.text())}


def run(config, steps=None):
    """Score every saved checkpoint, or config.step, or `steps`; append to results.jsonl and write predictions.

    Returns the rows, one a checkpoint, metric and group of rows (group None: all of them). UserError for a mistake in
    the config, the data or the pretrained run.
    """
    task, heuristic, other = _open(config)
    results.check(config.results)
    tokenizer, mesh = other.tokenizer(), sharding.make_mesh()
    saved = checkpoint.steps(other.checkpoints) if config.step is None else [config.step]
    if not saved:
        raise UserError(f'{config.init_from}: no complete checkpoint yet')
    steps = [other.step(step) for step in (saved if steps is None else steps)]
    skipped = [] if config.data.skip_bad else None
    read = {split: heuristics.encode_all(heuristic, _read(config, task, split, skipped), tokenizer,
                                         other.config['model']['n_ctx'], f'{task.name} {split}', skipped)
            for split in _splits(config, heuristic)}
    if skipped:
        print(f'{task.name}: {len(skipped):,} bad row(s) left out, the first: {skipped[0]}', flush=True)
    found, groups = read[config.data.split], (None, *task.groups)
    gold = np.array([row.label for row in found])
    hashes, rows = _hashes(config), []
    for step in steps:
        started = time.perf_counter()
        model, params = scoring.restore(other, step, mesh)
        score = functools.partial(scoring.score, model, params, mesh, tokens_per_batch=config.tokens_per_batch)
        scores, details = heuristics.answer(heuristic, score, found, read.get('train'))
        this = key(config, step)  # in the name: other rows, files or code never replace what a row points to
        predictions = other.predictions(f'zero_shot_{task.name}_{config.data.split}_{step}_{this[:8]}')
        results.write_predictions(predictions, [row.id for row in found], gold.tolist(), scores)
        origin = {
            **details, 'step': step, 'run': str(other.path), 'digest': _digest(other, step), 'files': hashes,
            'key': this, 'skipped': len(skipped or ()),
            'predictions': str(predictions), 'seconds': round(time.perf_counter() - started, 1),
            'config': config.to_dict(), 'device': jax.devices()[0].device_kind, **results.versions()}
        new = []
        for group in groups:
            chosen = [i for i, row in enumerate(found) if group is None or row.id.split('/')[0] == group]
            for name, value in metrics.compute(task.metrics, gold[chosen], scores[chosen]).items() if chosen else ():
                new.append({'kind': 'zero_shot', 'task': task.name, 'split': config.data.split, 'group': group,
                            'n': len(chosen), 'metric': name, 'value': value} | origin)
                print(f'{task.name}{" " + group if group else ""} zero-shot, step {step:,}: {name} {value:.4f} '
                      f'(n = {len(chosen):,}' + ''.join(f', {k} {v:.3f}' for k, v in details.items()) + ')', flush=True)
        results.append_new(config.results or other.results, new)
        rows += new
    return rows


def key(config, step, code=None):
    """What a row of results.jsonl is a function of, as 16 hex digits: a row with this key needs no second run.

    code: results.code_digest() of the code that made the row; default that of the code here.
    """
    _, _, other = _open(config)
    parts = [config.task, config.data.split, config.data.rows, config.data.skip_bad, _hashes(config),
             _digest(other, other.step(step)), code or results.code_digest(), other.config['model'].get('kind', 'gpt')]
    return results.digest(parts)


def tokens(config):
    """How many tokens scoring one checkpoint processes, padding included: an estimate from up to 200 rows a split."""
    task, heuristic, other = _open(config)
    tokenizer, n_ctx, total = other.tokenizer(), other.config['model']['n_ctx'], 0
    for split in _splits(config, heuristic):
        skipped = [] if config.data.skip_bad else None
        examples = _read(config, task, split, skipped)
        sample = heuristics.encode_all(heuristic, rows_lib.choose(examples, SAMPLE), tokenizer, n_ctx,
                                       f'{task.name} {split}', skipped)
        groups = scoring.grouped([sequence for row in sample for sequence in row.sequences], n_ctx)
        total += sum(group.shape.tokens for group in groups) / len(sample) * len(examples)
    return round(total)


def _open(config):
    """(Task, Heuristic, Run) of a config. UserError for a mistake in it."""
    rules.validate(config, RULES)
    heuristic = heuristics.get(config.task)
    if not config.init_from:
        raise UserError('give --config.init_from=DIR, a pretrained run')
    if not config.data.dir:
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    task = tasks.get(config.task)
    rows_lib.check_split(task, config.data.split, labelled=True)
    return task, heuristic, scoring.open_pretrained(config.init_from)


def _splits(config, heuristic):
    """The splits that are read: the one scored, and where a threshold is chosen, the training split."""
    return list(dict.fromkeys(['train', config.data.split] if heuristic.threshold else [config.data.split]))


def _read(config, task, split, skipped):
    """The examples of a split, config.data.rows of them at most."""
    return rows_lib.choose(task.read(config.data.dir, split, skipped), config.data.rows)


def _hashes(config):
    """{file name: hash} of the files that are read."""
    task, heuristic, _ = _open(config)
    return results.file_hashes(sorted({path for split in _splits(config, heuristic)
                                       for path in task.files(config.data.dir, split)}))


def _digest(other, step):
    return checkpoint.params_digest(checkpoint.read_meta(other.checkpoints, step))


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/zero_shot.py:cola', 'What to score, config:TASK.')


def main():
    run(flags.FLAGS.config)


if __name__ == '__main__':
    cli.run(main, _define_flags)
