"""The run directory, and its only owner: config.json, parameters.txt, environment.jsonl, tokenizer/, checkpoints/,
metrics.jsonl, tensorboard/, results.jsonl, predictions."""
import dataclasses
import datetime
import json
import pathlib
import platform

from gpt1_jax import backbone, checkpoint, progress, provenance, results, storage
from gpt1_jax.data.tokenizer import SETTINGS_FILE, Tokenizer
from gpt1_jax.errors import UserError, about, shown

# What may differ freely between a run and its continuation: how it is run, not what is computed.
FREE = ('log_every', 'eval.every', 'eval.splits', 'eval.selections', 'eval.batch_size', 'checkpoint.', 'mesh.',
        'batch.microbatches', 'batch.loss_chunks', 'batch.eval_size', 'model.remat', 'model.unroll', 'model.kernels',
        'data.corpus', 'data.valid', 'data.dir', 'data.tokens', 'data.verify', 'data.resident', 'data.processes',
        'tokenizer.', 'tokenizer', 'results', 'train.skip_nonfinite', 'profile', 'tensorboard',
        'init_from', 'init_step')  # the weights that they name are in fingerprint.origin
# What makes it another run: only a new work directory will do.
FIXED = ('kind', 'seed', 'batch.size', 'model.', 'fingerprint.', 'task')


@dataclasses.dataclass(frozen=True)
class Run:
    """A directory that holds a run: what init_from, evaluation and export read."""
    path: pathlib.Path
    config: dict

    @property
    def checkpoints(self):
        return self.path / 'checkpoints'

    @property
    def metrics(self):
        return self.path / 'metrics.jsonl'

    @property
    def results(self):
        return self.path / 'results.jsonl'

    def predictions(self, name):
        return self.path / f'predictions_{name}.jsonl'

    def tokenizer(self):
        return Tokenizer.load(self.path / 'tokenizer')

    def steps(self):
        """The saved steps, ascending."""
        return checkpoint.steps(self.checkpoints)

    def step(self, chosen=None):
        """The chosen step, or by default the best one of a fine-tuned run and the latest one of a pretrained run."""
        found = self.steps()
        if not found:
            raise UserError(f'{self.path}: no complete checkpoint yet')
        if chosen is None:
            return checkpoint.best_step(self.checkpoints) if self.config['kind'] == 'finetune' else found[-1]
        if chosen not in found:
            raise UserError(f'{self.path}: no checkpoint of step {chosen}; there are {", ".join(map(str, found))}')
        return chosen


def load(path):
    """The Run in a directory. UserError when there is none."""
    path = storage.path(path)
    file = path / 'config.json'
    with about(file):
        if not file.is_file():
            raise UserError(f'{path}: not a run directory (no config.json in it)')
        content = storage.read(file)
    try:
        config = json.loads(content.decode())
        json.dumps(flatten(config) if isinstance(config, dict) else None)  # as `_compare` will do
    except (ValueError, RecursionError) as error:
        raise UserError(f'{file}: not JSON ({error})') from None
    if not isinstance(config, dict) or not {'kind', 'model', 'fingerprint'} <= config.keys():
        raise UserError(f"{file}: not a run's config: it has no kind, model and fingerprint")
    if config['kind'] not in ('pretrain', 'finetune'):
        raise UserError(f"{file}: kind is {shown(config['kind'])}, must be 'pretrain' or 'finetune'")
    if not isinstance(config['model'], dict):
        raise UserError(f"{file}: model is {shown(config['model'])}, must be an object")
    config['model'].setdefault('kind', 'gpt')  # runs from before there was a choice
    try:
        missing = {'vocab_size', *backbone.SIZES[backbone.own_fields(config['model'])['kind']]} - config['model'].keys()
        if missing:
            raise UserError(f'model.{min(missing)} is missing')
        backbone.backbone(config['model'])
    except UserError as error:
        raise UserError(f'{file}: {error}') from None
    return Run(path, config)


def check(path):
    """UserError when a directory holds something that is no run."""
    path = storage.path(path)
    begun = ('tokens', 'tokenizer', 'config.json.partial')  # what a kill in `start` leaves
    with about(path):
        if path.exists() and not path.is_dir():
            raise UserError(f'{path}: is a file, not a directory')
        if path.is_dir() and not (path / 'config.json').exists() and any(p.name not in begun for p in path.iterdir()):
            raise UserError(f'{path}: neither empty nor a run directory')


def start(path, config, tokenizer, allow_change=False, writes=True):
    """Create a run directory, or open the one there to go on; returns the Run.

    config: plain nested dict, the effective one, with 'kind' and 'fingerprint'. UserError where the directory holds a
    run that this one cannot continue; a changed length, rate or the like is shown and wants `allow_change`. writes:
    whether this process does; of several only one.
    """
    path = storage.path(path)
    if not writes:
        return Run(path, config)
    if (path / 'config.json').exists():
        _compare(path, load(path).config, config, allow_change)
    check(path)
    with about(path):
        storage.mkdir(path)
    if not (path / 'tokenizer' / SETTINGS_FILE).exists():
        tokenizer.save(path / 'tokenizer')
    elif Tokenizer.load(path / 'tokenizer').fingerprint != tokenizer.fingerprint:
        raise UserError(f'{path / "tokenizer"}: is another tokenizer: use a new --workdir')
    with about(path):
        storage.write(path / 'config.json', json.dumps(config, indent=1).encode() + b'\n')
    return Run(path, config)


def describe(run, step, params, writes=True):
    """Leave what a run computes with: parameters.txt, its table of parameters, and in environment.jsonl a line for each
    start, from which step, when, where, with which versions and devices.

    params: arrays, or ShapeDtypeStructs with shardings. writes: as in `start`.
    """
    if not writes:
        return
    with about(run.path):
        storage.write(run.path / 'parameters.txt', '\n'.join([*progress.parameters(params), '']).encode())
    results.append(run.path / 'environment.jsonl', {
        'step': step, 'time': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
        'host': platform.node(), 'platform': platform.platform(), **results.versions(),
        'environment': provenance.environment(params)})


def flatten(config, prefix=''):
    """{'model.n_layer': 12, ...} of a nested dict."""
    flat = {}
    for key, value in config.items():
        flat |= flatten(value, f'{prefix}{key}.') if isinstance(value, dict) else {f'{prefix}{key}': value}
    return flat


def _compare(path, old, new, allow_change):
    old, new = json.loads(json.dumps(flatten(old))), json.loads(json.dumps(flatten(new)))
    changed = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    lines = {k: f'{k}: {shown(old.get(k))} -> {shown(new.get(k))}' for k in changed if not listed(k, FREE)}
    fixed = [line for k, line in lines.items() if listed(k, FIXED)]
    if fixed:
        raise UserError(f'{path} holds another run ({"; ".join(fixed)}): use a new --workdir')
    if lines and not allow_change:
        raise UserError(f'{path} holds a run with other settings ({"; ".join(lines.values())}): '
                        'give --allow_change to go on with the new ones')
    for line in lines.values():
        print(f'changed: {line}', flush=True)


def listed(key, names):
    """Whether a flat config's key is one of FREE or FIXED; a name that ends with a dot stands for all under it."""
    return any(key == name or (name.endswith('.') and key.startswith(name)) for name in names)
