"""Bytes that one kernel of a compiled step reads from and writes to main memory, from the text of its HLO module.

A kernel reads its operands and writes its result; of an operand that it slices it reads the slices, of a result that it
updates in place it writes the update. An estimate: cache hits between a GPU's kernels, and operands that a kernel reads
twice, do not show.
"""
from experiments.compile.hlo_text import Instruction, Module, arrays, hbm_bytes

SLICES = ('dynamic-slice', 'slice', 'gather')


def moved(module: Module, computation: str, one: Instruction) -> int:
    """Bytes that an instruction of `computation`, a kernel, reads and writes."""
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
