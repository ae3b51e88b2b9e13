"""The kernels of a compiled step's HLO text, with bytes and arithmetic."""

import dataclasses
import math
import re

from experiments.compile import hlo
from experiments.compile.hlo_text import Module, arrays, hbm_bytes

PRODUCTS = ('dot', 'convolution')  # the compiler for TPUs writes every product as a convolution
SLICES = ('dynamic-slice', 'slice', 'gather')


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel of a compiled step.

    kind: 'product' (a matrix product, with the operations fused into it), 'ours' (written in
    Pallas), 'collective', 'prefetch' (TPU: an asynchronous copy between memories) or 'other'.
    instruction: its name in the HLO text. name: op_name, the path in the Python code. inside: the
    op_names of all operations fused into it. result: its shape. bytes: of main memory, read and
    written by one execution. flops: of its matrix products. times: executions in a step.
    """

    kind: str
    instruction: str
    name: str
    inside: str
    result: str
    bytes: int
    flops: int
    times: int


def kernels(text: str) -> list[Kernel]:
    """Return the Kernels of an HLO module. ValueError if a loop's number of runs is unknown."""
    module = Module(text)
    found = []
    for one, times, known in module.kernels():
        if not known:
            raise ValueError(f'{one.name}: the compiled text does not tell how often its loop runs')
        if not one.opcode.endswith('-done'):  # counted where it starts
            parts = module.parts(one)
            found.append(
                Kernel(
                    kind=_kind(one, parts),
                    instruction=one.name,
                    name=one.label or one.name,
                    inside=' '.join(dict.fromkeys(part.label for part in parts[1:] if part.label)),
                    result=re.sub(r'\{[^}]*\}', '', one.shape),
                    bytes=_moved(module, one),
                    flops=sum(_flops(module, part) for part in parts),
                    times=times,
                )
            )
    return found


def _kind(one, parts):
    target = one.attribute(r'custom_call_target="([^"]*)"') or ''
    if (
        'matmul' in target
        or 'gemm' in target
        or not target
        and any(part.opcode in PRODUCTS for part in parts)
    ):
        return 'product'
    if 'triton' in target or target == 'tpu_custom_call':
        return 'ours'
    if one.opcode.removesuffix('-start') in hlo.KINDS:
        return 'collective'
    return 'prefetch' if one.opcode in ('copy-start', 'slice-start') else 'other'


# Arithmetic


def _flops(module, one):
    """Return the floating-point operations of a matrix product, 2 a multiplication and addition.

    A call of the GPU's library is counted by its configuration, a Pallas kernel by its
    `cost_estimate`.
    """
    stated = (
        one.attribute(r'"cost_estimate":\{[^}]*"flops":"?(\d+)')
        if one.opcode == 'custom-call'
        else None
    )
    if stated:
        return int(stated)
    if one.opcode == 'convolution':
        return 2 * _terms(module, one) * math.prod(_dims(one))
    where = {
        'dot': r'lhs_contracting_dims=\{([\d,]*)\}',
        'custom-call': r'"lhs_contracting_dimensions":\[([^\]]*)\]',
    }
    contracted = one.attribute(where[one.opcode]) if one.opcode in where else None
    if contracted is None:
        return 0
    dims = _dims(module.operands(one)[0])
    return (
        2 * math.prod(dims[int(i)] for i in re.findall(r'\d+', contracted)) * math.prod(_dims(one))
    )


def _terms(module, one):
    """Return the terms of each sum of a convolution: the input features times the window's taps.

    A window dimension does not count if it is a batch dimension (of which only one tap is valid) or
    an outer dimension of the right side (which is padded in full).
    """
    labels = re.search(r'dim_labels=([\w?]+)_([\w?]+)->([\w?]+)', one.attributes)
    terms = _dims(module.operands(one)[1])[labels[2].index('i')]
    fields = dict(
        field.split('=') for field in (one.attribute(r'window=\{([^}]*)\}') or '').split()
    )
    sizes = [int(size) for size in fields.get('size', '').split('x') if size]
    dilated = fields['lhs_dilate'].split('x') if 'lhs_dilate' in fields else ['1'] * len(sizes)
    pads = fields['pad'].split('x') if 'pad' in fields else ['0_0'] * len(sizes)
    for size, dilation, pad in zip(sizes, dilated, pads):
        padding = sum(int(side) for side in pad.split('_'))
        if dilation == '1' and not (padding and padding >= 2 * (size - 1)):
            terms *= size
    return terms


def _dims(one):
    return arrays(one.shape)[0].dims


# Memory traffic


def _moved(module, one):
    """Return the bytes of main memory that a kernel reads and writes.

    A kernel reads its operands and writes its result. If it slices an operand, it reads only the
    slices. If it updates a result in place, it writes only the update. This is an estimate: it does
    not see cache hits between a GPU's kernels, or operands that a kernel reads twice.
    """
    if one.opcode in ('copy-start', 'slice-start'):
        # (destination, source, context) of a copy, ((source), destination, ...) of a slice. As many
        # bytes are read as written. A side counts if it is in main memory.
        sides = arrays(one.shape)[:2]
        return min(side.bytes for side in sides) * sum(side.in_hbm for side in sides)
    operands = module.operands(one)
    result = hbm_bytes(one.shape)
    if one.opcode in SLICES:
        return result + (result if hbm_bytes(operands[0].shape) else 0)
    if one.opcode == 'dynamic-update-slice':
        return 2 * hbm_bytes(operands[1].shape)
    whole = {operand.name: hbm_bytes(operand.shape) for operand in operands}
    if one.opcode != 'fusion':
        return sum(whole.values()) + result
    read = dict.fromkeys(whole, 0)
    # An operand that is listed twice counts once: each use reads a part
    for place, operand in enumerate(operands):
        part = _read(module, module.parameter(one, place)) if whole[operand.name] else 0
        read[operand.name] += whole[operand.name] if part is None else part
    return sum(min(whole[name], read[name]) for name in whole) + _written(module, one)


def _read(module, value):
    """Return the bytes of `value` that its computation's instructions read, or None for all."""
    total = 0
    for user, place in module.users(value):
        if user.opcode in SLICES and place == 0:
            part = sum(array.bytes for array in arrays(user.shape))
        elif user.opcode == 'tuple' or user.opcode == 'dynamic-update-slice' and place == 0:
            part = 0  # passed on, or updated in place
        elif user.opcode in ('bitcast', 'get-tuple-element'):
            part = _read(module, user)
        elif user.opcode == 'fusion':
            # On TPUs a fusion within a fusion that only changes tiling or shape makes no pass over
            # memory.
            within = user.called('calls')[0].startswith(('copy_fusion', 'bitcast_fusion'))
            part = _read(module, user if within else module.parameter(user, place))
        else:
            part = None
        if part is None:
            return None
        total += part
    return total


def _written(module, value):
    """Return the bytes of `value`, the result of a kernel or a part of it, that are written."""
    if value.opcode == 'tuple':
        return sum(_written(module, each) for each in module.operands(value))
    if value.opcode == 'dynamic-update-slice':
        update = arrays(module.operands(value)[1].shape)
        return sum(array.bytes for array in update) if hbm_bytes(value.shape) else 0
    if value.opcode == 'bitcast' and module.operands(value)[0].opcode in (
        'dynamic-update-slice',
        'fusion',
        'bitcast',
    ):
        return _written(module, module.operands(value)[0])
    if value.opcode == 'fusion':
        return _written(module, module.body(value)[-1])
    return 0 if value.opcode == 'parameter' else hbm_bytes(value.shape)
