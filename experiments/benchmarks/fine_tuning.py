"""Times fine-tuning against pretraining, and the cost of lengths, compiling and the auxiliary loss.

python -m experiments.benchmarks.fine_tuning --config=configs/finetune.py:sst2 \\
    --config.data.dir=data/SST-2 \\
    --config.init_from=novels --out=experiments/benchmarks/results/fine_tuning.json

Steps of the real program are timed in turns, in one process, on the first batches of an epoch:

* fine-tuning by the config, with all rows padded to one length, and without the auxiliary loss
  (only Eq. 4);
* pretraining of the same sizes, on --windows whole contexts a step, and on one context a step;
* transformers' OpenAIGPTForSequenceClassification, which has no auxiliary loss, on the same
  batches.

With --lengths, only fine-tuning by the config and fine-tuning with these lengths are timed.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from absl import flags
from gpt1_jax.configs import pretrain
from ml_collections import ConfigDict

from experiments.benchmarks import record, timing
from gpt1_jax import cli, finetuning, pretraining
from gpt1_jax.cli import config_file
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding
from gpt1_jax.runs.markdown import table


class Way(NamedTuple):
    updates: Callable[[], None]  # makes the updates of a turn
    real: int  # tokens of a turn without padding
    processed: int  # tokens of a turn with padding


def ways(config: ConfigDict, n: int, windows: int, lengths: Sequence[int] = ()) -> dict[str, Way]:
    """Returns each way to make n updates.

    windows: the windows of a pretraining step. lengths: if given, only fine-tuning is timed, by the
    config and with rows padded to these lengths.
    """
    setting = finetuning.resolve(config)
    job = finetuning.build(finetuning.plan(setting))
    found = {'fine-tuning': _fine_tuning(job, n)}
    if lengths:
        return found | {
            'given lengths': _changed(config, n, {'batch.fixed_lengths': tuple(lengths)})
        }
    found |= {
        'one length': _changed(config, n, {'batch.lengths': 1}),
        'no auxiliary loss': _changed(config, n, {'lm_weight': 0.0}),
        'pretraining': _pretraining(setting.sizes, n, windows),
        'one window': _pretraining(setting.sizes, n, 1),
    }
    try:
        found['transformers'] = _transformers(setting, job, n)
    except ImportError as error:
        print(f'no transformers: {error}', flush=True)
    return found


def _changed(config, n, fields):
    config = config.copy_and_resolve_references()
    config.update_from_flattened_dict(fields)
    return _fine_tuning(finetuning.build(finetuning.plan(finetuning.resolve(config))), n)


def _fine_tuning(job, n):
    read = [job.batches.read(step, slice(None)) for step in range(n)]
    return Way(_updates(job.program, read, job.batches.size, job.hyper), *_tokens(read))


def _pretraining(sizes, n, rows):
    config = pretrain.get_config()
    config.model.update({name: value for name, value in sizes.items() if name in config.model})
    program = pretraining.make_program(config, backbone(sizes), sharding.make_mesh())
    ids = np.random.default_rng(0).integers(
        0, sizes['vocab_size'], (n, rows, sizes['n_ctx'] + 1), np.int32
    )
    updates = _updates(
        program, [{'tokens': each} for each in ids], rows, pretraining.hyperparameters(config, 1000)
    )
    tokens = n * rows * sizes['n_ctx']
    return Way(updates, tokens, tokens)


def _updates(program, read, size, hyper):
    state = program.init(np.uint32(0))
    placed = [
        program.place(
            lambda rows, batch=batch: {name: array[rows] for name, array in batch.items()}, size
        )
        for batch in read
    ]

    def updates():
        nonlocal state
        for batch in placed:
            state, metrics = program.step(state, batch, hyper)
            float(metrics['loss'])  # waits for the device

    return updates


def _tokens(read):
    """Returns the numbers of (real, processed) tokens of batches."""
    return int(sum(batch['mask'].sum() for batch in read)), sum(
        batch['mask'].size for batch in read
    )


def _transformers(setting, job, n):
    import torch

    from experiments.benchmarks import contestants

    c = backbone(setting.sizes | {'n_special': 3}).config
    read = [job.batches.read(step, slice(None)) for step in range(n)]
    if read[0]['tokens'].shape[1] > 1:
        raise UserError(
            "transformers' classifier reads one sequence a row: choose a task such as sst2 or mnli"
        )
    step, device = contestants.trained(
        contestants.Classifier(c, len(setting.task.labels)), c, setting.config.optimizer.peak_rate
    )

    def updates():
        for batch in read:
            arrays = (
                batch['tokens'][:, 0].astype(np.int64),
                batch['mask'][:, 0],
                batch['target'].argmax(1),
            )
            float(step([torch.as_tensor(array).to(device) for array in arrays]).detach())

    return Way(updates, *_tokens(read))


def lines(rows: dict[str, dict]) -> list[str]:
    """Returns the lines of the table."""
    rate = {way: row['real'] / statistics.median(row['seconds']) for way, row in rows.items()}
    others = [way for way in ('pretraining', 'fine-tuning') if way in rows]
    return table(
        (
            'step',
            'real tokens a second',
            *(f'of {other}' for other in others),
            'processed per real token',
            'first pass with compiling, s',
        ),
        [
            (
                way,
                f'{rate[way]:,.0f}',
                *(f'{rate[way] / rate[other]:.2f}' for other in others),
                f'{row["processed"] / row["real"]:.2f}',
                f'{row["first_seconds"]:.1f}',
            )
            for way, row in rows.items()
        ],
    )


def _define_flags():
    config_file.define('finetune', 'What to time, as in fine-tuning.')
    flags.DEFINE_integer('steps', 12, 'Updates of a turn, each of another batch.', lower_bound=1)
    flags.DEFINE_integer('turns', 5, 'How often each way is timed.', lower_bound=1)
    flags.DEFINE_integer('windows', 16, 'Windows of a step of pretraining.', lower_bound=1)
    flags.DEFINE_multi_integer(
        'lengths', [], 'Time fine-tuning with rows padded to these beside the config.'
    )
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    found = ways(f.config, f.steps, f.windows, f.lengths)
    times = timing.in_turns({name: way.updates for name, way in found.items()}, f.turns)
    rows = {
        name: {'real': way.real, 'processed': way.processed, **times[name]}
        for name, way in found.items()
    }
    print('\n'.join(lines(rows)))
    record.write(f.out, {'config': f.config.to_dict(), 'ways': rows}, jax.devices()[0].device_kind)


if __name__ == '__main__':
    cli.run(main, _define_flags)
