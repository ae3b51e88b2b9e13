"""How many tokens an epoch of fine-tuning processes for each real one, by the way batches are put together.

python -m experiments.benchmarks.finetune_batches --tokenizer=runs/gpt1 \\
    --sets=cola=data/CoLA,mrpc=data/MRPC,race=data/RACE --rows=20000 \\
    --out=experiments/benchmarks/results/finetune_batches.json

'ours' is what fine-tuning does: rows sorted by length within 50 batches, padded to the smallest of six lengths that
fits. 'batch': rows in random order, padded to the longest of their batch, which compiles a program for every length.
'context': padded to the whole context, as the released code does (there to the longest row of the set).
"""
import jax
import numpy as np
from absl import flags

from experiments import report
from experiments.benchmarks import record
from gpt1_jax import cli, storage
from gpt1_jax.data import batches, rows, tasks
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.tokens import permutation
from gpt1_jax.errors import UserError


def count(encoded, n_ctx, size, n_lengths, seed=0):
    """{'rows', 'real', 'ours', 'batch', 'context': tokens of one epoch, 'lengths'} of a training set."""
    sizes, steps = batches.sizes_of(encoded, n_ctx, n_lengths), batches.steps_per_epoch(encoded, size)
    if not steps:
        raise UserError(f'{len(encoded)} rows are less than a batch of {size}')
    ours = list(map(batches.train_batches(encoded, seed, size, sizes), range(steps)))
    shuffled = permutation(seed, 0, len(encoded))[:steps * size].reshape(steps, size)
    longest = np.array([max(map(len, row.sequences)) for row in encoded])
    return {'rows': len(encoded), 'lengths': list(sizes.lengths), 'real': sum(int(b['mask'].sum()) for b in ours),
            'ours': sum(b['tokens'].size for b in ours),
            'batch': int(longest[shuffled].max(axis=1).sum()) * size * sizes.sequences,
            'context': steps * size * sizes.sequences * n_ctx}


def _define_flags():
    flags.DEFINE_string('tokenizer', None, 'A run, or a directory with a tokenizer.')
    flags.DEFINE_list('sets', [], 'TASK=DIRECTORY, as of fine-tuning.')
    flags.DEFINE_integer('n_ctx', 512, 'Tokens of the context.', lower_bound=16)
    flags.DEFINE_integer('batch', 32, 'Rows of a batch.', lower_bound=1)
    flags.DEFINE_integer('rows', None, 'At most so many of a set, chosen at random.', lower_bound=1)
    flags.DEFINE_integer('lengths', 6, 'Lengths that rows are padded to.', lower_bound=1)
    record.define_flag()


def main():
    f = flags.FLAGS
    if not f.tokenizer or not f.sets:
        raise UserError('give --tokenizer=RUN and --sets=TASK=DIRECTORY,...')
    jax.config.update('jax_platforms', 'cpu')  # nothing is run
    directory = storage.path(f.tokenizer)
    tokenizer = Tokenizer.load(directory / 'tokenizer' if (directory / 'tokenizer').is_dir() else directory)
    found = {}
    for one in f.sets:
        name, _, directory = one.partition('=')
        encoded = rows.load(tasks.get(name), directory, 'train', tokenizer, f.n_ctx, {}, f.rows)
        found[name] = count(encoded, f.n_ctx, f.batch, f.lengths)
    cells = [(name, f"{row['rows']:,}", f"{row['real']:,}",
              *(f"{row[way] / row['real']:.3f}" for way in ('ours', 'batch', 'context')),
              *(f"{row[way] / row['ours']:.2f}" for way in ('batch', 'context'))) for name, row in found.items()]
    print('\n'.join(report.table(('set', 'rows', 'real tokens', 'ours: tokens a real one', 'batch', 'context',
                                  'batch / ours', 'context / ours'), cells)))
    record.write(f.out, {'n_ctx': f.n_ctx, 'batch': f.batch, 'sets': found})


if __name__ == '__main__':
    cli.run(main, _define_flags)
