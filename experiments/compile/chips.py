"""The accelerators that a step can be compiled for without the hardware: `v5e:16x16` or `h200:8`.

Figures are the makers': Google's pages cloud.google.com/tpu/docs/v4, v5e, v5p and v6e, and NVIDIA's
datasheets.
"""

import contextlib
import importlib.metadata
import math
import os
import re
from typing import NamedTuple

from jax.experimental import topologies

from gpt1_jax.errors import UserError


class Gpu(NamedTuple):
    """A GPU's figures for XLA.

    kind: jax's device_kind. capability: CUDA's compute capability. cores: multiprocessors. fpus,
    threads: float32 units of a multiprocessor, and threads that it runs at a time. shared: bytes of
    shared memory that a program may ask for. l2, memory: bytes. bandwidth: bytes/s. clock: GHz.
    """

    kind: str
    capability: tuple[int, int]
    cores: int
    fpus: int
    threads: int
    shared: int
    l2: int
    memory: int
    bandwidth: float
    clock: float


class Chip(NamedTuple):
    """A kind of chip. memory: bytes. axes: dimensions of a slice. pod: chips in the largest
    slice."""

    name: str
    memory: float
    axes: int
    pod: int
    gpu: Gpu | None = None


_H200 = Gpu('NVIDIA H200', (9, 0), 132, 128, 2048, 232448, 60 * 2**20, 150754820096, 4.8e12, 1.98)
_H100 = Gpu(
    'NVIDIA H100 80GB HBM3', (9, 0), 132, 128, 2048, 232448, 50 * 2**20, 85 * 10**9, 3.35e12, 1.98
)
_A100 = Gpu(
    'NVIDIA A100-SXM4-80GB', (8, 0), 108, 64, 2048, 166912, 40 * 2**20, 85 * 10**9, 2.039e12, 1.41
)
_B200 = Gpu('NVIDIA B200', (10, 0), 148, 128, 2048, 232448, 126 * 2**20, 192 * 10**9, 8e12, 1.965)
CHIPS = {
    chip.name: chip
    for chip in (
        Chip('v4', 32 * 2**30, 3, 4096),
        Chip('v5e', 16 * 2**30, 2, 256),
        Chip('v5p', 95 * 2**30, 3, 6144),
        Chip('v6e', 32 * 2**30, 2, 256),
        Chip('h200', 141e9, 1, 8, _H200),
        Chip('h100', 80e9, 1, 8, _H100),
        Chip('a100', 80e9, 1, 8, _A100),
        Chip('b200', 180e9, 1, 8, _B200),
    )
}


def parse(name: str) -> tuple[Chip, tuple[int, ...]]:
    """Parses 'v5e:16x16' to (its Chip, (16, 16)) and 'h200:8' to (its Chip, (8,)).

    '2*v5e:16x16', two slices of TPUs on a slower network (multislice), gives the same result as
    'v5e:16x16'. UserError for an invalid slice.
    """
    written = re.fullmatch(r'(?:[1-9]\d*\*)?(\w+):(\d+(?:x\d+)*)', name)
    chip = CHIPS.get(written[1]) if written else None
    if chip is None or chip.gpu and '*' in name:
        raise UserError(
            f'topology {name!r}: written like v5e:16x16 or h200:8, with one of {", ".join(CHIPS)}'
        )
    shape = tuple(map(int, written[2].split('x')))
    if len(shape) != chip.axes or min(shape) < 1:
        raise UserError(
            f'topology {name!r}: a slice of {chip.name} has {chip.axes} dimension(s) of at least 1'
        )
    if math.prod(shape) > chip.pod:
        raise UserError(
            f'topology {name!r}: {math.prod(shape):,} chips, the largest slice of {chip.name} has '
            f'{chip.pod:,}'
        )
    return chip, shape


def devices(name: str) -> list:
    """Returns the devices of a slice, for a mesh to compile for. Nothing can run on them.

    UserError if the name is not a slice, or the compiler for it is not installed.
    """
    chip, shape = parse(name)
    compiler(chip)
    if chip.gpu:
        how = {
            'platform': 'cuda',
            'topology': f'1x1x{shape[0]}',
            'target_config': description(chip.gpu),
        }
    else:
        # Otherwise libtpu asks the cloud for this machine's name and type
        os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
        os.environ.setdefault('TPU_WORKER_HOSTNAMES', 'localhost')
        # This machine's type, not the slice's
        os.environ.setdefault('TPU_ACCELERATOR_TYPE', 'v5litepod-1')
        # No chip is touched, so there is nothing to lock
        os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')
        how = {'platform': 'tpu', 'topology_name': f'{chip.name}:{"x".join(map(str, shape))}'}
        if chip.name == 'v4':
            how['chip_config_name'] = 'megacore'  # two cores as one device, as at run time
        if '*' in name:
            how['num_slices'] = int(name.partition('*')[0])
        if all(n == 1 for n in shape):
            how['chips_per_host_bounds'] = (1, 1, 1)
    try:
        return topologies.get_topology_desc(**how).devices
    except (RuntimeError, NotImplementedError) as error:
        raise UserError(f'topology {name!r}: {" ".join(str(error).split())[:300]}') from None


def compiler(chip: Chip) -> str:
    """Returns the installed compiler for a chip, with its version: 'libtpu 0.0.42'. UserError if no
    compiler is installed."""
    for name in ('jax-cuda13-plugin', 'jax-cuda12-plugin') if chip.gpu else ('libtpu',):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f'{name} {importlib.metadata.version(name)}'
    raise UserError(
        f'{chip.name}: its compiler is not installed: pip install '
        f"'jax[{'cuda13' if chip.gpu else 'tpu'}]'"
    )


def description(gpu: Gpu) -> str:
    """Returns the `target_config` of jax.experimental.topologies for a GPU: CUDA's device
    properties, in XLA's form."""
    major, minor = gpu.capability
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {gpu.shared + 1024}
  threads_per_core_limit: {gpu.threads}
  core_count: {gpu.cores}
  fpus_per_core: {gpu.fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {gpu.bandwidth:.0f}
  l2_cache_size: {gpu.l2}
  clock_rate_ghz: {gpu.clock}
  device_memory_size: {gpu.memory}
  shared_memory_per_block_optin: {gpu.shared}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 12 patch: 0 }}
runtime_version {{ major: 13 minor: 0 patch: 0 }}
device_description_str: "{gpu.kind}"
"""
