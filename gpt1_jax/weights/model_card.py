"""Writes the model cards (README.md) of exports.

model_card.txt has the words of a card. All facts are read from the run: config, checkpoint,
metrics.jsonl, results.jsonl. A fact that the run lacks is left out. Names that come from these
files and the data set (labels, files, a corpus) enter the card only through `_shown` or `_code`.
"""

import json
import pathlib
import re
from collections.abc import Sequence

from gpt1_jax import rules, storage
from gpt1_jax.configs import finetune, pretrain
from gpt1_jax.data.tasks import own
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import one_line
from gpt1_jax.runs import checkpoint, provenance, results, workdir
from gpt1_jax.training import transfer

# Fields whose defaults are the paper's, and those among them that do not change the learned model.
RECIPE = (
    'model.',
    'batch.size',
    'optimizer.',
    'train.',
    'lm_weight',
    'classifier_dropout',
    'data.train_rows',
)
NO_RECIPE = (
    *sorted({*workdir.FREE} - {'train.skip_nonfinite'}),
    'model.vocab_size',
    'model.n_special',
    'model.n_units',
    'train.evaluate_every',
)
# The paper's values of fields whose default is None.
NOT_SET = {
    'train.steps': '100 epochs',
    'optimizer.warmup_steps': pretrain.WARMUP,
    'data.train_rows': 'all',
    'train.epochs': transfer.EPOCHS,
    'optimizer.peak_rate': transfer.PEAK_RATE,
}
WORDS = pathlib.Path(__file__).with_suffix('.txt')
NOTICE = pathlib.Path(__file__).with_name('published_vocabulary.txt')  # its license


def card(
    run: workdir.Run,
    step: int,
    tokenizer: Tokenizer,
    parameters: int,
    license: str,
    notes: Sequence[str] = (),
) -> str:
    """The model card of one checkpoint of a run, in Markdown.

    parameters: their number.
    license: of the weights, an identifier of the Hub.
    notes: further limits.
    """
    meta = checkpoint.read_meta(run.checkpoints, step)
    digest = checkpoint.params_digest(meta)
    exporter = provenance.versions()
    tuned = run.config['kind'] == 'finetune'
    title = f'GPT-1 fine-tuned on {_shown(_task(run.config))}' if tuned else 'GPT-1, pretrained'
    vocabulary = 'trained by gpt1_jax' if tokenizer.has_bytes else 'as published'
    facts = {
        'parameters': f'{parameters:,}',
        'checkpoint': f'step {step:,}, digest `{digest}`',
        **(_finetuning(run) if tuned else _pretraining(run, step)),
        'vocabulary': f'{tokenizer.vocab_size:,} rows, {vocabulary}, fingerprint '
        f'`{tokenizer.fingerprint}`',
        'exported by': f'gpt1_jax {exporter["versions"]["gpt1_jax"]}, code `{exporter["code"]}`',
    }
    if 'environment' in meta and 'imported' not in run.config:
        seen = {name: _shown(value) for name, value in meta['environment'].items()}
        facts['trained with'] = 'jax {jax} on {devices} x {device}'.format(**seen)
    of_weights = _code(license)
    if license == 'other':
        of_weights += (
            ' (not chosen yet: set the field at the top; the license of the corpus must allow it)'
        )
    text = WORDS.read_text(encoding='utf-8').format(
        license=json.dumps(license),
        pipeline='text-classification' if tuned else 'text-generation',
        title=title,
        facts=_list([f'{name}: {value}' for name, value in facts.items()]),
        differences=_list(deviations(run) or ['none']),
        evaluations=_list(evaluations(run, step, digest) or ['none recorded with the run']),
        n_ctx=run.config['model']['n_ctx'],
        limits=_list([*_limits(tokenizer, tuned), *notes]),
        of_weights=of_weights,
    )
    return text if tokenizer.has_bytes else f'{text}\n{NOTICE.read_text().rstrip()}\n'


def defaults(kind: str) -> dict:
    """{field: the paper's value} of a kind of run, which are the defaults of its config."""
    config = rules.flatten(pretrain.get_config().to_dict())
    if kind == 'finetune':
        model = {name: value for name, value in config.items() if name.startswith('model.')}
        # In fine-tuning these are None, for the pretrained model's values
        config = rules.flatten(finetune.get_config().to_dict()) | model
    return {
        name: NOT_SET.get(name, value) if value is None else value
        for name, value in config.items()
        if workdir.listed(name, RECIPE) and not workdir.listed(name, NO_RECIPE)
    }


