"""Chooses between our kernels and plain XLA (config.model.kernels). The only place that does."""
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax.errors import UserError, shown
from gpt1_jax.models import dropout

# By device and dtype, after a self-check; never a kernel; always our kernels for NVIDIA GPUs; always those for TPUs.
CHOICES = ('auto', 'xla', 'triton', 'mosaic')


def _flash_takes(E: int) -> bool:
    """A Triton tile has dimensions that are powers of two, and a matrix product needs at least 16."""
    return E >= 16 and E & (E - 1) == 0


def residual_block(D: int) -> int:
    """The size of the blocks that the residual kernel splits a width into: the largest power of two that divides D,
    and at most 1,024."""
    return math.gcd(D, 1024)


def _residual_takes(D: int) -> bool:
    return residual_block(D) >= 16 and D // residual_block(D) <= 16


def _mosaic_takes(E: int) -> bool:
    return E == 64 or E % 128 == 0


def _cudnn_takes(E: int) -> bool:
    return E % 8 == 0 and E <= 128


class Kernel(NamedTuple):
    """An implementation that can take the place of plain XLA."""
    what: str                      # the operation: 'attention' or 'residual_norm'
    name: str                      # what `choose` returns
    choices: tuple[str, ...]       # values of config.model.kernels that use it
    training: tuple[bool, ...]     # whether it serves training, evaluation, or both
    takes: Callable[[int], bool]   # which head sizes (attention) or widths (residual_norm) it takes
    sizes: str                     # the same in words, for the error
    platform: str                  # where 'auto' uses it
    longest: int = dropout.LARGEST  # the longest sequence that it takes


KERNELS = (  # of those for an operation, the first that applies is chosen
    # cuDNN's attention cannot use our dropout masks, so it is for evaluation alone.
    Kernel('attention', 'cudnn', ('auto',), (False,), _cudnn_takes,
           'head size (n_embd / n_head) that is a multiple of 8 and at most 128', 'gpu'),
    Kernel('attention', 'flash', ('auto', 'triton'), (True, False), _flash_takes,
           'head size (n_embd / n_head) that is a power of two and at least 16', 'gpu'),
    # Its programs hold whole sequences in a TPU's fast memory.
    Kernel('attention', 'mosaic', ('auto', 'mosaic'), (True, False), _mosaic_takes,
           'head size (n_embd / n_head) of 64 or a multiple of 128', 'tpu', longest=1024),
    # Without dropout and gradients, XLA makes one pass over memory of the residual norm too, and writes less.
    Kernel('residual_norm', 'fused', ('auto', 'triton'), (True,), _residual_takes,
           'width (n_embd) of 1 to 16 times a power of two from 16 to 1,024', 'gpu'),
)
# On a CPU kernels are interpreted, which is for tests.
PLATFORMS = {'triton': ('gpu', 'cpu'), 'mosaic': ('tpu', 'cpu')}


def choose(what: str, choice: str, platform: str, device_kind: str, dtype: jax.typing.DTypeLike, size: int,
           training: bool, length: int = 1) -> str:
    """The implementation of an operation: the name of one of KERNELS, or a way without: 'xla', 'blocked' (attention on
    a CPU) or 'recomputed' (attention on a TPU, whose probabilities are not stored for the backward pass).

    what: 'attention' or 'residual_norm'. choice: config.model.kernels, one of CHOICES. platform, device_kind: as
    `device` returns them, ('gpu', 'NVIDIA H200'). dtype: of the activations. size: of a head for attention, the width
    for residual_norm. training: whether there may be dropout and gradients. length: of the sequences. UserError where
    `choice` asks for kernels that do not exist for this platform or size.
    """
    if (what, choice, platform) == ('attention', 'auto', 'cpu'):
        return 'blocked'
    plain = 'recomputed' if (what, platform, training) == ('attention', 'tpu', True) else 'xla'
    candidates = [k for k in KERNELS if k.what == what and choice in k.choices and training in k.training]
    if choice == 'auto':
        candidates = [k for k in candidates if k.platform == platform and _auto_applies(k, device_kind, dtype, size,
                                                                                        length)]
    elif candidates and platform not in PLATFORMS[choice]:
        raise UserError(f"model.kernels = {choice!r} is for {PLATFORMS[choice][0].upper()}s, not for "
                        f"{shown(platform)}: use 'xla'")
    for kernel in candidates:
        if kernel.takes(size) and length <= kernel.longest:
            return kernel.name
    if choice == 'auto' or not candidates:
        return plain
    if candidates[0].takes(size):
        raise UserError(f"model.kernels = {choice!r} takes sequences of at most {candidates[0].longest:,} tokens, not "
                        f"{length:,}: use 'xla'")
    raise UserError(f"model.kernels = {choice!r} needs a {candidates[0].sizes}, not {size}: use 'xla'")


def device() -> tuple[str, str]:
    """(platform, device kind) of what is being traced: of the mesh's devices, without a mesh of JAX's first device."""
    found = jax.sharding.get_abstract_mesh().abstract_device
    if found is None:
        found = jax.devices()[0]
    return found.platform, found.device_kind


def _auto_applies(kernel, device_kind, dtype, size, length):
    """'auto' uses kernels in bfloat16, for which their tiles were chosen, where they passed the self-check. A step that
    is compiled for a device of a kind that is not here (experiments/launch) cannot be checked, and gets them."""
    if jnp.dtype(dtype) != jnp.bfloat16:
        return False
    if all(device_kind != local.device_kind for local in jax.local_devices()):
        return True
    return length <= _passed.get((kernel.name, device_kind, size), 0)


# (name, device kind, size): the longest sequence with which a kernel passed self_check.py, in all processes.
_passed = {}


def record(name: str, device_kind: str, size: int, length: int) -> None:
    """From now on 'auto' uses the kernel of this name, on such devices, for this size and sequences up to this length:
    it has passed self_check.py in all processes."""
    known = _passed.get((name, device_kind, size), 0)
    _passed[name, device_kind, size] = max(known, length)
