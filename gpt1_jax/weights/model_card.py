"""Writes the model cards (README.md) of exports.

model_card.txt has the words of a card. All facts are read from the run: config, checkpoint,
metrics.jsonl, results.jsonl. A fact that the run lacks is left out. Names that come from these
files and the data set (labels, files, a corpus) enter the card only through `_shown` or `_code`.
"""

import json
import pathlib
import re
from collections.abc import Sequence

from gpt1_jax import storage
from gpt1_jax.data.tasks import own
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import one_line
from gpt1_jax.runs import checkpoint, provenance, results, workdir

# The parts of a run's config that decide how the weights were learned
SETTINGS = ('model', 'batch', 'optimizer', 'train', 'lm_weight', 'classifier_dropout', 'seed')
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
    settings = {name: run.config[name] for name in SETTINGS if name in run.config}
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
        settings=json.dumps(settings, indent=2),
        evaluations=_list(evaluations(run, step, digest) or ['none recorded with the run']),
        n_ctx=run.config['model']['n_ctx'],
        limits=_list([*_limits(tokenizer, tuned), *notes]),
        of_weights=of_weights,
    )
    return text if tokenizer.has_bytes else f'{text}\n{NOTICE.read_text().rstrip()}\n'


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
