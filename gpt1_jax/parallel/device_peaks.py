"""Peak FLOP/s of devices, model FLOPs utilization (MFU) and memory use.

MFU (Chowdhery et al., 2022, PaLM, Appendix B) = FLOP per token (step_cost.flops_per_token) x
tokens/s / (devices x peak). Recomputation by remat does not count. The peak is for dense bfloat16,
whatever the run's dtype.
"""

import re

import jax

# TFLOP/s in dense bfloat16, by the longest matching prefix of jax's device_kind. The sources are
# cloud.google.com/tpu/docs/v4, v5e, v5p, v6e and tpu7x (whose chip is two devices), and NVIDIA's
# datasheets. V100 and T4 have no bfloat16.
PEAKS = {
    'TPU v4': 275,
    'TPU v5 lite': 197,
    'TPU v5e': 197,
    'TPU v5': 459,
    'TPU v5p': 459,
    'TPU v6 lite': 918,
    'TPU v6e': 918,
    'TPU7x': 1153.5,
    'NVIDIA A10': 125,
    'NVIDIA A100': 312,
    'NVIDIA A40': 149.7,
    'NVIDIA L4': 121,
    'NVIDIA L40S': 362,
    'NVIDIA H100': 989.5,
    'NVIDIA H100 PCIe': 756,
    'NVIDIA H100 NVL': 835.5,
    'NVIDIA H200': 989.5,
    'NVIDIA H200 NVL': 835.5,
    'NVIDIA GH200': 989.5,
    'NVIDIA B200': 2250,
    'NVIDIA GeForce RTX 3090': 71,
    'NVIDIA GeForce RTX 4090': 165.2,
    'NVIDIA GeForce RTX 5090': 209.5,
}


def peak(device_kind: str) -> float | None:
    """Dense bfloat16 FLOP/s of a device by jax's device_kind, or None if it is unknown."""
    # Variants or parts of a card in the table
    if re.search(r'\b(Laptop|Ti|SUPER|D|MIG)\b', device_kind):
        return None
    fitting = [
        name
        for name in PEAKS
        if device_kind == name or device_kind.startswith((f'{name} ', f'{name}-'))
    ]
    return PEAKS[max(fitting, key=len)] * 1e12 if fitting else None


def measured(
    tokens_per_s: float, flops_per_token: float, mesh: jax.sharding.Mesh
) -> dict[str, float]:
    """{'mfu': a fraction, 'memory_bytes': peak memory in use, 'memory_limit': bytes in all}.

    Unknown entries are left out. flops_per_token: of a training step (step_cost.flops_per_token),
    or 0 for no 'mfu'. The memory is from the fullest device of this process. CPUs report none.
    """
    found: dict[str, float] = {}
    known = peak(mesh.devices.flat[0].device_kind)
    if known and flops_per_token:
        found['mfu'] = tokens_per_s * flops_per_token / (known * mesh.size)
    held = [device.memory_stats() or {} for device in mesh.local_devices]
    fullest = max(held, key=lambda stats: stats.get('peak_bytes_in_use', 0))
    if 'peak_bytes_in_use' in fullest and 'bytes_limit' in fullest:
        found |= {
            'memory_bytes': fullest['peak_bytes_in_use'],
            'memory_limit': fullest['bytes_limit'],
        }
    return found


def advice(dtype: str, precision: str, device: jax.Device) -> str:
    """A line on the gain from bfloat16 for a float32 run, or '' if unknown."""
    known = peak(device.device_kind)
    if dtype != 'float32' or known is None:
        return ''
    return (
        f'computing in float32 (precision {precision!r}): in bfloat16 this device does up to '
        f'{known / 1e12:,.0f} TFLOP/s, and activations take half of the memory: '
        '--config.model.dtype=bfloat16 (weights, Adam and sums stay float32)'
    )
