"""Section 4.1: turns text into what pretraining reads: a vocabulary and token shards.

    python -m gpt1_jax.prepare --out=DIR --corpus=books --valid=0.01                          # learns 40,000 merges
    python -m gpt1_jax.prepare --out=DIR --corpus=books --valid=valid_books --tokenizer=published \
        --encoder=encoder_bpe_40000.json --bpe=vocab_40000.bpe                                # the released vocabulary

    python -m gpt1_jax.prepare --out=DIR --corpus=books --valid=0.01 --tokenizer=VOCABULARY --part=2/8    # one of eight
    python -m gpt1_jax.prepare --out=DIR --merge                                              # once all are there

DIR then holds tokenizer/, train/ and valid/ (uint16 shards) and, written last, manifest.json. If it is killed, the same
command resumes. If it has finished, the same command compares the text and the shards with the manifest and repairs
what is damaged. It does not need jax.
"""
import os
from typing import Any

from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.data import bpe_training, encode, merging, parts, prepared, sources, tokens
from gpt1_jax.data.joining import Join
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, about
from gpt1_jax.runs import lock

_WORTH_A_PROCESS = 10_000_000  # characters; for fewer, starting a process (it imports spaCy) costs more than it saves


def prepare(out_dir: str | os.PathLike, corpus: sources.Source, valid: sources.Source | float,
            tokenizer: str | Tokenizer = 'train', encoder: str | None = None, bpe: str | None = None,
            merges: int | None = None, vocab_size: int | None = None, processes: int | None = None,
            text_field: str = 'text', shard_tokens: int = encode.SHARD_TOKENS, verify: bool = True,
            join: Join = Join(), characters: int | None = None, part: parts.Part | None = None) -> dict[str, Any]:
    """Writes a prepared directory and returns its manifest.

    corpus:     training text: specs (data/corpus.py), or Documents.
    valid:      validation text, likewise; or a fraction of the corpus' documents to hold out (`is_validation`).
    tokenizer:  'train' (on the training documents alone), 'published' (with `encoder` and `bpe`, the released files),
                the directory of a saved tokenizer, or a Tokenizer.
    merges, vocab_size: for 'train', see `bpe_training.train`. characters: for 'train', learn from documents chosen by
                hash that have at most so many characters together, so that counting words takes bounded memory.
    processes:  at most this many (default: one a core); a small corpus takes fewer. The result does not depend on it.
    verify:     whether to compare the hashes of a finished directory's text and shards, and not only their sizes
                (shards in an object store are always verified). Damaged shards are repaired.
    join:       which rows of Parquet, JSON lines and TFDS data form a document (data/joining.py).
    part:       prepare this part of the corpus alone, in out_dir/part-I-of-N, for `merge`; needs a tokenizer.
    A directory in an object store is written to the local disk (storage.cache), then uploaded.
    UserError for invalid arguments, if out_dir was begun with other inputs, if its text was edited since, and if
    another process is preparing it.
    """
    target = storage.path(out_dir)
    if part is not None:
        target = target / part.name
    with about(target):  # the name may be too long for the file system
        target.exists()
    splits, inputs, named = sources.splits(corpus, valid, text_field, join, part)
    if part is not None and tokenizer == 'train':
        raise UserError(f'--part={part} needs --tokenizer=DIR, the same for all parts: learn one from a file of the '
                        'corpus first')
    _processes(processes, 0)
    given, inputs['tokenizer'] = _tokenizer(tokenizer, encoder, bpe, merges, vocab_size, characters)
    inputs['shards'] = f'{shard_tokens} tokens'
    out = storage.cache(target) if storage.remote(target) else target
    for directory in {target, out}:
        prepared.check_inputs(directory, inputs)
    finished = prepared.finished_manifest(target)
    if finished and prepared.is_sound(target, finished, splits, shard_tokens, verify):
        return finished
    with lock.hold(target):
        for directory in {target, out}:  # another process may have begun and ended meanwhile
            prepared.check_inputs(directory, inputs)
        surveys = sources.survey(splits, named)
        at_most = {split: _processes(processes, survey.characters) for split, survey in surveys.items()}

        def make_tokenizer():
            if given is not None:
                return given
            documents, total = splits['train'](), surveys['train'].characters
            if characters is not None:
                documents, total = sources.sample(documents, characters, total), min(characters, total)
            return bpe_training.train(encode.count_words(documents, at_most['train'], total), merges, vocab_size)

        with about(out):
            tokenizer = prepared.saved_tokenizer(out, inputs, make_tokenizer)
            entries = _encode(splits, out, tokenizer, at_most, surveys, shard_tokens, finished, part is not None)
            manifest = finished or prepared.write_manifest(out, inputs, tokenizer, entries)
        if storage.remote(target):
            storage.upload(out, target, last=tokens.MANIFEST)
    return manifest


def _encode(splits, out, tokenizer, at_most, surveys, shard_tokens, finished, may_be_empty):
    """Writes the shards of each split; those of a finished directory that are sound stay. {split: manifest entry}."""
    entries = {}
    for split, documents in splits.items():
        expected = finished['splits'].get(split) if finished else None
        survey = surveys[split]
        entry = encode.encode(documents(), out / split, tokenizer, at_most[split], split, survey.characters,
                              shard_tokens, expected, may_be_empty)
        entries[split] = {**entry, 'bytes': survey.bytes, 'words': survey.words}
    return entries


