"""What grows with the corpus: the start of pretraining, of a new run and of one that resumes, a step's batch, memory.

python -m experiments.benchmarks.input_pipeline --sizes=100:0.1,1000:1,10000:10 \\
    --out=experiments/benchmarks/results/input_pipeline.json

Corpora of FILES:GIGABYTES are made up, as sparse files: the text, and the shards and manifest that preparing it gives.
For each, a process of its own does what `gpt1 pretrain` does before its first step and reads the first batch and some
more: 'start' compares names and sizes of the text with the manifest, opens the shards and builds the model. Seconds are
of the processor, so that what else the machine does matters less.
"""
import pathlib
import statistics
import tempfile
import time

from absl import flags
from gpt1_jax.configs import pretrain as defaults
from ml_collections import ConfigDict

from experiments.benchmarks import record, timing
from experiments.lib.markdown import table
from gpt1_jax import cli, pretrain
from gpt1_jax.data import bpe_training, encode, prepare, shards, tokens
from gpt1_jax.errors import UserError

BYTES_A_TOKEN = 4  # of English, about
EPOCHS = {'new': 0, 'resumed': 2}  # where a run begins


def make_corpus(directory: pathlib.Path, files: int, size: int) -> ConfigDict:
    """A corpus of so many files and bytes, and what is prepared from it; returns the config to pretrain on it."""
    config = defaults.get_config()
    config.model.update({'n_layer': 1, 'n_embd': 64, 'n_head': 1, 'n_inner': 64})
    text, out = directory / 'text', directory / 'tokens'
    bpe_training.train(['the cat sat on the mat'], merges=5).save(directory / 'tokenizer')
    config.data.corpus, config.data.tokens, config.train.steps = str(text), str(out), 10**6
    config.tokenizer.source = str(directory / 'tokenizer')
    text.mkdir()
    for number in range(files):
        _sparse(text / f'{number:06}.txt', size // files)
    _, inputs, _, tokenizer = prepare.resolve(pretrain.prepare_config(config.data, config.tokenizer))
    prepare.saved_tokenizer(out, inputs, lambda: tokenizer)
    entries = {split: {'documents': files, 'tokens': n, 'unknown': 0, 'bytes': BYTES_A_TOKEN * n, 'words': n,
                       'shards': list(_shards(out / split, n))}
               for split, n in (('train', size // BYTES_A_TOKEN), ('valid', encode.SHARD_TOKENS))}
    prepare.write_manifest(out, inputs, tokenizer, entries)
    return config


def _shards(directory, n_tokens):
    directory.mkdir()
    for number, first in enumerate(range(0, n_tokens, encode.SHARD_TOKENS)):
        n = min(encode.SHARD_TOKENS, n_tokens - first)
        _sparse(directory / shards.name(number), tokens.DTYPE.itemsize * n)
        yield {'file': shards.name(number), 'documents': 1, 'tokens': n, 'unknown': 0, 'sha256': ''}


def _sparse(file, size):
    with open(file, 'wb') as out:
        out.truncate(size)


def begin(config: ConfigDict, epoch: int, batches: int) -> dict:
    """{'start', 'first_batch', 'batch': seconds, 'memory': bytes} of a run that begins with an epoch, in this process.
    """
    began = time.process_time()
    job = pretrain.build(pretrain.resolve(config, pathlib.Path(config.data.tokens).with_name('run')))
    seconds = [time.process_time() - began]
    windows = tokens.open_split(config.data.tokens, 'train').n_windows(config.model.n_ctx)
    step = -(-epoch * windows // config.batch.size)
    for number in range(batches):
        began = time.process_time()
        job.batches.read(step + number, slice(None))
        seconds.append(time.process_time() - began)
    start, first, *others = seconds
    status = pathlib.Path('/proc/self/status').read_text()
    anonymous = 1024 * int(status.split('RssAnon:')[1].split()[0])  # pages of mapped files, which can be dropped, aside
    return {'start': start, 'first_batch': first, 'batch': statistics.median(others), 'memory': anonymous}


def measure(sizes: list[str], batches: int) -> dict[str, dict]:
    """{'FILES:GIGABYTES': {run, one of EPOCHS: what `begin` returns in a process of its own}}. UserError for others."""
    found = {}
    for each in sizes:
        try:
            files, gigabytes = (number(text) for number, text in zip((int, float), each.split(':'), strict=True))
        except ValueError:
            raise UserError(f'--sizes: {each!r} is not FILES:GIGABYTES') from None
        with tempfile.TemporaryDirectory() as directory:
            config = make_corpus(pathlib.Path(directory), files, int(gigabytes * 1e9))
            found[each] = {run: timing.alone(begin, config, epoch, batches) for run, epoch in EPOCHS.items()}
    return found


def _define_flags():
    flags.DEFINE_list('sizes', ['100:0.1', '1000:1', '10000:10'], 'FILES:GIGABYTES of each corpus.')
    flags.DEFINE_integer('batches', 200, 'Batches that are read.', lower_bound=2)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    found = measure(f.sizes, f.batches)
    cells = [(size, run, f"{row['start']:.2f}", f"{row['first_batch']:.2f}", f"{1e3 * row['batch']:.2f}",
              f"{row['memory'] / 2**20:,.0f}") for size, runs in found.items() for run, row in runs.items()]
    print('\n'.join(table(('files:GB', 'run', 'start, s', 'first batch, s', 'a batch, ms', 'memory, MiB'), cells)))
    record.write(f.out, found)


if __name__ == '__main__':
    cli.run(main, _define_flags)
