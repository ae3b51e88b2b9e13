"""Where a kernel of ours takes the place of what XLA makes of the plain lines: config.model.kernels."""
import jax
import jax.numpy as jnp

from gpt1_jax.errors import UserError, shown

CHOICES = ('auto', 'xla', 'triton')  # by device and type; never; always


def device():
    """(platform, kind) of the devices that what is being traced will run on: the mesh's, or else JAX's first."""
    found = jax.sharding.get_abstract_mesh().abstract_device
    if found is None:
        found = jax.devices()[0]
    return found.platform, found.device_kind


def kernels(choice, platform, device, dtype):
    """Whether kernels are wanted: with 'auto' in bfloat16 on NVIDIA's GPUs, as they multiply float32 in 19 bits (TF32).

    platform, device: of JAX, ('gpu', 'NVIDIA H200'). UserError for 'triton' where there are none; on a CPU their
    operations are run one by one, which is for tests.
    """
    if choice == 'triton' and platform not in ('gpu', 'cpu'):
        raise UserError(f"model.kernels = 'triton' is for GPUs, not for {shown(platform)}: use 'xla'")
    nvidia = platform == 'gpu' and device.startswith('NVIDIA')
    return choice == 'triton' or choice == 'auto' and nvidia and jnp.dtype(dtype) == jnp.bfloat16
