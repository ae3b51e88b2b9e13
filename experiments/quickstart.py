"""The main job on a laptop: corpus -> tokenizer -> pretraining -> fine-tuning with and without it -> zero-shot ->
report.

python -m experiments.quickstart [--workdir=runs/quickstart]

No download, no accelerator: the text is the documentation installed with Python. Interrupted, the same command goes on.
"""
import pathlib
import time

from absl import flags
from ml_collections import config_flags

from experiments import baselines, report
from gpt1_jax import cli, finetune, pretrain, results, transfer, zero_shot
from gpt1_jax.data import documentation, overlap
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.tasks import TASKS, derived
from gpt1_jax.prepare import prepare

ABOUT = {
    'cloze': ('Cloze', 'Some sentences, then the true next one or another of like length, half of the wrong ones from '
              'the same document (the form of Story Cloze: multiple choice).'),
    'source': ('Source', "Which library's documentation is a passage from: Python's own, NumPy's or JAX's? "
               '(Classification.)'),
}


def run(config, directory):
    """Do the whole job as a ConfigDict of configs/quickstart.py says; returns the report's main figures."""
    config, directory, started = config.copy_and_resolve_references(), pathlib.Path(directory), time.perf_counter()

    def stage(name):
        print(f'\n[{time.perf_counter() - started:4.0f} s] {name}', flush=True)

    stage('collecting the documentation installed with Python')
    splits = derived.split(documentation.documents())
    sets = derived.derive(splits, n_train=config.n_train, n_dev=config.n_dev, n_test=config.n_test,
                          segment_words=config.segment_words)
    tasks_dir = directory / 'tasks'
    derived.write_all(tasks_dir, sets)

    stage('training a vocabulary, writing token shards')
    seen = overlap.Seen(document.text for document in splits.train)
    valid = [Document(d.name, overlap.without_seen(d.text, seen)) for d in splits.dev]
    manifest = prepare(directory / 'tokens', list(splits.train), valid, vocab_size=config.vocab_size)

    stage('pretraining')
    config.pretrain.data.tokens = str(directory / 'tokens')
    pretrained = pretrain.run(config.pretrain, directory / 'pretrain')

    comparisons = []
    for name, (title, about) in ABOUT.items():
        runs = []
        for kind, layers in (('pretrained', None), ('scratch', transfer.NOTHING)):
            stage(f'fine-tuning on {name}, ' + ('from the pretrained weights' if layers is None else 'from scratch'))
            tuning = config.finetune.copy_and_resolve_references()
            tuning.task, tuning.data.dir, tuning.n_transfer = name, str(tasks_dir), layers
            tuning.init_from, tuning.results = str(pretrained.path), str(directory / 'results.jsonl')
            finetune.run(tuning, directory / f'{name}_{kind}')
            runs.append(report.Run('pretrained, then fine-tuned' if layers is None else 'from scratch', kind,
                                   str(directory / f'{name}_{kind}' / 'predictions_test.jsonl')))
        for baseline, scores in _baselines(name, sets[name]).items():
            path = directory / f'predictions_{name}_{baseline.replace(" ", "_")}.jsonl'
            test = sets[name]['test']
            results.write_predictions(path, [e.id for e in test], [e.label for e in test], scores)
            runs.append(report.Run(baseline, 'baseline', str(path)))
        comparisons.append(report.Comparison(
            title, about, tuple(runs), ((runs[0].name, runs[1].name), (runs[0].name, 'word overlap')),
            chance=1 / len(TASKS[name].labels)))

    stage('scoring acceptability zero-shot at every saved update')
    config.zero_shot.init_from, config.zero_shot.data.dir = str(pretrained.path), str(tasks_dir)
    config.zero_shot.results = str(directory / 'results.jsonl')
    zero_shot_paths = {row['step']: row['predictions'] for row in zero_shot.run(config.zero_shot)}

    stage('writing the report')
    model = config.pretrain.model
    facts = {
        'documents for training / development / test': f'{len(splits.train)} / {len(splits.dev)} / {len(splits.test)}',
        'characters of training text': sum(len(d.text) for d in splits.train),
        'vocabulary': manifest['vocab_size'], 'training tokens': manifest['splits']['train']['tokens'],
        'layers x width x heads': f'{model.n_layer} x {model.n_embd} x {model.n_head}', 'context (tokens)': model.n_ctx,
        'pretraining':
            f'{config.pretrain.train.steps:,} updates of {config.pretrain.batch.size} x {model.n_ctx} tokens',
        'fine-tuning': f'{config.finetune.train.epochs} epochs of {config.n_train:,} examples, either way',
        'seconds': round(time.perf_counter() - started)}
    return report.write(
        directory, 'Quickstart: GPT-1 from text to tasks', 'Pretraining, fine-tuning with and without it, and '
        'zero-shot scoring on the documentation installed with Python, by `python -m experiments.quickstart`. '
        'Development and test items come from documents that neither pretraining nor fine-tuning reads.', facts,
        results.read(pretrained.metrics), comparisons, zero_shot_paths, derived.overlap_check(splits, sets))


def _baselines(name, sets):
    """{name: scores of the test items}: the majority class, and what shared words alone tell."""
    train, test = sets['train'], sets['test']
    labels = len(TASKS[name].labels)
    overlap_scores = (baselines.word_overlap_choice(train, test) if name == 'cloze' else
                      baselines.word_overlap_class(train, test, labels))
    return {'word overlap': overlap_scores, 'majority class': baselines.majority(train, test, labels)}


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/quickstart.py', 'Sizes; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('workdir', 'runs/quickstart',
                        'Directory of everything written; an unfinished run is continued.')


def main():
    run(flags.FLAGS.config, flags.FLAGS.workdir)


if __name__ == '__main__':
    cli.run(main, _define_flags)
