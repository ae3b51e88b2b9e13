"""Section 4.2: a fine-tuned model's scores and metrics on a split, and predictions for new rows."""

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from gpt1_jax import rules, storage
from gpt1_jax.data import batches, splits, tasks
from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tasks import own
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import fail, one_line
from gpt1_jax.evaluation import load, padding, task_metrics
from gpt1_jax.evaluation.load import FineTuned
from gpt1_jax.models import heads
from gpt1_jax.models.build import precision
from gpt1_jax.parallel import processes, sharding
from gpt1_jax.runs import provenance, results, workdir
from gpt1_jax.training import compiling

SELECTIONS = ('best', 'final')


def evaluate_run(
    run: workdir.Run,
    split: str,
    data_dir: str | None = None,
    selection: str = 'best',
    encoding: str | None = None,
) -> list[dict]:
    """Opens a run, scores a split, and returns the rows of `record`.

    data_dir: the directory of the task's files, by default as in training. For a custom task it may
        also be a labelled file. Then all its rows are scored, whatever the split.
    selection: as in `selected`.
    encoding: as in load.fine_tuned_config.

    Predictions of another labelled file, or of other train or dev files than in training, are
    written to predictions_SPLIT_HASH.jsonl. So the predictions for the run's files are kept.
    """
    config = load.fine_tuned_config(run, encoding)
    rules.require({'selection': (selection, rules.one_of(*SELECTIONS))})
    file = config['task'] == 'custom' and data_dir and not pathlib.Path(data_dir).is_dir()
    task = tasks.of(config)
    if file:
        task = own.whole(task)
    splits.check_split(task, split)
    hashes = provenance.file_hashes(task.files(data_dir or config['data']['dir'], split))
    foreign = bool(file) or split in ('train', 'dev') and not run.trained_with(hashes)
    if foreign and not file:
        print(
            one_line(f'notice: {task.name} {split}: not the file that the run was trained with'),
            flush=True,
        )
    rows = _rows(run, task, split, data_dir, hashes, whole=bool(file))
    step = selected(run, selection)
    tuned = load.fine_tuned(run, step)
    size = config['batch']['eval_size']
    outputs = logits(tuned.model, tuned.mesh, tuned.params, rows, size, tuned.sizes)
    values = read_out(task, outputs)
    return record(run, task, split, rows, values, step, selection, hashes, foreign, config=config)


def selected(run: workdir.Run, selection: str) -> int:
    """The step with the best first metric on dev ('best'), or the last step ('final')."""
    return run.step(None if selection == 'best' else max(run.steps(), default=None))


def record(
    run: workdir.Run,
    task: Task,
    split: str,
    rows: Sequence[Encoded],
    values: np.ndarray,
    step: int,
    selection: str,
    hashes: dict[str, str],
    foreign: bool = False,
    results_file: storage.Path | None = None,
    **details: Any,
) -> list[dict]:
    """Prints and returns a run's rows of results.jsonl, one per metric (and group).

    Writes predictions_SPLIT.jsonl (or predictions_SPLIT_final.jsonl) and appends the rows to
    `results_file`, by default the run's results.jsonl. A split without labels has only predictions.

    values: the `read_out` of the rows. hashes: of their files. foreign: whether these are other
    files than in training. details: further fields of the rows.
    """
    ids = [row.id for row in rows]
    gold = [row.label for row in rows]
    name = split if selection == 'best' else f'{split}_{selection}'
    path = run.predictions(f'{name}_{storage.json_digest(hashes)[:8]}' if foreign else name)
    origin = {
        'selection': selection,
        'seed': run.config['seed'],
        'predictions': str(path),
        'files': hashes,
        'config': run.config,
        **details,
        **run.origin(step),
    }
    measured = (
        [] if split in task.unlabelled else list(task_metrics.rows(task, split, ids, gold, values))
    )
    for row in measured:
        group = f' ({row["group"]})' if row['group'] else ''
        counted = f' of label {task.labels[task.positive]!r}' * (row['metric'] == 'f1')
        print(
            one_line(
                f'{task.name} {split}{group}: {row["metric"]}{counted} {row["value"]:.4f} (n = '
                f'{row["n"]:,}, {selection} parameters, of step {step:,})'
            ),
            flush=True,
        )
    if measured:
        print('\n'.join(task_metrics.summary(task, gold, values)), flush=True)
    lines = [{'kind': 'finetune'} | row | origin for row in measured]
    if processes.primary():  # after printing: the metrics are not lost if a file cannot be written
        results.write_predictions(path, ids, gold, values)
        results.append_new(results_file or run.results, lines, follow=results_file is not None)
    if not measured or foreign:
        print(one_line(f'{task.name} {split}: {len(rows):,} predictions in {path}'), flush=True)
    return lines


