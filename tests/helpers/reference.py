"""The reference of the tests: GPT-1 in plain numpy float64, written from the paper and the released
code, and the names of Hugging Face.

Nothing here imports gpt1_jax. Parameters are the library's tree, as it is stored.
"""

import numpy as np

MASK = 0xFFFFFFFF


def mix(x):
    """lowbias32 on a Python int."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & MASK
    return x ^ (x >> 16)


def keep(words, shape, rate, offsets=()):
    """dropout.keep_mask, one element at a time in Python's unbounded ints."""
    offsets = tuple(offsets) + (0,) * (len(shape) - len(offsets))
    mask = np.zeros(shape, bool)
    for leading in np.ndindex(*shape[:-2]):
        # The first digits of pi
        a = 0x243F6A88
        b = 0x85A308D3
        for word in (*words, *(n + o for n, o in zip(leading, offsets))):
            word &= MASK
            a = mix(a ^ word)
            b = mix(((b + 0x9E3779B9) & MASK) ^ ((word * 0x85EBCA6B) & MASK))
        for i, j in np.ndindex(*shape[-2:]):
            x = a ^ (((i + offsets[-2]) << 16) + j + offsets[-1])
            x = (((x ^ (x >> 16)) * 0x7FEB352D) & MASK) ^ b
            x = ((x ^ (x >> 15)) * 0x846CA68B) & MASK
            mask[leading][i, j] = (x ^ (x >> 16)) >= int(round(rate * 2**32))
    return mask


def dropped(x, rate, key, layer, site, first=0):
    """x / (1 - rate) where kept. key: (seed, step) or None. first: the global number of the first
    row."""
    if key is None:
        return x
    return np.where(keep((*key, layer, site), x.shape, rate, (first,)), x / (1 - rate), 0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, leaf):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * leaf['scale'] + leaf['bias']


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def table(params, rate=0.0, key=None):
    """The single matrix of the released code: tokens, then specials, then positions.

    Dropout acts on the whole matrix.
    """
    embed = params['embed']
    rows = np.concatenate(
        [embed[n] for n in ('tokens', 'specials', 'positions') if n in embed]
    ).astype(np.float64)
    return dropped(rows, rate, key, 0, 0)


def gpt(params, tokens, embd=0.0, attn=0.0, resid=0.0, key=None, first=0, pre_norm=False):
    """tokens [B, L] -> (hidden [B, L, D], the whole matrix). first: the global number of the
    batch's first row.
    pre_norm: LayerNorm before each sublayer, and ln_f after the last block."""
    we = table(params, embd, key)
    positions = len(we) - len(params['embed']['positions'])
    L = tokens.shape[1]
    h = we[tokens] + we[positions : positions + L]
    N = len(params['blocks']['ln_1']['scale'])
    for n in range(N):
        p = slice_layer(params['blocks'], n)
        D, _, H, E = p['attn']['qkv']['kernel'].shape
        x = layer_norm(h, p['ln_1']) if pre_norm else h
        qkv = x @ p['attn']['qkv']['kernel'].reshape(D, 3 * D) + p['attn']['qkv']['bias'].reshape(
            3 * D
        )
        q, k, v = (qkv[..., i * D : (i + 1) * D] for i in range(3))
        # [B, H, L, E]
        q, k, v = (np.stack([x[..., i * E : (i + 1) * E] for i in range(H)], 1) for x in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(E)
        scores = np.where(np.tril(np.ones((L, L))) == 1, scores, -1e9)
        a = dropped(softmax(scores), attn, key, n, 1, first) @ v
        a = np.concatenate([a[:, i] for i in range(H)], -1)
        a = a @ p['attn']['out']['kernel'].reshape(D, D) + p['attn']['out']['bias']
        h = h + dropped(a, resid, key, n, 2, first)
        h, x = (h, layer_norm(h, p['ln_2'])) if pre_norm else [layer_norm(h, p['ln_1'])] * 2
        m = gelu(x @ p['mlp']['fc']['kernel'] + p['mlp']['fc']['bias'])
        m = m @ p['mlp']['proj']['kernel'] + p['mlp']['proj']['bias']
        h = h + dropped(m, resid, key, n, 3, first)
        h = h if pre_norm else layer_norm(h, p['ln_2'])
    return (layer_norm(h, params['ln_f']) if pre_norm else h), we


def slice_layer(tree, n):
    """One layer of the stacked blocks, in float64."""
    if isinstance(tree, dict):
        return {k: slice_layer(v, n) for k, v in tree.items()}
    return np.asarray(tree[n], np.float64)


def cross_entropy(logits, targets):
    """-log softmax(logits)[target], elementwise over the leading dimensions."""
    logits = logits - logits.max(-1, keepdims=True)
    return (
        np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    )


def hugging_face(tree):
    """A gpt1_jax tree (parameters or gradients) under OpenAIGPTLMHeadModel's names, in numpy."""
    D = tree['embed']['tokens'].shape[1]
    kernels = {
        'attn.c_attn': ('attn', 'qkv', (D, -1)),
        'attn.c_proj': ('attn', 'out', (-1, D)),
        'mlp.c_fc': ('mlp', 'fc', (D, -1)),
        'mlp.c_proj': ('mlp', 'proj', (-1, D)),
    }
    named = {
        'tokens_embed.weight': tree['embed']['tokens'],
        'positions_embed.weight': tree['embed']['positions'],
    }
    for n in range(len(tree['blocks']['ln_1']['scale'])):
        for theirs, (group, name, shape) in kernels.items():
            leaf = tree['blocks'][group][name]
            named[f'h.{n}.{theirs}.weight'] = leaf['kernel'][n].reshape(shape)
            named[f'h.{n}.{theirs}.bias'] = leaf['bias'][n].reshape(-1)
        for name in ('ln_1', 'ln_2'):
            leaf = tree['blocks'][name]
            named |= {
                f'h.{n}.{name}.weight': leaf['scale'][n],
                f'h.{n}.{name}.bias': leaf['bias'][n],
            }
    return {f'transformer.{name}': np.asarray(array) for name, array in named.items()}


def random_like(shapes, seed, scale=0.3):
    """A tree of random float32 arrays of these shapes.

    Gains are near 1, all other arrays are N(0, scale^2), so that no leaf is zero.
    """
    generator = np.random.default_rng(seed)

    def fill(tree, name=''):
        if isinstance(tree, dict):
            return {k: fill(v, k) for k, v in tree.items()}
        x = generator.normal(size=tree.shape) * scale + (name == 'scale')
        return x.astype(np.float32)

    return fill(shapes)
