"""Chooses the implementation of each operation (config.model.kernels).

This is the only file of models/ that asks for the device.
"""

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax import user_code
from gpt1_jax.errors import UserError
from gpt1_jax.models import dropout
from gpt1_jax.models import ops as plain
from gpt1_jax.models.fast import cpu, xla

# 'auto': by device and dtype, after a self-check. 'plain': models/ops.py. 'xla': no kernels.
# 'triton': our kernels for NVIDIA GPUs. 'mosaic': our kernels for TPUs.
CHOICES = ('auto', 'plain', 'xla', 'triton', 'mosaic')


def ops(config: Any) -> plain.Ops:
    """Returns the operations of a backbone with this config, on the device that is being traced."""
    own = {name: replacement(name, code) for name, code in getattr(config, 'ops', ())}
    return judged(config)._replace(**own)


def judged(config: Any) -> plain.Ops:
    """The operations by which a model is judged: the built-in ones, and the user's logits.

    So a loss is always that of a distribution, also if the user has replaced the loss.
    """
    built_in = plain.PLAIN if config.kernels == 'plain' else _of_device(config.kernels)
    code = dict(getattr(config, 'ops', ())).get('logits')
    if code is None:
        return built_in
    logits = replacement('logits', code)

    def cross_entropy(hidden, rows, targets, dtype):
        return plain.log_loss(logits(hidden, rows), targets)

    return built_in._replace(logits=logits, cross_entropy=cross_entropy)


def logits(config: Any, hidden: jax.Array, rows: jax.Array) -> jax.Array:
    """The logits of all tokens of the vocabulary: [..., D], [R, D] -> float32[..., V]."""
    found = judged(config).logits(hidden.reshape(-1, hidden.shape[-1]), rows[: config.vocab_size])
    return found.reshape(*hidden.shape[:-1], -1)


def replacement(name: str, code: str) -> Callable:
    """Loads the user's function that replaces an operation.

    code: 'FILE:NAME'. UserError unless its result has the shape and dtype of the operation's
    result.
    """
    field = f'config.model.ops.{name}'
    function = user_code.load(code, field)
    with user_code.running(code, field):
        found = _result(name, function)
    expected = _result(name, getattr(plain.PLAIN, name))
    if found != expected:
        raise UserError(f'{field} = {code}: returns {found}, must return {expected}')
    return function


@functools.cache
def _result(operation, function):
    """Infers the shapes and dtypes that a function returns in the place of an operation.

    Nothing is computed.
    """

    def call():
        x = jnp.zeros((2, 3, 4))
        arguments = {
            'look_up': (x[0], jnp.zeros((2, 3), jnp.int32), x.dtype),
            'dense': (x, jnp.zeros((4, 5)), jnp.zeros(5)),
            'gelu': (x,),
            'attention': (jnp.zeros((2, 3, 3, 2, 4)), dropout.NONE),
            'add_and_norm': (x, x, x[0, 0], x[0, 0], dropout.NONE),
            'cross_entropy': (x[0], jnp.zeros((5, 4)), jnp.zeros(3, jnp.int32), x.dtype),
            'logits': (x[0], jnp.zeros((5, 4))),
        }[operation]
        return function(*arguments)

    return jax.tree.map(lambda y: (y.shape, str(y.dtype)), jax.eval_shape(call))


def _of_device(choice):
    platform, device_kind = device()

    def chosen(operation):
        def function(x, *others):
            name = choose(
                operation,
                choice,
                platform,
                device_kind,
                x.dtype,
                x.shape[-1],
                others[-1].key is not None,
                x.shape[1],
            )
            return implementation(name)(x, *others)

        return function

    def cross_entropy(hidden, rows, targets, dtype):
        name = choose(
            'cross_entropy', choice, platform, device_kind, hidden.dtype, rows.shape[0], True
        )
        return implementation(name)(hidden, rows, targets, dtype)

    ours = cpu if platform == 'cpu' else xla
    return plain.Ops(
        xla.look_up,
        ours.dense,
        ours.gelu,
        chosen('attention'),
        chosen('add_and_norm'),
        cross_entropy,
    )


def unroll(config: Any, training: bool) -> int:
    """Returns how many layers each iteration of a Transformer's scan runs."""
    platform, _ = device()
    if config.remat and platform == 'cpu':
        # With unrolled blocks a CPU recomputes all of them before it needs the first: no memory is
        # saved
        return 1
    if config.unroll:
        return min(config.unroll, config.n_layer)
    # An iteration copies its layer's weights, and in training the activations that it keeps. So a
    # GPU unrolls all layers, and a TPU does in training. On a CPU the better choice depends on the
    # sizes (experiments/benchmarks/README.md), and compiling is slower.
    return config.n_layer if platform == 'gpu' or platform == 'tpu' and training else 1


def device() -> tuple[str, str]:
    """Returns (platform, device kind) of the devices that are being traced for.

    These are the mesh's devices, or without a mesh JAX's first device.
    """
    found = jax.sharding.get_abstract_mesh().abstract_device or jax.devices()[0]
    return found.platform, found.device_kind


def interpreted() -> bool:
    """Returns whether kernels are interpreted: on a CPU, for tests."""
    return device()[0] == 'cpu'


# Attention and the residual norm


class Kernel(NamedTuple):
    """An implementation by a kernel."""

    operation: str  # 'attention', 'add_and_norm' or 'cross_entropy'
    name: str  # what `choose` returns
    # MODULE.NAME in this folder. It is imported only if it is used, as no device needs the Pallas
    # of another
    function: str
    choices: tuple[str, ...]  # values of config.model.kernels that use it
    training: tuple[bool, ...]  # whether it serves training, evaluation, or both
    # The head sizes (attention), widths (add_and_norm) or numbers of rows (cross_entropy) that it
    # takes
    takes: Callable[[int], bool]
    sizes: str  # the same in words, for the error
    platform: str  # on which 'auto' uses it
    longest: int = dropout.LARGEST  # the longest sequence that it takes


