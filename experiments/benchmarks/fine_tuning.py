"""Fine-tuning: real tokens a second against pretraining's, and what lengths, compiling and the auxiliary loss cost.

python -m experiments.benchmarks.fine_tuning --config=configs/finetune.py:sst2 --config.data.dir=data/SST-2 \\
    --config.init_from=novels --out=experiments/benchmarks/results/fine_tuning.json

Times steps of the real program on the first batches of an epoch, in turns in one process: fine-tuning by
the config, with all rows padded to one length, and without the auxiliary loss (Eq. 4 alone); pretraining of the same
sizes on --windows whole contexts a step, and on one; transformers' OpenAIGPTForSequenceClassification, which has no
auxiliary loss, on the same batches.
"""
import statistics
from collections.abc import Callable

import jax
import numpy as np
from absl import flags
from gpt1_jax.configs import pretrain as pretraining
from ml_collections import ConfigDict

from experiments.benchmarks import record, timing
from experiments.lib.markdown import table
from gpt1_jax import cli, finetune, pretrain
from gpt1_jax.cli import config_file
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding


def ways(config: ConfigDict, n: int, windows: int) -> dict[str, tuple[Callable[[], None], int]]:
    """{way: (a function that makes n updates, their real tokens)}. windows: of a step of pretraining."""
    one_length, task_alone = config.copy_and_resolve_references(), config.copy_and_resolve_references()
    one_length.batch.lengths, task_alone.lm_weight = 1, 0.
    setting = finetune.resolve(config)
    job = finetune.build(setting)
    found = {'fine-tuning': _fine_tuning(job, n),
             'one length': _fine_tuning(finetune.build(finetune.resolve(one_length)), n),
             'no auxiliary loss': _fine_tuning(finetune.build(finetune.resolve(task_alone)), n),
             'pretraining': _pretraining(setting.sizes, n, windows), 'one window': _pretraining(setting.sizes, n, 1)}
    try:
        found['transformers'] = _transformers(setting, job, n)
    except ImportError as error:
        print(f'no transformers: {error}', flush=True)
    return found


def _fine_tuning(job, n):
    read = [job.batches.read(step, slice(None)) for step in range(n)]
    return _updates(job.program, read, job.batches.size, job.hyper), _real(read)


def _pretraining(sizes, n, rows):
    config = pretraining.get_config()
    config.model.update({name: value for name, value in sizes.items() if name in config.model})
    program = pretrain.make_program(config, backbone(sizes), sharding.make_mesh())
    ids = np.random.default_rng(0).integers(0, sizes['vocab_size'], (n, rows, sizes['n_ctx'] + 1), np.int32)
    return _updates(program, [{'tokens': each} for each in ids], rows,
                    pretrain.hyperparameters(config, 1000)), n * rows * sizes['n_ctx']


def _updates(program, read, size, hyper):
    state = program.init(np.uint32(0))
    placed = [program.place(lambda rows, batch=batch: {name: array[rows] for name, array in batch.items()}, size)
              for batch in read]

    def updates():
        nonlocal state
        for batch in placed:
            state, metrics = program.step(state, batch, hyper)
            float(metrics['loss'])  # waits for the device
    return updates


def _real(read):
    return int(sum(batch['mask'].sum() for batch in read))


def _transformers(setting, job, n):
    import torch

    from experiments.benchmarks import contestants
    c = backbone(setting.sizes | {'n_special': 3}).config
    read = [job.batches.read(step, slice(None)) for step in range(n)]
    if job.shapes.sequences > 1:
        raise UserError("transformers' classifier reads one sequence a row: choose a task such as sst2 or mnli")
    step, device = contestants.trained(contestants.Classifier(c, len(setting.task.labels)), c,
                                       setting.config.optimizer.peak_rate)

    def updates():
        for batch in read:
            arrays = batch['tokens'][:, 0].astype(np.int64), batch['mask'][:, 0], batch['target'].argmax(1)
            float(step([torch.as_tensor(array).to(device) for array in arrays]).detach())
    return updates, _real(read)


def lines(rows: dict[str, dict]) -> list[str]:
    """The table."""
    rate = {way: row['real'] / statistics.median(row['seconds']) for way, row in rows.items()}
    return table(('step', 'real tokens a second', 'of pretraining', 'of fine-tuning', 'first pass with compiling, s'),
                 [(way, f'{rate[way]:,.0f}', f"{rate[way] / rate['pretraining']:.2f}",
                   f"{rate[way] / rate['fine-tuning']:.2f}", f"{row['first_seconds']:.1f}")
                  for way, row in rows.items()])


def _define_flags():
    config_file.define('finetune', 'What to time, as in fine-tuning.')
    flags.DEFINE_integer('steps', 12, 'Updates of a turn, each of another batch.', lower_bound=1)
    flags.DEFINE_integer('turns', 5, 'How often each way is timed.', lower_bound=1)
    flags.DEFINE_integer('windows', 16, 'Windows of a step of pretraining.', lower_bound=1)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    found = ways(f.config, f.steps, f.windows)
    times = timing.in_turns({way: updates for way, (updates, _) in found.items()}, f.turns)
    rows = {way: {'real': real, **times[way]} for way, (_, real) in found.items()}
    print('\n'.join(lines(rows)))
    record.write(f.out, {'config': f.config.to_dict(), 'ways': rows}, jax.devices()[0].device_kind)


if __name__ == '__main__':
    cli.run(main, _define_flags)
