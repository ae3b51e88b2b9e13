"""Loads a run's model and its parameters at a saved step onto the devices of a mesh."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from gpt1_jax import rules, storage
from gpt1_jax.configs import finetune
from gpt1_jax.data import batches, tasks
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import padding
from gpt1_jax.models import build, heads
from gpt1_jax.models.fast import self_check
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint, workdir

# Fields of a fine-tuned run's config.json
RULES = finetune.RULES | {
    'lengths': (lambda x: x and rules.several(rules.whole(1))[0](x), 'a list of lengths')
}


class FineTuned(NamedTuple):
    """A fine-tuned run in memory, ready for `fine_tuned.predict`."""

    task: Task
    tokenizer: Tokenizer
    model: heads.TaskModel
    params: Any
    mesh: jax.sharding.Mesh
    n_ctx: int  # the maximum length of a sequence in tokens
    # Like batch_sizes, the same for any rows, so that calls reuse the compiled programs
    sizes: batches.Sizes
    batch_sizes: tuple[int, ...]  # numbers of rows that a batch is padded to, ascending


def open_pretrained(path: storage.Path) -> workdir.Run:
    """Opens the pretrained run in a directory.

    UserError if it holds no run, or a fine-tuned run.
    """
    run = workdir.load(path)
    if run.config['kind'] != 'pretrain':
        raise UserError(
            f'{path}: is a fine-tuned run; scoring and generating text need a pretrained one'
        )
    return run


def pretrained(
    run: workdir.Run, step: int, mesh: jax.sharding.Mesh, float32: bool = False
) -> tuple[Any, Any]:
    """Loads a pretrained run at a saved step: (backbone, params).

    float32: compute in float32 whatever the run's dtype. Layers are unrolled by this device's
    default and not as in training: with unrolled layers, decoding with a KV cache is three times
    slower on a CPU.
    """
    exact = {'dtype': 'float32', 'precision': 'highest'} if float32 else {}
    model = build.backbone(run.config['model'] | {'unroll': 0} | exact)
    self_check.check(model.config)
    abstract = sharding.abstract(build.shapes(model), mesh)
    return model, checkpoint.restore_params(run.checkpoints, step, abstract)


def fine_tuned(run: workdir.Run, step: int | None = None, encoding: str | None = None) -> FineTuned:
    """Loads a fine-tuned run at a saved step, by default the best on dev.

    encoding: as in `fine_tuned_config`. UserError for another kind of run, or if the step is not
    there.
    """
    config = fine_tuned_config(run, encoding)
    task = tasks.of(config)
    mesh = sharding.make_mesh()
    n_ctx = config['data']['n_ctx'] or config['model']['n_ctx']
    padded_to = sizes(task, config['lengths'], n_ctx)
    model = build.task_model(task, config['model'], config['classifier_dropout'])
    self_check.check(model.backbone.config)
    shapes = jax.eval_shape(lambda: build.init_params(model, padded_to.sequences, 0))
    params = checkpoint.restore_params(
        run.checkpoints, run.step(step), sharding.abstract(shapes, mesh)
    )
    eval_size = config['batch']['eval_size']
    return FineTuned(
        task,
        run.tokenizer(),
        model,
        params,
        mesh,
        n_ctx,
        padded_to,
        batch_sizes=tuple(sorted({1, min(8, eval_size), eval_size})),
    )


def sizes(task: Task, lengths: Sequence[int], n_ctx: int) -> batches.Sizes:
    """The sizes that rows are padded to in evaluation.

    lengths: of training. Other rows may be longer, up to n_ctx.
    """
    found = sorted(lengths)
    while found[-1] < n_ctx:
        found.append(padding.padded(found[-1] + 1, n_ctx))
    sequences = heads.SEQUENCES[task.head] or len(task.labels)
    return batches.Sizes(tuple(found), sequences, max(1, len(task.labels)))


def fine_tuned_config(run: workdir.Run, encoding: str | None = None) -> dict:
    """The config of a fine-tuned run.

    encoding: of tables, if they are not in the encoding of the run's own files. UserError for a
    pretrained run, or for a field that is missing or invalid.
    """
    if run.config['kind'] != 'finetune':
        raise UserError(f'{run.path}: not a fine-tuned run')
    try:
        rules.validate(run.config, RULES)
    except UserError as error:
        raise UserError(f'{run.path / "config.json"}: {error}') from None
    if encoding is None:
        return run.config
    if run.config['task'] != 'custom':
        raise UserError(f'--encoding={encoding}: files of {run.config["task"]} are UTF-8')
    return run.config | {'custom': run.config['custom'] | {'encoding': encoding}}
