"""The precision of float32 matrix products: config.model.precision.

By default JAX multiplies float32 matrices on GPUs in TF32 (a mantissa of 10 bits instead of 23) and on TPUs in one pass
of bfloat16 (7 bits). A CPU always computes in float32. With model.dtype = 'bfloat16' none of this applies.
"""
import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax

CHOICES = ('highest', 'high', 'default')  # float32; three passes or TF32; JAX's setting. See configs/pretrain.py


def of(config: Any) -> Callable[[], contextlib.AbstractContextManager]:
    """The context in which to call a backbone's jitted functions, so that their products and gradients have its
    precision. config: GPTConfig or LSTMConfig."""
    if config.dtype != 'float32' or config.precision == 'default':
        return contextlib.nullcontext  # JAX's own setting, jax_default_matmul_precision
    return functools.partial(jax.default_matmul_precision, config.precision)
