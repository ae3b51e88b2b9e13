"""What experiments.one_gpu reads of the data sets, gathered where there is a CPU and time: OUT then holds all that the
GPU's machine needs.

    OUT/data/          the official files of the splits that are used; of RACE's training passages a seeded subset
    OUT/tokens/        the books as shards, their tokenizer, and in it known.npz: the ids of every text of these files
    OUT/sets.json      what the runs on each set process
"""
import json
import pathlib
import shutil

from experiments import run as runs
from experiments.planned import Planned
from gpt1_jax import heuristics, results, scoring, sharding, storage
from gpt1_jax.data import batches, known, rows, tasks
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.tokens import permutation
from gpt1_jax.errors import UserError

FILE = 'sets.json'


def copy(config, wanted: list[Planned], target):
    """The files that runs read, from config.data to `target`, laid out alike; what is there already is left alone.

    config: configs/one_gpu.py's. Runs whose files are not in config.data are passed over.
    """
    for planned in wanted:
        here, there = (pathlib.Path(root) / config.directories[planned.task] for root in (target, config.data))
        for split in splits(planned):
            if runs.has_data(planned.task, str(here), split) or not runs.has_data(planned.task, str(there), split):
                continue
            files = sorted(map(pathlib.Path, tasks.get(planned.task).files(str(there), split)))
            if planned.task == 'race' and split == 'train':
                files = [files[i] for i in sorted(permutation(0, 0, len(files))[:config.race_passages])]
            partial = here / f'{split}.partial'  # a split is complete or not there at all
            shutil.rmtree(partial, ignore_errors=True)
            for file in files:
                copied = partial / file.relative_to(there)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copied)
            for one in partial.iterdir():
                one.replace(here / one.name)
            partial.rmdir()


def count(config, wanted: list[Planned], out) -> dict:
    """Remember the ids of all texts that runs read, and count; returns and writes {task: {'finetune' | 'zero_shot':
    counts}}. Runs without data are passed over."""
    directory = pathlib.Path(out) / 'tokens' / 'tokenizer'
    recorder, found = known.Recorder(Tokenizer.load(directory)), {}
    for planned in wanted:
        done = found.setdefault(planned.task, {})
        if planned.kind in done or not all(runs.has_data(planned.task, planned.config.data.dir, split)
                                           for split in splits(planned)):
            continue
        one = _finetune if planned.kind == 'finetune' else _zero_shot
        done[planned.kind] = one(planned, recorder, config.pretrain.model.n_ctx)
        print(f'{planned.task}, {planned.kind}: ' + ', '.join(
            f'{name} {value:,}' for name, value in done[planned.kind].items() if isinstance(value, int)), flush=True)
    recorder.save(directory)
    storage.write(pathlib.Path(out) / FILE, (json.dumps(found, indent=1) + '\n').encode())
    return found


def read(out) -> dict | None:
    """What `count` found, or None."""
    file = pathlib.Path(out) / FILE
    return read_json(file) if file.exists() else None


def read_json(file, fields=()) -> dict:
    """A JSON object with these fields. UserError naming the file where it is none."""
    try:
        found = json.loads(file.read_bytes())
        missing = set(fields) - found.keys()
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(f'{file}: no JSON object ({error})') from None
    if missing:
        raise UserError(f'{file}: {min(missing)} is missing')
    return found


def splits(planned: Planned) -> tuple[str, ...]:
    """Those that a run reads."""
    threshold = planned.kind == 'zero_shot' and heuristics.get(planned.task).threshold
    return tuple(dict.fromkeys([*(['train'] if planned.kind == 'finetune' or threshold else []), *planned.splits]))


def _finetune(planned, tokenizer, n_ctx):
    """{'rows', 'steps', 'tokens', 'eval_tokens', 'lengths', 'program'} of one run."""
    config, task = planned.config, tasks.get(planned.task)
    n_ctx = config.data.n_ctx or n_ctx
    read = {split: rows.load(task, config.data.dir, split, tokenizer, n_ctx, results.file_hashes(
        task.files(config.data.dir, split)), config.data.train_rows if split == 'train' else config.data.eval_rows,
        config.data.skip_bad) for split in splits(planned)}
    sizes = batches.sizes_of(read['train'] + read['dev'], n_ctx, config.batch.lengths, config.batch.fixed_lengths)
    padded = {split: sum(min((length for length in sizes.lengths if length >= longest), default=longest)
                         for row in found for longest in [max(map(len, row.sequences))]) * sizes.sequences
              for split, found in read.items()}
    steps = config.train.epochs * batches.steps_per_epoch(read['train'], config.batch.size)
    each = padded['train'] / len(read['train'])
    evaluations = 1 + (config.train.epochs - 1) // config.train.evaluate_every
    return {'rows': len(read['train']), 'steps': steps, 'tokens': int(steps * config.batch.size * each),
            'eval_tokens': sum(padded[split] for split in planned.splits) + (evaluations - 1) * padded['dev'],
            'lengths': list(sizes.lengths), 'program': [task.head, len(task.labels), sizes.sequences]}


def _zero_shot(planned, tokenizer, n_ctx):
    """{'rows', 'tokens', 'lengths', 'program'} of scoring one checkpoint."""
    config, heuristic = planned.config, heuristics.get(planned.task)
    found = [row for split in splits(planned) for row in heuristics.encode_all(
        heuristic, rows.choose(tasks.get(planned.task).read(config.data.dir, split), config.data.rows), tokenizer,
        n_ctx, f'{planned.task} {split}')]
    sequences = [(ids[-n_ctx:], n) for row in found for ids, n in row.sequences]
    read = [(G, *shape) for G, shape, _ in scoring.batches(scoring.grouped(sequences, n_ctx),
                                                               config.tokens_per_batch, sharding.make_mesh())]
    return {'rows': len(found), 'tokens': sum(G * (P + K * S) for G, K, P, S, _ in read),
            'lengths': sorted({' x '.join(map(str, one)) for one in read}), 'program': ['score', 0, 1]}
