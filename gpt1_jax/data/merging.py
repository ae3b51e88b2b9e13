"""Section 4.1: the parts of a corpus that machines prepared side by side, merged to one prepared directory.

DIR/part-00000-of-00004 ... are prepared directories (parts.py, prepare.py). Their shards follow each other: the token
stream is that of the whole corpus, cut into other shards. Shards are hard links where the file system has them, so the
parts may be deleted afterwards.
"""
import hashlib
import os
import re
import shutil

from gpt1_jax import storage
from gpt1_jax.data import prepared, shards, tokens
from gpt1_jax.data.parts import Part
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError

PART = re.compile(r'part-(\d{5,9})-of-(\d{5,9})')


def merge(out: storage.Path) -> dict:
    """Merge the parts in a directory, and return the manifest. Merging again repairs damaged shards.

    UserError if a part is missing, unfinished or damaged, if parts of different divisions are there, if parts were made
    from other inputs or with another tokenizer, and if a split would be empty.
    """
    parts = _parts(out)
    manifests = [_finished(out, part) for part in parts]
    inputs = _common_inputs(out, parts, manifests)
    tokenizer = Tokenizer.load(out / parts[0].name / 'tokenizer')
    prepared.check_inputs(out, inputs)
    entries = {}
    for split in manifests[0]['splits']:
        own = [manifest['splits'][split] for manifest in manifests]
        if not any(entry['shards'] for entry in own):
            raise UserError(f'{out}: no part has a token for the {split} split: hold out more, or name validation text')
        entries[split] = _merge_split(out, split, parts, own)
    storage.write_json(out / prepared.INPUTS, inputs)
    tokenizer.save(out / 'tokenizer')
    return prepared.write_manifest(out, inputs, tokenizer, entries)


def _parts(out):
    """All parts of the one division that a directory holds."""
    names = [entry.name for entry in out.iterdir()]
    found = [Part(int(match[1]), int(match[2])) for match in map(PART.fullmatch, names) if match]
    counts = sorted({part.count for part in found})
    if not counts:
        raise UserError(f'{out}: no part to merge: run python -m gpt1_jax.prepare --out={out} --part=I/N first')
    if len(counts) > 1:
        raise UserError(f'{out}: parts of {counts[0]} and of {counts[1]} are there: delete those that do not belong')
    missing = sorted(set(range(counts[0])) - {part.index for part in found})
    if missing:
        listed = ', '.join(map(str, missing[:10])) + (', ...' if len(missing) > 10 else '')
        raise UserError(f'{out}: part {listed} of {counts[0]} is missing: run it with --part={missing[0]}/{counts[0]}')
    return sorted(found, key=lambda part: part.index)


def _finished(out, part):
    """The manifest of a part."""
    if not (out / part.name / tokens.MANIFEST).exists():
        raise UserError(f'{out / part.name}: not finished: run it again with --part={part}')
    return tokens.read_manifest(out / part.name)


def _common_inputs(out, parts, manifests):
    """What all parts were made from. UserError naming the first that differs."""
    first = manifests[0]
    for part, manifest in zip(parts, manifests):
        if manifest['tokenizer'] != first['tokenizer']:
            raise UserError(f"{out / part.name}: its tokenizer is another one ({manifest['tokenizer'][:16]}) than that "
                            f"of part 0 ({first['tokenizer'][:16]}): give all parts the same --tokenizer=DIR")
        differing = prepared.differences(first['inputs'], manifest['inputs'], without=('part',))
        if differing:
            raise UserError(f'{out / part.name} was prepared from other inputs than part 0: {"; ".join(differing)}')
    inputs = {name: value for name, value in first['inputs'].items() if name != 'part'}
    return {**inputs, prepared.PARTS: len(parts)}


def _merge_split(out, split, parts, entries):
    """The merged entry of a split, once its shards are there."""
    storage.mkdir(out / split)
    merged = []
    for part, entry in zip(parts, entries):
        for shard in entry['shards']:
            name = shards.name(len(merged))
            source, target = out / part.name / split / shard['file'], out / split / name
            _place(source, target, shard['sha256'])
            merged.append({**shard, 'file': name})
    if not storage.remote(out):
        shards.remove_others(out / split, len(merged))
    totals = {name: sum(entry[name] for entry in entries) for name in ('documents', 'tokens', 'unknown')}
    sizes = {name: sum(entry[name] for entry in entries) for name in ('bytes', 'words')}
    return {**totals, 'shards': merged, **sizes}


def _place(source, target, expected):
    """A shard under another name, as a hard link or a copy. UserError if it differs from its part's manifest."""
    if storage.remote(target):  # downloaded once
        data = storage.read(source)
        found = hashlib.sha256(data).hexdigest()
    else:
        found = storage.sha256(source)
    if found != expected:
        raise UserError(f'{source}: damaged, its SHA-256 is not the one in its manifest: run its part again')
    if storage.remote(target):
        storage.write(target, data)
        return
    partial = target.with_name(f'{target.name}.partial')
    partial.unlink(missing_ok=True)
    try:
        os.link(source, partial)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, partial)
    os.replace(partial, target)
