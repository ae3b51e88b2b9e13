"""GPT-1 in small: text -> tokenizer -> pretraining -> fine-tuning with and without it -> zero-shot -> report.

python -m experiments.quickstart [--workdir=runs/quickstart]

Downloads nothing: the text is the novels of the package. Takes some eight minutes on two CPU cores. Rerun an
interrupted command to resume it.
"""
import pathlib
import time

from absl import flags
from ml_collections import ConfigDict

from experiments.lib import run_list
from experiments.quickstart import novel_tasks, report, word_counts
from gpt1_jax import cli, finetune, pretrain, rules, zero_shot
from gpt1_jax.cli import config_file
from gpt1_jax.data import corpus
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import results
from gpt1_jax.training import transfer

DEV, TEST = 6, 7  # the first six novels are for training, the next one selects the best epoch, three are for the test


def run(config: ConfigDict, directory: str | pathlib.Path) -> list[str]:
    """Runs everything as configs/quickstart.py describes; returns the headline results."""
    config = config.copy_and_resolve_references()
    rules.require({'--workdir': (str(directory), run_list.OUT), **{
        f'config.examples.{name}': (n, (lambda x: x > 0 and x % 4 == 0, 'a multiple of 4'))
        for name, n in config.examples.items()}})
    directory = pathlib.Path(directory)
    started = time.perf_counter()

    def stage(name):
        print(f'\n[{time.perf_counter() - started:4.0f} s] {name}', flush=True)

    stage('making labelled sets, training a vocabulary, writing token shards')
    novels = list(corpus.documents(corpus.NOVELS))
    splits = {'train': novels[:DEV], 'dev': novels[DEV:TEST], 'test': novels[TEST:]}
    sets = novel_tasks.write(directory / 'tasks', {name: (splits[name], config.examples[name]) for name in splits})
    manifest = prepare(directory / 'tokens', splits['train'], splits['dev'], vocab_size=config.vocab_size)

    stage('pretraining')
    config.pretrain.data.tokens = str(directory / 'tokens')
    pretrained = pretrain.run(config.pretrain, directory / 'pretrain')

    rows = {}
    for task, baseline in (('pronoun', word_counts.naive_bayes), ('continuation', word_counts.overlap)):
        rows[task] = _fine_tune(config, task, str(pretrained.path), directory, stage)
        items = sets[task]['test']
        path = directory / f'predictions_{task}_words.jsonl'
        results.write_predictions(path, [item.id for item in items], [item.label for item in items],
                                  baseline(sets[task]['train'], items))
        rows[task][report.WORDS] = path

    stage('scoring word_order zero-shot at every saved update')
    config.zero_shot.init_from = str(pretrained.path)
    config.zero_shot.data.dir = str(directory / 'tasks')
    config.zero_shot.results = str(directory / 'results.jsonl')
    curve = {row['step']: row['predictions'] for row in zero_shot.run(config.zero_shot)}

    stage('writing the report')
    facts = _facts(config, manifest, splits) | {'seconds': round(time.perf_counter() - started)}
    return report.write(directory, facts, pretrained.path, rows, curve)


def _fine_tune(config, task, pretrained, directory, stage):
    """Fine-tunes from the pretrained weights and from scratch; {name: path of the predictions on the test items}."""
    paths = {}
    for name, n_transfer in ((report.PRETRAINED, None), (report.SCRATCH, transfer.NOTHING)):
        stage(f'fine-tuning on {task}, {name}')
        tuning = config.finetune.copy_and_resolve_references()
        tuning.task = task
        tuning.n_transfer = n_transfer
        tuning.data.dir = str(directory / 'tasks')
        tuning.init_from = pretrained
        tuning.results = str(directory / 'results.jsonl')
        workdir = directory / f'{task}_{name.replace(" ", "_")}'
        finetune.run(tuning, workdir)
        paths[name] = workdir / 'predictions_test.jsonl'
    return paths


def _facts(config, manifest, splits):
    """{name: value} of the report's table of sizes."""
    model = config.pretrain.model
    train = manifest['splits']['train']
    return {
        'novels for training / development / test': ' / '.join(f'{len(novels)}' for novels in splits.values()),
        'training text': f'{train["words"]:,} words, {train["tokens"]:,} tokens of a vocabulary of '
                         f'{manifest["vocab_size"]:,}',
        'model': f'{model.n_layer} layers, width {model.n_embd}, {model.n_head} heads, context of {model.n_ctx} tokens',
        'pretraining': f'{config.pretrain.train.steps:,} steps of {config.pretrain.batch.size} x {model.n_ctx} tokens',
        'fine-tuning': f'{config.finetune.train.epochs} epochs of {config.examples.train:,} examples'}


def _define_flags():
    config_file.define('quickstart', 'Sizes; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('workdir', 'runs/quickstart', 'Directory for all output; an unfinished run is resumed.')


def main() -> None:
    run(flags.FLAGS.config, flags.FLAGS.workdir)


if __name__ == '__main__':
    cli.run(main, _define_flags)
