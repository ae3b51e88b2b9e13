"""Log-probabilities by the numpy models, which read a text as a whole: no cache, no batch, no
padding."""

import numpy as np

import reference
import reference_lstm


def states(params, ids):
    """The hidden states at each of the ids, float64[n, D]."""
    ids = np.array([ids])
    return (
        reference.gpt(params, ids)[0]
        if 'attn' in params['blocks']
        else reference_lstm.lstm(params, ids)
    )[0]


def logits(params, ids):
    """The logits of the token after each of the ids, float64[n, V]."""
    return states(params, ids) @ np.asarray(params['embed']['tokens'], np.float64).T


def last(params, ids, n):
    """(log P of each of the last n ids, float64[n], and whether all are the most probable)."""
    found = logits(params, ids[:-1])[-n:]
    wanted = np.array(ids[-n:])
    return -reference.cross_entropy(found, wanted), bool((found.argmax(-1) == wanted).all())
