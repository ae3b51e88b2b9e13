"""Section 4.1: from text to what pretraining reads: a vocabulary and tokens.

    python -m gpt1_jax.prepare --out=DIR --corpus=books --valid=0.01                          # learns 40,000 merges
    python -m gpt1_jax.prepare --out=DIR --corpus=books --valid=valid_books --tokenizer=published \
        --encoder=encoder_bpe_40000.json --bpe=vocab_40000.bpe                                # the released vocabulary

DIR then holds tokenizer/, train/ and valid/ (uint16 shards) and, written last, manifest.json. Killed at any moment, the
same command goes on where it was; once finished, it returns at once. No jax here: it runs where there is none.
"""
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence

from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.data import corpus as corpus_lib
from gpt1_jax.data import encode, tokens
from gpt1_jax.data import tokenizer as tokenizer_lib
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, about

INPUTS = 'inputs.json'
_WORTH_A_PROCESS = 10_000_000  # characters; for less, starting one (it imports spaCy) costs more than it brings

Source = str | Sequence[str] | Iterable[Document]  # a spec or several (corpus.py), or the documents themselves


def prepare(out_dir: str | os.PathLike, corpus: Source, valid: Source | float, tokenizer: str | Tokenizer = 'train',
            encoder: str | None = None, bpe: str | None = None, merges: int | None = None,
            vocab_size: int | None = None, processes: int | None = None, text_field: str = 'text',
            shard_tokens: int = encode.SHARD_TOKENS) -> dict:
    """Writes a prepared directory and returns its manifest.

    corpus:     training text: specs (see data/corpus.py), or Documents.
    valid:      validation text, likewise; or a fraction of the corpus' documents, held out whole (`is_validation`).
    tokenizer:  'train' (on the training documents alone), 'published' (with `encoder` and `bpe`, the released files),
                a directory that holds a saved one, or a Tokenizer.
    merges, vocab_size: for 'train', see `tokenizer.train`.
    processes:  at most so many (default: one a core); a small corpus takes fewer. The result doesn't depend on it.
    A directory in an object store is written on this host (storage.cache), then uploaded.
    UserError for whatever is wrong with these, and when out_dir was begun with other inputs.
    """
    target = storage.path(out_dir)
    with about(target):  # a name that can be none
        target.exists()
    splits, inputs = _splits(corpus, valid, text_field)
    made, inputs['tokenizer'] = _tokenizer(tokenizer, encoder, bpe, merges, vocab_size)
    inputs['shards'] = f'{shard_tokens} tokens'
    out = storage.cache(target) if storage.remote(target) else target
    for directory in {target, out}:
        _compare(directory, inputs)
    if (target / tokens.MANIFEST).exists():
        manifest = tokens.read_manifest(target)
        for split in manifest['splits']:
            tokens.open_split(target, split)
        return manifest

    found = {split: _survey(split, documents()) for split, documents in splits.items()}
    at_most = {split: _processes(processes, survey.characters) for split, survey in found.items()}
    with about(out):
        out.mkdir(parents=True, exist_ok=True)
    if (out / 'tokenizer' / tokenizer_lib.SETTINGS_FILE).exists():  # an interrupted run of the same inputs
        made = Tokenizer.load(out / 'tokenizer')
    else:
        if made is None:
            counts = encode.count_words(splits['train'](), at_most['train'], found['train'].characters)
            made = tokenizer_lib.train(counts, merges, vocab_size)
        encode.write_json(out / INPUTS, inputs)
        made.save(out / 'tokenizer')
    entries = {split: encode.encode(documents(), out / split, made, at_most[split], split, found[split].characters,
                                    shard_tokens) for split, documents in splits.items()}
    manifest = {
        'format': tokens.FORMAT, 'inputs': inputs, 'tokenizer': made.fingerprint, 'vocab_size': made.vocab_size,
        'newline_id': made.newline_id, 'splits': entries, 'fingerprint': _fingerprint(made, entries)}
    manifest['digest'] = tokens.digest(manifest)
    encode.write_json(out / tokens.MANIFEST, manifest)
    if storage.remote(target):
        storage.upload(out, target, last=tokens.MANIFEST)
    return manifest


