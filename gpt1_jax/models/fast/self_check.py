"""Checks the kernels on this device, against models/ops.py, before a model is traced.

Compilers change, and no kernel was run on every device. So 'auto' (config.model.kernels) uses a kernel only where it
passed these checks in bfloat16, with the model's own head size, width and context:

* its dropout masks are those of models/ops.py to the bit, forward and backward;
* each of its results is no further from the definition in float32 than SLACK times the definition in bfloat16;
* nothing was raised: no compiler for the device, too little shared memory, a missing module.

A kernel that fails is not used in any process, and one line says so. A pass is remembered on disk.
"""
import contextlib
import functools
import hashlib
import json
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

from gpt1_jax import storage
from gpt1_jax.errors import UserError
from gpt1_jax.models import dropout, ops
from gpt1_jax.models.fast import table
from gpt1_jax.parallel import processes

SLACK = 3         # times the plain path's own rounding
ROUNDING = 2**-9  # of a single number to bfloat16, the least that counts as such
RATE = 0.1        # of dropout
ROWS, HEADS = 2, 2
SEED, STEP, FIRST_ROW, LAYER = 7, 3, 5, 4
CAPABILITY = 8.0  # CUDA's compute capability of the first GPUs with bfloat16 products

FLAGS = ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')  # of the compilers: a verdict depends on them

# What this process has checked: (name, device kind, size, length) -> what is wrong, or None.
_reasons: dict[tuple[str, str, int, int], str | None] = {}


def check(config: Any) -> None:
    """Checks the kernels that a model may use, for table.choose.

    config: a backbone's, as GPTConfig. Call it in every process, before the model is traced. Prints a line for each
    kernel that is not used. UserError where config.kernels asks for one that fails. Kernels in float32, which only run
    where config.kernels asks for them, are not checked.
    """
    device = jax.local_devices()[0]
    choice = config.kernels
    if (device.platform == 'cpu' or choice in ('plain', 'xla') or config.dtype != 'bfloat16'
            or not hasattr(config, 'n_head')):  # an LSTM has no kernels
        return
    for kernel in table.KERNELS:
        size = config.n_embd if kernel.operation == 'add_and_norm' else config.n_embd // config.n_head
        length = min(config.n_ctx, kernel.longest)
        applies = choice in kernel.choices and kernel.platform == device.platform and kernel.takes(size)
        if not applies:
            continue
        key = kernel.name, device.device_kind, size, length
        first = key not in _reasons
        if first:
            _reasons[key] = _verdict(kernel, size, length, device)
        reason = _reasons[key]
        if reason and choice != 'auto':
            raise UserError(f'model.kernels = {choice!r}: {kernel.name} fails on {device.device_kind}: {reason}')
        if reason and first:
            print(f'kernels: {kernel.name} ({kernel.operation}) is not used on {device.device_kind}, plain XLA takes '
                  f'its place: {reason}', flush=True)


def _verdict(kernel, size, length, device):
    """What is wrong, or None: one verdict for all processes, as all run one program; a pass is recorded."""
    reason = failure(kernel, size, length, device)
    if processes.everywhere(reason is None):
        table.record(kernel.name, device.device_kind, size, length)
        return None
    return reason or 'it failed in another process'


def failure(kernel: table.Kernel, size: int, length: int, device: jax.Device, interpret: bool = False) -> str | None:
    """None, or in one line what is wrong with a kernel on a device.

    size: of a head, or the width. length: of the longest sequence; one shorter by one, of another tiling, is checked
    too. interpret: interpret the kernel, on any device.
    """
    remembered = _file(kernel, size, length, device)
    try:
        if remembered.exists() and not interpret:
            return None
        reason = _unfit(device) or _wrong(kernel, size, length, device, interpret)
    except Exception as error:  # any: of a missing module, a compiler, the device
        return f'{type(error).__name__}: {" ".join(str(error).split())[:200]}'
    if reason is None and not interpret:
        with contextlib.suppress(OSError):  # no room or no right to write: the next process checks again
            remembered.parent.mkdir(parents=True, exist_ok=True)
            remembered.touch()
    return reason


def _unfit(device):
    """What a GPU lacks for our kernels, or None. Asked of the device: names do not tell."""
    if device.platform != 'gpu':
        return None
    try:
        capability = float(device.compute_capability)
    except (AttributeError, ValueError):
        return 'not an NVIDIA GPU'
    if capability < CAPABILITY:
        return f'compute capability {capability}, bfloat16 needs {CAPABILITY}'
    return None


def _wrong(kernel, size, length, device, interpret):
    """Which result of a kernel is wrong, or None."""
    checked = _attention if kernel.operation == 'attention' else _add_and_norm
    with jax.default_device(device):
        for training in kernel.training:
            for L in sorted({max(length - 1, 1), length}):
                reason = checked(kernel.name, size, L, training, interpret)
                if reason:
                    return f'{reason} ({L} positions, {"training" if training else "evaluation"})'
    return None


# Attention

