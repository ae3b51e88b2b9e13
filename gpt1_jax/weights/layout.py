"""The arrays of GPT-1 under the names and in the order of the release, and our tree: the one table between the two.

Released code (train.py 404-411): positions, tokens, then twelve arrays a block. Hugging Face's names are the same
arrays; its Conv1D kernels are [in, out], as are ours. Only the number of dimensions differs: our projection to q, k, v
is [D, 3, H, E] of its [D, 3 D], and the one back is [H, E, D] of its [D, D].
"""
import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.backbone import backbone

EMBEDDINGS = {'positions_embed.weight': 'positions', 'tokens_embed.weight': 'tokens'}
BLOCK = {  # in the released order
    'attn.c_attn.weight': 'attn/qkv/kernel', 'attn.c_attn.bias': 'attn/qkv/bias',
    'attn.c_proj.weight': 'attn/out/kernel', 'attn.c_proj.bias': 'attn/out/bias',
    'ln_1.weight': 'ln_1/scale', 'ln_1.bias': 'ln_1/bias',
    'mlp.c_fc.weight': 'mlp/fc/kernel', 'mlp.c_fc.bias': 'mlp/fc/bias',
    'mlp.c_proj.weight': 'mlp/proj/kernel', 'mlp.c_proj.bias': 'mlp/proj/bias',
    'ln_2.weight': 'ln_2/scale', 'ln_2.bias': 'ln_2/bias',
}


def shapes(sizes):
    """{name: shape} of every array, in the released order.

    sizes: {'n_ctx', 'vocab_size' (the rows of the token embedding), 'n_embd', 'n_inner', 'n_layer'}.
    """
    D, F = sizes['n_embd'], sizes['n_inner']
    block = {'attn.c_attn': (D, 3 * D), 'attn.c_proj': (D, D), 'ln_1': (D,), 'mlp.c_fc': (D, F), 'mlp.c_proj': (F, D),
             'ln_2': (D,)}
    found = {'positions_embed.weight': (sizes['n_ctx'], D), 'tokens_embed.weight': (sizes['vocab_size'], D)}
    for n in range(sizes['n_layer']):
        for name, shape in block.items():
            found |= {f'h.{n}.{name}.weight': shape, f'h.{n}.{name}.bias': shape[-1:]}
    return found


def to_tree(fields, read):
    """Our parameters, float32 numpy arrays, of a backbone without specials.

    fields: a run's 'model'. read: name -> float32 array of the shape that `shapes` gives it, called once for each.
    """
    wanted = shapes(fields)
    like = _like(fields)
    tree = {'embed': {ours: read(name) for name, ours in EMBEDDINGS.items()}, 'blocks': {}}
    for name, ours in BLOCK.items():
        *parents, leaf = ours.split('/')
        stacked = np.empty((fields['n_layer'], *wanted[f'h.0.{name}']), np.float32)
        for n in range(fields['n_layer']):
            stacked[n] = read(f'h.{n}.{name}')
        branch, shape = tree['blocks'], like['blocks']
        for parent in parents:
            branch, shape = branch.setdefault(parent, {}), shape[parent]
        branch[leaf] = stacked.reshape(shape[leaf].shape)
    return tree


def from_tree(fields, params):
    """{name: float32 array} in the released order, of a backbone's parameters; special rows follow the tokens'.

    fields: a run's 'model'. params: numpy arrays.
    """
    embed = params['embed']
    rows = np.concatenate([embed[name] for name in ('tokens', 'specials') if name in embed])
    wanted = shapes(fields | {'vocab_size': len(rows)})
    found = {'positions_embed.weight': embed['positions'], 'tokens_embed.weight': rows}
    for n in range(fields['n_layer']):
        for name, ours in BLOCK.items():
            leaf = params['blocks']
            for part in ours.split('/'):
                leaf = leaf[part]
            found[f'h.{n}.{name}'] = np.ascontiguousarray(leaf[n]).reshape(wanted[f'h.{n}.{name}'])
    return found


def _like(fields):
    model = backbone(fields)
    return jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))['params']
