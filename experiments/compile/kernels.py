"""The kernels of a compiled step, each with its bytes, arithmetic and the compiler's estimate, from its HLO text.

Every instruction outside of a fusion is a kernel.
"""
import dataclasses
import re
from collections.abc import Iterator, Sequence

from experiments.compile import hlo, hlo_text, memory_traffic, product_flops
from experiments.compile.hlo_text import Module, label

# What neither computes nor moves anything; what ends is counted where it starts.
NOTHING = ('parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'partition-id', 'replica-id', 'after-all',
           'opt-barrier')


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
    for computation, one, times in executed(module, module.entry):
        inside = ' '.join(dict.fromkeys(filter(None, (label(each) for _, each in module.inside(one)))))
        cycles = re.search(r'"estimated_cycles":"(\d+)"', one.attributes)
        found.append(Kernel(
            kind=_kind(module, one), instruction=one.name, name=label(one) or one.name, inside=inside,
            result=re.sub(r'\{[^}]*\}', '', one.shape), bytes=memory_traffic.moved(module, computation, one),
            flops=product_flops.flops(module, computation, one), cycles=int(cycles[1]) if cycles else 0, times=times))
    return found


def executed(module: Module, computation: str, times: int = 1,
             ends: bool = False) -> Iterator[tuple[str, hlo_text.Instruction, int]]:
    """(computation, kernel, executions) of a computation and those that it runs, in the order of the schedule.

    ends: also where asynchronous ones end.
    """
    for one in module.computations[computation]:
        if one.opcode in NOTHING or '"AllocateBuffer"' in one.attributes or one.opcode.endswith('-done') and not ends:
            continue
        if one.opcode == 'while':
            trips = hlo_text.trips(one, module.computations)
            if trips is None:
                raise ValueError(f'{one.name}: the compiled text does not tell how often this loop runs')
            for called in hlo_text.called(one, 'body'):
                yield from executed(module, called, times * trips, ends)
        elif one.opcode in ('call', 'conditional', 'async-start'):
            for called in hlo_text.called(one, *hlo_text.CALLS):
                yield from executed(module, called, times, ends)
        else:
            yield computation, one, times


def total(found: Sequence[Kernel], *kinds: str) -> int:
    """Bytes in a step, of kernels of these kinds."""
    return sum(one.bytes * one.times for one in found if one.kind in kinds)


def _kind(module, one):
    if product_flops.is_product(module, one):
        return 'product'
    target = re.search(r'custom_call_target="([^"]*)"', one.attributes)
    if target and ('triton' in target[1] or target[1] == 'tpu_custom_call'):
        return 'ours'
    if one.opcode.removesuffix('-start') in hlo.KINDS:
        return 'collective'
    return 'prefetch' if one.opcode in ('copy-start', 'slice-start') else 'other'
