"""Model cards (README.md) of exports: training data, hyperparameters that differ from the paper, evaluations, limits.

Everything is read from the run: config, checkpoint, metrics.jsonl, results.jsonl. What they do not say is left out.
"""
import json
from collections.abc import Sequence

from gpt1_jax import __version__
from gpt1_jax.data import tokens, words
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.runs import checkpoint, provenance, results, workdir

# The hyperparameters of Section 4.1 and the released code, as in configs/*.py, which name the sources.
MODEL = {'model.kind': 'gpt', 'model.n_layer': 12, 'model.n_embd': 768, 'model.n_head': 12, 'model.n_inner': 3072,
         'model.n_ctx': 512, 'model.embd_dropout': 0.1, 'model.attn_dropout': 0.1, 'model.resid_dropout': 0.1}
OPTIMIZER = {'optimizer.b1': 0.9, 'optimizer.b2': 0.999, 'optimizer.eps': 1e-8, 'optimizer.weight_decay': 0.01,
             'optimizer.clip': 1.0}
RECIPE = {
    'pretrain': MODEL | OPTIMIZER | {
        'batch.size': 64, 'optimizer.peak_rate': 2.5e-4, 'optimizer.warmup_steps': 2000,
        'optimizer.schedule': 'cosine', 'optimizer.decay_steps': 0, 'train.epochs': 100,
        'train.steps': None, 'train.skip_nonfinite': 0, 'init_from': None},
    'finetune': MODEL | OPTIMIZER | {
        'batch.size': 32, 'optimizer.peak_rate': 6.25e-5, 'optimizer.warmup': 0.002,
        'optimizer.schedule': 'linear', 'optimizer.decay_steps': 0, 'train.epochs': 3,
        'train.skip_nonfinite': 0, 'lm_weight': 0.5, 'classifier_dropout': 0.1, 'data.train_rows': None}}
NOT_SET = {'train.steps': '100 epochs', 'data.train_rows': 'all'}  # what None stands for
NOTICE = '''The vocabulary (`vocab.json`, `merges.txt`) is the one published with openai/finetune-transformer-lm:

    MIT License

    Copyright (c) 2018 OpenAI

    Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
    documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
    rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to
    permit persons to whom the Software is furnished to do so, subject to the following conditions:

    The above copyright notice and this permission notice shall be included in all copies or substantial portions of
    the Software.

    THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO
    THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
    AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT,
    TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
    SOFTWARE.'''


def card(run: workdir.Run, step: int, tokenizer: Tokenizer, parameters: int, license: str,
         notes: Sequence[str] = ()) -> str:
    """The model card of one checkpoint of a run, in Markdown.

    parameters: their number. license: of the weights, an identifier of the Hub. notes: further limits, such as what the
    export had to leave out.
    """
    meta = checkpoint.read_meta(run.checkpoints, step)
    digest = checkpoint.params_digest(meta)
    tuned = run.config['kind'] == 'finetune'
    head = {'license': license, 'language': 'en', 'library_name': 'transformers',
            'pipeline_tag': 'text-classification' if tuned else 'text-generation', 'tags': ['openai-gpt', 'gpt1_jax']}
    title = f'GPT-1 fine-tuned on {run.config["task"]}' if tuned else 'GPT-1, pretrained'
    training = _finetuning(run) if tuned else _pretraining(run, step)
    facts = {'parameters': f'{parameters:,}', 'checkpoint': f'step {step:,}, digest `{digest}`', **training,
             'vocabulary': f'{tokenizer.vocab_size:,} rows, '
                           f'{"trained by gpt1_jax" if tokenizer.has_bytes else "as published"}, '
                           f'fingerprint `{tokenizer.fingerprint}`',
             'exported by': f'gpt1_jax {__version__}, code `{provenance.code_digest()}`'}
    if 'environment' in meta:
        facts['written by'] = 'jax {jax} on {devices} x {device}'.format(**meta['environment'])
    parts = ['---', *(f'{name}: {json.dumps(value)}' for name, value in head.items()), '---', '', f'# {title}', '',
             'The decoder-only transformer of "Improving Language Understanding by Generative Pre-Training" (Radford '
             'et al., 2018).', '',
             *_section('Training', [f'{name}: {value}' for name, value in facts.items()]),
             *_section('Differences from the paper', deviations(run) or ['none']),
             *_section('Evaluation', evaluations(run, step, digest) or ['none recorded with the run']),
             *_section('Limits', [*notes, *_limits(tokenizer, tuned, run.config['model']['n_ctx'])]),
             '## Licence', '', f'Of the weights: `{license}`'
             + (' (not chosen yet: set the field at the top; the licence of the corpus must allow it).'
                if license == 'other' else '.')]
    return '\n'.join(parts + ([] if tokenizer.has_bytes else ['', NOTICE])) + '\n'


def deviations(run: workdir.Run) -> list[str]:
    """Hyperparameters of a run that differ from the paper's: ['batch.size is 8, in the paper 64']."""
    config = workdir.flatten(run.config)
    recipe = RECIPE[run.config['kind']]
    found = [f'{name} is {config[name]}, in the paper {NOT_SET.get(name, value)}' for name, value in recipe.items()
             if name in config and name not in ('init_from', 'init_step') and config[name] != value]
    if run.config['kind'] == 'pretrain' and config.get('init_from'):
        found.append('training began with the weights above, in the paper with random ones')
    if run.config['model']['vocab_size'] != 40478:
        found.append(f'the vocabulary has {run.config["model"]["vocab_size"]:,} rows, in the paper 40,478')
    if 'imported' in run.config:
        found.append('imported weights do not record how they were trained')
    elif run.config['kind'] == 'pretrain':
        found.append('the corpus is the one named above, in the paper BooksCorpus, which is no longer available')
    return found


