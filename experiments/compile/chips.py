"""The accelerators that a step can be compiled for without the hardware: `v5e:16x16` or `h200:8`.

Figures are the makers': Google's pages cloud.google.com/tpu/docs/v4, v5e, v5p and v6e, and NVIDIA's
datasheets. Peaks come from gpt1_jax/parallel/device_peaks.py.
"""

import contextlib
import dataclasses
import importlib.metadata
import math
import os
import re

from jax.experimental import topologies

from gpt1_jax.errors import UserError
from gpt1_jax.parallel import device_peaks


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU's figures for XLA.

    capability: CUDA's compute capability. cores: multiprocessors. fpus, threads: float32 units of a
    multiprocessor, and threads that it runs at a time. shared: bytes of shared memory that a
    program may ask for. l2, memory: bytes. clock: GHz.
    """

    capability: tuple[int, int]
    cores: int
    fpus: int
    threads: int
    shared: int
    l2: int
    memory: int
    clock: float


@dataclasses.dataclass(frozen=True)
class Chip:
    """A kind of chip.

    kind: jax's device_kind. memory: bytes. bandwidth: of memory, in bytes/s. clock: of a TPU's
    cores, in cycles/s, the peak divided by the operations of its matrix units in a cycle (0 for
    GPUs). axes: number of axes of a slice, which is a torus. rate: bytes/s that a chip sends over
    all its links at once, half of the makers' figure, which adds up both directions. pod: chips in
    the largest slice. wrap: an axis is closed to a ring if its length is a multiple of this.
    """

    name: str
    kind: str
    memory: float
    bandwidth: float
    clock: float
    axes: int
    rate: float
    pod: int
    wrap: int = 0
    gpu: Gpu | None = None

    @property
    def peak(self) -> float:
        """Dense bfloat16 FLOP/s."""
        return device_peaks.peak(self.kind)


CHIPS = {
    chip.name: chip
    for chip in (
        # v4's page gives 1.1 PB/s of all-reduce for 4,096 chips, which makes 6 links of 45 GB/s.
        # Its successors have 4 x 50, 6 x 100 and 4 x 100 GB/s, half of the 400, 1,200 and 800 GB/s
        # of both directions.
        Chip('v4', 'TPU v4', 32 * 2**30, 1228e9, 1.05e9, 3, 270e9, 4096, 4),
        Chip('v5e', 'TPU v5 lite', 16 * 2**30, 819e9, 1.5e9, 2, 200e9, 256, 16),
        Chip('v5p', 'TPU v5', 95 * 2**30, 2765e9, 1.75e9, 3, 600e9, 6144, 4),
        Chip('v6e', 'TPU v6 lite', 32 * 2**30, 1640e9, 1.75e9, 2, 400e9, 256, 16),
        Chip(
            'h200',
            'NVIDIA H200',
            141e9,
            4.8e12,
            0,
            1,
            450e9,
            8,
            gpu=Gpu((9, 0), 132, 128, 2048, 232448, 60 * 2**20, 150754820096, 1.98),
        ),
        Chip(
            'h100',
            'NVIDIA H100 80GB HBM3',
            80e9,
            3.35e12,
            0,
            1,
            450e9,
            8,
            gpu=Gpu((9, 0), 132, 128, 2048, 232448, 50 * 2**20, 85 * 10**9, 1.98),
        ),
        Chip(
            'a100',
            'NVIDIA A100-SXM4-80GB',
            80e9,
            2.039e12,
            0,
            1,
            300e9,
            8,
            gpu=Gpu((8, 0), 108, 64, 2048, 166912, 40 * 2**20, 85 * 10**9, 1.41),
        ),
        Chip(
            'b200',
            'NVIDIA B200',
            180e9,
            8e12,
            0,
            1,
            900e9,
            8,
            gpu=Gpu((10, 0), 148, 128, 2048, 232448, 126 * 2**20, 192 * 10**9, 1.965),
        ),
        Chip(
            'rtx4090',
            'NVIDIA GeForce RTX 4090',
            24e9,
            1.008e12,
            0,
            1,
            32e9,
            8,
            gpu=Gpu((8, 9), 128, 128, 1536, 101376, 72 * 2**20, 25 * 10**9, 2.52),
        ),
        Chip(
            'rtx5090',
            'NVIDIA GeForce RTX 5090',
            32e9,
            1.792e12,
            0,
            1,
            64e9,
            8,
            gpu=Gpu((12, 0), 170, 128, 1536, 101376, 96 * 2**20, 34 * 10**9, 2.41),
        ),
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
            'target_config': description(chip),
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


def links(chip: Chip, shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns (links that every chip of a slice has to neighbours, links of a chip in a torus).

    An axis of length 2 has one link. A longer axis has two if it is closed to a ring. If it is
    open, the chips at its ends have only one. NVLink through switches counts as one link, always
    whole.
    """
    if not chip.wrap:
        return 1, 1
    return sum(2 if n % chip.wrap == 0 else 1 for n in shape if n > 1), 2 * chip.axes


def link_seconds(chip: Chip, shape: tuple[int, ...], sent: float) -> tuple[float, float]:
    """Returns (least, most) seconds in which each chip of a slice sends `sent` bytes.

    least: over all its links at once. most: only over the links of one axis of the torus, both ways
    round a ring or one way along an open axis.
    """
    in_use, whole = links(chip, shape)
    if not in_use:
        return 0.0, 0.0
    least = sent / (chip.rate * in_use / whole)
    return least, least * in_use / min(in_use, 2 if in_use == whole else 1)


def description(chip: Chip) -> str:
    """Returns the `target_config` of jax.experimental.topologies for a GPU: CUDA's device
    properties, in XLA's form."""
    gpu = chip.gpu
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
  memory_bandwidth: {chip.bandwidth:.0f}
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
device_description_str: "{chip.kind}"
"""
