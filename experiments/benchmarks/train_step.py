"""Times the real pretraining step on this machine: tokens a second, MFU, memory, compile time.

python -m experiments.benchmarks.train_step --config=configs/pretrain.py \\
    --config.model.dtype=bfloat16 \\
    --sweep='batch.size=16,32,64;model.kernels=xla,triton' \\
    --out=experiments/benchmarks/results/train_step.json

MFU is by the peaks in gpt1_jax/parallel/device_peaks.py, n/a on devices whose peak is not known.
Tokens are random. The loss before and after is printed: it shows whether the step learns, and
whether it starts at the logarithm of the vocabulary.
"""

import itertools

import jax
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from experiments.benchmarks import record, timing
from experiments.compile import check
from experiments.lib import runner
from gpt1_jax import cli, pretraining, rules, user_code
from gpt1_jax.cli import config_file
from gpt1_jax.errors import UserError
from gpt1_jax.models.fast import table as kernel_table
from gpt1_jax.parallel import device_peaks, sharding, step_cost
from gpt1_jax.runs.markdown import table


def grid(sweep: str) -> list[dict[str, str]]:
    """Returns every combination of 'batch.size=16,32;model.dtype=float32,bfloat16', [{field:
    text}]. UserError for text of another form."""
    fields = []
    for part in filter(None, sweep.split(';')):
        name, found, values = part.partition('=')
        if not found or not values:
            raise UserError(f'--sweep: {part!r} is not FIELD=VALUE,VALUE')
        fields.append([(name.strip(), value.strip()) for value in values.split(',')])
    return [dict(each) for each in itertools.product(*fields)]


def configs(config: ConfigDict, sweep: str) -> list[tuple[dict, ConfigDict]]:
    """Returns [({field: value}, the config with them)] of a sweep. UserError if the config does not
    take a field or value."""
    found = [(given, config_file.with_fields(config, given)) for given in grid(sweep)]
    return [
        ({field: rules.flatten(changed)[field] for field in given}, changed)
        for given, changed in found
    ]


def measure(
    config: ConfigDict,
    vocab_size: int,
    warmup: int,
    windows: int,
    steps: int,
    devices: list[jax.Device] | None = None,
) -> dict:
    """Time the config's step on these devices, by default all of this machine.

    Returns {'device', 'tokens_per_s', 'lowest', 'highest', 'flops_per_token', 'mfu' or None,
    'bytes' or None, 'refused': {kernel: why plain XLA took its place}, **timing.measure}.
    """
    rules.validate(config, pretraining.RULES)
    user_code.trust(config)  # the command names it, but a new process does not know
    model = check.backbone_of(config, vocab_size)
    mesh = sharding.make_mesh(**config.mesh, devices=devices)
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    program = pretraining.make_program(config, model, mesh)
    # Without warm-up, so that the loss falls from the first step.
    hyper = pretraining.hyperparameters(config, 10**6) | {'warmup': np.float32(0)}
    state = program.init(np.uint32(config.seed))
    tokens = np.random.default_rng(0).integers(
        0, vocab_size, (config.batch.size, model.config.n_ctx + 1), np.int32
    )
    batch = sharding.place(lambda rows: {'tokens': tokens[rows]}, config.batch.size, mesh)

    def run(n):
        nonlocal state
        for _ in range(n):
            state, metrics = program.step(state, batch, hyper)
        return float(metrics['loss'])

    found = timing.measure(run, warmup, windows, steps)
    device = mesh.devices.flat[0]
    tokens_per_step = config.batch.size * model.config.n_ctx
    median, low, high = timing.throughput(found['step_seconds'], tokens_per_step)
    peak = device_peaks.peak(device.device_kind)
    flops = step_cost.flops_per_token(state.params, model.config.n_ctx)
    return {
        'device': f'{mesh.size} x {device.device_kind}',
        'tokens_per_s': median,
        'lowest': low,
        'highest': high,
        'flops_per_token': flops,
        'mfu': peak and flops * median / (peak * mesh.size),
        'bytes': (device.memory_stats() or {}).get('peak_bytes_in_use'),
        'refused': {name: why for (name, *_), why in kernel_table.verdicts.items() if why},
        **found,
    }


def line(row: dict) -> tuple[str, ...]:
    """Returns the row's cells in the printed table."""
    if 'error' in row:
        return row['error'], *[''] * 5
    return (
        f'{row["tokens_per_s"]:,.0f}',
        f'{row["lowest"]:,.0f} to {row["highest"]:,.0f}',
        'n/a' if row['mfu'] is None else f'{100 * row["mfu"]:.1f}%',
        'n/a' if row['bytes'] is None else f'{row["bytes"] / 2**30:.2f}',
        f'{row["first_seconds"]:.1f}',
        f'{row["losses"][0]:.2f} to {row["losses"][-1]:.2f}',
    )


def define_size_flags() -> None:
    """Define the flags for the step and for how often it is timed. compare.py has the same."""
    record.define_step_flags()
    flags.DEFINE_integer('warmup', 20, 'Steps before the first window.', lower_bound=1)
    flags.DEFINE_integer('windows', 5, 'Windows, each with one synchronisation.', lower_bound=1)
    flags.DEFINE_integer('steps', 40, 'Steps of a window.', lower_bound=1)


def _define_flags():
    define_size_flags()
    flags.DEFINE_string(
        'sweep',
        '',
        "Fields to vary, every combination: 'batch.size=16,32;model.kernels=xla,triton'.",
    )


def main() -> None:
    f = flags.FLAGS
    rows = []
    cells = []
    for changes, config in configs(f.config, f.sweep):
        name = ', '.join(f'{field}={value}' for field, value in changes.items()) or 'as configured'
        try:
            # Of several each in a new process, because a device's peak of memory is never reset
            run = timing.alone if f.sweep else timing.uncached
            row = run(measure, config, f.vocab_size, f.warmup, f.windows, f.steps)
        except Exception as error:  # of its process, device or sizes: the others continue
            full = isinstance(error, jax.errors.JaxRuntimeError) and 'RESOURCE_EXHAUSTED' in str(
                error
            )
            if not (full or f.sweep):
                raise
            row = {'error': 'out of memory' if full else runner.one_line(error)}
        rows.append({'changes': changes, **row})
        cells.append((name, *line(row)))
        print(*cells[-1], sep='  ', flush=True)
    if all('error' in row for row in rows):
        raise UserError('; '.join(f'{name}: {error}' for name, error, *_ in cells))
    print(
        '\n'.join(
            table(('step', 'tokens/s', 'range', 'MFU', 'GiB', 'first step, s', 'loss'), cells)
        )
    )
    record.write(
        f.out,
        {'config': f.config.to_dict(), 'rows': rows},
        next((row['device'] for row in rows if 'device' in row), None),
    )


if __name__ == '__main__':
    cli.run(main, _define_flags)