def residual_block(D: int) -> int:
    """The largest power of two that divides a width, at most 1,024.

    It is the size of the residual kernel's blocks.
    """
    return math.gcd(D, 1024)


KERNELS = (  # the first kernel of an operation that applies is chosen
    # cuDNN's attention cannot use our dropout masks, so it is only for evaluation.
    Kernel(
        'attention',
        'cudnn',
        'xla.cudnn_attention',
        ('auto',),
        (False,),
        lambda E: E % 8 == 0 and E <= 128,
        'head size (n_embd / n_head) that is a multiple of 8 and at most 128',
        'gpu',
    ),
    # A Triton tile has dimensions that are powers of two, and a matrix product needs at least 16.
    Kernel(
        'attention',
        'flash',
        'gpu_attention.flash_attention',
        ('auto', 'triton'),
        (True, False),
        lambda E: E >= 16 and E & (E - 1) == 0,
        'head size (n_embd / n_head) that is a power of two and at least 16',
        'gpu',
    ),
    # Its programs hold whole sequences in a TPU's fast memory.
    Kernel(
        'attention',
        'mosaic',
        'tpu_attention.tpu_attention',
        ('auto', 'mosaic'),
        (True, False),
        lambda E: E == 64 or E % 128 == 0,
        'head size (n_embd / n_head) of 64 or a multiple of 128',
        'tpu',
        longest=1024,
    ),
    # Without dropout and gradients, XLA also makes one pass over memory of the residual norm, and
    # writes less.
    Kernel(
        'add_and_norm',
        'fused',
        'gpu_residual_norm.add_and_norm',
        ('auto', 'triton'),
        (True,),
        lambda D: residual_block(D) >= 16 and D // residual_block(D) <= 16,
        'width (n_embd) of 1 to 16 times a power of two from 16 to 1,024',
        'gpu',
    ),
    # Not 'auto': no device has timed it.
    Kernel(
        'cross_entropy',
        'rowwise',
        'gpu_cross_entropy.cross_entropy',
        ('triton',),
        (True, False),
        lambda R: True,
        'vocabulary of any size',
        'gpu',
    ),
)
OTHERS: dict[str, Callable] = {
    'plain': plain.attention,
    'blocked': cpu.attention,
    'recomputed': xla.recomputed_attention,
    'xla': xla.add_and_norm,
    'cpu': cpu.cross_entropy,
    'two passes': xla.cross_entropy,
    'one pass': functools.partial(xla.cross_entropy, in_one_pass=True),
}
# The problems that self_check.py found with kernels, or None: (name, device kind, size, length of
# the longest sequence).
verdicts: dict[tuple[str, str, int, int], str | None] = {}


def implementation(name: str) -> Callable:
    """Returns the function of a name that `choose` returned."""
    if name in OTHERS:
        return OTHERS[name]
    module, function = next(kernel.function for kernel in KERNELS if kernel.name == name).split('.')
    return getattr(importlib.import_module(f'gpt1_jax.models.fast.{module}'), function)


def choose(
    operation: str,
    choice: str,
    platform: str,
    device_kind: str,
    dtype: jax.typing.DTypeLike,
    size: int,
    training: bool,
    length: int = 1,
) -> str:
    """Returns the name of an implementation, a key of KERNELS or OTHERS.

    choice: config.model.kernels, one of CHOICES but 'plain'. platform, device_kind: as `device`
    returns them. dtype: of the activations. size: of a head for attention, the width for
    add_and_norm, the rows of the output layer for cross_entropy. training: whether there may be
    dropout and gradients.

    UserError if `choice` asks for kernels that do not exist for this platform, size or length.
    """
    if operation == 'add_and_norm':
        otherwise = 'xla'
    elif operation == 'cross_entropy':
        otherwise = {'cpu': 'cpu', 'gpu': 'one pass'}.get(platform, 'two passes')
    elif platform == 'cpu' and choice == 'auto':
        otherwise = 'blocked'
    else:
        otherwise = 'recomputed' if platform == 'tpu' and training else 'plain'
    for kernel in KERNELS:
        if (
            kernel.operation != operation
            or choice not in kernel.choices
            or training not in kernel.training
        ):
            continue
        fits = kernel.takes(size) and length <= kernel.longest
        if choice == 'auto':
            if (
                fits
                and platform == kernel.platform
                and _auto_applies(kernel, device_kind, dtype, size, length)
            ):
                return kernel.name
        elif fits and platform in (kernel.platform, 'cpu'):
            return kernel.name
        else:
            raise UserError(
                f'model.kernels = {choice!r} needs a {kernel.platform.upper()}, a {kernel.sizes} '
                f'and at most {kernel.longest:,} tokens, not a {platform.upper()}, {size} and '
                f"{length:,}: use 'xla'"
            )
    return otherwise


def _auto_applies(kernel, device_kind, dtype, size, length):
    """Whether 'auto' uses a kernel: in bfloat16, if the kernel passed the self-check.

    Tiles were chosen for bfloat16. If no local device is of this kind (experiments/compile compiles
    for such devices), the kernel cannot be checked, and is used.
    """
    if jnp.dtype(dtype) != jnp.bfloat16:
        return False
    if all(device_kind != local.device_kind for local in jax.local_devices()):
        return True
    return any(
        reason is None and checked[:3] == (kernel.name, device_kind, size) and length <= checked[3]
        for checked, reason in verdicts.items()
    )
