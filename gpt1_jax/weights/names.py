"""The names of GPT-1's arrays and config fields at Hugging Face.

Converts arrays to our tree and back. In the released code (train.py 404-411) the order is
positions, tokens, then twelve arrays per block. Hugging Face has the same arrays, and its Conv1D
kernels are [in, out], as here. Only ranks differ. Our projection to q, k, v is [D, 3, H, E] and
theirs [D, 3 D]. Our output projection of attention is [H, E, D] and theirs [D, D].
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gpt1_jax.errors import UserError
from gpt1_jax.models import build
from gpt1_jax.parallel import sharding

POSITIONS = 'positions_embed.weight'
TOKENS = 'tokens_embed.weight'
BLOCK = {  # in the released order
    'attn.c_attn.weight': 'attn/qkv/kernel',
    'attn.c_attn.bias': 'attn/qkv/bias',
    'attn.c_proj.weight': 'attn/out/kernel',
    'attn.c_proj.bias': 'attn/out/bias',
    'ln_1.weight': 'ln_1/scale',
    'ln_1.bias': 'ln_1/bias',
    'mlp.c_fc.weight': 'mlp/fc/kernel',
    'mlp.c_fc.bias': 'mlp/fc/bias',
    'mlp.c_proj.weight': 'mlp/proj/kernel',
    'mlp.c_proj.bias': 'mlp/proj/bias',
    'ln_2.weight': 'ln_2/scale',
    'ln_2.bias': 'ln_2/bias',
}

# A Hugging Face directory: its files, the fields of config.json by our names, and the values that
# they must have.
WEIGHTS = 'model.safetensors'
CONFIG = 'config.json'
# Weights in another form, and why they are refused.
REFUSED = {
    'pytorch_model.bin': 'is a pickle, which is never read',
    'pytorch_model.bin.index.json': 'names pickles, which are never read',
    'model.safetensors.index.json': 'the weights are in several files',
}
FORMS = (WEIGHTS, *REFUSED)
TOKENIZER = 'gpt1_jax/tokenizer'  # in an export: the tokenizer in the form of gpt1_jax
PREFIX = 'transformer.'  # names in model.safetensors may begin with it
SIZES = {
    'vocab_size': 'vocab_size',
    'n_ctx': 'n_positions',
    'n_embd': 'n_embd',
    'n_layer': 'n_layer',
    'n_head': 'n_head',
}
DROPOUTS = {
    'embd_dropout': 'embd_pdrop',
    'attn_dropout': 'attn_pdrop',
    'resid_dropout': 'resid_pdrop',
}
FIXED = {
    'model_type': 'openai-gpt',
    'afn': 'gelu',
    'layer_norm_epsilon': 1e-5,
    'tie_word_embeddings': True,
}
SHIFTED = 'classifier_bias_in'  # marks an exported classifier, see export_hugging_face._shifted


def shapes(sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """{name: shape} of every array, in the released order.

    sizes: {'n_ctx', 'vocab_size' (the rows of the token embedding), 'n_embd', 'n_inner',
    'n_layer'}.
    """
    D = sizes['n_embd']
    F = sizes['n_inner']
    block = {
        'attn.c_attn': (D, 3 * D),
        'attn.c_proj': (D, D),
        'ln_1': (D,),
        'mlp.c_fc': (D, F),
        'mlp.c_proj': (F, D),
        'ln_2': (D,),
    }
    found: dict[str, tuple[int, ...]] = {
        POSITIONS: (sizes['n_ctx'], D),
        TOKENS: (sizes['vocab_size'], D),
    }
    for n in range(sizes['n_layer']):
        for name, shape in block.items():
            found |= {f'h.{n}.{name}.weight': shape, f'h.{n}.{name}.bias': shape[-1:]}
    return found


def to_tree(fields: dict, read: Callable[[str], np.ndarray]) -> Any:
    """Our parameters of a backbone, a tree of float32 numpy arrays.

    fields: a pretrained run's 'model'. read: name -> float32 array of its shape in `shapes`.
    """
    blocks = build.shapes(build.backbone(fields))['blocks']
    names = {ours: name for name, ours in BLOCK.items()}

    def stacked(path, leaf):
        layers = [
            read(f'h.{n}.{names[sharding.leaf_name(path)]}') for n in range(fields['n_layer'])
        ]
        return np.stack(layers).reshape(leaf.shape)

    embed = {'positions': read(POSITIONS), 'tokens': read(TOKENS)}
    return {'embed': embed, 'blocks': jax.tree_util.tree_map_with_path(stacked, blocks)}


def from_tree(fields: dict, params: Any) -> dict[str, np.ndarray]:
    """{name: float32 array} of a backbone's parameters, in the released order.

    Special rows follow the tokens' rows. fields: a run's 'model'. params: numpy arrays. UserError
    for an array that a released GPT-1 does not have.
    """
    leaves = sharding.named_leaves(params)
    known = [
        'embed/tokens',
        'embed/specials',
        'embed/positions',
        *(f'blocks/{name}' for name in BLOCK.values()),
    ]
    if unknown := sorted(leaves.keys() - known):
        raise UserError(f'{", ".join(unknown)}: OpenAIGPT has no such parameters')
    rows = np.concatenate(
        [leaves[name] for name in ('embed/tokens', 'embed/specials') if name in leaves]
    )
    wanted = shapes(fields | {'vocab_size': len(rows)})
    found = {POSITIONS: leaves['embed/positions'], TOKENS: rows}
    for n in range(fields['n_layer']):
        for name, ours in BLOCK.items():
            array = leaves[f'blocks/{ours}'][n]
            found[f'h.{n}.{name}'] = np.ascontiguousarray(array).reshape(wanted[f'h.{n}.{name}'])
    return found
