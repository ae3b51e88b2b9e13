"""GPT-1 on one page: the decoder, its loss and Adam in plain jax.numpy, without Flax or dropout.

    python tests/paper_in_one_page.py

It trains a small model on the letters of this file. tests/test_paper_in_one_page.py compares it
with gpt1_jax, update by update. Radford et al. (2018), Sections 3.1 and 4.1. B batch, L length, D
width, H heads, E = D / H, V vocabulary, C context, N layers.
"""

import pathlib

import jax
import jax.numpy as jnp

V, C, N, H, D = 128, 32, 3, 4, 64  # the paper: 40478, 512, 12, 12, 768


def initial(key):
    """4.1: every weight is drawn from N(0, 0.02). Biases are 0, and gains 1."""
    shapes = {'qkv': (D, 3 * D), 'out': (D, D), 'fc': (D, 4 * D), 'proj': (4 * D, D)}
    keys = iter(jax.random.split(key, 2 + N * len(shapes)))

    def normal(*shape):
        return 0.02 * jax.random.normal(next(keys), shape)

    def block():
        norms = {name: {'scale': jnp.ones(D), 'bias': jnp.zeros(D)} for name in ('ln_1', 'ln_2')}
        return norms | {
            name: {'kernel': normal(*shape), 'bias': jnp.zeros(shape[1])}
            for name, shape in shapes.items()
        }

    return {'W_e': normal(V, D), 'W_p': normal(C, D), 'blocks': [block() for _ in range(N)]}


def linear(w, x):
    return x @ w['kernel'] + w['bias']


def layer_norm(w, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * w['scale'] + w['bias']


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (x + 0.044715 * x**3)))


def attention(w, x):
    """3.1: "multi-headed self-attention": position i sees the positions up to i."""
    B, L, D = x.shape
    q, k, v = linear(w['qkv'], x).reshape(B, L, 3, H, D // H).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(D // H)  # [B, H, L, L]
    visible = jnp.tril(jnp.ones((L, L), bool))
    p = jax.nn.softmax(jnp.where(visible, scores, -1e9))
    return linear(w['out'], (p @ v).transpose(0, 2, 1, 3).reshape(B, L, D))


def mlp(w, x):
    return linear(w['proj'], gelu(linear(w['fc'], x)))


def transformer_block(w, x):
    x = layer_norm(w['ln_1'], x + attention(w, x))
    return layer_norm(w['ln_2'], x + mlp(w, x))


def logits(w, tokens):
    """Eq. 2, before the softmax: int[B, L] -> [B, L, V]."""
    h = w['W_e'][tokens] + w['W_p'][: tokens.shape[1]]  # h_0 = U W_e + W_p
    for block in w['blocks']:
        h = transformer_block(block, h)
    return h @ w['W_e'].T  # P(u) = softmax(h_n W_e^T)


def loss(w, tokens):
    """Eq. 1: the mean of -log P of each token, given those before it. tokens: int[B, L + 1].

    The context k is L.
    """
    log_p = jax.nn.log_softmax(logits(w, tokens[:, :-1]))
    return -jnp.take_along_axis(log_p, tokens[:, 1:, None], axis=2).mean()


def rate(step, peak, warmup, total):
    """4.1: the rate rises linearly from zero, and then follows a cosine to zero. Steps from 0."""
    return peak * jnp.where(
        step <= warmup, step / warmup, 0.5 * (1 + jnp.cos(jnp.pi * step / total))
    )


def is_decayed(path):
    """4.1: "L2 regularization [...] with w = 0.01 on all non bias or gain weights"."""
    return path[-1].key not in ('bias', 'scale')


def adam(w, moments, gradients, step, learning_rate, b1=0.9, b2=0.999):
    """4.1: an update, as released: the gradients' norm is at most 1, and weights decay."""
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda g: g / jnp.maximum(norm, 1), gradients)
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, moments[0], gradients)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, moments[1], gradients)
    t = step + 1.0
    corrected = learning_rate * jnp.sqrt(1 - b2**t) / (1 - b1**t)

    def updated(path, w, m, v):
        decay = 0.01 * w if is_decayed(path) else 0
        return w - corrected * (m / (jnp.sqrt(v) + 1e-8) + decay)

    return jax.tree_util.tree_map_with_path(updated, w, m, v), (m, v)


@jax.jit
def update(w, moments, tokens, step, peak, warmup, total):
    value, gradients = jax.value_and_grad(loss)(w, tokens)
    return value, *adam(w, moments, gradients, step, rate(step, peak, warmup, total))


def train(w, batches, peak, warmup):
    """The loss before each update, and the weights after the last."""
    zeros = jax.tree.map(jnp.zeros_like, w)
    moments = zeros, zeros
    losses = []
    for step, tokens in enumerate(batches):
        value, w, moments = update(w, moments, tokens, step, peak, warmup, len(batches))
        losses.append(float(value))
    return losses, w


if __name__ == '__main__':
    text = jnp.array([ord(letter) for letter in pathlib.Path(__file__).read_text()])
    starts = jax.random.randint(jax.random.key(1), (300, 16), 0, len(text) - C)
    windows = text[starts[..., None] + jnp.arange(C + 1)]
    losses, _ = train(initial(jax.random.key(0)), windows, peak=2e-3, warmup=20)
    print(*(f'{step}: {losses[step]:.3f}' for step in range(0, 300, 50)), sep='\n')
