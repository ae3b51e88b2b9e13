"""Section 3.2, Eq. 3: what a fine-tuned model says of rows that nobody labelled."""
import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from gpt1_jax import checkpoint, evaluation, scoring, sharding, workdir
from gpt1_jax.data import batches, inputs, tasks
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError


class Fitted(NamedTuple):
    """A fine-tuned run in memory.

    n_ctx: the longest sequence in tokens. sizes: batches.Sizes, none of which depends on the rows; at_once: the numbers
    of rows of a batch: so few programs are compiled, however often and of whatever rows it is asked.
    """
    task: Task
    tokenizer: Tokenizer
    model: Any
    params: Any
    mesh: jax.sharding.Mesh
    n_ctx: int
    sizes: batches.Sizes
    at_once: tuple[int, ...]


def load(this: workdir.Run, step: int | None = None) -> Fitted:
    """The parameters of a fine-tuned run's saved step, by default those that were best on dev. UserError where the run
    is none, or has no such step."""
    config = evaluation.check(this)
    step, task, mesh = this.step(step), tasks.of(config), sharding.make_mesh()
    n_ctx, trained = config['data']['n_ctx'] or config['model']['n_ctx'], config['lengths']
    longer = (scoring.padded(n, n_ctx) for n in range(max(trained), n_ctx + 1))
    K = {'classify': 1, 'similarity': 2, 'choice': len(task.labels)}[task.head]
    model = evaluation.task_model(task, config['model'], config['classifier_dropout'])
    shapes = jax.eval_shape(lambda: evaluation.initial(model, K, 0))
    params = checkpoint.restore_params(this.checkpoints, step, sharding.targets(shapes, mesh))
    size = config['batch']['eval_size']
    return Fitted(task, this.tokenizer(), model, params, mesh, n_ctx,
                  batches.Sizes(tuple(sorted({*trained, *longer})), K, 0), tuple(sorted({1, min(8, size), size})))


def predict(fitted: Fitted, examples, skipped: list[str] | None = None) -> list[dict]:
    """What the model says of each example, in order. Labels that examples have are not read.

    Labels: {'id', 'label', 'probabilities': {label: share}}; so of multiple choice, whose labels are the positions of
    the choices as the task names them, 'A', 'B', ... A score: {'id', 'score'}, and of soft labels the 'probabilities'
    of the whole numbers, whose mean the score is. 'cut': True where the text was longer than the context.
    skipped: takes the messages of rows that cannot be laid out, which are left out; without it the first one is a
    UserError.
    """
    task, examples = fitted.task, [dataclasses.replace(example, label=None) for example in examples]
    for example in examples:
        if len(example.choices) > fitted.sizes.sequences:
            raise UserError(f'{task.name}: row {example.id} has {len(example.choices)} choices, the task has at most '
                            f'{fitted.sizes.sequences}')
    encoded = inputs.encode_all(examples, task, fitted.tokenizer, fitted.n_ctx, skipped)
    at_once = next((n for n in fitted.at_once if n >= len(encoded)), fitted.at_once[-1])
    outputs = evaluation.logits(fitted.model, fitted.mesh, fitted.params, encoded, at_once, fitted.sizes)
    return [_answer(task, row, logits) for row, logits in zip(encoded, outputs)]


def _answer(task, row, logits):
    found, cut = {'id': row.id}, {'cut': True} if row.cut else {}
    if task.squared:
        low, high = task.score
        return found | {'score': _short(low + (high - low) * float(logits[0]))} | cut
    n = len(row.sequences) if task.head == 'choice' else len(task.labels)
    shares = np.exp(logits[:n].astype(float) - logits[:n].max())
    shares /= shares.sum()
    if task.score is not None:
        found['score'] = _short(sum(share * (task.score[0] + place) for place, share in enumerate(shares)))
    else:
        found['label'] = task.labels[int(shares.argmax())]
    return found | {'probabilities': {name: _short(share) for name, share in zip(task.labels, shares)}} | cut


def _short(x):
    """Six digits: the seventh of a float32 depends on the rows it was computed with."""
    return float(f'{x:.6g}')
