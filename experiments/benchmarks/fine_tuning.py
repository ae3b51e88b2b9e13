"""Fine-tuning: real tokens a second against pretraining's, and what lengths, compiling and the auxiliary loss cost; or
how batches are put together.

python -m experiments.benchmarks.fine_tuning --config=configs/finetune.py:sst2 --config.data.dir=data/SST-2 \\
    --config.init_from=novels --out=experiments/benchmarks/results/fine_tuning.json
python -m experiments.benchmarks.fine_tuning --tokenizer=runs/gpt1 --rows=20000 \\
    --sets=cola=data/CoLA,mrpc=data/MRPC,race=data/RACE --out=experiments/benchmarks/results/finetune_batches.json

The first times steps of the real program on the first batches of an epoch, in turns in one process: fine-tuning by
the config, with all rows padded to one length, and without the auxiliary loss (Eq. 4 alone); pretraining of the same
sizes on --windows whole contexts a step, and on one; transformers' OpenAIGPTForSequenceClassification, which has no
auxiliary loss, on the same batches.

The second counts the tokens that an epoch processes for each real one, and how random its batches are: 'ours', the
default (gpt1_jax/data/batches.py); 'batch', a plain shuffle padded to the longest row of each batch, which compiles a
program for every length; 'context', padded to the whole context, as the released code does (there to the longest row of
the set).
"""
import statistics
from collections.abc import Callable, Sequence

import jax
import numpy as np
from absl import flags
from gpt1_jax.configs import pretrain as pretraining
from ml_collections import ConfigDict

from experiments.benchmarks import record, timing
from experiments.lib.markdown import table
from gpt1_jax import cli, finetune, pretrain
from gpt1_jax.cli import config_file
from gpt1_jax.data import batches, splits, tasks
from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding
from gpt1_jax.weights import from_hub

# Speed

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


def speed_lines(rows: dict[str, dict]) -> list[str]:
    """The table."""
    rate = {way: row['real'] / statistics.median(row['seconds']) for way, row in rows.items()}
    return table(('step', 'real tokens a second', 'of pretraining', 'of fine-tuning', 'first pass with compiling, s'),
                 [(way, f'{rate[way]:,.0f}', f"{rate[way] / rate['pretraining']:.2f}",
                   f"{rate[way] / rate['fine-tuning']:.2f}", f"{row['first_seconds']:.1f}")
                  for way, row in rows.items()])


# Batches

BY_LENGTH = {'ours': True, 'batch': False}  # config.batch.by_length of each way


def count(encoded: Sequence[Encoded], n_ctx: int, size: int, n_lengths: int) -> dict:
    """{'rows', 'lengths', 'real', 'ours', 'batch', 'context': tokens of one epoch} of a training set."""
    sizes, steps = batches.sizes_of(encoded, n_ctx, n_lengths), len(encoded) // size
    if not steps:
        raise UserError(f'{len(encoded)} rows are less than a batch of {size}')
    orders = {way: batches.epoch_order(encoded, 0, size, sizes, by_length) for way, by_length in BY_LENGTH.items()}
    longest = np.array([max(map(len, row.sequences)) for row in encoded])
    needed = {way: longest[order(0)].max(axis=1) for way, order in orders.items()}  # of each batch
    # Ours are padded to one of a few lengths, ascending.
    needed['ours'] = np.asarray(sizes.lengths)[np.searchsorted(sizes.lengths, needed['ours'])]
    tokens = {way: int(lengths.sum()) * size * sizes.sequences for way, lengths in needed.items()}
    real = sum(len(sequence) for i in orders['ours'](0).ravel() for sequence in encoded[i].sequences)
    return {'rows': len(encoded), 'lengths': list(sizes.lengths), 'real': real, **tokens,
            'context': steps * size * sizes.sequences * n_ctx}


def randomness(encoded: Sequence[Encoded], n_ctx: int, size: int, n_lengths: int, epochs: int = 10) -> dict:
    """{'label_variance', 'met_again': {'ours', 'batch'}} of a training set's batches, over some epochs.

    label_variance: of the mean label of a batch, as a multiple of the plain shuffle's. met_again: of the pairs of rows
    that share a batch, the fraction that also does so in the next epoch.
    """
    sizes = batches.sizes_of(encoded, n_ctx, n_lengths)
    labels = np.array([row.label for row in encoded], float)
    variance, again = {}, {}
    for way, by_length in BY_LENGTH.items():
        order = batches.epoch_order(encoded, 0, size, sizes, by_length)
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
    config_file.define('finetune', 'What to time, as in fine-tuning.')
    flags.DEFINE_integer('steps', 12, 'Updates of a turn, each of another batch.', lower_bound=1)
    flags.DEFINE_integer('turns', 5, 'How often each way is timed.', lower_bound=1)
    flags.DEFINE_integer('windows', 16, 'Windows of a step of pretraining.', lower_bound=1)
    flags.DEFINE_string('tokenizer', None, 'A run, or a directory with a tokenizer.')
    flags.DEFINE_list('sets', [], 'TASK=DIRECTORY, as in fine-tuning.')
    flags.DEFINE_integer('n_ctx', 512, 'Tokens of the context.', lower_bound=16)
    flags.DEFINE_integer('batch', 32, 'Rows of a batch.', lower_bound=1)
    flags.DEFINE_integer('rows', None, 'At most so many of a set, chosen at random.', lower_bound=1)
    flags.DEFINE_integer('lengths', 6, 'Lengths that rows are padded to.', lower_bound=1)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    if not f.sets:
        found = ways(f.config, f.steps, f.windows)
        times, _ = timing.in_turns({way: updates for way, (updates, _) in found.items()}, f.turns)
        rows = {way: {'real': real, **times[way]} for way, (_, real) in found.items()}
        print('\n'.join(speed_lines(rows)))
        record.write(f.out, {'config': f.config.to_dict(), 'ways': rows}, jax.devices()[0].device_kind)
        return
    if not f.tokenizer:
        raise UserError('give --tokenizer=RUN beside --sets')
    jax.config.update('jax_platforms', 'cpu')  # nothing is run
    tokenizer = Tokenizer.load(from_hub.local_tokenizer(f.tokenizer))
    found = {}
    for one in f.sets:
        name, _, directory = one.partition('=')
        encoded = splits.load(tasks.get(name), directory, 'train', tokenizer, f.n_ctx, {}, f.rows)
        found[name] = count(encoded, f.n_ctx, f.batch, f.lengths) | randomness(encoded, f.n_ctx, f.batch, f.lengths)
    cells = [(name, f"{row['rows']:,}", f"{row['real']:,}",
              *(f"{row[way] / row['real']:.3f}" for way in ('ours', 'batch', 'context')),
              f"{row['label_variance']['ours']:.2f}",
              *(f"{row['met_again'][way]:.1%}" for way in ('ours', 'batch'))) for name, row in found.items()]
    print('\n'.join(table(('set', 'rows', 'real tokens', 'ours: tokens a real one', 'batch', 'context',
                           'ours: label variance', 'ours: met again', 'batch'), cells)))
    record.write(f.out, {'n_ctx': f.n_ctx, 'batch': f.batch, 'sets': found})


if __name__ == '__main__':
    cli.run(main, _define_flags)
