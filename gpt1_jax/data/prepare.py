"""Section 4.1: prepares text for pretraining: learns or loads a vocabulary, writes token shards and
a manifest.

A prepared directory has tokenizer/, train/, valid/, inputs.json (its sources and settings) and
manifest.json (its contents), which is written last.
"""

import dataclasses
import hashlib
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import bpe_training, encode, parts, prepared, shards, sources
from gpt1_jax.data.corpus import Join
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError

INPUTS = 'inputs.json'
PARTS = 'parts'  # in inputs.json: how many parts it was merged from


@dataclasses.dataclass(frozen=True)
class PrepareConfig:
    """The text to prepare, and the settings. UserError for values that exclude each other.

    corpus:      training text: specs (data/corpus.py), or Documents.
    valid:       validation text in the same form, or a fraction of the corpus' documents to hold
                 out (`is_validation`).
    tokenizer:   'train' (on the training documents only), 'published' (with `encoder` and `bpe`,
                 the released files), the directory of a run or a saved tokenizer, or a Tokenizer.
    merges, vocab_size: for 'train', see `bpe_training.train`.
    characters:  for 'train': learn from documents chosen by hash that have at most so many
                 characters together, so that counting words takes bounded memory.
    processes:   the most processes (default: one for each core). A small corpus takes fewer. The
                 result does not depend on their number.
    verify:      whether to compare the hashes of a finished directory's text and shards, and not
                 only their sizes (shards in an object store are always verified).
    join:        which rows of Parquet, JSON lines and TFDS data form a document (data/corpus.py).
    part:        prepare only this part of the corpus, in out/part-I-of-N, for `merging.merge`.
                 Needs a tokenizer.
    split_files: whether to read files in the corpus' directories whose names say validation or test
                 data. None reads them and prints a notice.
    skip_bad:    whether to leave out and count rows without a text. By default the first such row
                 is an error.
    """

    corpus: sources.Source
    valid: sources.Source | float
    tokenizer: str | Tokenizer = 'train'
    encoder: str | None = None
    bpe: str | None = None
    merges: int | None = None
    vocab_size: int | None = None
    processes: int | None = None
    text_field: str = 'text'
    shard_tokens: int = encode.SHARD_TOKENS
    verify: bool = True
    join: Join = Join()
    characters: int | None = None
    part: parts.Part | None = None
    split_files: bool | None = None
    skip_bad: bool = False

    def __post_init__(self):
        train = self.tokenizer == 'train'
        sizes = (self.merges, self.vocab_size, self.characters)
        files = [file for file in (self.encoder, self.bpe) if file]
        for wrong, message in (
            (
                train and self.part,
                f'--part={self.part} needs --tokenizer=DIR, the same for all parts: learn one from '
                'a file of the corpus first',
            ),
            (
                self.processes is not None and self.processes < 1,
                f'processes is {self.processes}, must be at least 1',
            ),
            (
                self.characters is not None and self.characters < 1,
                f'characters of the tokenizer is {self.characters}, must be at least 1',
            ),
            (
                not train and sizes != (None, None, None),
                'a vocabulary that is given has its size: leave merges, vocab_size and characters '
                'out (vocab_size=None where a config sets it)',
            ),
            (
                self.merges is not None and self.vocab_size is not None,
                f'merges={self.merges} and vocab_size={self.vocab_size}: give one of the two',
            ),
            (
                len(files) != (2 if self.tokenizer == 'published' else 0),
                'the published vocabulary, and no other, needs the released files: '
                'encoder=encoder_bpe_40000.json and bpe=vocab_40000.bpe',
            ),
        ):
            if wrong:
                raise UserError(message)
        if train:
            bpe_training.vocabulary_size(self.merges, self.vocab_size)


