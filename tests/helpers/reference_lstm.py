"""The reference of the LSTM's tests: the layer in plain numpy float64. Nothing here imports
gpt1_jax."""

import numpy as np

import reference


def weights(shapes, seed=1):
    """A tree of random float32 arrays. The inputs, 50 times the embeddings, have variance 1, so no
    gate is shut."""
    tree = reference.random_like(shapes, seed)
    return tree | {
        'embed': {name: leaf * np.float32(0.02 / 0.3) for name, leaf in tree['embed'].items()}
    }


def lstm(params, tokens, embd=0.0, resid=0.0, key=None, first=0):
    """The model in float64, one row and one time step after another."""

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    rows = reference.table({'embed': params['embed']}, embd, key)
    w, r, b = (
        np.asarray(params['blocks'][n][0], np.float64)
        for n in ('input_kernel', 'recurrent_kernel', 'bias')
    )
    out = np.zeros((*tokens.shape, b.shape[1]))
    for row, ids in enumerate(tokens):
        h = c = np.zeros(b.shape[1])
        for t, token in enumerate(ids):
            i, f, g, o = (50 * rows[token] @ w[:, n] + h @ r[:, n] + b[n] for n in range(4))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            out[row, t] = h = sigmoid(o) * np.tanh(c)
    return reference.dropped(out, resid, key, 0, 3, first)
