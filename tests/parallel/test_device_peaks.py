"""MFU, memory, and what bfloat16 would bring, from what devices say of themselves."""

import types

import numpy as np
import pytest

from gpt1_jax.parallel import device_peaks


def mesh(kind, n=4, stats=None):
    devices = [
        types.SimpleNamespace(device_kind=kind, memory_stats=lambda: stats) for _ in range(n)
    ]
    return types.SimpleNamespace(devices=np.array(devices), size=n, local_devices=devices)


@pytest.mark.parametrize(
    'kind, peak',
    [
        ('TPU v4', 275e12),
        ('TPU v5 lite', 197e12),
        ('TPU v6 lite', 918e12),
        ('NVIDIA A100-SXM4-80GB', 312e12),
        ('NVIDIA H100 80GB HBM3', 989.5e12),
        ('NVIDIA H100 PCIe', 756e12),
        ('NVIDIA H200', 989.5e12),
    ],
)
def test_the_peak_of_a_device_by_jax_s_name(kind, peak):
    assert device_peaks.peak(kind) == peak


@pytest.mark.parametrize(
    'kind',
    [
        'cpu',
        'NVIDIA A1000',
        'NVIDIA GeForce RTX 4090 Laptop GPU',
        'NVIDIA A100-SXM4-40GB MIG 1g.5gb',
    ],
)
def test_of_other_devices_nothing_is_said(kind):
    assert device_peaks.measured(1e6, 1e9, mesh(kind)) == {}
    assert device_peaks.advice('float32', 'highest', mesh(kind).devices[0]) == ''


def test_mfu_is_what_palm_defines():
    # PaLM's GPT-3: 175e9 parameters, 96 layers of width 12,288, 2,048 positions: 21.3% of 1,024
    # A100 at 24.6% with attention left out; worked by hand: 6 x 175e9 x 67,000 tokens/s / (1,024 x
    # 312e12) = 22.0%
    found = device_peaks.measured(67_000, 6 * 175e9, mesh('NVIDIA A100-SXM4-40GB', 1024))
    assert found == {'mfu': pytest.approx(0.2202, abs=1e-4)}
    assert device_peaks.measured(67_000, 0, mesh('NVIDIA A100-SXM4-40GB')) == {}


def test_the_fullest_device_s_memory_is_told_where_it_is_known():
    found = device_peaks.measured(
        1, 0, mesh('TPU v4', stats={'peak_bytes_in_use': 5, 'bytes_limit': 8})
    )
    assert found == {'memory_bytes': 5, 'memory_limit': 8}


def test_a_float32_run_is_told_what_bfloat16_brings():
    device = mesh('TPU v5 lite').devices[0]
    line = device_peaks.advice('float32', 'high', device)
    assert (
        'in bfloat16 this device does up to 197 TFLOP/s' in line
        and '--config.model.dtype=bfloat16' in line
    )
    assert device_peaks.advice('bfloat16', 'high', device) == ''
