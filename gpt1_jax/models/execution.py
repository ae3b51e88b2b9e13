"""How a backbone is computed, none of which is in the paper: speed, memory and rounding."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Execution:
    """The fields of config.model that change a model's speed and memory, and its values by no more
    than rounding; but `ops`, which puts other operations in the place of the paper's."""

    dtype: str = 'float32'  # of matrix products and activations; parameters are always float32
    precision: str = 'highest'  # of products of float32 matrices, see build.precision
    # Recompute each block in the backward pass: less memory, a third more arithmetic
    remat: bool = False
    # Layers unrolled in each iteration of the scan; 0: by device, see table.unroll
    unroll: int = 0
    kernels: str = 'auto'  # one of table.CHOICES
    # Pairs ('gelu', 'FILE:NAME'): the user's code in place of operations of ops.py
    ops: tuple = ()
