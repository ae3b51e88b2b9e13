"""GELU inside the matrix product before it, by cuBLASLt on an NVIDIA GPU.

    --config.model.ops.gelu=experiments/ideas/gelu_epilogue.py:gelu --config.model.dtype=bfloat16

XLA recognises the operations of `jax.nn.gelu` behind a product in bfloat16, if all products are
cuBLASLt's (gpt1_jax/parallel/xla_options.py). The library then computes GELU in float32, before it
rounds, and writes both x and GELU(x): a pass over memory less. Without that, each operation would
be rounded to bfloat16. So this is only for that GPU. No device has timed it yet.
"""

import functools

import jax

from gpt1_jax.models.fast import xla


@jax.custom_vjp
def gelu(x):
    return jax.nn.gelu(x, approximate=True)


gelu.defvjp(lambda x: (gelu(x), x), functools.partial(xla._gelu_gradient, xla.by_sigmoid))
