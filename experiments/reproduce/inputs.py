"""What a job reads, prepared before it starts: OUT then tells what every run costs, and with config.pack it is all that
another machine needs.

    OUT/tokens/        the books as shards, and their tokenizer
    OUT/sets.json      how many tokens the runs on each set process
    OUT/data/          with config.pack: the official files of the splits that are used; of RACE's training passages
                       config.race_passages, a seeded subset
"""
import glob
import json
import pathlib
import shutil
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from experiments.lib import run_list, token_counts
from experiments.lib.run_list import RunSpec, has_data
from gpt1_jax import prepare as prepare_lib
from gpt1_jax import storage
from gpt1_jax.data import batches, tasks
from gpt1_jax.data import splits as splits_lib
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.tokens import permutation
from gpt1_jax.errors import UserError, fail
from gpt1_jax.evaluation import padding, zero_shot_heuristics
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import provenance

FILE = 'sets.json'
HELD_OUT = 0.02  # fraction of a corpus without validation books


def corpus(books: str | pathlib.Path, limit: int | None = None,
           valid_limit: int | None = None) -> tuple[list[str], list[str] | float]:
    """(training files, validation files or a fraction to hold out) for a directory with train/ and valid/, one with
    .txt files, or a glob.

    limit, valid_limit: books at most, evenly spaced by name; default all. UserError where there is no .txt file.
    """
    path = pathlib.Path(books)
    valid = []
    if (path / 'train').is_dir() and (path / 'valid').is_dir():
        train = sorted(map(str, (path / 'train').glob('*.txt')))
        valid = sorted(map(str, (path / 'valid').glob('*.txt')))
    elif path.is_dir():
        train = sorted(map(str, path.rglob('*.txt')))
    else:
        train = sorted(glob.glob(str(books)))
    if not train:
        raise UserError(f'--books={books}: no .txt files there')
    return _spaced(train, limit), _spaced(valid, valid_limit) or HELD_OUT


