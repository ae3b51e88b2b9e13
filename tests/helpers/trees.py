"""Trees of arrays by the names of their leaves."""
import jax


def names(tree):
    """{'blocks/mlp/fc/kernel': leaf}."""
    return {jax.tree_util.keystr(path, simple=True, separator='/'): leaf
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
