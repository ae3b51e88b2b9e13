"""Averages the weights of several checkpoints of a pretraining run (Izmailov et al., 2018) into a new run.

    gpt1 average --source=runs/gpt1 --steps=8000,9000,10000 --out=runs/averaged

The new run can be read, fine-tuned and exported like any other. At a constant learning rate the mean of the last
checkpoints has a lower loss than any of them, much as after a decay of the rate.
"""
from collections.abc import Sequence

import jax
import numpy as np
from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import workdir
from gpt1_jax.weights import import_run


def average(source: storage.Path, steps: Sequence[int], out: storage.Path) -> workdir.Run:
    """Make the run directory `out` with the mean of the parameters of these steps; returns its workdir.Run.

    The mean is computed in float64 and rounded once. UserError if `source` is not a pretraining run, lacks one of the
    steps, or `out` holds another run.
    """
    run = load.open_pretrained(source)
    if len(set(steps)) != len(steps) or len(steps) < 2:
        raise UserError(f'steps {", ".join(map(str, steps))}: give at least two different ones')
    for step in steps:
        run.step(step)

    def mean():
        mesh = sharding.make_mesh()
        total = None
        for step in steps:
            params = jax.tree.map(lambda x: np.asarray(x, np.float64), load.pretrained(run, step, mesh)[1])
            total = params if total is None else jax.tree.map(np.add, total, params)
        return jax.tree.map(lambda x: (x / len(steps)).astype(np.float32), total)
    model = {name: value for name, value in run.config['model'].items() if name != 'n_special'}
    return import_run.save(out, f'the mean of {len(steps)} checkpoints of {run.path.name}',
                           {'kind': 'pretrain', 'model': model, 'init_from': str(storage.absolute(run.path)),
                            'init_step': max(steps)}, mean, run.tokenizer(),
                           {f'step {step}': run.digest(step) for step in steps})


def _define_flags():
    flags.DEFINE_string('source', None, 'a pretraining run', required=True)
    flags.DEFINE_list('steps', None, 'its saved steps to average, separated by commas', required=True)
    flags.DEFINE_string('out', None, 'the run directory to make', required=True)


def main() -> None:
    f = flags.FLAGS
    if not all(step.isdecimal() for step in f.steps):
        raise UserError(f'--steps={",".join(f.steps)}: must be whole numbers')
    steps = [int(step) for step in f.steps]
    print(import_run.report(average(storage.path(f.source), steps, storage.path(f.out))))


if __name__ == '__main__':
    cli.run(main, _define_flags)
