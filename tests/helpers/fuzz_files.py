"""Fuzz targets for files other than labelled sets (fuzz_sets.py): small valid files, the functions
that read them, and the expected results."""

import bz2
import dataclasses
import gzip
import io
import json
import math
import pathlib
import struct
import tempfile
import warnings
from collections.abc import Callable
from unittest import mock

import numpy as np
import pyarrow
import pyarrow.parquet
import safetensors.numpy
from hypothesis import strategies as st

import damages
import released
from gpt1_jax import metrics
from gpt1_jax.data import corpus, published, tokenizer, windows
from gpt1_jax.data.prepared import open_split, read_manifest
from gpt1_jax.errors import UserError, os_errors_in_one_line
from gpt1_jax.evaluation import score_predictions
from gpt1_jax.runs import results
from gpt1_jax.weights import hugging_face, import_run, tokenizer_json
from gpt1_jax.weights import names as names_lib
from own_sets import lines


@dataclasses.dataclass(frozen=True)
class Target:
    """A target.

    files: {path under the directory: content}, valid together. read: directory -> any result, with
    asserts. Raises UserError if it refuses the files. named: the directory is in every message.
    """

    name: str
    files: dict[str, bytes]
    read: Callable[[pathlib.Path], object]
    named: bool = True


def write(files, directory):
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def one_input(targets, draw, directory):
    """Writes a target's files, one of them changed, and reads them."""
    names = [target.name for target in targets]
    target = targets[names.index(draw(st.sampled_from(names)))]
    directory = directory / draw(st.sampled_from(damages.ODD_NAMES))
    changed = draw(st.sampled_from(sorted(target.files)))
    content = target.files[changed]
    is_json = changed.endswith(('.json', '.jsonl')) or content[:1] == b'{'
    write(target.files | {changed: damages.data(draw, content, is_json)}, directory)
    if draw(st.sampled_from((*[False] * 12, True))):
        damages.place(draw, directory / changed)
    try:
        with os_errors_in_one_line():
            target.read(directory)
    except UserError as error:
        assert directory.parent.name in str(error) or not target.named, error
        raise


def is_one_line(message):
    return isinstance(message, str) and message.isprintable() and 0 < len(message) <= 3000


def copied(root) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob('*'))
        if path.is_file()
    }


def written(write) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        write(pathlib.Path(name))
        return copied(pathlib.Path(name))


# Vocabularies


def tokenizers(world):
    """A saved tokenizer, the two published files, and Hugging Face's file made from them."""
    pair = written(released.vocabulary)

    def from_pair(directory):
        return published.from_published(
            directory / 'encoder_bpe_40000.json', directory / 'vocab_40000.bpe'
        )

    def theirs(root):
        write(pair, root)
        (root / 'tokenizer.json').write_bytes(
            tokenizer_json.files(from_pair(root), 8)['tokenizer.json']
        )

    return [
        Target(
            'tokenizer',
            written(lambda root: world.vocabulary.save(root / 'tokenizer')),
            lambda directory: encodes(tokenizer.Tokenizer.load(directory / 'tokenizer')),
        ),
        Target('published vocabulary', pair, lambda directory: encodes(from_pair(directory))),
        Target(
            'tokenizer.json',
            {'tokenizer.json': written(theirs)['tokenizer.json']},
            lambda directory: encodes(published.from_tokenizer_json(directory / 'tokenizer.json')),
        ),
    ]


def encodes(vocabulary):
    """A vocabulary that was accepted works."""
    for text in ('The cat sat.\nThe rat! abc naïve \u2581 \U0001f600 \ufffe\uffff', 'abc\nb'):
        ids = vocabulary.encode(text)
        assert ids and all(0 <= i < vocabulary.vocab_size for i in ids)
        assert isinstance(
            vocabulary.decode([*ids, vocabulary.start_id, vocabulary.extract_id]), str
        )
    assert (
        vocabulary.vocab_size <= tokenizer.LARGEST_VOCABULARY
        and 0 <= vocabulary.newline_id < vocabulary.vocab_size
    )


# Weights of other programs


