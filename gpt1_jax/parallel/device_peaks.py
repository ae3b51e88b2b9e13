"""Peak FLOP/s of devices, model FLOPs utilization (MFU) and memory use.

MFU (Chowdhery et al., 2022, PaLM, Appendix B) = FLOP per token (step_cost.flops_per_token) x tokens/s / (devices x
peak). Recomputation by remat does not count. The peak is that of dense bfloat16 whatever the run's dtype.
"""
import re
from typing import NamedTuple

import jax


class Peak(NamedTuple):
    """Dense FLOP/s of a device. bfloat16: of its matrix units. float32: of exact float32 products."""
    bfloat16: float
    float32: float


# By the longest matching prefix of jax's device_kind. From cloud.google.com/tpu/docs/v4, v5e, v5p, v6e and tpu7x, where
# a float32 product takes six bfloat16 passes, and NVIDIA's datasheets, without sparsity, where it runs outside the
# tensor cores. V100 and T4 have no bfloat16. A TPU7x chip, of 2,307 TFLOP/s, is two devices.
PEAKS = {
    'TPU v4': Peak(275e12, 275e12 / 6),
    'TPU v5 lite': Peak(197e12, 197e12 / 6),
    'TPU v5e': Peak(197e12, 197e12 / 6),
    'TPU v5': Peak(459e12, 459e12 / 6),
    'TPU v5p': Peak(459e12, 459e12 / 6),
    'TPU v6 lite': Peak(918e12, 918e12 / 6),
    'TPU v6e': Peak(918e12, 918e12 / 6),
    'TPU7x': Peak(1153.5e12, 1153.5e12 / 6),
    'NVIDIA A10': Peak(125e12, 31.2e12),
    'NVIDIA A100': Peak(312e12, 19.5e12),
    'NVIDIA A40': Peak(149.7e12, 37.4e12),
    'NVIDIA L4': Peak(121e12, 30.3e12),
    'NVIDIA L40S': Peak(362e12, 91.6e12),
    'NVIDIA H100': Peak(989.5e12, 66.9e12),
    'NVIDIA H100 PCIe': Peak(756e12, 51.2e12),
    'NVIDIA H100 NVL': Peak(835.5e12, 60e12),
    'NVIDIA H200': Peak(989.5e12, 66.9e12),
    'NVIDIA H200 NVL': Peak(835.5e12, 60e12),
    'NVIDIA GH200': Peak(989.5e12, 66.9e12),
    'NVIDIA B200': Peak(2250e12, 75e12),
    'NVIDIA GeForce RTX 3090': Peak(71e12, 35.6e12),
    'NVIDIA GeForce RTX 4090': Peak(165.2e12, 82.6e12),
    'NVIDIA GeForce RTX 5090': Peak(209.5e12, 104.8e12),
}


def peak(device_kind: str) -> Peak | None:
    """The Peak of a device by jax's device_kind; None if it is unknown."""
    if re.search(r'\b(Laptop|Ti|SUPER|D|MIG)\b', device_kind):  # variants or parts of a card in the table
        return None
    fitting = [name for name in PEAKS if device_kind == name or device_kind.startswith((f'{name} ', f'{name}-'))]
    return PEAKS[max(fitting, key=len)] if fitting else None


def measured(tokens_per_s: float, flops_per_token: float, mesh: jax.sharding.Mesh) -> dict[str, float]:
    """{'mfu': a fraction, 'memory_bytes': peak memory in use, 'memory_limit': bytes in all}, as far as known.

    flops_per_token: of a training step (step_cost.flops_per_token); 0 for no 'mfu'. The memory is that of the fullest
    device of this process; CPUs report none.
    """
    found: dict[str, float] = {}
    known = peak(mesh.devices.flat[0].device_kind)
    if known and flops_per_token:
        found['mfu'] = tokens_per_s * flops_per_token / (known.bfloat16 * mesh.size)
    held = [device.memory_stats() or {} for device in mesh.local_devices]
    fullest = max(held, key=lambda stats: stats.get('peak_bytes_in_use', 0))
    if 'peak_bytes_in_use' in fullest and 'bytes_limit' in fullest:
        found |= {'memory_bytes': fullest['peak_bytes_in_use'], 'memory_limit': fullest['bytes_limit']}
    return found


def advice(dtype: str, precision: str, device: jax.Device) -> str:
    """A line on the speed that bfloat16 would give a float32 run; '' if unknown."""
    known = peak(device.device_kind)
    if dtype != 'float32' or known is None:
        return ''
    if precision == 'highest':
        rate = known.float32
    elif device.platform == 'tpu':
        rate = known.bfloat16 / {'high': 3, 'default': 1}[precision]
    else:
        rate = known.bfloat16 / 2  # TF32
    return (f'computing in float32 (precision {precision!r}): this device does {rate / 1e12:,.0f} TFLOP/s of it, '
            f'{known.bfloat16 / 1e12:,.0f} in bfloat16, which also halves the memory of activations: '
            '--config.model.dtype=bfloat16 (weights, Adam and sums stay float32)')
