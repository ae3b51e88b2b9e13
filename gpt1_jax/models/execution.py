"""The way a backbone is computed: speed, memory and rounding. None of it is in the paper."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Execution:
    """The fields of config.model for speed and memory.

    They change a model's values only by rounding. The exception is `ops`, which replaces operations
    of the paper by others.
    """

    dtype: str = 'float32'  # of matrix products and activations; parameters are always float32
    precision: str = 'highest'  # of products of float32 matrices, see build.precision
    # Recompute each block in the backward pass: less memory, a third more arithmetic
    remat: bool = False
    # Layers unrolled in each iteration of the scan; 0: by device, see table.unroll
    unroll: int = 0
    kernels: str = 'auto'  # one of table.CHOICES
    # Pairs ('gelu', 'FILE:NAME'): the user's code in place of operations of ops.py
    ops: tuple = ()
