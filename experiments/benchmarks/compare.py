"""Times our training step and others' in turns, on one machine in one run.

python -m experiments.benchmarks.compare --config=configs/pretrain.py \\
    --config.model.dtype=bfloat16 \\
    --out=experiments/benchmarks/results/compare.json
python -m experiments.benchmarks.compare --config=configs/pretrain.py --config.model.n_layer=4 \\
    --config.model.n_embd=128 --config.model.n_inner=512 --config.model.n_head=4 \\
    --config.model.n_ctx=128 \\
    --config.batch.size=8 --vocab_size=5000 --warmup=3 --steps=10 --contestants=ours,post-ln

Needs PyTorch and transformers (the extra parity). All contestants use one device and the same
random tokens, batch, widths, dropout rates, clipping and update (see contestants.py). Each turn
runs every contestant, one after the other in separate processes, so that other load on the machine
affects all alike. A ratio is ours to the other, by medians over all turns' windows.
"""

import statistics
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from experiments.benchmarks import record, timing, train_step
from experiments.lib import runner
from gpt1_jax import cli, rules
from gpt1_jax.errors import UserError
from gpt1_jax.runs.markdown import table

CONTESTANTS = (
    'ours',
    'ours-xla',
    'nanogpt',
    'nanogpt-compiled',
    'post-ln',
    'post-ln-compiled',
    'hugging-face',
    'hugging-face-compiled',
)


HEADER = (
    'step',
    'device',
    'tokens/s',
    'range',
    'ours is faster by',
    'first step, s',
    'first loss',
    'last loss',
)


def contestant(
    name: str, config: ConfigDict, vocab_size: int, warmup: int, windows: int, steps: int
) -> dict:
    """Measures a contestant in this process on one device, and returns its row."""
    if name.startswith('ours'):
        if name == 'ours-xla':
            config.model.kernels = 'xla'
        return train_step.measure(config, vocab_size, warmup, windows, steps, jax.devices()[:1])
    from experiments.benchmarks import contestants
    from experiments.compile import check

    model = check.backbone_of(config, vocab_size).config
    tokens = np.random.default_rng(0).integers(
        0, vocab_size, (config.batch.size, model.n_ctx + 1), np.int32
    )
    run, device = contestants.prepare(
        name.removesuffix('-compiled'),
        model,
        tokens,
        config.optimizer.peak_rate,
        name.endswith('-compiled'),
    )
    return {'device': device, **timing.measure(run, warmup, windows, steps)}


def summary(rows: Mapping[str, Sequence[dict]], tokens: int) -> list[list[str]]:
    """Returns the cells of HEADER for each contestant. tokens: of a step."""
    pooled = {
        name: [seconds for row in found for seconds in row['step_seconds']]
        for name, found in rows.items()
    }
    ours = statistics.median(pooled['ours']) if 'ours' in pooled else None
    cells = []
    for name, seconds in pooled.items():
        median, low, high = timing.throughput(seconds, tokens)
        first = rows[name][0]
        cells.append(
            [
                name,
                first['device'],
                f'{median:,.0f}',
                f'{low:,.0f} to {high:,.0f}',
                f'{statistics.median(seconds) / ours:.2f}' if ours else 'n/a',
                f'{statistics.median(row["first_seconds"] for row in rows[name]):.1f}',
                f'{first["losses"][0]:.2f}',
                f'{first["losses"][-1]:.2f}',
            ]
        )
    return cells


def _define_flags():
    train_step.define_size_flags()
    flags.DEFINE_list('contestants', list(CONTESTANTS), 'Who takes part.')
    flags.DEFINE_integer('turns', 3, 'How often each of them runs.', lower_bound=1)


def main() -> None:
    f = flags.FLAGS
    for name in f.contestants:
        rules.choose('contestant', name, dict.fromkeys(CONTESTANTS))
    rows = {name: [] for name in f.contestants}
    running = [*f.contestants]
    failed = []
    for number in range(f.turns):
        for name in running[:]:
            try:
                row = timing.alone(
                    contestant, name, f.config, f.vocab_size, f.warmup, f.windows, f.steps
                )
            except Exception as error:  # in its process or its libraries: the others continue
                failed.append(f'{name}: {runner.one_line(error)}')
                print(failed[-1], flush=True)
                running.remove(name)
                continue
            rows[name].append(row)
            print(
                f'turn {number + 1} of {f.turns}: {name}, '
                f'{1e3 * statistics.median(rows[name][-1]["step_seconds"]):,.1f} ms a step',
                flush=True,
            )
    rows = {name: found for name, found in rows.items() if found}
    if not rows:
        raise UserError('; '.join(failed))
    tokens = f.config.batch.size * f.config.model.n_ctx
    print('\n'.join(table(HEADER, summary(rows, tokens))))
    record.write(
        f.out,
        {'config': f.config.to_dict(), 'vocab_size': f.vocab_size, 'rows': rows},
        next(iter(rows.values()))[0]['device'],
    )
    if failed:
        raise UserError('; '.join(failed))


if __name__ == '__main__':
    cli.run(main, _define_flags)
