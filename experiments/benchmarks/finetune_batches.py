"""How many tokens an epoch of fine-tuning processes for each real one, by the way batches are put together, and how
random its batches are.

python -m experiments.benchmarks.finetune_batches --tokenizer=runs/gpt1 \\
    --sets=cola=data/CoLA,mrpc=data/MRPC,race=data/RACE --rows=20000 \\
    --out=experiments/benchmarks/results/finetune_batches.json

'ours' is fine-tuning's default: rows of similar length share a batch, with the labels of a plain shuffle (see
gpt1_jax/data/batches.py), padded to the smallest of six lengths that fits. 'sorted': config.batch.sort_window = 50,
rows sorted by length within 50 batches, padded as before. 'batch': a plain shuffle, padded to the longest row of each
batch, which compiles a program for every length. 'context': padded to the whole context, as the released code does
(there to the longest row of the set).
"""
from collections.abc import Sequence

import jax
import numpy as np
from absl import flags

from experiments.benchmarks import record
from experiments.lib.markdown import table
from gpt1_jax import cli
from gpt1_jax.data import batches, splits, tasks
from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError


def count(encoded: Sequence[Encoded], n_ctx: int, size: int, n_lengths: int, seed: int = 0) -> dict:
    """{'rows', 'lengths', 'real', 'ours', 'sorted', 'batch', 'context': tokens of one epoch} of a training set."""
    sizes, steps = batches.sizes_of(encoded, n_ctx, n_lengths), batches.steps_per_epoch(encoded, size)
    if not steps:
        raise UserError(f'{len(encoded)} rows are less than a batch of {size}')
    orders = {way: batches.epoch_order(encoded, seed, size, sizes, window)
              for way, window in (('ours', None), ('sorted', 50), ('batch', 1))}
    longest = np.array([max(map(len, row.sequences)) for row in encoded])
    needed = {way: longest[order(0)].max(axis=1) for way, order in orders.items()}  # of each batch
    for way in ('ours', 'sorted'):  # padded to one of a few lengths, ascending
        needed[way] = np.asarray(sizes.lengths)[np.searchsorted(sizes.lengths, needed[way])]
    tokens = {way: int(lengths.sum()) * size * sizes.sequences for way, lengths in needed.items()}
    real = sum(len(sequence) for i in orders['ours'](0).ravel() for sequence in encoded[i].sequences)
    return {'rows': len(encoded), 'lengths': list(sizes.lengths), 'real': real, **tokens,
            'context': steps * size * sizes.sequences * n_ctx}


def randomness(encoded: Sequence[Encoded], n_ctx: int, size: int, n_lengths: int, epochs: int = 10,
               seed: int = 0) -> dict:
    """{'label_variance', 'met_again': {'ours', 'sorted', 'batch'}} of a training set's batches, over some epochs.

    label_variance: of the mean label of a batch, as a multiple of the plain shuffle's. met_again: of the pairs of rows
    that share a batch, the fraction that also does so in the next epoch.
    """
    sizes = batches.sizes_of(encoded, n_ctx, n_lengths)
    labels = np.array([row.label for row in encoded], float)
    variance, again = {}, {}
    for way, window in (('batch', 1), ('ours', None), ('sorted', 50)):
        order = batches.epoch_order(encoded, seed, size, sizes, window)
        found = [order(epoch) for epoch in range(epochs)]
        variance[way] = float(np.mean([np.square(labels[one].mean(axis=1) - labels.mean()) for one in found]))
        again[way] = float(np.mean([met_again(*pair) for pair in zip(found, found[1:])]))
    return {'label_variance': {way: value / variance['batch'] for way, value in variance.items()}, 'met_again': again}


def met_again(one: np.ndarray, following: np.ndarray) -> float:
    """The fraction of the pairs of rows in a batch of one epoch, int[steps, size], that share a batch of the next."""
    batch = np.full(max(one.max(), following.max()) + 1, -1)
    batch[following] = np.arange(len(following))[:, None]
    pairs = 0
    for places in batch[one]:
        _, rows = np.unique(places[places >= 0], return_counts=True)  # of this batch in each of the next epoch's
        pairs += int((rows * (rows - 1) // 2).sum())
    return pairs / (len(one) * one.shape[1] * (one.shape[1] - 1) // 2)


def _define_flags():
    flags.DEFINE_string('tokenizer', None, 'A run, or a directory with a tokenizer.')
    flags.DEFINE_list('sets', [], 'TASK=DIRECTORY, as in fine-tuning.')
    flags.DEFINE_integer('n_ctx', 512, 'Tokens of the context.', lower_bound=16)
    flags.DEFINE_integer('batch', 32, 'Rows of a batch.', lower_bound=1)
    flags.DEFINE_integer('rows', None, 'At most so many of a set, chosen at random.', lower_bound=1)
    flags.DEFINE_integer('lengths', 6, 'Lengths that rows are padded to.', lower_bound=1)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    if not f.tokenizer or not f.sets:
        raise UserError('give --tokenizer=RUN and --sets=TASK=DIRECTORY,...')
    jax.config.update('jax_platforms', 'cpu')  # nothing is run
    tokenizer = Tokenizer.of(f.tokenizer)
    found = {}
    for one in f.sets:
        name, _, directory = one.partition('=')
        encoded = splits.load(tasks.get(name), directory, 'train', tokenizer, f.n_ctx, {}, f.rows)
        found[name] = count(encoded, f.n_ctx, f.batch, f.lengths) | randomness(encoded, f.n_ctx, f.batch, f.lengths)
    cells = [(name, f"{row['rows']:,}", f"{row['real']:,}",
              *(f"{row[way] / row['real']:.3f}" for way in ('ours', 'sorted', 'batch', 'context')),
              *(f"{row['label_variance'][way]:.2f}" for way in ('ours', 'sorted')),
              *(f"{row['met_again'][way]:.1%}" for way in ('ours', 'sorted', 'batch'))) for name, row in found.items()]
    print('\n'.join(table(('set', 'rows', 'real tokens', 'ours: tokens a real one', 'sorted', 'batch', 'context',
                                  'ours: label variance', 'sorted', 'ours: met again', 'sorted', 'batch'), cells)))
    record.write(f.out, {'n_ctx': f.n_ctx, 'batch': f.batch, 'sets': found})


if __name__ == '__main__':
    cli.run(main, _define_flags)
