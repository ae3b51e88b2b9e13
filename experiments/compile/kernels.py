"""The kernels of a compiled step, each with its bytes, arithmetic and the compiler's estimate, from its HLO text."""
import dataclasses
import math
import re

from experiments.compile import hlo
from experiments.compile.hlo_text import Instruction, Module, arrays, hbm_bytes

PRODUCTS = ('dot', 'convolution')  # the compiler for TPUs writes every product as a convolution
SLICES = ('dynamic-slice', 'slice', 'gather')


@dataclasses.dataclass(frozen=True)
class Kernel:
    """kind: 'product' (a matrix product, with what is fused into it), 'ours' (written in Pallas), 'collective',
    'prefetch' (TPU: an asynchronous copy between memories) or 'other'. instruction: its name in the HLO text. name:
    op_name, the path in the Python code. inside: the same of all that is fused into it. result: its shape. bytes: of
    main memory, read and written by one execution. flops: of its matrix products. cycles: the TPU compiler's estimate,
    0 where it has none. times: executions in a step."""
    kind: str
    instruction: str
    name: str
    inside: str
    result: str
    bytes: int
    flops: int
    cycles: int
    times: int


def kernels(text: str) -> list[Kernel]:
    """The Kernels of an HLO module. ValueError where a loop does not tell how often it runs."""
    module = Module(text)
    found = []
    for computation, one, times, known in module.kernels():
        if not known:
            raise ValueError(f'{one.name}: the compiled text does not tell how often its loop runs')
        if not one.opcode.endswith('-done'):  # counted where it starts
            inside = ' '.join(dict.fromkeys(each.label for _, each in module.inside(one) if each.label))
            found.append(Kernel(
                kind=_kind(module, one), instruction=one.name, name=one.label or one.name, inside=inside,
                result=re.sub(r'\{[^}]*\}', '', one.shape), bytes=moved(module, computation, one),
                flops=flops(module, computation, one),
                cycles=int(one.attribute(r'"estimated_cycles":"(\d+)"') or 0), times=times))
    return found


def _kind(module, one):
    target = one.attribute(r'custom_call_target="([^"]*)"') or ''
    if 'matmul' in target or 'gemm' in target or not target and any(
            each.opcode in PRODUCTS for _, each in (('', one), *module.inside(one))):
        return 'product'
    if 'triton' in target or target == 'tpu_custom_call':
        return 'ours'
    if one.opcode.removesuffix('-start') in hlo.KINDS:
        return 'collective'
    return 'prefetch' if one.opcode in ('copy-start', 'slice-start') else 'other'


def flops(module: Module, computation: str, one: Instruction) -> int:
    """Floating-point operations of the matrix products of a kernel, 2 a multiplication and addition.

    Of a call of the GPU's library by its configuration; of a Pallas kernel those that its `cost_estimate` states.
    """
    return sum(_flops(module, where, each) for where, each in ((computation, one), *module.inside(one)))


def _flops(module, computation, one):
    stated = one.attribute(r'"cost_estimate":\{[^}]*"flops":"?(\d+)') if one.opcode == 'custom-call' else None
    if stated:
        return int(stated)
    if one.opcode == 'convolution':
        return 2 * _terms(module, computation, one) * math.prod(_dims(one.shape))
    where = {'dot': r'lhs_contracting_dims=\{([\d,]*)\}', 'custom-call': r'"lhs_contracting_dimensions":\[([^\]]*)\]'}
    contracted = one.attribute(where[one.opcode]) if one.opcode in where else None
    if contracted is None:
        return 0
    dims = _dims(module.operand(computation, one, 0).shape)
    return 2 * math.prod(dims[int(i)] for i in re.findall(r'\d+', contracted)) * math.prod(_dims(one.shape))