@dataclasses.dataclass(frozen=True)
class Survey:
    """What a split holds."""
    documents: int
    characters: int


def _survey(split, documents):
    """Reads all of a split once before hours are spent on it: whatever cannot be read is found now."""
    count = characters = 0
    for document in documents:
        count += 1
        characters += len(document.text)
    if not count:
        raise UserError(f'no document is left for the {split} split')
    return Survey(count, characters)


def _processes(wanted, characters):
    if wanted is None:
        wanted = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    if wanted < 1:
        raise UserError(f'processes is {wanted}, must be at least 1')
    return min(wanted, 1 + characters // _WORTH_A_PROCESS)


def _splits(corpus, valid, field):
    """{split: () -> its documents}, and what they are made from: {name: description}."""
    if valid is None or isinstance(valid, str) and not valid.strip():
        raise UserError('valid: name validation text, or a fraction of the documents to hold out, such as 0.01')
    fraction = _fraction(valid)
    corpus, corpus_is = _source(corpus, field)
    if fraction is None:
        valid, valid_is = _source(valid, field)
        _refuse_overlap(corpus, valid)
        splits = {'train': lambda: _documents(corpus, field), 'valid': lambda: _documents(valid, field)}
        return splits, {'corpus': corpus_is, 'valid': valid_is}

    def held_out(wanted):
        def select() -> Iterator[Document]:
            number = selected = 0
            for number, document in enumerate(_documents(corpus, field), 1):
                if corpus_lib.is_validation(document, fraction) == wanted:
                    selected += 1
                    yield document
            if not selected:
                raise UserError(f'valid={fraction} of the corpus\' {number} documents holds out '
                                f'{"none" if wanted else "all"}: choose another fraction, or name validation text')
        return select

    return ({'train': held_out(False), 'valid': held_out(True)},
            {'corpus': corpus_is, 'valid': f'{fraction} of the documents'})


def _fraction(valid):
    """0.1 or '0.1' -> 0.1; None for anything that isn't a number."""
    try:
        fraction = float(valid)
    except (TypeError, ValueError):
        return None
    if not 0 < fraction < 1:
        raise UserError(f'valid is {valid}: as a fraction of the documents it must lie between 0 and 1')
    return fraction


def _source(given, field):
    """A source -> (sources, or the tuple of documents; its description, in which a change of the text shows)."""
    if not isinstance(given, (str, os.PathLike)):
        given = tuple(given)
        if given and all(isinstance(one, Document) for one in given):
            digest = hashlib.sha256()
            for document in given:
                digest.update(f'{len(document.text)} '.encode() + document.text.encode('utf-8', 'surrogatepass'))
            return given, f'{len(given)} documents, SHA-256 {digest.hexdigest()}'
        if not all(isinstance(one, (str, os.PathLike)) for one in given):
            raise UserError('corpus, valid: must be names of files or other sources, or Documents, not a mixture')
    sources = corpus_lib.sources(given)
    # Names and sizes, which cost nothing to look at; what they hold is hashed where shards are kept.
    files = [(os.path.basename(one), os.path.getsize(one)) for one in sources if corpus_lib.is_file(one)]
    others = [one for one in sources if not corpus_lib.is_file(one)]
    if files:
        digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
        others.append(f'{len(files)} files of {sum(size for _, size in files)} bytes, names and sizes {digest[:16]}')
        if any('.json' in name for name, _ in files):
            others.append(f'field {field!r}')
    return sources, ', '.join(others)


def _documents(source, field):
    return iter(source) if isinstance(source, tuple) else corpus_lib.documents(source, field)


def _refuse_overlap(corpus, valid):
    """UserError when a document or a file is in both."""
    if isinstance(corpus, tuple) != isinstance(valid, tuple):
        return
    if isinstance(corpus, tuple):
        trained_on = {document.text for document in corpus}
        shared = next((document.name for document in valid if document.text in trained_on), None)
    else:
        trained_on = {os.path.realpath(one) if corpus_lib.is_file(one) else one for one in corpus}
        shared = next((one for one in valid
                       if (os.path.realpath(one) if corpus_lib.is_file(one) else one) in trained_on), None)
    if shared is not None:
        raise UserError(f'{shared} is both in corpus and in valid: validation text must not be trained on')


def _tokenizer(chosen, encoder, bpe, merges, vocab_size):
    """(the Tokenizer, or None where it is to be trained; its description)."""
    if chosen != 'train' and (merges is not None or vocab_size is not None):
        raise UserError('merges and vocab_size are for --tokenizer=train: a given vocabulary has its size')
    if chosen != 'published' and (encoder or bpe):
        raise UserError('encoder and bpe are for --tokenizer=published')
    if chosen == 'train':
        if merges is not None and vocab_size is not None:
            raise UserError(f'merges={merges} and vocab_size={vocab_size}: give one of the two')
        if vocab_size is not None:
            return None, f'trained, {vocab_size} rows'
        return None, f'trained, {tokenizer_lib.MERGES if merges is None else merges} merges'
    if chosen == 'published':
        if not encoder or not bpe:
            raise UserError('--tokenizer=published needs the released files: --encoder=encoder_bpe_40000.json '
                            '--bpe=vocab_40000.bpe')
        from gpt1_jax.data import published  # imports SentencePiece
        made = published.from_published(encoder, bpe)
    elif isinstance(chosen, Tokenizer):
        made = chosen
    else:
        made = Tokenizer.load(chosen)
    return made, f'{made.vocab_size} rows, fingerprint {made.fingerprint}'


def _compare(out, inputs):
    """UserError when the directory was begun with other inputs."""
    file = out / INPUTS
    if not file.exists():
        if (out / tokens.MANIFEST).exists() or (out / 'tokenizer').exists():
            raise UserError(f'{out}: holds something else (no {INPUTS} in it): choose another directory')
        return
    try:
        before = dict(json.loads(storage.read(file)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f'{file}: damaged ({error}): delete {out} or choose another directory') from None
    differing = [f'{name} was {before.get(name)}, now {inputs[name]}' for name in inputs
                 if before.get(name) != inputs[name]]
    if differing:
        raise UserError(f'{out} was prepared from other inputs: {"; ".join(differing)}: '
                        'choose another directory, or delete it')


def _fingerprint(tokenizer, entries):
    """What makes two prepared directories the same: the tokenizer and every shard."""
    digest = hashlib.sha256(tokenizer.fingerprint.encode())
    for split, entry in entries.items():
        for shard in entry['shards']:
            digest.update(f' {split} {shard["sha256"]}'.encode())
    return digest.hexdigest()


def _define_flags():
    """Here and not above: other entry points import this file and have flags of their own."""
    flags.DEFINE_string('out', None, 'directory to write', required=True)
    flags.DEFINE_multi_string('corpus', None, 'a file, directory, pattern, tfds:NAME:SPLIT[:FIELD] or "documentation"; '
                              'may be given several times', required=True)
    flags.DEFINE_string('valid', None, 'the same for validation text, or the fraction of documents to hold out',
                        required=True)
    flags.DEFINE_string('tokenizer', 'train', 'train, published, or a directory that holds a tokenizer')
    flags.DEFINE_string('encoder', None, 'for --tokenizer=published: encoder_bpe_40000.json')
    flags.DEFINE_string('bpe', None, 'for --tokenizer=published: vocab_40000.bpe')
    flags.DEFINE_integer('merges', None, 'for --tokenizer=train: merges to learn (40000)')
    flags.DEFINE_integer('vocab_size', None, 'for --tokenizer=train: rows of the vocabulary, instead of merges')
    flags.DEFINE_integer('processes', None, 'processes to tokenise with (as many as there are cores)')
    flags.DEFINE_string('text_field', 'text', 'field of a .jsonl record that holds its text')


def main():
    f = flags.FLAGS
    manifest = prepare(f.out, f.corpus, f.valid, f.tokenizer, f.encoder, f.bpe, f.merges, f.vocab_size, f.processes,
                       f.text_field)
    for split, entry in manifest['splits'].items():
        print(f'{split}: {entry["documents"]:,} documents, {entry["tokens"]:,} tokens, {entry["unknown"]:,} unknown, '
              f'{len(entry["shards"])} shards')
    print(f'{f.out}: vocabulary of {manifest["vocab_size"]:,} rows, fingerprint {manifest["fingerprint"][:16]}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
