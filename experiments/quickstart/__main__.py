"""Runs GPT-1 in small: tokenizer, pretraining, fine-tuning with and without it, zero-shot, report.

python -m experiments.quickstart [--workdir=runs/quickstart]

It downloads nothing: the text is the package's novels. It takes about five minutes on two CPU
cores. Rerun an interrupted command to resume it.
"""

import pathlib
import time

from absl import flags
from ml_collections import ConfigDict

from experiments.lib import run_list
from experiments.quickstart import novel_tasks, report, trigram
from gpt1_jax import cli, finetuning, pretraining, rules, zero_shot
from gpt1_jax.cli import config_file
from gpt1_jax.data import corpus
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import results
from gpt1_jax.training import transfer

# Six novels are for training, the next novel selects the best epoch, and three are for the test
DEV = 6
TEST = 7
PACKAGED = 'novels'  # the model of the package, pretrained on other novels


def run(config: ConfigDict, directory: str | pathlib.Path) -> list[str]:
    """Runs everything as configs/quickstart.py describes, and returns the headline results."""
    config = config.copy_and_resolve_references()
    rules.require(
        {
            '--workdir': (str(directory), run_list.OUT),
            **{
                f'config.examples.{name}': (n, (lambda x: x > 0 and x % 4 == 0, 'a multiple of 4'))
                for name, n in config.examples.items()
            },
        }
    )
    directory = pathlib.Path(directory)
    started = time.perf_counter()

    def stage(name):
        print(f'\n[{time.perf_counter() - started:4.0f} s] {name}', flush=True)

    stage('making labelled sets, training a vocabulary, writing token shards')
    novels = list(corpus.documents(corpus.NOVELS))
    splits = {'train': novels[:DEV], 'dev': novels[DEV:TEST], 'test': novels[TEST:]}
    sets = novel_tasks.write(
        directory / 'tasks', {name: (splits[name], config.examples[name]) for name in splits}
    )
    manifest = prepare(
        directory / 'tokens', splits['train'], splits['dev'], vocab_size=config.vocab_size
    )

    stage('pretraining')
    config.pretrain.data.tokens = str(directory / 'tokens')
    pretrained = pretraining.run(config.pretrain, directory / 'pretrain')

    stage('counting the words of the trigram')
    counts = trigram.count(novel.text for novel in splits['train'])
    rows = {}
    for task, of_task in sets.items():
        items = of_task['test']
        path = directory / f'predictions_{task}_trigram.jsonl'
        results.write_predictions(
            path,
            [item.id for item in items],
            [item.label for item in items],
            trigram.scores(counts, items),
        )
        rows[task] = {report.TRIGRAM: path}

    rows['pronoun'] |= _fine_tune(config, 'pronoun', str(pretrained.path), directory, stage)

    stage('scoring word_order zero-shot at every saved update')
    curve = _zero_shot(config, str(pretrained.path), directory)
    rows[report.WORD_ORDER][report.PRETRAINED] = curve[max(curve)]
    stage('scoring word_order zero-shot, packaged model')
    packaged = _zero_shot(config, PACKAGED, directory)
    rows[report.WORD_ORDER][report.PACKAGED] = packaged[max(packaged)]

    stage('writing the report')
    facts = _facts(config, manifest, splits)
    headlines = report.write(
        directory, facts, _read(config, manifest), pretrained.path, rows, curve
    )
    stage('done')
    return headlines


def _fine_tune(config, task, pretrained, directory, stage):
    """Fine-tunes from three beginnings, and returns {name: path of the test predictions}."""
    beginnings = {
        report.PRETRAINED: (pretrained, None),
        report.SCRATCH: (pretrained, transfer.NOTHING),
        report.PACKAGED: (PACKAGED, None),
    }
    paths = {}
    for name, (init_from, n_transfer) in beginnings.items():
        stage(f'fine-tuning on {task}, {name}')
        tuning = config.finetune.copy_and_resolve_references()
        tuning.task = task
        tuning.n_transfer = n_transfer
        tuning.data.dir = str(directory / 'tasks')
        tuning.init_from = init_from
        tuning.results = str(directory / 'results.jsonl')
        workdir = directory / f'{task}_{name.replace(" ", "_")}'
        finetuning.run(tuning, workdir)
        paths[name] = workdir / 'predictions_test.jsonl'
    return paths


def _zero_shot(config, init_from, directory):
    """Scores every saved update of a run on word_order, and returns {update: its predictions}."""
    scoring = config.zero_shot.copy_and_resolve_references()
    scoring.init_from = init_from
    scoring.data.dir = str(directory / 'tasks')
    scoring.results = str(directory / 'results.jsonl')
    return {row['step']: row['predictions'] for row in zero_shot.run(scoring)}


def _read(config, manifest):
    """Returns {name of a column: the text that it has read}."""
    updates = config.pretrain.train.steps
    tokens = updates * config.pretrain.batch.size * config.pretrain.model.n_ctx
    return {
        report.PRETRAINED: f'{tokens / 1e6:.1f}M tokens of {DEV} novels',
        report.SCRATCH: 'no text',
        report.TRIGRAM: f'{manifest["splits"]["train"]["words"] / 1e6:.1f}M words of {DEV} novels',
        report.PACKAGED: '557M tokens of 620 novels',
    }


def _facts(config, manifest, splits):
    """Returns {name: value} of the report's table of sizes."""
    model = config.pretrain.model
    read = config.pretrain.train.steps * config.pretrain.batch.size * model.n_ctx
    train = manifest['splits']['train']
    return {
        'novels for training / development / test': ' / '.join(
            f'{len(novels)}' for novels in splits.values()
        ),
        'training text': f'{train["words"]:,} words, {train["tokens"]:,} tokens of a vocabulary of '
        f'{manifest["vocab_size"]:,}',
        'model': f'{model.n_layer} layers, width {model.n_embd}, {model.n_head} heads, context of '
        f'{model.n_ctx} tokens',
        'pretraining': f'{config.pretrain.train.steps:,} steps of {config.pretrain.batch.size} x '
        f'{model.n_ctx} tokens, {read:,} in all',
        'fine-tuning': f'{config.finetune.train.epochs} epochs of {config.examples.train:,} '
        'examples',
    }


def _define_flags():
    config_file.define('quickstart', 'Sizes; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string(
        'workdir', 'runs/quickstart', 'Directory for all output; an unfinished run is resumed.'
    )


def main() -> None:
    run(flags.FLAGS.config, flags.FLAGS.workdir)


if __name__ == '__main__':
    cli.run(main, _define_flags)