def weights():
    """A Hugging Face directory, with the header of its weights as a separate file."""
    given = released.arrays(n_ctx=8, n_embd=4, n_layer=1)
    content = safetensors.numpy.save(
        {f'transformer.{name}': x for name, x in released.hugging_face(given).items()}
    )
    values = 8 + struct.unpack('<Q', content[:8])[0]
    config = names_lib.FIXED | {'n_head': 2, 'n_layer': 1, 'n_embd': 4, 'attn_pdrop': 0.1}
    theirs = {
        'header.json': content[8:values],
        'values': content[values:],
        'config.json': json.dumps(config).encode(),
        **written(released.vocabulary),
    }

    def taken(out, origin, config, make, tokenizer, hashes, left_out=()):
        arrays = names_lib.from_tree(config['model'], make())
        for name, shape in names_lib.shapes(config['model']).items():
            array = arrays[name]
            assert array.shape == shape and array.dtype == np.float32 and np.isfinite(array).all()
        assert tokenizer.vocab_size == config['model']['vocab_size'] and len(hashes) > 2
        assert all(map(is_one_line, left_out))

    def read(directory):
        with os_errors_in_one_line():
            header, values = ((directory / name).read_bytes() for name in ('header.json', 'values'))
            (directory / 'model.safetensors').write_bytes(
                struct.pack('<Q', len(header)) + header + values
            )
        with mock.patch.object(import_run, 'save', taken):
            hugging_face.convert(directory, directory / 'run', n_head=2)

    return [Target('safetensors', theirs, read)]


# Corpora and prepared tokens


def corpora():
    rows = lines([{'text': 'One cat.'}, {'text': 'Two cats.\nAnd a dog.', 'n': 1}]).encode()
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table({'text': ['One cat.', 'Two cafés.'] * 9, 'n': range(18)}),
        parquet,
        row_group_size=5,
        write_page_checksum=True,
    )
    files = {
        'books/a.txt': 'The café.\nIt is closed.\n'.encode(),
        'books/b.txt.gz': gzip.compress(b'A zipped text.\n' * 9),
        'books/c.jsonl': rows,
        'books/d.jsonl.bz2': bz2.compress(rows),
        'books/e.json.zst': pyarrow.compress(rows, 'zstd', asbytes=True),
        'books/f.parquet': parquet.getvalue(),
    }

    def read(directory):
        found = list(corpus.documents(str(directory / 'books')))
        assert found and all(isinstance(document.text, str) for document in found)

    return [Target('corpus', files, read)]


def prepared(world):
    def read(directory):
        manifest = read_manifest(directory)
        for split in ('train', 'valid'):
            stream = open_split(directory, split)
            if stream.n_windows(8):
                assert windows.batch(stream, 3, 0, 2, 8).shape == (2, 9)
            open_split(directory, split, verify=True)
            entry = manifest['splits'][split]  # what entry points print
            assert f'{entry["documents"]:,} {entry["tokens"]:,} {entry["unknown"] / max(1, stream.n_tokens):.3%}'
        assert isinstance(manifest['fingerprint'], str) and isinstance(manifest['tokenizer'], str)

    return [
        Target(
            'prepared tokens',
            {
                name: content
                for name, content in copied(world.prepared).items()
                if 'tokenizer' not in name
            },
            read,
        )
    ]


# Files that runs leave behind


def logs():
    rows = [
        {
            'step': step,
            'loss': 1.5,
            'kind': 'finetune',
            'task': 'cola',
            'metric': 'matthews',
            'value': 0.5,
            'files': {'dev.tsv': '0' * 16},
        }
        for step in (5, 10, 15)
    ]

    def read(directory):
        found = results.read(directory / 'rows.jsonl')
        assert all(isinstance(row, dict) for row in found)
        results.append_new(directory / 'rows.jsonl', [{'kind': 'zero_shot', 'value': 1.0}])
        results.append(directory / 'rows.jsonl', {'step': 20})

    def scored(directory):
        ids, gold, scores = metrics.read_predictions(directory / 'predictions.jsonl')
        assert (
            len(ids) == len(gold) == len(scores) > 0
            and np.isfinite(scores).all()
            and all(map(math.isfinite, gold))
        )
        assert all(isinstance(i, (str, int)) for i in ids)
        with np.errstate(all='ignore'), warnings.catch_warnings():
            warnings.simplefilter('ignore')  # numbers near the largest that there are
            score_predictions.run(directory / 'predictions.jsonl')

    def predictions(rows):
        return {
            'predictions.jsonl': lines(
                {'id': str(i), 'gold': gold, 'scores': scores}
                for i, (gold, scores) in enumerate(rows)
            ).encode()
        }

    return [
        Target('results', {'rows.jsonl': lines(rows).encode()}, read),
        Target(
            'predictions of labels',
            predictions([(0, [0.5, -1.0]), (1, [1.0, 2.0]), (None, [1.0, 2.0]), (1, [0.0, -0.0])]),
            scored,
        ),
        Target(
            'predictions of choices', predictions([(0, [0.5, -1.0, 3.0]), (1, [1.0, 2.0])]), scored
        ),
        Target(
            'predictions of values', predictions([(4.5, [3.0]), (1.0, [0.0]), (2, [5.5])]), scored
        ),
    ]