def _spaced(names, limit):
    """At most `limit` of the names, evenly spaced."""
    if limit is None or len(names) <= limit:
        return names
    return [names[i * len(names) // limit] for i in range(limit)]


def prepare(config: ConfigDict, specs_of: Callable[[ConfigDict], list[RunSpec]], books: str | None, data: str | None,
            again: bool) -> None:
    """Write the shards of the books, with config.pack a copy of the sets, and the token counts of runs without any.

    config: configs/reproduce.py's, with the paths of a job. specs_of: config -> its runs, which score the splits that
    are in config.data. books, data: as the program's flags. again: also where all is there. UserError where something
    is needed that was not given.
    """
    counts = read(config) if (pathlib.Path(config.out) / FILE).exists() and not again else None
    if config.pack and counts is None:
        if not books or not data:
            raise UserError('give --books=DIR and --data=DIR')
        originals = config.copy_and_resolve_references()
        originals.data = str(data)
        run_list.check(originals, pretrained=False)
        copy(originals, specs_of(originals), pathlib.Path(config.data))
    run_list.check(config, pretrained=False)
    pathlib.Path(config.out).mkdir(parents=True, exist_ok=True)
    if books:
        shard(config, books)
    elif not has_text(config) and not given(config):
        raise UserError('give --books=DIR')
    specs = specs_of(config)
    if counts is None or any(spec.kind not in counts.get(spec.task, {}) and not lacks_data(spec) for spec in specs):
        count_tokens(config, specs)


def given(config: ConfigDict, model: str = 'pretrained') -> bool:
    """Whether a pretrained run (model: or 'lstm') was made elsewhere, and is not this job's."""
    return bool(config[model]) and pathlib.Path(config[model]).parent != pathlib.Path(config.out)


def tokens_of(config: ConfigDict) -> pathlib.Path:
    """The directory of the prepared books."""
    return pathlib.Path(config.pretrain.data.tokens or pathlib.Path(config.out) / 'tokens')


def has_text(config: ConfigDict) -> bool:
    """Whether the books are prepared."""
    return (tokens_of(config) / 'manifest.json').exists()


def tokenizer_of(config: ConfigDict) -> pathlib.Path:
    """The directory of the tokenizer: that of a pretrained run that was given, or of the books."""
    return (pathlib.Path(config.pretrained) if given(config) else tokens_of(config)) / 'tokenizer'


def shard(config: ConfigDict, books: str) -> None:
    """Write the shards of the books, with the tokenizer of a pretrained run where one was given."""
    wanted = config.pretrain.tokenizer
    train, valid = corpus(books, config.books, config.valid_books)
    source = str(tokenizer_of(config)) if given(config) else wanted.source
    trained = source == 'train'
    prepare_lib.prepare(
        tokens_of(config), train, valid, source, wanted.encoder or None, wanted.bpe or None,
        merges=wanted.merges if trained and wanted.vocab_size is None else None,
        vocab_size=wanted.vocab_size if trained else None, characters=wanted.characters if trained else None,
        processes=config.pretrain.data.processes or None, text_field=config.pretrain.data.text_field)


def lacks_data(spec: RunSpec) -> bool:
    """Whether files are missing that a run reads."""
    return not all(has_data(spec.task, spec.config.data.dir, split) for split in splits_read(spec))


def copy(config: ConfigDict, specs: Sequence[RunSpec], target: pathlib.Path) -> None:
    """Copy the files that runs read from config.data to `target`, laid out alike; files that are there already stay.

    Runs whose files are not in config.data are passed over.
    """
    files = {}  # {task: the files of all splits that are read}
    for spec in specs:
        source = pathlib.Path(config.data) / config.directories[spec.task]
        for split in splits_read(spec):
            if has_data(spec.task, str(source), split):
                found = sorted(map(pathlib.Path, tasks.get(spec.task).files(str(source), split)))
                if spec.task == 'race' and split == 'train':
                    chosen = permutation(0, 0, len(found))[:config.race_passages]
                    found = [found[i] for i in sorted(chosen)]
                files.setdefault(spec.task, {}).update(dict.fromkeys(found, source))
    target.mkdir(parents=True, exist_ok=True)
    for task, found in files.items():
        for file, source in found.items():
            copied = target / config.directories[task] / file.relative_to(source)
            if copied.exists():
                continue
            copied.parent.mkdir(parents=True, exist_ok=True)
            partial = copied.with_name(f'{copied.name}.partial')  # a file is complete or not there
            shutil.copyfile(file, partial)
            partial.replace(copied)


def count_tokens(config: ConfigDict, specs: Sequence[RunSpec]) -> dict:
    """Count what runs process.

    Returns and writes to OUT/sets.json {task: {'finetune' | 'zero_shot': counts}}. Runs without data are passed over.
    """
    tokenizer = Tokenizer.load(tokenizer_of(config))
    counts = {}
    for spec in specs:
        of_task = counts.setdefault(spec.task, {})
        if spec.kind in of_task or lacks_data(spec):
            continue
        count = _count_finetune if spec.kind == 'finetune' else _count_zero_shot
        found = of_task[spec.kind] = count(spec, tokenizer, config.pretrain.model.n_ctx)
        numbers = [f'{name} {value:,}' for name, value in found.items() if isinstance(value, int)]
        print(f'{spec.task}, {spec.kind}: {", ".join(numbers)}', flush=True)
    write_json(pathlib.Path(config.out) / FILE, counts)
    return counts


def read(config: ConfigDict) -> dict:
    """What `count_tokens` found. UserError where it has not been called yet."""
    file = pathlib.Path(config.out) / FILE
    if not file.exists():
        raise UserError(f'{config.out}: nothing is prepared there: --stage=prepare comes first')
    return read_json(file)


def write_json(file: pathlib.Path, value: dict) -> None:
    """Write a JSON object, at once."""
    storage.write(file, (json.dumps(value, indent=1) + '\n').encode())


def read_json(file: pathlib.Path, fields: Sequence[str] = ()) -> dict:
    """A JSON object with these fields. UserError naming the file where it is none."""
    try:
        found = json.loads(file.read_bytes())
        missing = set(fields) - found.keys()
    except (ValueError, AttributeError) as error:
        raise UserError(f'{file}: no JSON object ({error})') from None
    if missing:
        raise UserError(f'{file}: {min(missing)} is missing')
    return found


def splits_read(spec: RunSpec) -> tuple[str, ...]:
    """The splits that a run reads: those that it scores, and train for fine-tuning or to choose a threshold."""
    needs_train = spec.kind == 'finetune' or zero_shot_heuristics.get(spec.task).threshold
    return tuple(dict.fromkeys(('train', *spec.splits) if needs_train else spec.splits))


def _count_finetune(spec, tokenizer, n_ctx):
    """{'rows', 'steps', 'tokens', 'eval_tokens', 'lengths', 'program'} of one run, padding included."""
    config = spec.config
    task = tasks.get(spec.task)
    n_ctx = config.data.n_ctx or n_ctx
    rows = {}
    for split in splits_read(spec):
        limit = config.data.train_rows if split == 'train' else config.data.eval_rows
        hashes = provenance.file_hashes(task.files(config.data.dir, split))
        rows[split] = splits_lib.load(task, config.data.dir, split, tokenizer, n_ctx, hashes, limit,
                                      config.data.skip_bad)
    sizes = batches.sizes_of(rows['train'] + rows['dev'], n_ctx, config.batch.lengths, config.batch.fixed_lengths)
    order = batches.epoch_order(rows['train'], config.seed, config.batch.size, sizes, config.batch.sort_window)
    tokens = [token_counts.of_epoch(rows['train'], order(epoch), sizes) for epoch in range(config.train.epochs)]
    scored = {split: _evaluation_tokens(rows[split], n_ctx, config.batch.eval_size, sizes) for split in spec.splits}
    evaluations_before_the_last = (config.train.epochs - 1) // config.train.evaluate_every
    return {
        'rows': len(rows['train']),
        'steps': config.train.epochs * batches.steps_per_epoch(rows['train'], config.batch.size),
        'tokens': sum(tokens),
        'eval_tokens': sum(scored.values()) + evaluations_before_the_last * scored['dev'],
        'lengths': list(sizes.lengths),
        'program': [task.head, len(task.labels), sizes.sequences]}


def _evaluation_tokens(rows, n_ctx, size, sizes):
    """Tokens of scoring a split; rows longer than all of training and dev get a length of their own."""
    own = batches.sizes_of(rows, n_ctx, 1)
    lengths = sorted({*sizes.lengths, *(n for n in own.lengths if n > max(sizes.lengths))})
    return token_counts.of_evaluation(rows, size, own._replace(lengths=tuple(lengths)))


def _count_zero_shot(spec, tokenizer, n_ctx):
    """{'rows', 'tokens', 'lengths', 'program'} of scoring one checkpoint, padding included."""
    config = spec.config
    heuristic = zero_shot_heuristics.get(spec.task)
    on_bad = [].append if config.data.skip_bad else fail
    rows = []
    for split in splits_read(spec):
        examples = splits_lib.choose(tasks.get(spec.task).read(config.data.dir, split, on_bad), config.data.rows)
        rows += zero_shot_heuristics.encode_all(heuristic, examples, tokenizer, n_ctx, f'{spec.task} {split}', on_bad)
    sequences = [(ids[-n_ctx:], n) for row in rows for ids, n in row.sequences]
    groups = padding.grouped(sequences, n_ctx)
    tokens = 0
    lengths = set()
    for size, shape, _ in padding.batches(groups, config.tokens_per_batch, sharding.make_mesh()):
        tokens += size * shape.tokens
        lengths.add(' x '.join(map(str, (size, *shape))))
    return {'rows': len(rows), 'tokens': tokens, 'lengths': sorted(lengths), 'program': ['score', 0, 1]}
