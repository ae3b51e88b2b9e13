"""Section 5, Figure 2 (left): pretrained weights into a fresh model, all of them or the first n layers."""
from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax.errors import UserError
from gpt1_jax.parallel.sharding import named_leaves

NOTHING = -1
EMBEDDINGS = 0


def transfer(fresh: Any, pretrained: Any, n_layers: int) -> Any:
    """The fresh backbone's parameters with the embeddings and the first `n_layers` blocks replaced.

    fresh, pretrained: trees {'embed': {...}, 'blocks': {... [N, ...]}}; the fresh one may have specials that the
    pretrained one lacks (they stay as drawn, as in the released code). n_layers: -1 nothing, 0 only the embeddings, n
    the embeddings and the first n blocks (released code, train.py 413-417). What else a backbone has, such as a last
    LayerNorm, belongs to the output of its last block: it is replaced if all blocks are.
    UserError naming the array whose shapes differ, or where the model has fewer layers.
    """
    check_depth(n_layers, jax.tree.leaves(fresh['blocks'])[0].shape[0])
    ours = _shapes(fresh)
    theirs = _shapes(pretrained)
    for name in sorted(ours.keys() | theirs.keys()):
        if name == 'embed/specials' and name not in theirs:
            continue
        if ours.get(name) != theirs.get(name):
            raise UserError(f'{name} has shape {theirs.get(name)} in the checkpoint and {ours.get(name)} in this model')
    return _transfer(fresh, pretrained, jnp.asarray(n_layers, jnp.int32))


def _shapes(tree):
    return {name: leaf.shape for name, leaf in named_leaves(tree).items()}


def check_depth(n_layers: int, depth: int) -> None:
    """UserError unless n_layers of a model of `depth` layers can be transferred."""
    if not NOTHING <= n_layers <= depth:
        raise UserError(f'n_transfer = {n_layers} must be from -1 (nothing) and 0 (embeddings) to {depth} (all layers)')


@jax.jit
def _transfer(fresh, pretrained, n_layers):
    """n_layers is an array, so that a sweep over it compiles once."""
    def block(new, old):
        layers = jnp.arange(new.shape[0]).reshape([-1] + [1] * (new.ndim - 1))
        return jnp.where(layers < n_layers, old, new)
    embed = {
        name: jnp.where(n_layers >= EMBEDDINGS, pretrained['embed'][name], new) if name in pretrained['embed'] else new
        for name, new in fresh['embed'].items()}
    blocks = jax.tree.map(block, fresh['blocks'], pretrained['blocks'])
    depth = jax.tree.leaves(blocks)[0].shape[0]
    others = {name: jax.tree.map(lambda new, old: jnp.where(n_layers == depth, old, new), fresh[name], pretrained[name])
              for name in fresh.keys() - {'embed', 'blocks'}}
    return {'embed': embed, 'blocks': blocks, **others}
