"""Imports the weights that the authors released, as a pretrained run.

    gpt1 openai --source=finetune-transformer-lm/model --out=runs/openai

--source holds the files of openai/finetune-transformer-lm's `model` directory: params_shapes.json, params_0.npy to
params_9.npy, encoder_bpe_40000.json, vocab_40000.bpe. The pieces concatenated are one vector of all arrays (train.py
404-411). Nothing in them is unpickled.
Rows for start, delimiter and extract are not part of the release: fine-tuning initializes them, as the released code
does.
"""
import itertools
import math
import pathlib
import tokenize
import warnings

import numpy as np
from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.data.published import from_published
from gpt1_jax.errors import UserError, shown
from gpt1_jax.runs import workdir
from gpt1_jax.weights import import_run, names

SHAPES, ENCODER, MERGES = 'params_shapes.json', 'encoder_bpe_40000.json', 'vocab_40000.bpe'
PIECES = tuple(f'params_{i}.npy' for i in range(10))


def convert(source: storage.Path, out: storage.Path, n_head: int = import_run.HEADS) -> workdir.Run:
    """Import the released files in `source` as the run directory `out`; returns its workdir.Run.

    n_head: recorded in no file; 12 in the release. UserError naming the file that is missing, damaged or does not fit.
    """
    if storage.remote(source):
        raise UserError(f'{source}: copy the files to this machine first')
    model = read_sizes(source / SHAPES, n_head)
    shapes = names.shapes(model)
    ends = list(itertools.accumulate(map(math.prod, shapes.values())))
    pieces = [open_piece(source / name) for name in PIECES]
    n_values = sum(map(len, pieces))
    if n_values != ends[-1]:
        raise UserError(f'{source}: {PIECES[0]} to {PIECES[-1]} hold {n_values:,} values, {SHAPES} says {ends[-1]:,}')
    tokenizer = from_published(source / ENCODER, source / MERGES)
    import_run.check_tokenizer(tokenizer, model['vocab_size'], source / ENCODER)
    for name, piece in zip(PIECES, pieces):
        import_run.check_values(piece, f'{source / name}')

    def make():
        arrays = dict(zip(shapes, np.split(np.concatenate(pieces), ends[:-1])))
        return names.to_tree(model, lambda name: arrays[name].reshape(shapes[name]))
    hashes = {name: storage.sha256(source / name) for name in (SHAPES, *PIECES, ENCODER, MERGES)}
    return import_run.save(out, 'openai/finetune-transformer-lm', {'kind': 'pretrain', 'model': model}, make,
                           tokenizer, hashes)


def read_sizes(file: pathlib.Path, n_head: int) -> dict:
    """A run's 'model' from params_shapes.json. UserError unless it lists a GPT's arrays in the released order."""
    listed = storage.read_json(file)
    ranks = [len(shape) if isinstance(shape, list) else 0 for shape in listed] if isinstance(listed, list) else []
    if len(ranks) < 14 or (len(ranks) - 2) % 12 or [ranks[i] for i in (0, 1, 8)] != [2, 2, 3]:
        raise UserError(f'{file}: must list the shapes of 2 + 12 n arrays (released: 146), two embeddings first')
    try:
        model = import_run.fields({'n_ctx': listed[0][0], 'n_embd': listed[0][1], 'vocab_size': listed[1][0],
                                   'n_layer': (len(ranks) - 2) // 12, 'n_inner': listed[8][2], 'n_head': n_head})
    except UserError as error:
        raise UserError(f'{file}: {error}') from None
    for i, (name, shape) in enumerate(names.shapes(model).items()):
        expected = [1, *shape] if len(shape) == 2 and i > 1 else list(shape)  # kernels are convolutions of width 1
        if listed[i] != expected:
            raise UserError(f'{file}: shape {i} ({name}) is {shown(listed[i])}, must be {expected}')
    return model


def open_piece(file: pathlib.Path) -> np.ndarray:
    """A .npy file, float32[n], memory-mapped: nothing is read yet. UserError unless it is a complete vector."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # about a header written by Python 2
        try:
            piece = np.load(file, mmap_mode='r', allow_pickle=False)
        except (ValueError, EOFError, tokenize.TokenError) as error:  # TokenError: of a damaged header
            cause = str(error).partition('\n')[0]
            raise UserError(f'{file}: not a complete .npy file without pickled objects ({cause})') from None
    if not isinstance(piece, np.ndarray) or piece.dtype != np.dtype('<f4') or piece.ndim != 1:
        raise UserError(f'{file}: must hold a vector of float32')
    return piece


def _define_flags():
    flags.DEFINE_string('source', None, 'directory of the released files', required=True)
    flags.DEFINE_string('out', None, 'the run directory to make', required=True)
    flags.DEFINE_integer('n_head', import_run.HEADS, 'attention heads, which no file records')


def main() -> None:
    f = flags.FLAGS
    print(import_run.report(convert(storage.path(f.source), storage.path(f.out), f.n_head)))


if __name__ == '__main__':
    cli.run(main, _define_flags)