def merge(out_dir: str | os.PathLike) -> dict[str, Any]:
    """Merges the parts in a directory (data/merging.py), and returns the manifest. UserError as there, and if another
    process works in the directory."""
    out = storage.path(out_dir)
    with lock.hold(out):
        return merging.merge(out)


def _processes(wanted, characters):
    """The number of processes for a text of so many characters."""
    if wanted is None:  # one a core that this process may use; macOS does not say which those are
        wanted = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    if wanted < 1:
        raise UserError(f'processes is {wanted}, must be at least 1')
    return min(wanted, 1 + characters // _WORTH_A_PROCESS)


def _tokenizer(chosen, encoder, bpe, merges, vocab_size, characters):
    """(the Tokenizer, or None if it is to be trained; its description for inputs.json)."""
    if characters is not None and (chosen != 'train' or characters < 1):
        raise UserError(f'tokenizer.characters is {characters}: must be at least 1, and is for --tokenizer=train')
    if chosen != 'train' and (merges is not None or vocab_size is not None):
        raise UserError('merges and vocab_size are for --tokenizer=train: a given vocabulary has its size')
    if chosen != 'published' and (encoder or bpe):
        raise UserError('encoder and bpe are for --tokenizer=published')
    if chosen == 'train':
        if merges is not None and vocab_size is not None:
            raise UserError(f'merges={merges} and vocab_size={vocab_size}: give one of the two')
        bpe_training.check_size(merges, vocab_size)
        learned_from = '' if characters is None else f' from {characters} characters'
        if vocab_size is not None:
            return None, f'trained, {vocab_size} rows{learned_from}'
        if merges is None:
            merges = bpe_training.MERGES
        return None, f'trained, {merges} merges{learned_from}'
    if chosen == 'published':
        if not encoder or not bpe:
            raise UserError('--tokenizer=published needs the released files: --encoder=encoder_bpe_40000.json '
                            '--bpe=vocab_40000.bpe')
        from gpt1_jax.data import published  # imports SentencePiece
        tokenizer = published.from_published(encoder, bpe)
    elif isinstance(chosen, Tokenizer):
        tokenizer = chosen
    else:
        tokenizer = Tokenizer.load(chosen)
    return tokenizer, f'{tokenizer.vocab_size} rows, fingerprint {tokenizer.fingerprint}'


def _define_flags():
    """Called by `main` alone, because other programs import this module and define flags of their own."""
    flags.DEFINE_string('out', None, 'directory to write', required=True)
    flags.DEFINE_multi_string('corpus', None, 'a file, directory, pattern, tfds:NAME:SPLIT[:FIELD] or "novels"; '
                              'may be given several times')
    flags.DEFINE_multi_string('valid', None, 'the same for validation text, or the fraction of documents to hold out')
    flags.DEFINE_string('tokenizer', 'train', 'train, published, or a directory that holds a tokenizer')
    flags.DEFINE_string('encoder', None, 'for --tokenizer=published: encoder_bpe_40000.json')
    flags.DEFINE_string('bpe', None, 'for --tokenizer=published: vocab_40000.bpe')
    flags.DEFINE_integer('merges', None, 'for --tokenizer=train: merges to learn (40000)')
    flags.DEFINE_integer('vocab_size', None, 'for --tokenizer=train: rows of the vocabulary, instead of merges')
    flags.DEFINE_integer('tokenizer_characters', None, 'for --tokenizer=train: learn from documents chosen by hash, '
                         'with at most so many characters (default: all)')
    flags.DEFINE_integer('processes', None, 'processes to tokenize with (default: one a core)')
    flags.DEFINE_bool('verify', True, 'of a finished directory: compare the contents of text and shards, too')
    cli.define_row_flags()
    flags.DEFINE_string('part', None, f'I/N: prepare part I, from 0, of N alone; /N: I is ${parts.KUBERNETES} or '
                        f'${parts.SLURM}')
    flags.DEFINE_bool('merge', False, 'merge the parts in --out; nothing else needs to be given')


def main() -> None:
    f = flags.FLAGS
    if f.merge:
        if f.corpus or f.valid or f.part:
            raise UserError('--merge takes --out alone: what the parts were made from is known')
        manifest = merge(f.out)
    else:
        if not f.corpus or f.valid is None:
            raise UserError('give --corpus=TEXT and --valid=TEXT or a fraction of the documents, or --merge')
        valid = f.valid[0] if len(f.valid) == 1 else f.valid
        manifest = prepare(f.out, f.corpus, valid, f.tokenizer, f.encoder, f.bpe, f.merges, f.vocab_size,
                           f.processes, f.text_field, verify=f.verify, join=cli.join(),
                           characters=f.tokenizer_characters, part=parts.parse(f.part))
    for split, entry in manifest['splits'].items():
        print(f'{split}: {entry["documents"]:,} documents, {entry["tokens"]:,} tokens, {entry["unknown"]:,} unknown, '
              f'{len(entry["shards"])} shards')
    print(f'{f.out}: vocabulary of {manifest["vocab_size"]:,} rows, fingerprint {manifest["fingerprint"][:16]}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