def prepare(
    config: PrepareConfig,
    out: storage.Path,
    lock: Callable[[storage.Path], AbstractContextManager],
    replace: bool = False,
) -> dict[str, Any]:
    """Writes a prepared directory, or finishes the one there, and returns its manifest.

    Shards of a directory that was begun, or that has a damaged file, are kept as far as they match
    the text.

    lock:    runs.lock.hold, which a module of data cannot import.
    replace: make a directory that was prepared from other inputs again. By default such a directory
             is an error.
    A directory in an object store is written to the local disk (storage.cache), then uploaded.
    UserError if `out` was begun with other inputs, if its text was edited since, or if another
    process prepares it.
    """
    target = out if config.part is None else out / config.part.name
    splits, inputs, named = sources.splits(
        config.corpus,
        config.valid,
        config.text_field,
        config.join,
        config.part,
        config.split_files,
        config.skip_bad,
    )
    given, inputs['tokenizer'] = _tokenizer(config)
    inputs['shards'] = f'{config.shard_tokens} tokens'
    local = storage.local(target)
    if replace and target == local:
        _remove_other(target, inputs, lock)
    for directory in {target, local}:
        check_inputs(directory, inputs)
    finished = finished_manifest(target)
    if finished and is_sound(target, finished, splits, config.shard_tokens, config.verify):
        return finished
    with lock(target):
        for directory in {target, local}:  # another process may have begun and ended meanwhile
            check_inputs(directory, inputs)
        if finished:
            (target / prepared.MANIFEST).unlink()
        surveys = sources.survey(splits, named, config.part)
        processes = {
            name: encode.n_processes(config.processes, survey.characters)
            for name, survey in surveys.items()
        }

        def make_tokenizer():
            if given is not None:
                return given
            documents = splits['train']()
            total = surveys['train'].characters
            if config.characters is not None:
                documents = sources.sample(documents, config.characters, total)
                total = min(config.characters, total)
            words = encode.count_words(documents, processes['train'], total)
            return bpe_training.train(words, config.merges, config.vocab_size)

        tokenizer = saved_tokenizer(local, inputs, make_tokenizer)
        entries = {}
        for split, documents in splits.items():
            survey = surveys[split]
            entry = encode.encode(
                sources.as_surveyed(documents(), split, survey),
                local / split,
                tokenizer,
                processes[split],
                split,
                survey.characters,
                config.shard_tokens,
            )
            # There were words, but all were markup, such as '&nbsp;'
            if not entry['tokens'] and config.part is None:
                raise UserError(f'{split}: {survey.documents} documents without a token')
            entries[split] = {**entry, 'bytes': survey.bytes, 'words': survey.words}
        manifest = write_manifest(local, inputs, tokenizer, entries)
        if storage.remote(target):
            storage.upload(local, target, last=prepared.MANIFEST)
    return manifest


def _remove_other(directory, inputs, lock):
    """Removes a directory that was prepared from other inputs."""
    differing = _other_inputs(directory, inputs)
    if differing:
        sources.say(
            f'{directory}: prepared from other inputs ({"; ".join(differing)}): making it again'
        )
        with lock(directory):
            for name in (prepared.MANIFEST, INPUTS):
                (directory / name).unlink(missing_ok=True)
            for name in ('tokenizer', 'train', 'valid'):
                shutil.rmtree(directory / name, ignore_errors=True)


def _tokenizer(config) -> tuple[Tokenizer | None, str]:
    """(the tokenizer, or None if it is to be trained, and its description in inputs.json)."""
    if config.tokenizer == 'train':
        sample = '' if config.characters is None else f' from {config.characters} characters'
        size = f'{bpe_training.MERGES if config.merges is None else config.merges} merges'
        if config.vocab_size is not None:
            size = f'{config.vocab_size} rows'
        return None, f'trained, {size}{sample}'
    if isinstance(config.tokenizer, Tokenizer):
        given = config.tokenizer
    elif config.tokenizer == 'published':
        from gpt1_jax.data import published  # imports SentencePiece

        given = published.from_published(config.encoder, config.bpe)
    else:
        given = Tokenizer.load(config.tokenizer)
    return given, f'{given.vocab_size} rows, fingerprint {given.fingerprint}'


def check_inputs(out: storage.Path, inputs: dict[str, str]) -> None:
    """UserError if a directory was begun with other inputs or holds something else."""
    if not (out / INPUTS).exists() and (
        (out / prepared.MANIFEST).exists() or (out / 'tokenizer').exists()
    ):
        raise UserError(
            f'{out}: holds something else (no {INPUTS} in it): choose another directory'
        )
    differing = _other_inputs(out, inputs)
    if differing:
        raise UserError(
            f'{out} was prepared from other inputs: {"; ".join(differing)}: {_way_out(out)}'
        )


def _way_out(directory):
    """Advice for a directory that was prepared from other text.

    A run needs the text that it began with.
    """
    run = directory.parent
    if (run / 'config.json').exists() and any((run / 'checkpoints').glob('*')):
        return (
            f'the run in {run} continues with the text that it began with where config.data.corpus '
            'is left out; other text needs a new --workdir'
        )
    return 'choose another directory, or delete it'