def deviations(run: workdir.Run) -> list[str]:
    """Differences of a run from the paper: ['batch.size is 8, in the paper 64']."""
    config = rules.flatten(run.config)
    found = []
    for name, value in defaults(run.config['kind']).items():
        if config.get(name) is not None and config[name] != value:
            found.append(f'{name} is {_shown(config[name])}, in the paper {value}')
    if run.config['kind'] == 'pretrain' and config.get('init_from'):
        found.append('training began with the weights above, in the paper with random ones')
    if run.config['model']['vocab_size'] != 40478:
        found.append(
            f'the vocabulary has {run.config["model"]["vocab_size"]:,} rows, in the paper 40,478'
        )
    if 'imported' in run.config:
        found.append('imported weights do not record how they were trained')
    elif run.config['kind'] == 'pretrain':
        found.append(
            'the corpus is the one named above, in the paper BooksCorpus, which is no longer '
            'available'
        )
    return found


def evaluations(run: workdir.Run, step: int, digest: str) -> list[str]:
    """Metrics of this step or of parameters with this digest, from the run's files.

    Each is a line. Metrics on other train and dev files than in training are left out.
    """
    found = []
    for row in results.read(run.metrics):
        if row.get('step') == step:
            found += [
                f'{_shown(name)} {value:.4f} at step {step:,}'
                for name, value in row.items()
                if name.startswith(('valid_', 'dev_')) and isinstance(value, (int, float))
            ]
    # The run's file has the scores from after its training
    files_of_results = filter(None, (run.results, run.config.get('results')))
    for row in [row for file in files_of_results for row in results.read(storage.path(file))]:
        files = row.get('files') or {}
        foreign = row.get('split') in ('train', 'dev') and not run.trained_with(files)
        if (
            row.get('digest') == digest
            and isinstance(row.get('value'), (int, float))
            and not foreign
        ):
            names = [row[name] for name in ('task', 'split', 'group') if row.get(name)]
            if run.config.get('task') == 'custom':
                names += files
            where = ', '.join(map(_shown, [*names, row.get('kind')]))
            found.append(
                f'{where}: {_shown(row.get("metric"))} {row["value"]:.4f} (n = '
                f'{_shown(row.get("n"))})'
            )
    return list(dict.fromkeys(found))


def _pretraining(run, step):
    config = run.config
    if 'imported' in config:
        return {
            'weights': f'imported from {_shown(config["imported"]["from"])}, SHA-256 of its files '
            f'{_hashes(config["imported"]["files"])}',
            'corpus and tokens seen': 'not recorded with the weights',
        }
    batch = config['batch']['size']
    n_ctx = config['model']['n_ctx']
    corpus = config['data']['corpus'] or 'prepared tokens'
    facts = {
        'corpus': f'{_code(corpus)}, hash of its tokens {_code(config["fingerprint"]["tokens"])}',
        'tokens seen': f'{step * batch * n_ctx:,} ({step:,} steps of {batch} x {n_ctx})',
    }
    if config.get('init_from'):
        facts['before this run'] = 'weights of another run, with the tokens seen by it'
    return facts


def _task(config):
    return own.name(config['custom']['data']) if config['task'] == 'custom' else config['task']


def _finetuning(run):
    config = run.config
    origin = config['fingerprint'].get('origin')
    files = _hashes(config['fingerprint'].get('files', {}))
    return {
        'task': f'{_shown(_task(config))}, labels {", ".join(map(_shown, config["labels"]))}; '
        f'hashes of its files {files}',
        'fine-tuned from': f'weights of digest {_code(origin)}' if origin else 'random weights',
    }


def _hashes(files):
    return ', '.join(f'{_shown(name)} {_code(sha256[:16])}' for name, sha256 in files.items())


def _shown(value):
    """A name or a value of a run's files in Markdown, as code unless it is plain text."""
    text = str(value)
    return text if re.fullmatch(r"[\w .,:;/()'+-]+", text) else _code(text)


def _code(value):
    """A value as Markdown's code, on one line. In code neither Markdown nor HTML has an effect."""
    return '`' + one_line(str(value)).replace('`', "'") + '`'


def _limits(tokenizer, tuned):
    """The limits that only some models have."""
    limits = []
    if tokenizer.has_bytes:
        limits.append(
            'The vocabulary encodes rare characters as bytes, which OpenAIGPTTokenizer cannot: '
            'load it with AutoTokenizer. The character ▁ gets other ids than in training. '
            '`gpt1_jax/tokenizer` is the tokenizer of gpt1_jax, which is exact.'
        )
    if tuned:
        limits.append(
            '`tokenizer(a)` and `tokenizer(a, b)` add the start, delimiter and extract tokens of '
            'Section 3.3 but truncate long texts differently from training.'
        )
    return limits


def _list(lines):
    return ''.join(f'\n* {line}' for line in lines)