def evaluations(run: workdir.Run, step: int, digest: str) -> list[str]:
    """Metrics that the run's files hold for this step or for parameters with this digest, one a line."""
    found = []
    for row in results.read(run.metrics):
        if row.get('step') == step:
            found += [f'{name} {value:.4f} at step {step:,}' for name, value in row.items()
                      if name.startswith(('valid_', 'dev_')) and isinstance(value, (int, float))]
    for row in results.read(run.config.get('results') or run.results):
        if row.get('digest') == digest and isinstance(row.get('value'), (int, float)):
            where = ', '.join(str(row[name]) for name in ('task', 'split', 'group') if row.get(name))
            found.append(f'{where}, {row.get("kind")}: {row.get("metric")} {row["value"]:.4f} (n = {row.get("n")})')
    return list(dict.fromkeys(found))


def _pretraining(run, step):
    config = run.config
    if 'imported' in config:
        files = ', '.join(f'{name} `{sha256[:16]}`' for name, sha256 in config['imported']['files'].items())
        return {'weights': f'imported from {config["imported"]["from"]}, SHA-256 of its files {files}',
                'corpus and tokens seen': 'not recorded with the weights'}
    batch, n_ctx = config['batch']['size'], config['model']['n_ctx']
    corpus = config['data']['corpus'] or 'prepared tokens'
    facts = {'corpus': f'`{corpus}`, hash of its tokens `{config["fingerprint"]["tokens"]}`',
             'tokens seen': f'{step * batch * n_ctx:,} ({step:,} steps of {batch} x {n_ctx})'}
    facts |= _before(config)
    try:
        manifest = tokens.read_manifest(config['data']['tokens'] or run.path / 'tokens')
    except UserError:  # the tokens were not kept
        return facts
    if manifest['fingerprint'] == config['fingerprint']['tokens']:
        split = manifest['splits']['train']
        facts['corpus'] += f', {split["documents"]:,} documents of {split["tokens"]:,} tokens'
        if 'words' in split:
            read = step * words.per_step(manifest, batch * n_ctx)
            facts['words read'] = f'{read:,.0f}, of the {split["words"]:,} of the corpus'
    return facts


def _before(config):
    """What is known of the weights that a pretraining run started from: {} of random ones."""
    if not config.get('init_from'):
        return {}
    origin = _origin(config)
    if origin is None:
        return {'before this run': 'weights of another run, with the tokens that it had seen'}
    return {f'before this run, {name}': value for name, value in _pretraining(*origin).items()}


def _origin(config):
    """(run, step) whose weights a run began with; None where that run was moved or deleted, or has gone on."""
    try:
        other = workdir.load(config['init_from'])
        step = other.step(config.get('init_step'))
        digest = checkpoint.params_digest(checkpoint.read_meta(other.checkpoints, step))
    except UserError:
        return None
    recorded = config['fingerprint'].get('origin') or digest  # an earlier version recorded none for pretraining
    return (other, step) if recorded == digest else None


def _finetuning(run):
    config, facts = run.config, {}
    files = ', '.join(f'{name} `{sha256}`' for name, sha256 in config['fingerprint']['files'].items())
    origin = config['fingerprint']['origin']
    facts['task'] = f'{config["task"]}, labels {", ".join(map(str, config["labels"]))}; hashes of its files {files}'
    facts['fine-tuned from'] = f'weights of digest `{origin}`' if origin else 'random weights'
    if not origin or not config.get('init_from'):
        return facts
    known = _pretraining(*found) if (found := _origin(config)) else {}
    return facts | {f'pretraining {name}': value for name, value in known.items()}


def _limits(tokenizer, tuned, n_ctx):
    limits = [
        f'The context is {n_ctx:,} tokens. English, lower case: the vocabulary has no capital letters.',
        'The model reproduces errors and biases of its corpus, and its statements may be false.',
        'In training, text was split into words by ftfy and spaCy. `tokenizer.json` approximates them by regular '
        'expressions: text that is already split gets the same ids but for odd words, and most other text. Hugging '
        'Face\'s OpenAIGPTTokenizer splits differently: it drops accents and line breaks and splits at all '
        'punctuation, so "mr." and "don\'t" get other ids than in training.']
    if tokenizer.has_bytes:
        limits.append('The vocabulary encodes rare characters as bytes, which OpenAIGPTTokenizer cannot: load it with '
                      'AutoTokenizer. The character ▁ gets other ids than in training. '
                      '`gpt1_jax/tokenizer` is the tokenizer of gpt1_jax, which is exact.')
    if tuned:
        limits.append('`tokenizer(a)` and `tokenizer(a, b)` add the start, delimiter and extract tokens of Section 3.3 '
                      'but truncate long texts differently from training.')
    return limits


def _section(title, lines):
    return [f'## {title}', '', *(f'* {line}' for line in lines), '']
