"""Fuzz targets for files other than labelled sets (fuzz_sets.py): small valid files, the functions
that read them, and the expected results."""

import bz2
import gzip
import json
import math
import pathlib
import struct
import warnings
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np
import pyarrow
import pyarrow.parquet
import safetensors.numpy

import released
from gpt1_jax import metrics
from gpt1_jax.data import corpus, published, tokenizer
from gpt1_jax.evaluation import score_predictions
from gpt1_jax.runs import results
from gpt1_jax.weights import hugging_face, import_run, tokenizer_json
from gpt1_jax.weights import names as names_lib
from own_sets import lines


class Target(NamedTuple):
    """A directory of sound files.

    read: directory -> any result, with asserts. Raises UserError if it refuses the files. files:
    the paths in the directory that are damaged. named: the directory is in every message.
    """

    directory: pathlib.Path
    read: Callable[[pathlib.Path], object]
    files: list[str]
    named: bool = True


def target(directory, read, named=True):
    """The target whose files are all those of the directory."""
    paths = sorted(path for path in directory.rglob('*') if path.is_file())
    return Target(directory, read, [str(path.relative_to(directory)) for path in paths], named)


def write(directory, files):
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def is_one_line(message):
    return message.isprintable() and 0 < len(message) <= 3000


def encodes(vocabulary):
    """A vocabulary that was accepted works."""
    for text in ('The cat sat.\nThe rat! abc naïve \u2581 \U0001f600 \ufffe\uffff', 'abc\nb'):
        ids = vocabulary.encode(text)
        assert ids and 0 <= min(ids) <= max(ids) < vocabulary.vocab_size
        vocabulary.decode([*ids, vocabulary.start_id, vocabulary.extract_id])
    assert 0 <= vocabulary.newline_id < vocabulary.vocab_size <= tokenizer.LARGEST_VOCABULARY


def from_pair(directory):
    return published.from_published(
        directory / 'encoder_bpe_40000.json', directory / 'vocab_40000.bpe'
    )


def tokenizers(root, world):
    """A saved tokenizer, the two published files, and Hugging Face's file made from them."""
    world.vocabulary.save(root / 'saved')
    (root / 'pair').mkdir()
    released.vocabulary(root / 'pair')
    theirs = tokenizer_json.files(from_pair(root / 'pair'), 8)['tokenizer.json']
    write(root / 'theirs', {'tokenizer.json': theirs})
    for name, load in {
        'saved': tokenizer.Tokenizer.load,
        'pair': from_pair,
        'theirs': lambda directory: published.from_tokenizer_json(directory / 'tokenizer.json'),
    }.items():
        yield target(root / name, lambda directory, load=load: encodes(load(directory)))


def weights(root, world):
    """A Hugging Face directory, with the header of its weights as a separate file."""
    arrays = released.hugging_face(released.arrays(n_ctx=8, n_embd=4, n_layer=1))
    content = safetensors.numpy.save({f'transformer.{name}': x for name, x in arrays.items()})
    values = 8 + struct.unpack('<Q', content[:8])[0]
    config = names_lib.FIXED | {'n_head': 2, 'n_layer': 1, 'n_embd': 4, 'attn_pdrop': 0.1}
    files = {'header.json': content[8:values], 'values': content[values:]}
    write(root, files | {'config.json': json.dumps(config).encode()})
    released.vocabulary(root)

    def taken(out, origin, model, params, tokenizer, hashes, left_out=()):
        arrays = names_lib.from_tree(model, params)
        for name, shape in names_lib.shapes(model).items():
            assert arrays[name].shape == shape and np.isfinite(arrays[name]).all()
        assert tokenizer.vocab_size == model['vocab_size']

    def read(directory):
        header, values = ((directory / name).read_bytes() for name in ('header.json', 'values'))
        content = struct.pack('<Q', len(header)) + header + values
        (directory / 'model.safetensors').write_bytes(content)
        with mock.patch.object(import_run, 'save', taken):
            hugging_face.convert(directory, directory / 'run', n_head=2)

    yield target(root, read)


def corpora(root, world):
    rows = lines([{'text': 'One cat.'}, {'text': 'Two cats.\nAnd a dog.', 'n': 1}]).encode()
    files = {
        'a.txt': 'The café.\nIt is closed.\n'.encode(),
        'b.txt.gz': gzip.compress(b'A zipped text.\n' * 9),
        'c.jsonl': rows,
        'd.jsonl.bz2': bz2.compress(rows),
        'e.json.zst': pyarrow.compress(rows, 'zstd', asbytes=True),
    }
    write(root, files)
    table = pyarrow.table({'text': ['One cat.', 'Two cafés.'] * 9, 'n': range(18)})
    pyarrow.parquet.write_table(
        table, root / 'f.parquet', row_group_size=5, write_page_checksum=True
    )

    def read(directory):
        found = list(corpus.documents(str(directory)))
        assert found and all(isinstance(document.text, str) for document in found)

    yield target(root, read)


PREDICTIONS = {
    'labels': """\
{"id": "0", "gold": 0, "scores": [0.5, -1.0]}
{"id": "1", "gold": 1, "scores": [1.0, 2.0]}
{"id": "2", "gold": null, "scores": [1.0, 2.0]}
{"id": "3", "gold": 1, "scores": [0.0, -0.0]}
""",
    'choices': """\
{"id": "0", "gold": 0, "scores": [0.5, -1.0, 3.0]}
{"id": "1", "gold": 1, "scores": [1.0, 2.0]}
""",
    'values': """\
{"id": "0", "gold": 4.5, "scores": [3.0]}
{"id": "1", "gold": 1.0, "scores": [0.0]}
{"id": "2", "gold": 2, "scores": [5.5]}
""",
}


def logs(root, world):
    """The results of runs and their predictions: of labels, choices and values."""
    fields = {'loss': 1.5, 'kind': 'finetune', 'task': 'cola', 'files': {'dev.tsv': '0' * 16}}
    results_of_steps = lines(fields | {'step': step} for step in (5, 10, 15))

    def read(directory):
        assert all(isinstance(row, dict) for row in results.read(directory / 'rows.jsonl'))
        results.append_new(directory / 'rows.jsonl', [{'kind': 'zero_shot', 'value': 1.0}])
        results.append(directory / 'rows.jsonl', {'step': 20})

    def scored(directory):
        ids, gold, scores = metrics.read_predictions(directory / 'rows.jsonl')
        assert len(ids) == len(gold) == len(scores) > 0 and np.isfinite(scores).all()
        assert all(map(math.isfinite, gold)) and all(isinstance(i, (str, int)) for i in ids)
        with np.errstate(all='ignore'), warnings.catch_warnings():
            warnings.simplefilter('ignore')  # numbers near the largest that there are
            score_predictions.run(directory / 'rows.jsonl')

    write(root / 'results', {'rows.jsonl': results_of_steps.encode()})
    yield target(root / 'results', read)
    for name, content in PREDICTIONS.items():
        write(root / name, {'rows.jsonl': content.encode()})
        yield target(root / name, scored)