def _terms(module, computation, one):
    """Of each sum of a convolution: the input features, and the taps of the window that are more than a batch dimension
    (of which one tap is valid) or an outer dimension of the right side (padded in full)."""
    labels = re.search(r'dim_labels=([\w?]+)_([\w?]+)->([\w?]+)', one.attributes)
    terms = _dims(module.operand(computation, one, 1).shape)[labels[2].index('i')]
    fields = dict(field.split('=') for field in (one.attribute(r'window=\{([^}]*)\}') or '').split())
    sizes = [int(size) for size in fields.get('size', '').split('x') if size]
    dilated = fields['lhs_dilate'].split('x') if 'lhs_dilate' in fields else ['1'] * len(sizes)
    pads = fields['pad'].split('x') if 'pad' in fields else ['0_0'] * len(sizes)
    for size, dilation, pad in zip(sizes, dilated, pads):
        padding = sum(int(side) for side in pad.split('_'))
        if dilation == '1' and not (padding and padding >= 2 * (size - 1)):
            terms *= size
    return terms


def _dims(shape):
    return arrays(shape)[0].dims


def moved(module: Module, computation: str, one: Instruction) -> int:
    """Bytes of main memory that an instruction of `computation`, a kernel, reads and writes.

    It reads its operands and writes its result; of an operand that it slices it reads the slices, of a result that it
    updates in place it writes the update. An estimate: cache hits between a GPU's kernels, and operands that a kernel
    reads twice, do not show.
    """
    shapes = {name: each.shape for name, each in module.by_name(computation).items()}
    names = list(dict.fromkeys(one.reads))  # listed twice, it counts once: each use reads a part
    if one.opcode in ('copy-start', 'slice-start'):
        return _copied(one)
    if one.opcode in SLICES:
        read = hbm_bytes(one.shape) if hbm_bytes(shapes[names[0]]) else 0
        return read + hbm_bytes(one.shape)
    if one.opcode == 'dynamic-update-slice':
        return 2 * hbm_bytes(shapes[names[1]])
    if one.opcode == 'fusion':
        return _read_by_fusion(module, shapes, one) + _written(module, computation, one)
    return sum(hbm_bytes(shapes.get(name, '')) for name in names) + hbm_bytes(one.shape)


def _copied(one):
    """An asynchronous copy: (destination, source, context) of a copy-start, ((source), destination, ...) of a slice;
    as many bytes are read as written, each where its side is in main memory."""
    found = arrays(one.shape)[:2]
    size = min(array.bytes for array in found)
    return size * sum(array.in_hbm for array in found)


def _read_by_fusion(module, shapes, fusion):
    """Of each operand the slices that are taken of it, or all."""
    body = fusion.called('calls')[0]
    read = {}
    for place, name in enumerate(fusion.reads):
        size = hbm_bytes(shapes[name])
        part = _read(module, body, module.parameters(body)[place]) if size else 0
        read[name] = min(size, read.get(name, 0) + (size if part is None else part))
    return sum(read.values())


def _read(module, computation, value):
    """Bytes of `value` that the instructions of a computation read; None for all of it."""
    total = 0
    for user, place in module.users(computation).get(value.name, ()):
        if user.opcode in SLICES and place == 0:
            part = sum(array.bytes for array in arrays(user.shape))
        elif user.opcode == 'tuple' or user.opcode == 'dynamic-update-slice' and place == 0:
            part = 0  # passed on, or updated in place
        elif user.opcode in ('bitcast', 'get-tuple-element'):
            part = _read(module, computation, user)
        elif user.opcode == 'fusion':
            body = user.called('calls')[0]
            # On TPUs a fusion within a fusion that only changes the tiling or the shape is no pass over memory.
            within = body.startswith(('copy_fusion', 'bitcast_fusion'))
            part = _read(module, *((computation, user) if within else (body, module.parameters(body)[place])))
        else:
            part = None
        if part is None:
            return None
        total += part
    return total


def _written(module, computation, value):
    """Bytes of `value`, the result of a kernel or a part of it, that are written."""
    if value.opcode == 'tuple':
        return sum(_written(module, computation, module.by_name(computation)[name]) for name in value.reads)
    if value.opcode == 'dynamic-update-slice':
        update = arrays(module.operand(computation, value, 1).shape)
        return sum(array.bytes for array in update) if hbm_bytes(value.shape) else 0
    if value.opcode == 'bitcast':
        source = module.operand(computation, value, 0)
        if source.opcode in ('dynamic-update-slice', 'fusion', 'bitcast'):
            return _written(module, computation, source)
    if value.opcode == 'fusion':
        body = value.called('calls')[0]
        return _written(module, body, module.computations[body][-1])
    return 0 if value.opcode == 'parameter' else hbm_bytes(value.shape)
