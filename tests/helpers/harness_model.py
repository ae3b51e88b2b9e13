"""A small model, sure of itself, and its vocabulary for the tests of lm-evaluation-harness."""
import random
import types
import zlib

import numpy as np

from gpt1_jax.data import bpe_training
from gpt1_jax.parallel import sharding
from gpt1_jax.weights import import_run, names
from official import PASSAGES
from tiny import sentence

N_CTX = 48
MESH = sharding.make_mesh()
BATCH = 2
TEXTS = [sentence(random.Random(i)) for i in range(60)]
LONG = '\n'.join(TEXTS[:12])


def weights(name):
    """Large enough for a model that is sure of itself."""
    shape = SHAPES[name]
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(0, 0.5, shape).astype(np.float32)
    return drawn + ('ln_' in name and name.endswith('weight'))


TOKENIZER = bpe_training.train(TEXTS + [PASSAGES['middle'][0]['article']] * 9, merges=150)
FIELDS = import_run.fields({'n_layer': 1, 'n_embd': 16, 'n_head': 2, 'n_inner': 32, 'n_ctx': N_CTX,
                          'vocab_size': TOKENIZER.vocab_size})
SHAPES = names.shapes(FIELDS)


def write(directory):
    """A run of it; returns its path."""
    return import_run.save(directory, 'a test', {'kind': 'pretrain', 'model': FIELDS},
                           lambda: names.to_tree(FIELDS, weights), TOKENIZER, {}).path


def requests(*arguments):
    return [types.SimpleNamespace(args=one) for one in arguments]


def greedy(lm, context, tokens):
    return lm.generate_until(requests((context, {'until': [], 'max_gen_toks': tokens})))[0]
