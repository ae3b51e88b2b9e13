"""A prepared directory: tokenizer/, train/, valid/, inputs.json (what it is made from) and manifest.json (what it
holds), which is written last."""
import hashlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import encode, sources, tokens
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError

INPUTS = 'inputs.json'
PARTS = 'parts'  # in inputs.json: how many parts it was merged from


def check_inputs(out: storage.Path, inputs: dict[str, str]) -> None:
    """UserError if a directory was begun with other inputs or holds something else."""
    if not (out / INPUTS).exists():
        if (out / tokens.MANIFEST).exists() or (out / 'tokenizer').exists():
            raise UserError(f'{out}: holds something else (no {INPUTS} in it): choose another directory')
        return
    differing = differences(storage.read_json(out / INPUTS), inputs)
    if differing:
        raise UserError(f'{out} was prepared from other inputs: {"; ".join(differing)}: '
                        'choose another directory, or delete it')


def differences(before: Any, now: dict[str, Any], without: Iterable[str] = (PARTS,)) -> list[str]:
    """'NAME was X, now Y' of each input that differs; `without` names those that may. before: of inputs.json, perhaps
    damaged."""
    before = before if isinstance(before, dict) else {}
    return [f'{name} was {before.get(name)}, now {now.get(name)}' for name in now | before
            if name not in without and before.get(name) != now.get(name)]


def saved_tokenizer(out: storage.Path, inputs: dict[str, str], make: Callable[[], Tokenizer],
                    expected: str | None = None) -> Tokenizer:
    """The tokenizer in a directory; made and saved, with the inputs, if there is none, or a damaged one.

    expected: the fingerprint in a finished directory's manifest. UserError if the tokenizer that is made has another.
    """
    try:  # of an interrupted run with the same inputs
        tokenizer = Tokenizer.load(out / 'tokenizer')
        if tokenizer.fingerprint == (expected or tokenizer.fingerprint):
            return tokenizer
    except UserError as error:
        if (out / 'tokenizer').exists():
            _say(f'{error}: making it again')
    tokenizer = make()
    if tokenizer.fingerprint != (expected or tokenizer.fingerprint):
        raise UserError(f'{out}: the text gives another vocabulary now than it was prepared with: choose another '
                        'directory, or delete it')
    out.mkdir(parents=True, exist_ok=True)
    storage.write_json(out / INPUTS, inputs)
    tokenizer.save(out / 'tokenizer')
    return tokenizer


def write_manifest(out: storage.Path, inputs: dict[str, Any], tokenizer: Tokenizer,
                   entries: dict[str, dict]) -> dict[str, Any]:
    """Write manifest.json, and return it. entries: {split: what encode.encode returned, 'bytes' and 'words' of its
    text}."""
    fingerprint = hashlib.sha256(tokenizer.fingerprint.encode())  # the same for the same tokens
    for split, entry in entries.items():
        for shard in entry['shards']:
            fingerprint.update(f' {split} {shard["sha256"]}'.encode())
    manifest = {
        'format': tokens.FORMAT, 'inputs': inputs, 'tokenizer': tokenizer.fingerprint,
        'vocab_size': tokenizer.vocab_size, 'newline_id': tokenizer.newline_id, 'splits': entries,
        'fingerprint': fingerprint.hexdigest()}
    manifest['digest'] = tokens.digest(manifest)
    storage.write_json(out / tokens.MANIFEST, manifest)
    return manifest


def finished_manifest(directory: storage.Path) -> dict[str, Any] | None:
    """The manifest of a finished directory; None if there is none, or a damaged one, which is written again then."""
    if not (directory / tokens.MANIFEST).exists():
        return None
    try:
        return tokens.read_manifest(directory)
    except UserError as error:
        if storage.remote(directory):
            raise
        _say(f'{error}: making it again')
        return None


def is_sound(directory: storage.Path, manifest: dict, splits: sources.Splits, shard_tokens: int, verify: bool) -> bool:
    """Whether a finished directory matches its manifest: the sizes of its shards; with `verify`, the hashes of shards,
    text and tokenizer. UserError if it does not and is in an object store or merged."""
    merged = PARTS in manifest['inputs']
    try:
        for split in manifest['splits']:
            tokens.open_split(directory, split, verify=verify and merged)
        if storage.remote(directory) or merged or not verify:
            print(f'{directory}: prepared before; of the text files only names and sizes were compared, not the '
                  'contents', flush=True)
            return True
        tokenizer = Tokenizer.load(directory / 'tokenizer')
    except UserError as error:
        if merged:
            raise UserError(f'{error}: merge its parts again (--merge)') from None
        if storage.remote(directory):
            raise
        _say(f'{error}: making it again')
        return False
    sound = tokenizer.fingerprint == manifest['tokenizer'] and all(
        encode.holds(documents(), directory / split, tokenizer, shard_tokens, manifest['splits'].get(split))
        for split, documents in splits.items())
    if not sound:
        _say(f'{directory}: not as it was prepared: what is damaged is made again')
    return sound


def _say(line):
    print(line, file=sys.stderr, flush=True)
