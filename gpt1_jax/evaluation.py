"""Section 4.2: a fine-tuned run scored on a split: its predictions, and the task's metrics over them."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax import checkpoint, distributed, metrics, results, rules, sharding, training, workdir
from gpt1_jax.backbone import backbone
from gpt1_jax.data import batches, rows, tasks
from gpt1_jax.errors import UserError
from gpt1_jax.heads import TaskModel

SELECTIONS = ('best', 'final')
NEEDED = {  # of a run's config.json
    'seed': rules.whole(0, 2 ** 32 - 1), 'task': rules.text(), 'data.dir': rules.text(),
    'data.n_ctx': rules.optional(rules.whole(0)), 'classifier_dropout': rules.between(0, 1),
    'lengths': (lambda x: x and rules.several(rules.whole(1))[0](x), 'a list of lengths'),
    'batch.eval_size': rules.whole(1, 65536), 'results': rules.optional(rules.text())}
SINCE = {
    'train_rows': rules.optional(rules.whole(1)), 'eval_rows': rules.optional(rules.whole(1)), 'skip_bad': rules.flag()}


def evaluate_run(this: workdir.Run, split, data_dir=None, selection='best', scored=None, **details):
    """Score a run on a split: predictions_SPLIT.jsonl and a row of results.jsonl a metric (and group); returns these.

    data_dir: where the files are now; default where they were. selection: 'best', the parameters that were best on dev
    by the task's first metric, or 'final', those of the last step (predictions_SPLIT_final.jsonl). scored: what
    `predict` said already, {(split, step): scores}, added to. details: further fields of the rows. A split without
    labels gives predictions alone.
    """
    config = check(this)
    if selection not in SELECTIONS:
        raise UserError(f'selection {selection!r} is none of {", ".join(SELECTIONS)}')
    task, tokenizer, mesh = tasks.of(config), this.tokenizer(), sharding.make_mesh()
    rows.check_split(task, split)
    data, directory = config['data'], data_dir or config['data']['dir']
    n_ctx, hashes = data['n_ctx'] or config['model']['n_ctx'], results.file_hashes(task.files(directory, split))
    limit = None if split in task.unlabelled else data.get('train_rows' if split == 'train' else 'eval_rows')
    found = rows.load(task, directory, split, tokenizer, n_ctx, hashes, limit, data.get('skip_bad', False))
    model = task_model(task, config['model'], config['classifier_dropout'])
    step = this.step() if selection == 'best' else checkpoint.steps(this.checkpoints)[-1]
    scored = {} if scored is None else scored
    if (split, step) not in scored:
        own = batches.sizes_of(found, n_ctx, 1)
        lengths = config['lengths'] + [n for n in own.lengths if n > max(config['lengths'])]  # rows may be longer here
        shapes = jax.eval_shape(lambda: initial(model, own.sequences, 0))
        params = checkpoint.restore_params(this.checkpoints, step, sharding.targets(shapes, mesh))
        scored[split, step] = predict(task, model, mesh, params, found, config['batch']['eval_size'],
                                      own._replace(lengths=tuple(lengths)))
    scores = scored[split, step]
    gold = [row.label for row in found]
    path = this.predictions(split if selection == 'best' else f'{split}_{selection}')
    if distributed.primary():
        results.write_predictions(path, [row.id for row in found], gold, scores)
    if split in task.unlabelled:
        print(f'{task.name} {split}: {len(found):,} predictions in {path}', flush=True)
        return []
    origin = {
        'selection': selection, 'seed': config['seed'], 'run': str(this.path), 'step': step,
        'digest': checkpoint.params_digest(checkpoint.read_meta(this.checkpoints, step)), 'predictions': str(path),
        'files': hashes, **details, 'config': config, 'device': jax.devices()[0].device_kind, **results.versions()}
    lines = []
    for group in (None, *task.groups):
        chosen = [i for i, row in enumerate(found) if group is None or row.id.startswith(f'{group}/')]
        if not chosen:
            continue
        values = compute(task, np.array(gold)[chosen], scores[chosen])
        for name, value in values.items():
            lines.append({'kind': 'finetune', 'task': task.name, 'split': split, 'group': group, 'n': len(chosen),
                          'metric': name, 'value': value} | origin)
            print(f'{task.name} {split}{f" ({group})" if group else ""}: {name} {value:.4f} (n = {len(chosen):,}, '
                  f'{selection} parameters, of step {step:,})', flush=True)
    if distributed.primary():
        results.append_new(config['results'] or this.results, lines)
    return lines


def check(this: workdir.Run):
    """The config of a fine-tuned run. UserError where it is none, or lacks a field that is needed."""
    config = this.config
    if config['kind'] != 'finetune':
        raise UserError(f'{this.path}: not a fine-tuned run')
    try:
        given = config['data'] if isinstance(config.get('data'), dict) else {}
        rules.validate(config, NEEDED | {f'data.{name}': rule for name, rule in SINCE.items() if name in given})
    except UserError as error:
        raise UserError(f'{this.path / "config.json"}: {error}') from None
    return config


def compute(task, gold, scores):
    """{metric: fraction} of a task's metrics; F1 counts its positive label."""
    return metrics.compute(task.metrics, gold, scores,
                           task.positive if task.score is None and 'f1' in task.metrics else None)


def predict(task, model, mesh, params, encoded, size, sizes):
    """What the model says of every row, in order: logits float[n, labels or choices], or of a score float[n, 1].

    A score by soft bins is their expected value, as released (utils.py 25-36). Arguments: as of `logits`.
    """
    outputs = logits(model, mesh, params, encoded, size, sizes)
    if task.score is None:
        return outputs
    low, high = task.score
    if task.squared:
        return low + (high - low) * outputs
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return (shares @ (low + np.arange(shares.shape[1])) / shares.sum(axis=1))[:, None]


def logits(model, mesh, params, encoded, size, sizes):
    """The task model's outputs, float32[n, C], in the rows' order. encoded: list of inputs.Encoded; size: rows at once;
    sizes: batches.Sizes."""
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    size, outputs = -(-size // devices) * devices, None
    for indices, batch in batches.eval_batches(encoded, size, sizes):
        placed = sharding.place(lambda rows: {name: batch[name][rows] for name in ('tokens', 'extract', 'present')},
                                size, mesh)
        found = np.asarray(_logits(model, mesh)(params, placed))
        outputs = np.zeros((len(encoded), found.shape[1]), np.float32) if outputs is None else outputs
        outputs[indices] = found[:len(indices)]
    return outputs


def task_model(task, sizes, classifier_dropout):
    """The task's model; sizes: a run's 'model'. Three specials: start, delimiter, extract."""
    return TaskModel(backbone(sizes | {'n_special': 3}), task.head, 1 if task.squared else len(task.labels),
                     classifier_dropout)


def initial(model, sequences, seed):
    """Fresh parameters; sequences: K of its inputs."""
    tokens, extract = jnp.zeros((1, sequences, 1), jnp.int32), jnp.zeros((1, sequences), jnp.int32)
    return model.init(jax.random.key(seed), tokens, extract)['params']


@functools.lru_cache
def _logits(model, mesh):
    @functools.partial(jax.jit, out_shardings=sharding.replicated(mesh))  # every process reads all of them
    def logits(params, batch):
        return model.apply({'params': params}, batch['tokens'], batch['extract'], None, batch['present'])[0]
    return training.on_mesh(logits, mesh)
