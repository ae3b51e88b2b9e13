"""Section 4.1: merges the parts of a corpus that machines prepared side by side.

DIR/part-00000-of-00004 ... are prepared directories (parts.py, prepare.py). DIR becomes one too:
its manifest lists the shards of all parts, which stay where they are. They follow each other, so
the token stream equals the whole corpus' stream, cut into other shards.
"""

import re

from gpt1_jax import storage
from gpt1_jax.data import prepare, prepared
from gpt1_jax.data.parts import Part
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError

PART = re.compile(r'part-\d{5,9}-of-(\d{5,9})')  # Part.name


def merge(out: storage.Path) -> dict:
    """Merge the parts in a directory, and return the manifest.

    UserError if a part is missing, unfinished or damaged, if there are parts of different
    divisions, if the parts were made from different inputs or with different tokenizers, or if a
    split would be empty.
    """
    parts = _parts(out)
    inputs = _common_inputs(parts)
    tokenizer = Tokenizer.load(next(iter(parts)) / 'tokenizer')
    prepare.check_inputs(out, inputs)
    entries = {split: _entry(parts, split) for split in ('train', 'valid')}
    for split, entry in entries.items():
        if not entry['shards']:
            raise UserError(
                f'{out}: no part has a token for the {split} split: hold out more, or name '
                'validation text'
            )
    storage.write_json(out / prepare.INPUTS, inputs)
    tokenizer.save(out / 'tokenizer')
    return prepare.write_manifest(out, inputs, tokenizer, entries)


def _parts(out):
    """{directory: manifest} of all parts in a directory, which must be of one division."""
    counts = sorted(
        {int(match[1]) for entry in out.iterdir() if (match := PART.fullmatch(entry.name))}
    )
    if not counts:
        raise UserError(f'{out}: no part to merge: run gpt1 prepare --out={out} --part=I/N first')
    if len(counts) > 1:
        raise UserError(
            f'{out}: parts of {counts[0]} and of {counts[1]} are there: delete those that do not '
            'belong'
        )
    parts = [Part(index, counts[0]) for index in range(counts[0])]
    missing = [part for part in parts if not (out / part.name / prepared.MANIFEST).exists()]
    if missing:
        listed = ', '.join(str(part.index) for part in missing)
        raise UserError(
            f'{out}: part {listed} of {counts[0]} is missing or not finished: run it with '
            f'--part={missing[0]}'
        )
    return {out / part.name: prepared.read_manifest(out / part.name) for part in parts}


def _common_inputs(parts):
    """The inputs of all parts. UserError naming the first part whose inputs differ."""
    first = next(iter(parts.values()))['inputs']
    for part, manifest in parts.items():
        differing = prepare.differences(first, manifest['inputs'], without='part')
        if differing:
            raise UserError(
                f'{part} was prepared from other inputs than part 0: {"; ".join(differing)}'
            )
    inputs = {name: value for name, value in first.items() if name != 'part'}
    return {**inputs, prepare.PARTS: len(parts)}


def _entry(parts, split):
    """The entry of a split in the manifest: the shards of all parts, and the sums of the counts."""
    entries = [manifest['splits'][split] for manifest in parts.values()]
    listed = []
    for part, entry in zip(parts, entries):
        prepared.open_split(part, split, verify=True)
        listed += [{**shard, 'part': part.name} for shard in entry['shards']]
    counts = [name for name in entries[0] if name != 'shards']
    return {name: sum(entry[name] for entry in entries) for name in counts} | {'shards': listed}
