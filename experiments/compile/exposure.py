"""The time that a compiled step waits for other chips: collectives, less what is computed between their start and end.

An estimate: a transfer takes as long as its bytes at the links' rate, and of transfers under way at the same time one
runs after the other.
"""
from collections.abc import Callable, Mapping

from experiments.compile import hlo
from experiments.compile.hlo_text import Module


def exposed(text: str, devices: int, seconds: Mapping[str, float], transfer: Callable[[float], float]) -> dict:
    """{'transfers': seconds of all collectives in a step, 'exposed': seconds that nothing is computed meanwhile,
    'asynchronous': executions of those that run beside others, 'synchronous': of the rest}.

    devices: of the mesh. seconds: {instruction: of one execution} of the kernels between them. transfer: bytes that
    each device sends -> seconds.
    """
    module = Module(text)
    total = {'transfers': 0.0, 'exposed': 0.0, 'asynchronous': 0, 'synchronous': 0}
    under_way = {}  # {the instruction or channel that ends it: seconds left}
    for kernel in module.kernels():
        one, times = kernel.instruction, kernel.times
        if one.opcode.endswith('-done'):
            total['exposed'] += times * under_way.pop(one.reads[0], 0.0)
            continue
        moved = hlo.of_kernel(module, kernel, devices)
        by_name = one.opcode.endswith('-start')
        begins = by_name or one.name.startswith(hlo.FIRST)
        for channel, collective in moved.items():
            if channel in under_way and not begins:
                continue
            needed = transfer(collective.sent)
            total['transfers'] += times * needed
            total['asynchronous' if begins else 'synchronous'] += times
            if begins:
                under_way[one.name if by_name else channel] = needed
            else:
                total['exposed'] += times * needed
        computing = 0.0 if by_name else seconds.get(one.name, 0.0)
        for name, left in under_way.items():  # those that began first run before the others
            done = min(left, computing)
            under_way[name] = left - done
            computing -= done
        if one.name.startswith(hlo.LAST):
            total['exposed'] += times * sum(under_way.pop(channel, 0.0) for channel in moved)
    return total
