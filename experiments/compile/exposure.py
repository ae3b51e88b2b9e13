"""The time that a compiled step waits for other chips: collectives, less what is computed between their start and end.

An estimate: a transfer takes as long as its bytes at the links' rate, and of transfers under way at the same time one
runs after the other.
"""
import re
from collections.abc import Callable, Mapping

from experiments.compile import hlo
from experiments.compile.hlo_text import Module, operands
from experiments.compile.kernels import executed

# The compiler for TPUs spreads an asynchronous collective over several fusions, all with its channel. The first and the
# last are called so; channels alone do not tell, because the layers of an unrolled stack have the same ones.
FIRST, LAST = 'async-collective-start', 'async-collective-done'


def exposed(text: str, devices: int, seconds: Mapping[str, float], transfer: Callable[[float], float]) -> dict:
    """{'transfers': seconds of all collectives in a step, 'exposed': seconds that nothing is computed meanwhile,
    'asynchronous': executions of those that run beside others, 'synchronous': of the rest}.

    devices: of the mesh. seconds: {instruction: of one execution} of the kernels between them. transfer: bytes that
    each device sends -> seconds.
    """
    module = Module(text)
    total = {'transfers': 0.0, 'exposed': 0.0, 'asynchronous': 0, 'synchronous': 0}
    under_way = {}  # {the instruction or channel that ends it: seconds left}
    for computation, one, times in executed(module, module.entry, ends=True):
        if one.opcode.endswith('-done'):
            total['exposed'] += times * under_way.pop(operands(one)[0], 0.0)
            continue
        channels = _channels(module, one)
        begins = one.opcode.endswith('-start') or one.name.startswith(FIRST)
        for channel, (where, inner) in channels.items():
            if channel in under_way and not begins:
                continue
            needed = transfer(hlo.collective(inner, where, devices).sent)
            total['transfers'] += times * needed
            total['asynchronous' if begins else 'synchronous'] += times
            if begins:
                under_way[one.name if one.opcode.endswith('-start') else channel] = needed
            else:
                total['exposed'] += times * needed
        _compute(under_way, 0.0 if one.opcode.endswith('-start') else seconds.get(one.name, 0.0))
        if one.name.startswith(LAST):
            total['exposed'] += times * sum(under_way.pop(channel, 0.0) for channel in channels)
    return total


def _compute(under_way, seconds):
    """Let the transfers run for so long, those that began first before the others."""
    for name, left in under_way.items():
        done = min(left, seconds)
        under_way[name] = left - done
        seconds -= done


def _channels(module, one):
    """{channel or name: (computation, instruction)} of the collectives that a kernel is or has fused in."""
    found = {}
    for where, each in (('', one), *module.inside(one)):
        if each.opcode.removesuffix('-start') in hlo.KINDS:
            channel = re.search(r'channel_id=(\d+)', each.attributes)
            found.setdefault(channel[1] if channel else each.name, (where, each))
    return found
