"""The authors' release in small: random weights as Hugging Face publishes them, and a vocabulary in
the released form.

Nothing here imports gpt1_jax. The order of the arrays is written out from the released code's
train.py (404-411).
"""

import json
import string

import numpy as np
import safetensors.numpy

CHARACTERS = list('.,' + string.ascii_lowercase)
MERGES = [
    tuple(line.split())
    for line in """\
t h
th e</w>
a t</w>
o n
i n
in g</w>
s at</w>
d o
c at</w>
v e
ve r
ver y</w>
r e
re d</w>""".splitlines()
]
SIZES = {
    'n_ctx': 64,
    'vocab_size': 2 + 2 * len(CHARACTERS) + len(MERGES),
    'n_embd': 24,
    'n_layer': 3,
    'n_head': 4,
}


def vocabulary(directory):
    """encoder_bpe_40000.json and vocab_40000.bpe with 28 characters and 14 merges."""
    pieces = [
        '<unk>',
        *CHARACTERS,
        *(c + '</w>' for c in CHARACTERS),
        *map(''.join, MERGES),
        '\n</w>',
    ]
    (directory / 'encoder_bpe_40000.json').write_text(
        json.dumps({piece: i for i, piece in enumerate(pieces)})
    )
    (directory / 'vocab_40000.bpe').write_text(
        '#version: 0.2\n' + '\n'.join(map(' '.join, MERGES)) + '\n'
    )


def shapes(n_ctx, vocab_size, n_embd, n_layer, n_head):
    """The shape of each array, in the released order; kernels are convolutions of width 1."""
    D = n_embd
    attention = [[1, D, 3 * D], [3 * D], [1, D, D], [D]]
    mlp = [[1, D, 4 * D], [4 * D], [1, 4 * D, D], [D]]
    norm = [[D], [D]]
    return [[n_ctx, D], [vocab_size, D], *[*attention, *norm, *mlp, *norm] * n_layer]


def arrays(seed=0, **sizes):
    """One random array a shape; each at another scale, so that none can stand for another."""
    generator = np.random.default_rng(seed)
    return [
        (generator.normal(size=shape) * (0.05 + 0.01 * (i % 12)) + (len(shape) == 1)).astype(
            np.float32
        )
        for i, shape in enumerate(shapes(**SIZES | sizes))
    ]


def write(directory, seed=0):
    """model.safetensors, config.json and the vocabulary."""
    directory.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(hugging_face(arrays(seed)), directory / 'model.safetensors')
    (directory / 'config.json').write_text(
        json.dumps({'model_type': 'openai-gpt', 'n_head': SIZES['n_head']})
    )
    vocabulary(directory)


def hugging_face(given):
    """The arrays under the names of OpenAIGPTModel."""
    names = ['positions_embed.weight', 'tokens_embed.weight']
    for n in range((len(given) - 2) // 12):
        names += [
            f'h.{n}.{part}.{kind}'
            for part in ('attn.c_attn', 'attn.c_proj', 'ln_1', 'mlp.c_fc', 'mlp.c_proj', 'ln_2')
            for kind in ('weight', 'bias')
        ]
    return {
        name: array[0] if array.ndim == 3 else array
        for name, array in zip(names, given, strict=True)
    }