def _rows(
    run: workdir.Run, task: Task, split: str, data_dir: str | None, hashes: dict, whole: bool
) -> list[Encoded]:
    """Loads the rows of a split: a part of it as in training, or all if `whole`.

    Warns of a part, and if the run is unfinished.
    """
    data = run.config['data']
    n_ctx = data['n_ctx'] or run.config['model']['n_ctx']
    limit_field = 'train_rows' if split == 'train' else 'eval_rows'
    limit = None if whole or split in task.unlabelled else data[limit_field]
    rows = splits.load(
        task,
        data_dir or data['dir'],
        split,
        run.tokenizer(),
        n_ctx,
        storage.json_digest(hashes),
        limit,
        data['skip_bad'],
    )
    if limit is not None and len(rows) >= limit:
        print(
            f'warning: only {len(rows):,} rows of {split} are scored, as the run was trained with '
            f'config.data.{limit_field} = {limit:,}',
            flush=True,
        )
    last, total = run.progress()
    if last is not None and total is not None and last < total:
        print(
            f'warning: {run.path} is unfinished: its last saved step is {last:,} of {total:,}',
            flush=True,
        )
    return rows


def predict(
    tuned: FineTuned, examples: Sequence[Example], on_bad: Callable[[str], None] = fail
) -> list[dict]:
    """The label or score of each example, in order.

    For labels: {'id', 'label', 'probabilities': {label: probability}}. For multiple choice the
    labels are the positions of the choices as the task names them, 'A', 'B', ... For scores: {'id',
    'score'}, and if the score is a mean of whole numbers also their 'probabilities'. 'cut' is True
    if the text was longer than the context.

    on_bad: called with the messages of rows that cannot be encoded, see Task.read; by default
    raises a UserError.
    """
    task = tuned.task
    encoded = splits.encode_all(examples, task, tuned.tokenizer, tuned.n_ctx, on_bad)
    size = next((n for n in tuned.batch_sizes if n >= len(encoded)), tuned.batch_sizes[-1])
    outputs = logits(tuned.model, tuned.mesh, tuned.params, encoded, size, tuned.sizes).astype(
        np.float64
    )
    weights = _weights(outputs)  # Eq. 3: softmax. 0 for a choice that a row does not have
    answers = []
    for row, value, shares in zip(
        encoded, read_out(task, outputs), weights / weights.sum(axis=1, keepdims=True)
    ):
        answer: dict[str, Any] = {'id': row.id}
        if task.score is None:
            answer['label'] = task.labels[value.argmax()]
        else:
            answer['score'] = _six_digits(value[0])
        if not task.squared:
            names = task.labels[: len(row.sequences)] if task.head == 'choice' else task.labels
            answer['probabilities'] = {
                name: _six_digits(share) for name, share in zip(names, shares)
            }
        answers.append(answer | ({'cut': True} if row.truncated else {}))
    return answers


def read_out(task: Task, outputs: np.ndarray) -> np.ndarray:
    """The values from which a task's metrics are computed, given the model's outputs [n, C].

    For labels and choices they are the logits, [n, C]. For a score they are [n, 1]: either the
    output scaled to the task's range or, as released (utils.py 25-36), the expected value of the
    whole numbers under softmax.
    """
    if task.score is None:
        return outputs
    low, high = task.score
    if task.squared:
        return low + (high - low) * outputs
    weights = _weights(outputs)
    return (weights @ (low + np.arange(weights.shape[1])) / weights.sum(axis=1))[:, None]


def _weights(outputs):
    return np.exp(outputs - outputs.max(axis=1, keepdims=True))


def _six_digits(x):
    """Rounds x to six digits.

    The seventh digit of a float32 depends on the batch that a row was computed in.
    """
    return float(f'{x:.6g}')


def logits(
    model: heads.TaskModel,
    mesh: Mesh,
    params: Any,
    encoded: Sequence[Encoded],
    size: int,
    sizes: batches.Sizes,
) -> np.ndarray:
    """The model's outputs, float32[n, C], in the order of the rows.

    size: rows per batch, rounded up to a multiple of the devices. sizes: the sizes that sequences
    are padded to.
    """
    size = padding.batch_size(size, 1, mesh)
    parts: list[np.ndarray] = []
    order: list[int] = []
    for indices, batch in batches.eval_batches(encoded, size, sizes):

        def read(rows, batch=batch):
            return {name: batch[name][rows] for name in ('tokens', 'extract', 'present')}

        outputs = _logits(model, mesh)(params, sharding.place(read, size, mesh))
        # the others are copies that fill the batch
        parts.append(np.asarray(outputs)[: len(indices)])
        order.extend(indices)
    return np.concatenate(parts)[np.argsort(order)]


@functools.lru_cache
def _logits(model, mesh):
    # Every process reads all outputs
    @functools.partial(jax.jit, out_shardings=sharding.replicated(mesh))
    def logits(params, batch):
        return model.apply(
            {'params': params}, batch['tokens'], batch['extract'], None, batch['present']
        )[0]

    return compiling.on_mesh(logits, mesh, precision(model.backbone.config))
