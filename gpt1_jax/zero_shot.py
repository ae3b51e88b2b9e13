"""Section 5, Zero-shot Behaviors: a pretrained model's tasks without fine-tuning, at every saved update.

python -m gpt1_jax.zero_shot --config=configs/zero_shot.py:cola --config.init_from=runs/gpt1 --config.data.dir=glue/CoLA

No specials anywhere: pretraining had none. So a text's first token is context alone.
"""
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import config_flags

from gpt1_jax import checkpoint, cli, metrics, results, scoring, sharding, workdir
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.model import GPT, GPTConfig

RULES = {'tokens_per_batch': cli.whole(1), 'step': (lambda x: x is None or x >= 0, 'a saved update, or None')}


def cola(score, tokenizer, read):
    """CoLA: the mean token log-probability of a sentence against a threshold.

    Paper: the threshold is unstated. Ours is the one with the highest Matthews correlation on the training split.
    """
    def means(examples):
        return _means(score, [tokenizer.encode(e.texts[0]) for e in examples], examples)
    train, examples = read('train'), read(None)
    cut = best_threshold(means(train), np.array([e.label for e in train]))
    above = means(examples) - cut
    return examples, np.stack([np.zeros(len(above)), above], axis=1), {'threshold': cut}


def sst2(score, tokenizer, read):
    """SST-2: `very` is appended, and the model chooses between `positive` and `negative` for the next word."""
    examples = read(None)
    words = [tokenizer.encode(word) for word in ('negative', 'positive')]
    prompts = [tokenizer.encode(f'{e.texts[0]} very') for e in examples]
    sums, _ = score([(prompt + word, len(word)) for prompt in prompts for word in words],
                    [f'row {e.id}' for e in examples for _ in words])
    return examples, sums.reshape(-1, 2), {}


def acceptability(score, tokenizer, read):
    """Pairs of a sentence and itself with two words swapped: the higher mean token log-probability is the answer."""
    examples = read(None)
    pairs = [tokenizer.encode(choice) for e in examples for choice in e.choices]
    return examples, _means(score, pairs, [e for e in examples for _ in e.choices]).reshape(-1, 2), {}


EVALUATORS = {'cola': cola, 'sst2': sst2, 'acceptability': acceptability}


def best_threshold(scores, gold):
    """The cut between two scores that gives `scores > cut` the highest Matthews correlation (the lowest of equals)."""
    order = np.argsort(scores, kind='stable')
    ordered, labels = scores[order], gold[order]
    # Cutting after the first i scores: they are called 0, the others 1.
    negatives, positives = np.cumsum(labels == 0), np.cumsum(labels == 1)
    tn, fn = negatives.astype(float), positives.astype(float)
    fp, tp = tn[-1] - tn, fn[-1] - fn
    matthews = metrics.matthews_of(np.stack([tp, fp, fn, tn], axis=-1))
    matthews[:-1][ordered[:-1] == ordered[1:]] = -2  # no cut stands between equal scores
    i = int(np.argmax(matthews[:-1])) if len(scores) > 1 else 0
    return float((ordered[i] + ordered[min(i + 1, len(ordered) - 1)]) / 2)


def run(config):
    """Score every saved checkpoint (or config.step); append to results.jsonl and write predictions; return the rows."""
    cli.validate(config, RULES)
    if config.task not in EVALUATORS:
        raise UserError(f'no zero-shot evaluator for {config.task!r} (there are {", ".join(EVALUATORS)})')
    if not config.init_from:
        raise UserError('give --config.init_from=DIR, a pretrained run')
    if not config.data.dir:
        raise UserError('give --config.data.dir=DIR, the directory of the data set')
    task, other, mesh = tasks.get(config.task), workdir.load(config.init_from), sharding.make_mesh()
    if config.data.split not in task.splits:
        raise UserError(f'{task.name} has no split {config.data.split!r} (there are {", ".join(task.splits)})')
    if other.config['kind'] != 'pretrain':
        raise UserError(f'{config.init_from}: is a fine-tuned run; zero-shot scoring wants a pretrained one')
    tokenizer, model = other.tokenizer(), GPT(GPTConfig(**other.config['model']))
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params'])
    opened = set()

    @functools.cache
    def read(split):
        opened.update(task.files(config.data.dir, split or config.data.split))
        return task.read(config.data.dir, split or config.data.split)

    rows = []
    for step in checkpoint.steps(other.checkpoints) if config.step is None else [other.step(config.step)]:
        started = time.perf_counter()
        params = checkpoint.restore_params(other.checkpoints, step, sharding.targets(shapes, mesh))
        score = functools.partial(scoring.score, model, params, mesh, tokens_per_batch=config.tokens_per_batch)
        examples, scores, details = EVALUATORS[config.task](score, tokenizer, read)
        gold = [e.label for e in examples]
        predictions = other.predictions(f'zero_shot_{task.name}_{config.data.split}_{step}')
        results.write_predictions(predictions, [e.id for e in examples], gold, scores)
        origin = {
            **details, 'run': str(other.path), 'step': step,
            'digest': checkpoint.params_digest(checkpoint.read_meta(other.checkpoints, step)),
            'files': results.file_hashes(sorted(opened)), 'predictions': str(predictions),
            'seconds': round(time.perf_counter() - started, 1), 'config': config.to_dict(),
            'device': jax.devices()[0].device_kind, **results.versions()}
        for name, value in metrics.compute(task.metrics, np.array(gold), scores).items():
            row = {'kind': 'zero_shot', 'task': task.name, 'split': config.data.split, 'n': len(examples),
                   'metric': name, 'value': value} | origin
            results.append_new(config.results or other.results, [row])
            rows.append(row)
            print(f'{task.name} zero-shot, step {step:,}: {name} {value:.4f} (n = {len(examples):,}'
                  + ''.join(f', {k} {v:.3f}' for k, v in details.items()) + ')', flush=True)
    if not rows:
        raise UserError(f'{config.init_from}: no complete checkpoint yet')
    return rows


def _means(score, texts, examples):
    """Mean log-probability of tokens 2..n of each text, a list of ids; examples: the row that each belongs to."""
    sums, counts = score([(ids, len(ids) - 1) for ids in texts], [f'row {e.id}' for e in examples])
    return sums / counts


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/zero_shot.py:cola', 'What to score, config:TASK.')


def main():
    run(flags.FLAGS.config)


if __name__ == '__main__':
    cli.run(main, _define_flags)