def _other_inputs(directory, inputs):
    """The differences between `inputs` and the inputs in a directory, [] if it has none."""
    if not (directory / INPUTS).exists():
        return []
    before = storage.read_json(directory / INPUTS)
    return differences(before if isinstance(before, dict) else {}, inputs)


def differences(before: dict[str, Any], now: dict[str, Any], without: str = PARTS) -> list[str]:
    """'NAME was X, now Y' for each input that differs. `without` names an input that may differ."""
    return [
        f'{name} was {before.get(name)}, now {now.get(name)}'
        for name in now | before
        if name != without and before.get(name) != now.get(name)
    ]


def saved_tokenizer(
    out: storage.Path, inputs: dict[str, str], make: Callable[[], Tokenizer]
) -> Tokenizer:
    """Returns the tokenizer in a directory.

    If the tokenizer is missing or damaged, it is made and saved, with the inputs.
    """
    try:  # perhaps an interrupted run with the same inputs saved it
        return Tokenizer.load(out / 'tokenizer')
    except UserError as error:
        if (out / 'tokenizer').exists():
            sources.say(f'{error}: making it again')
    tokenizer = make()
    storage.mkdir(out)
    storage.write_json(out / INPUTS, inputs)
    tokenizer.save(out / 'tokenizer')
    return tokenizer


def write_manifest(
    out: storage.Path, inputs: dict[str, Any], tokenizer: Tokenizer, entries: dict[str, dict]
) -> dict[str, Any]:
    """Write manifest.json, and return it.

    entries: {split: the result of encode.encode, with 'bytes' and 'words' of the text}.
    """
    fingerprint = hashlib.sha256(tokenizer.fingerprint.encode())  # the same for the same tokens
    for split, entry in entries.items():
        for shard in entry['shards']:
            fingerprint.update(f' {split} {shard["sha256"]}'.encode())
    manifest = {
        'format': prepared.FORMAT,
        'inputs': inputs,
        'tokenizer': tokenizer.fingerprint,
        'vocab_size': tokenizer.vocab_size,
        'newline_id': tokenizer.newline_id,
        'splits': entries,
        'fingerprint': fingerprint.hexdigest(),
    }
    manifest['digest'] = prepared.digest(manifest)
    storage.write_json(out / prepared.MANIFEST, manifest)
    return manifest


def finished_manifest(directory: storage.Path) -> dict[str, Any] | None:
    """The manifest of a finished directory.

    None if the manifest is missing or damaged. A damaged manifest is then written again; in an
    object store it is a UserError.
    """
    if not (directory / prepared.MANIFEST).exists():
        return None
    try:
        return prepared.read_manifest(directory)
    except UserError as error:
        if storage.remote(directory):
            raise
        sources.say(f'{error}: making it again')
        return None


def is_sound(
    directory: storage.Path, manifest: dict, splits: sources.Splits, shard_tokens: int, verify: bool
) -> bool:
    """Whether a finished directory matches its manifest. A damaged file is named.

    Compares the sizes of the shards, and with `verify` the hashes of shards, text and tokenizer.
    UserError if a directory that was merged or is in an object store does not match, or if the text
    was edited since.
    """
    merged = PARTS in manifest['inputs']
    try:
        for split in manifest['splits']:
            prepared.open_split(directory, split, verify=verify)
        if storage.remote(directory) or merged or not verify:
            print(
                f'{directory}: prepared before; of the text files only names and sizes were '
                'compared, not the contents',
                flush=True,
            )
            return True
        tokenizer = Tokenizer.load(directory / 'tokenizer')
        if tokenizer.fingerprint != manifest['tokenizer']:
            raise UserError(f'{directory}/tokenizer: not the one in the manifest')
        for split, entry in manifest['splits'].items():
            for shard in entry['shards']:
                file = directory / split / shard['file']
                if shards.read_record(file).get('sha256') != shard['sha256']:
                    raise UserError(f'{file.with_suffix(".json")}: damaged')
    except UserError as error:
        if merged:
            raise UserError(f'{error}: merge its parts again (--merge)') from None
        if storage.remote(directory):
            raise
        sources.say(f'{error}: the text is prepared again')
        return False
    for split, documents in splits.items():
        entry = manifest['splits'].get(split)
        if not encode.holds(documents(), directory / split, tokenizer, shard_tokens, entry):
            raise UserError(
                f'{directory / split}: the text is not what it was prepared from (it was edited, a '
                'record is damaged, or spaCy or ftfy is another version): choose another '
                f'directory, or delete {directory}'
            )
    return True
