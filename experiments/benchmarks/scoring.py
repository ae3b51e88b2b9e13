"""Zero-shot scoring against one padded forward pass a candidate: seconds, tokens, the largest difference of a score.

python -m experiments.benchmarks.scoring --run=runs/gpt1 --sets=race=RACE,dpr=DPR,sst2=SST-2,cola=CoLA --rows=400 \\
    --out=experiments/benchmarks/results/scoring.json

'ours' is what zero_shot does. 'context': every candidate in a row of its own, padded to the context, logits at every
position: what is written first. 'length': the same, sorted by length and padded to few lengths. All run in turn, in one
process, after a turn that compiles.
"""
import functools
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from gpt1_jax.configs import zero_shot

from experiments.benchmarks import record, timing
from experiments.lib.markdown import table
from gpt1_jax import cli
from gpt1_jax.data import splits, tasks
from gpt1_jax.evaluation import load, log_probs, padding, zero_shot_heuristics
from gpt1_jax.parallel import sharding
from gpt1_jax.weights import from_hub


def padded_passes(model: Any, params: Any, sequences: Sequence[tuple[list[int], int]], tokens_per_batch: int,
                  length: Callable[[int], int]) -> tuple[np.ndarray, int]:
    """(float64[N], tokens): the sums of the last n tokens' log-probabilities, by a forward pass of each sequence.

    length: tokens of a sequence -> those that it is padded to. tokens: that the model read, padding included.
    """
    sums, total, by_length = np.zeros(len(sequences)), 0, {}
    for i, (ids, _) in enumerate(sequences):
        by_length.setdefault(length(len(ids) - 1), []).append(i)
    for L, chosen in sorted(by_length.items()):
        size, tokens = max(1, tokens_per_batch // L), np.zeros((len(chosen), L + 1), np.int32)
        for row, i in zip(tokens, chosen):
            ids, _ = sequences[i]
            row[:len(ids)] = ids
        logs = padding.in_batches(functools.partial(_forward(model), params), size, tokens)
        for row, i in zip(logs, chosen):
            ids, n = sequences[i]
            sums[i] = row[len(ids) - 1 - n:len(ids) - 1].sum(dtype=np.float64)
        total += -(-len(chosen) // size) * size * L
    return sums, total


@functools.lru_cache
def _forward(model):
    @jax.jit
    def forward(params, tokens):
        hidden, table = model.apply({'params': params}, tokens[:, :-1])
        logs = jax.nn.log_softmax(jnp.einsum('btd,vd->btv', hidden, table.tokens))
        return jnp.take_along_axis(logs, tokens[:, 1:, None], axis=-1)[..., 0]
    return forward


def compare(model: Any, params: Any, sequences: Sequence[tuple[list[int], int]], turns: int,
            tokens_per_batch: int = 4096) -> dict:
    """{'sequences', 'scored': tokens, 'tokens': {way: read in a turn, padding included}, 'seconds': {way: of each
    turn}, 'first_seconds': {way: of the one that compiles}, 'difference': nats, the largest between a sum of ours and
    the same sum by 'context'}. On one device."""
    n_ctx, mesh = model.config.n_ctx, sharding.make_mesh(devices=jax.devices()[:1])

    def ours():
        batches = padding.batches(padding.grouped(sequences, n_ctx), tokens_per_batch, mesh)
        return (log_probs.last_tokens(model, params, mesh, sequences, tokens_per_batch)[0],
                sum(G * shape.tokens for G, shape, _ in batches))

    def padded(length):
        return functools.partial(padded_passes, model, params, sequences, tokens_per_batch, length)
    ways = {'ours': ours, 'context': padded(lambda n: n_ctx), 'length': padded(lambda n: padding.padded(n, n_ctx))}
    times, found = timing.in_turns(ways, turns)
    return {'sequences': len(sequences), 'scored': sum(n for _, n in sequences),
            'tokens': {way: n for way, (_, n) in found.items()},
            **{name: {way: of_way[name] for way, of_way in times.items()} for name in ('seconds', 'first_seconds')},
            'difference': float(abs(found['ours'][0] - found['context'][0]).max())}


def _define_flags():
    flags.DEFINE_string('run', None, 'A pretrained run.', required=True)
    flags.DEFINE_integer('step', None, 'Of the run, by default the last one.')
    flags.DEFINE_list('sets', None, 'TASK=DIRECTORY, as in zero_shot.', required=True)
    flags.DEFINE_integer('rows', 400, 'At most so many of a set, chosen at random.', lower_bound=1)
    flags.DEFINE_integer('turns', 3, 'Times that each way is run and timed.', lower_bound=1)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    run = load.open_pretrained(from_hub.local_run(f.run))
    step, tokenizer, n_ctx = run.step(f.step), run.tokenizer(), run.config['model']['n_ctx']
    model, params = load.pretrained(run, step, sharding.make_mesh(devices=jax.devices()[:1]))
    found = {}
    for one in f.sets:
        name, _, directory = one.partition('=')
        heuristic, split, skipped = zero_shot_heuristics.get(name), zero_shot.get_config(name).data.split, []
        examples = splits.choose(tasks.get(name).read(directory, split, skipped.append), f.rows)
        read = zero_shot_heuristics.encode_all(heuristic, examples, tokenizer, n_ctx, f'{name} {split}', skipped.append)
        found[name] = {'rows': len(read), 'skipped': len(skipped)} | compare(
            model, params, [sequence for row in read for sequence in row.sequences], f.turns)
    median = {name: {way: statistics.median(seconds) for way, seconds in row['seconds'].items()}
              for name, row in found.items()}
    print('\n'.join(table(
        ('set', 'rows', 'candidates', *(f'{way}: tokens, seconds' for way in ('ours', 'context', 'length')),
         'context / ours', 'length / ours', 'largest difference, nats'),
        [(name, f"{row['rows']:,}", f"{row['sequences']:,}",
          *(f"{row['tokens'][way]:,}, {median[name][way]:.2f}" for way in median[name]),
          *(f"{median[name][way] / median[name]['ours']:.2f}" for way in ('context', 'length')),
          f"{row['difference']:.1e}") for name, row in found.items()])))
    record.write(f.out, {'model': run.config['model'], 'step': step, 'sets': found},
                 f'{jax.devices()[0].device_kind}, {os.cpu_count()} cores')


if __name__ == '__main__':
    cli.run(main, _define_flags)
