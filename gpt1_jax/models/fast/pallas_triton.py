"""Everything that the kernels for NVIDIA GPUs take from Pallas's backend for Triton.

jax 0.11 deprecates this backend. Once jax drops it, importing this module fails, the self-check
reports it, and models run without these kernels.

Nothing replaces it yet. Mosaic GPU needs compute capability 9.0, and these kernels need 8.0. The
released jax_triton lowers only on a machine with a GPU, so its kernels could not be compiled for an
absent GPU.
"""

from collections.abc import Callable
from typing import Any

from jax.experimental import pallas
from jax.experimental.pallas import triton

from gpt1_jax.models.fast import table

dot = triton.dot  # of two tiles, summed in float32
load = triton.load  # of a reference's elements where a mask is true
store = triton.store


def call(kernel: Callable, warps: int, stages: int | None = None, **how: Any) -> Callable:
    """pallas_call for Triton.

    warps: groups of 32 threads of a program. stages: tiles being loaded ahead.
    """
    return pallas.pallas_call(
        kernel,
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=table.interpreted(),
        **how,
    )