def _attention(name, E, L, training, interpret):
    """Which result is wrong, or None. Where q and k are zero and v is the unit matrix, so that an output is one
    probability, outputs are zero only where dropped, as are the gradients of v where that of the output is."""
    drop = _drop(dropout.ATTENTION, training)

    def run(function, q, k, v, d_out):
        return _with_gradients(lambda q, k, v: function(jnp.stack((q, k, v), 2), drop), (q, k, v), d_out, training)

    shape = (ROWS, L, HEADS, E)
    ours = jax.jit(functools.partial(run, table.implementation('attention', name, interpret)))
    reason = _too_far(ours, jax.jit(functools.partial(run, ops.attention)), _random([shape] * 4))
    if reason or not training:
        return reason
    mask = np.asarray(_mask(drop, (ROWS, HEADS, L, L))) & np.tri(L, dtype=bool)
    zeros = jnp.zeros(shape, jnp.bfloat16)
    for first in range(0, L, E):  # a head has places for E keys, or E queries, at a time
        unit = jnp.broadcast_to(jnp.eye(L, E, -first, jnp.bfloat16)[None, :, None], shape)
        out, _, _, d_v = (np.asarray(x) != 0 for x in ours(zeros, zeros, unit, unit))
        n = min(E, L - first)
        if not np.array_equal(out.transpose(0, 2, 1, 3)[..., :n], mask[..., first:first + n]):
            return 'another dropout mask forward'
        if not np.array_equal(d_v.transpose(0, 2, 3, 1)[:, :, :n], mask[:, :, first:first + n]):
            return 'another dropout mask backward'
    return None


# Residual norm

def _add_and_norm(name, D, L, training, interpret):
    """Which result is wrong, or None. Where x is zero and `a` one, kept elements are above the mean of their vector;
    where the gradient of x is not zero, that of `a` is zero only where dropped."""
    drop = _drop(dropout.MLP_OUT, training)

    def run(function, *values):
        return _with_gradients(lambda *values: function(*values, drop), values[:-1], values[-1], training)

    x, a, d_out, scale, bias = _random([(ROWS, L, D)] * 3 + [(D,)] * 2)
    values = x, a, scale.astype(jnp.float32), bias.astype(jnp.float32), d_out
    ours = jax.jit(functools.partial(run, table.implementation('add_and_norm', name, interpret)))
    reason = _too_far(ours, jax.jit(functools.partial(run, ops.add_and_norm)), values)
    if reason or not training:
        return reason
    mask = np.asarray(_mask(drop, (ROWS, L, D)))
    y = np.asarray(ours(jnp.zeros_like(x), jnp.ones_like(x), jnp.ones(D), jnp.zeros(D), d_out)[0])
    known = ~mask.all(axis=2)  # vectors with something dropped
    if not np.array_equal((y > 0)[known], mask[known]):
        return 'another dropout mask forward'
    _, d_x, d_a, _, _ = (np.asarray(each) for each in ours(*values))
    if not np.array_equal(d_a != 0, mask & (d_x != 0)):
        return 'another dropout mask backward'
    return None


# Both

def _drop(site, training):
    key = dropout.Key(*map(jnp.uint32, (SEED, STEP, FIRST_ROW))) if training else None
    return dropout.Dropout(key, LAYER).at(site, RATE)


@functools.partial(jax.jit, static_argnums=1)
def _mask(drop, shape):
    return drop.mask(shape, (FIRST_ROW,))


def _random(shapes):
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return tuple(jax.random.normal(key, shape, jnp.bfloat16) for key, shape in zip(keys, shapes))


def _with_gradients(function, values, d_out, training):
    """(result, *gradients of the values); of evaluation the result alone."""
    if not training:
        return (function(*values),)
    out, gradient = jax.vjp(function, *values)
    return out, *gradient(d_out.astype(out.dtype))


def _too_far(ours, plain, values):
    """Which of the results of ours(*values) is too far from the definition's in float32, in words, or None."""
    found = _float64(ours(*values))
    rounded = _float64(plain(*values))
    with jax.default_matmul_precision('highest'):
        exact = _float64(plain(*(x.astype(jnp.float32) for x in values)))
    for place, right in enumerate(exact):
        error, rounding = (np.abs(each[place] - right).max() / np.abs(right).max() for each in (found, rounded))
        allowed = SLACK * max(rounding, ROUNDING)
        if not error <= allowed:  # also where it is NaN
            what = f'gradient {place}' if place else 'the result'
            return f'{what} is off by {error:.2g}, {allowed:.2g} are allowed'
    return None


def _float64(arrays):
    return [np.asarray(x).astype(np.float64) for x in arrays]


# On disk

def _file(kernel, size, length, device):
    """The file that is there if this kernel of this code passed on such a device, with these versions."""
    code = hashlib.sha256()
    for file in sorted(pathlib.Path(__file__).parents[1].rglob('*.py')):
        code.update(file.read_bytes())
    facts = {'kernel': kernel.name, 'size': size, 'length': length, 'device': device.device_kind,
             'platform': device.client.platform_version, 'jax': jax.__version__, 'jaxlib': jaxlib.__version__,
             'flags': [os.environ.get(name) for name in FLAGS], 'code': code.hexdigest()}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return storage.cache(f'kernels/{digest}')
