"""Checks the kernels on this device, against models/ops.py, before a model is traced.

Compilers change, and no kernel was run on every device. So 'auto' (config.model.kernels) uses a
kernel only if it passed these checks in bfloat16, with the model's head size, width and context:

* Each of its results and gradients, with dropout, differs from the definition in float32 by at most
  SLACK times as much as the definition in bfloat16 does.
* Nothing was raised, such as for a missing compiler for the device, too little shared memory, or a
  missing module.

A kernel that fails is not used in any process, and a line is printed. JAX's cache on disk keeps the
compiled checks.
"""

import contextlib
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.errors import UserError
from gpt1_jax.models import dropout, ops
from gpt1_jax.models.fast import table
from gpt1_jax.parallel import processes, xla_options

SLACK = 3  # times the plain path's own rounding
ROUNDING = 2**-9  # of a single number to bfloat16; a smaller rounding counts as this
RATE = 0.1  # of dropout
ROWS = 2
HEADS = 2
WIDTH = 64  # of the states that a loss is computed from
SEED = 7
STEP = 3
FIRST_ROW = 5
LAYER = 4
CAPABILITY = 8.0  # CUDA's compute capability of the first GPUs with bfloat16 products


def check(config: Any) -> None:
    """Checks the kernels that a model may use, for table.choose.

    Call it in every process, before the model is traced. It prints a line for each kernel that is
    not used. UserError if config.kernels asks for a kernel that fails. Kernels in float32 run only
    if config.kernels asks for them, and are not checked.

    config: of a backbone, such as a GPTConfig.
    """
    device = jax.local_devices()[0]
    choice = config.kernels
    if config.dtype != 'bfloat16':
        return
    for kernel, size, length in _kernels(config):
        if choice not in kernel.choices or kernel.platform != device.platform:
            continue
        key = kernel.name, device.device_kind, size, length
        first = key not in table.verdicts
        if first:
            reason = failure(kernel, size, length, device)
            passed = processes.everywhere(reason is None)  # all run one program
            table.verdicts[key] = None if passed else reason or 'it failed in another process'
        reason = table.verdicts[key]
        if reason and choice != 'auto':
            raise UserError(
                f'model.kernels = {choice!r}: {kernel.name} fails on {device.device_kind}: {reason}'
            )
        if reason and first:
            print(
                f'kernels: {kernel.name} ({kernel.operation}) is not used on {device.device_kind}, '
                f'plain XLA takes its place: {reason}',
                flush=True,
            )


def _kernels(config):
    """[(kernel, its size in the model, longest sequence)] for each kernel that takes the model.

    The size is the head size, the width or the vocabulary.
    """
    sizes = {'cross_entropy': config.vocab_size}
    if hasattr(config, 'n_head'):  # an LSTM has no kernels but the loss's
        sizes |= {'add_and_norm': config.n_embd, 'attention': config.n_embd // config.n_head}
    return [
        (kernel, sizes[kernel.operation], min(config.n_ctx, kernel.longest))
        for kernel in table.KERNELS
        if kernel.operation in sizes and kernel.takes(sizes[kernel.operation])
    ]


def failure(kernel: table.Kernel, size: int, length: int, device: jax.Device) -> str | None:
    """Returns None, or one line on the problem of a kernel on a device.

    size: of a head, the width, or the vocabulary. length: of the longest sequence; the sequence
    shorter by one token, which has another tiling, is also checked.
    """
    try:
        return _unfit(device) or _wrong(kernel, size, length, device)
    except Exception as error:  # any: of a missing module, a compiler, the device
        return f'{type(error).__name__}: {" ".join(str(error).split())[:200]}'


def _unfit(device):
    """Returns what a GPU lacks for our kernels, or None. The device is asked: names do not tell."""
    capability = getattr(device, 'compute_capability', None)
    with contextlib.suppress(TypeError, ValueError):  # of a GPU that is not NVIDIA's
        if device.platform != 'gpu' or float(capability) >= CAPABILITY:
            return None
    return f'compute capability {capability}, bfloat16 needs {CAPABILITY} of an NVIDIA GPU'


def _wrong(kernel, size, length, device):
    """Names a kernel's first result that is too far from the definition, or None.

    The definition is computed in float32.
    """
    ours = _called(kernel.operation, table.implementation(kernel.name))
    plain = _called(kernel.operation, getattr(ops, kernel.operation))
    for training in kernel.training:
        key = dropout.Key(*map(jnp.uint32, (SEED, STEP, FIRST_ROW))) if training else None
        drop = dropout.Dropout(key, LAYER).at(dropout.MLP_OUT, RATE)
        for L in sorted({max(length - 1, 1), length}):
            with jax.default_device(device):
                inputs = _inputs(kernel.operation, size, L)
                found, rounded = (_results(f, drop, inputs, device.platform) for f in (ours, plain))
                with jax.default_matmul_precision('highest'):
                    exact = _results(
                        plain, drop, [x.astype(jnp.float32) for x in inputs], device.platform
                    )
            for place, right in enumerate(exact):
                error, rounding = (
                    np.abs(each[place] - right).max() / np.abs(right).max()
                    for each in (found, rounded)
                )
                allowed = SLACK * max(rounding, ROUNDING)
                if not error <= allowed:  # also if it is NaN
                    what = f'gradient {place}' if place else 'the result'
                    return (
                        f'{what} is off by {error:.2g}, {allowed:.2g} are allowed ({L} positions, '
                        f'{"training" if training else "evaluation"})'
                    )
    return None


def _called(operation, function):
    """Returns the function in the place of an operation.

    It is called with the operation's arrays that have gradients, and the dropout.
    """
    if operation != 'cross_entropy':
        return function

    def loss(hidden, rows, _drop):
        targets = jnp.arange(len(hidden)) * 7919 % len(rows)  # all over the vocabulary
        return function(hidden, rows, targets, hidden.dtype)

    return loss


def _inputs(operation, size, L):
    """Draws the arrays of an operation that have gradients, then the gradient of its result."""
    shapes = {
        'attention': [(ROWS, L, 3, HEADS, size), (ROWS, L, HEADS, size)],
        'add_and_norm': [(ROWS, L, size), (ROWS, L, size), (size,), (size,), (ROWS, L, size)],
        'cross_entropy': [(ROWS * L, WIDTH), (size, WIDTH), (ROWS * L,)],
    }[operation]
    keys = jax.random.split(jax.random.key(0), len(shapes))
    drawn = [jax.random.normal(key, shape, jnp.bfloat16) for key, shape in zip(keys, shapes)]
    if operation == 'cross_entropy':
        drawn[1] = drawn[1] / 4  # logits with a deviation of 2: many have some probability
    return [x.astype(jnp.float32) if x.ndim == 1 else x for x in drawn]  # parameters are float32


def _results(function, drop, inputs, platform):
    """[result, *gradients] as float64, with separate gradients of q, k and v.

    Evaluation has only a result. The function is compiled as a training step of the platform is.
    """

    @functools.partial(jax.jit, compiler_options=xla_options.of(platform))
    def run(*values):
        if drop.key is None:
            return (function(*values, drop),)
        out, gradient = jax.vjp(lambda *values: function(*values, drop), *values)
        gradients = gradient(d_out.astype(out.dtype))
        return out, *(jnp.moveaxis(gradients[0], 2, 0) if len(gradients) == 1 else gradients)

    *values, d_out = inputs
    return [np.asarray(x).astype(np.float64) for x in run(*values)]
