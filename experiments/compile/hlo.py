"""The data that a compiled step sends between devices, by its HLO text (`compiled.as_text()`)."""

import collections
import dataclasses
import math
import re
from collections.abc import Sequence

from experiments.compile import hlo_text

KINDS = (
    'all-gather',
    'all-reduce',
    'reduce-scatter',
    'all-to-all',
    'ragged-all-to-all',
    'collective-permute',
    'collective-broadcast',
)
# The compiler for TPUs spreads an asynchronous collective over several fusions, all with its
# channel. The names of the first and the last fusion start like this. Channels are not enough,
# because the layers of an unrolled stack share them.
FIRST = 'async-collective-start'
LAST = 'async-collective-done'


@dataclasses.dataclass(frozen=True)
class Collective:
    """An instruction that moves data between devices.

    kind: of KINDS. arrays: ((dtype, dims), ...) in full size: the result of a gather, the operand
    of a reduction. devices: how many take part in a group. times, known: as in hlo_text.Kernel.
    """

    kind: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    devices: int
    times: int = 1
    known: bool = True

    @property
    def bytes(self) -> int:
        """Bytes of the arrays in one execution."""
        return sum(hlo_text.nbytes(dtype, dims) for dtype, dims in self.arrays)

    @property
    def sent(self) -> float:
        """Bytes that each device sends in one execution, by the ring algorithms."""
        if self.kind in ('collective-permute', 'collective-broadcast'):
            return self.bytes
        # An all-reduce is a reduce-scatter and an all-gather
        rounds = 2 if self.kind == 'all-reduce' else 1
        return rounds * self.bytes * (self.devices - 1) // self.devices


def collectives(text: str, devices: int) -> list[Collective]:
    """Returns the Collectives of an HLO module, from its entry on. devices: of the whole mesh."""
    module = hlo_text.Module(text)
    found = []
    under_way = set()
    for kernel in module.kernels():
        name = kernel.instruction.name
        moved = _of_kernel(module, kernel, devices)
        found += [
            one
            for channel, one in moved.items()
            if channel not in under_way or name.startswith(FIRST)
        ]
        if kernel.instruction.opcode == 'fusion':
            under_way |= moved.keys()
        if name.startswith(LAST):
            under_way -= moved.keys()
    return found


def _of_kernel(module, kernel, devices):
    """Returns the Collectives that a kernel is or has fused in, by channel, or else by name."""
    found = {}
    for one in module.parts(kernel.instruction):
        if one.opcode.removesuffix('-start') in KINDS:  # a -done moves nothing
            channel = one.attribute(r'channel_id=(\d+)') or one.name
            found.setdefault(channel, Collective(*_moved(one, devices), kernel.times, kernel.known))
    return found


def summary(found: Sequence[Collective]) -> dict[str, dict]:
    """Returns {kind: {'count', 'bytes', 'sent'}} of a step: executions, bytes of their arrays, and
    bytes that each device sends."""
    return {
        kind: {
            'count': sum(one.times for one in of_kind),
            'bytes': sum(one.times * one.bytes for one in of_kind),
            'sent': sum(one.times * one.sent for one in of_kind),
        }
        for kind in KINDS
        if (of_kind := [one for one in found if one.kind == kind])
    }


def table_gathers(found: Sequence[Collective], rows: int, width: int) -> dict[str, int]:
    """Returns {dtype: times a step} of gathers of the whole [rows, width] token table, transposed
    or not."""
    counts = _count(found, lambda dims: sorted(dims) == sorted((rows, width)))
    return {dtype: n for (kind, dtype), n in counts.items() if kind == 'all-gather'}


def logit_transfers(found: Sequence[Collective], rows: int, width: int) -> dict[str, int]:
    """Returns {'kind dtype': times a step} of collectives on logits.

    Logits are arrays with a dimension of `rows` (the vocabulary), but not the token table, its
    gradient, or a device's shard of either. An array counts as the table if its other dimension is
    `width` or a divisor of it, and the vocabulary comes first. With the whole width, the vocabulary
    may also come last.
    """

    def is_logits(dims):
        other = math.prod(dims) // rows
        return rows in dims and not (width % other == 0 and (dims[0] == rows or other == width))

    return {f'{kind} {dtype}': n for (kind, dtype), n in _count(found, is_logits).items()}


def _count(found, accepts):
    """Returns {(kind, dtype): times a step} of the arrays whose dimensions `accepts` accepts.
    Dimensions of 1 are left out."""
    result = collections.Counter()
    for one in found:
        for dtype, dims in one.arrays:
            if accepts([d for d in dims if d != 1]):
                result[one.kind, dtype] += one.times
    return result


def _moved(one, devices):
    """Returns (kind, arrays, devices) of a Collective."""
    kind = one.opcode.removesuffix('-start')
    parts = tuple((array.dtype, array.dims) for array in hlo_text.arrays(one.shape))
    if one.opcode.endswith('-start') and kind != 'all-reduce':  # (operands, results, ...)
        parts = parts[len(one.reads) : 2 * len(one.reads)]
    size = 2 if kind == 'collective-permute' else _group_size(one.attributes, devices)
    if kind == 'reduce-scatter':  # its result is each device's part
        parts = tuple((dtype, (size, *dims)) for dtype, dims in parts)
    # TPU: a fusion of an all-reduce with slices of its result. Each device keeps a slice.
    if kind == 'all-reduce' and one.computation.startswith('all-reduce-scatter'):
        kind = 'reduce-scatter'
    return kind, parts, size


def _group_size(attributes, devices):
    """Returns the devices in a group of `replica_groups`, in any form that the compilers write."""
    mesh = re.search(
        r'replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{]*\))? '
        r'\{([^}]*)\}',
        attributes,
    )
    if mesh:  # mesh['a'=4,'b'=2] {'a'}, or {'a':(1)2} for a part of an axis
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", mesh[1])}
        return math.prod(
            int(part) if part else sizes[name]
            for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", mesh[2])
        )
    iota = re.search(r'replica_groups=\[\d+,(\d+)\]<=', attributes)
    if iota:  # [groups, size]<=[devices]
        return int(iota[1])
    listed = re.search(r'replica_groups=\{\{([\d,]*)\}', attributes)
    return len(listed[1].split(',')) if listed and listed[1] else devices
