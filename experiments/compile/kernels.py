"""The kernels of a compiled step, each with its bytes, arithmetic and the compiler's estimate, from its HLO text."""
import dataclasses
import math
import re

from experiments.compile import hlo, memory_traffic
from experiments.compile.hlo_text import Instruction, Module, arrays

PRODUCTS = ('dot', 'convolution')  # the compiler for TPUs writes every product as a convolution


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
                result=re.sub(r'\{[^}]*\}', '', one.shape), bytes=memory_traffic.moved(module, computation, one),
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
