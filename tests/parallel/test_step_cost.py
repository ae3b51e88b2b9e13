"""The costs of a step from shapes alone, against numbers by hand."""

import jax
import jax.numpy as jnp

from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.parallel import sharding, step_cost
from gpt1_jax.training import loop
from meshes import mesh_of, shapes

# A table of 30 x 8 and one projection [N, F, D] = [2, 12, 8], a bias that is never sharded.
TABLE, KERNEL, BIAS = (
    jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((30, 8), (2, 12, 8), (2, 8))
)
TREE = {'embed': {'tokens': TABLE}, 'blocks': {'mlp': {'proj': {'kernel': KERNEL, 'bias': BIAS}}}}


def test_the_papers_model_takes_752_75_million_operations_a_token():
    """Blocks 169.87, output layer 62.17, attention 18.87 million forward, and twice that
    backward."""
    assert step_cost.flops_per_token(shapes(GPT(GPTConfig())), 512) == 3 * (
        169_869_312 + 62_174_208 + 18_874_368
    )


def test_a_device_holds_its_part_of_parameters_gradients_and_moments():
    mesh = mesh_of((2, 2, 2))
    count = {'count': jax.ShapeDtypeStruct([], jnp.int32)}
    state = sharding.abstract(
        {'params': TREE, 'opt_state': {'mu': TREE, 'nu': TREE, **count}}, mesh
    )
    state = loop.TrainState(None, state['params'], state['opt_state'], None, None)
    # tokens 30 x 8/2, kernel 2 x 12/2 x 8/2, bias 2 x 8: 120 + 48 + 16 floats; two of each, and the
    # count.
    assert step_cost.memory(state) == {'parameters': 736, 'gradients': 736, 'Adam moments': 1476}
