"""The page beside gpt1_jax: the same weights, batches and rates give the same losses."""

import jax
import numpy as np
import paper_in_one_page as page

import meshes
import tiny
from gpt1_jax.models.gpt import GPT, GPTConfig

UPDATES = 20


def as_on_the_page(params):
    """gpt1_jax's parameters under the page's names."""
    blocks = params['blocks']
    D = page.D
    shapes = {'qkv': (D, 3 * D), 'out': (D, D), 'fc': (D, 4 * D), 'proj': (4 * D, D)}

    def block(n):
        found = {name: {k: x[n] for k, x in blocks[name].items()} for name in ('ln_1', 'ln_2')}
        for name, shape in shapes.items():
            leaf = blocks['attn' if name in ('qkv', 'out') else 'mlp'][name]
            found[name] = {
                'kernel': leaf['kernel'][n].reshape(shape),
                'bias': leaf['bias'][n].reshape(-1),
            }
        return found

    embed = params['embed']
    return {
        'W_e': embed['tokens'],
        'W_p': embed['positions'],
        'blocks': [block(n) for n in range(page.N)],
    }


def test_twenty_updates_have_the_losses_and_end_at_the_weights_of_the_page():
    config = GPTConfig(
        vocab_size=page.V,
        n_ctx=page.C,
        n_embd=page.D,
        n_layer=page.N,
        n_head=page.H,
        n_inner=4 * page.D,
        embd_dropout=0.0,
        attn_dropout=0.0,
        resid_dropout=0.0,
    )
    program = meshes.pretraining(GPT(config))
    state = program.init(np.uint32(5))
    start = jax.tree.map(np.array, state.params)
    text = np.array([ord(letter) for letter in open(page.__file__).read()], np.int32)
    batches = [text[64 * n :][: 8 * (page.C + 1)].reshape(8, -1) for n in range(UPDATES)]
    hyper = meshes.hyper(peak=1e-2, warmup=5, total=UPDATES)
    found = []
    for tokens in batches:
        state, metrics = program.step(state, tiny.place(program, {'tokens': tokens}), hyper)
        found.append(float(metrics['loss']))
    with jax.numpy_rank_promotion('allow'):  # the page adds [D] to [B, L, D], as one writes it
        losses, weights = page.train(as_on_the_page(start), batches, peak=1e-2, warmup=5)
    assert losses[0] > 4.5 and losses[-1] < losses[0] - 0.5
    print(f'the largest difference of a loss: {np.max(np.abs(np.subtract(found, losses))):.1e}')
    np.testing.assert_allclose(found, losses, rtol=0, atol=1e-5)
    ours = jax.tree.leaves(as_on_the_page(jax.device_get(state.params)))
    for a, b in zip(ours, jax.tree.leaves(weights), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
