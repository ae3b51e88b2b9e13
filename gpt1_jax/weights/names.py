"""The names of GPT-1's arrays and config fields at OpenAI and Hugging Face, and conversion to and from our tree.

Released code (train.py 404-411): positions, tokens, then twelve arrays a block. Hugging Face's names are for the same
arrays; its Conv1D kernels are [in, out], as are ours. Only the number of dimensions differs: our projection to q, k, v
is [D, 3, H, E], theirs [D, 3 D], and our output projection of attention is [H, E, D], theirs [D, D].
"""
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding

POSITIONS, TOKENS = 'positions_embed.weight', 'tokens_embed.weight'
EMBEDDINGS = {POSITIONS: 'positions', TOKENS: 'tokens'}
BLOCK = {  # in the released order
    'attn.c_attn.weight': 'attn/qkv/kernel', 'attn.c_attn.bias': 'attn/qkv/bias',
    'attn.c_proj.weight': 'attn/out/kernel', 'attn.c_proj.bias': 'attn/out/bias',
    'ln_1.weight': 'ln_1/scale', 'ln_1.bias': 'ln_1/bias',
    'mlp.c_fc.weight': 'mlp/fc/kernel', 'mlp.c_fc.bias': 'mlp/fc/bias',
    'mlp.c_proj.weight': 'mlp/proj/kernel', 'mlp.c_proj.bias': 'mlp/proj/bias',
    'ln_2.weight': 'ln_2/scale', 'ln_2.bias': 'ln_2/bias',
}

# Hugging Face's directory: its files, the fields of config.json by ours, and those whose values ours must have.
WEIGHTS, CONFIG = 'model.safetensors', 'config.json'
TOKENIZER = 'gpt1_jax/tokenizer'  # in an export: as we read it, beside Hugging Face's tokenizer.json
PREFIX = 'transformer.'  # names in model.safetensors may begin with it
SIZES = {'vocab_size': 'vocab_size', 'n_ctx': 'n_positions', 'n_embd': 'n_embd', 'n_layer': 'n_layer',
         'n_head': 'n_head'}
DROPOUTS = {'embd_dropout': 'embd_pdrop', 'attn_dropout': 'attn_pdrop', 'resid_dropout': 'resid_pdrop'}
FIXED = {'model_type': 'openai-gpt', 'afn': 'gelu', 'layer_norm_epsilon': 1e-5, 'tie_word_embeddings': True}
SHIFTED = 'classifier_bias_in'  # marks an exported classifier; see export_hugging_face._shifted


def shapes(sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """{name: shape} of every array, in the released order.

    sizes: {'n_ctx', 'vocab_size' (the rows of the token embedding), 'n_embd', 'n_inner', 'n_layer'}.
    """
    D = sizes['n_embd']
    F = sizes['n_inner']
    block = {'attn.c_attn': (D, 3 * D), 'attn.c_proj': (D, D), 'ln_1': (D,), 'mlp.c_fc': (D, F), 'mlp.c_proj': (F, D),
             'ln_2': (D,)}
    found = {POSITIONS: (sizes['n_ctx'], D), TOKENS: (sizes['vocab_size'], D)}
    for n in range(sizes['n_layer']):
        for name, shape in block.items():
            found |= {f'h.{n}.{name}.weight': shape, f'h.{n}.{name}.bias': shape[-1:]}
    return found


def to_tree(fields: dict, read: Callable[[str], np.ndarray]) -> Any:
    """Our parameters, a tree of float32 numpy arrays, of a backbone without specials.

    fields: a run's 'model'. read: name -> float32 array of the shape that `shapes` gives it, called once for each.
    """
    model = backbone(fields)
    abstract = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))['params']
    names = {ours: name for name, ours in BLOCK.items()}

    def stacked(path, leaf):
        layers = [read(f'h.{n}.{names[sharding.leaf_name(path)]}') for n in range(fields['n_layer'])]
        return np.stack(layers).reshape(leaf.shape)
    return {'embed': {ours: read(name) for name, ours in EMBEDDINGS.items()},
            'blocks': jax.tree_util.tree_map_with_path(stacked, abstract['blocks'])}


def from_tree(fields: dict, params: Any) -> dict[str, np.ndarray]:
    """{name: float32 array} in the released order, of a backbone's parameters; special rows follow the tokens'.

    fields: a run's 'model'. params: numpy arrays.
    """
    embed = params['embed']
    rows = np.concatenate([embed[name] for name in ('tokens', 'specials') if name in embed])
    wanted = shapes(fields | {'vocab_size': len(rows)})
    leaves = {sharding.leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params['blocks'])}
    found = {POSITIONS: embed['positions'], TOKENS: rows}
    for n in range(fields['n_layer']):
        for name, ours in BLOCK.items():
            found[f'h.{n}.{name}'] = np.ascontiguousarray(leaves[ours][n]).reshape(wanted[f'h.{n}.{name}'])
    return found
