"""The text of an HLO module, `compiled.as_text()`: its computations, their instructions, and the loops among these."""
import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence

_BITS = {'pred': 8, 'bf16': 16, 'token': 0}  # others end in their number of bits, as s32 and f8e4m3fn
# Attributes in which an instruction that is no loop names the computations that it runs.
CALLS = ('calls', 'to_apply', 'branch_computations', 'true_computation', 'false_computation')


@dataclasses.dataclass(frozen=True)
class Instruction:
    """`NAME = SHAPE OPCODE(OPERANDS)ATTRIBUTES`, each part as text."""
    name: str
    shape: str
    opcode: str
    operands: str
    attributes: str


def arrays(shape: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """((dtype, dims), ...) of a shape; of a tuple, nested or not, its elements in order."""
    found = re.findall(r'\b([a-z]+\d*\w*)\[([\d,]*)\]', shape)
    return tuple((dtype, tuple(int(d) for d in dims.split(',') if d)) for dtype, dims in found)


def nbytes(dtype: str, dims: Sequence[int]) -> int:
    """Bytes of an array. dtype: an HLO element type, such as bf16."""
    bits = _BITS.get(dtype)
    if bits is None:
        bits = int(re.match(r'[a-z]+(\d+)', dtype)[1])
    return math.prod(dims) * bits // 8


def parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """({computation: its instructions}, name of the entry computation). ValueError where there is no entry."""
    found = {}
    current = entry = None
    for line in text.splitlines():
        header = re.match(r'(ENTRY )?%?([\w.\-]+) \(.*\{$', line)
        if header:
            current = found.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        elif current is not None and ' = ' in line:
            current.append(_instruction(line))
    if entry is None:
        raise ValueError('no ENTRY computation in the HLO text')
    return found, entry


def _instruction(line):
    name, rest = line.split(' = ', 1)
    end = _closing(rest, 0) + 1 if rest.startswith('(') else rest.index(' ')
    shape, rest = rest[:end], rest[end:].lstrip()
    opening = rest.index('(')
    closing = _closing(rest, opening)
    return Instruction(name.removeprefix('  ').removeprefix('ROOT ').strip().lstrip('%'), shape, rest[:opening],
                       rest[opening + 1:closing], rest[closing + 1:])


def _closing(text, opening):
    """The place of the parenthesis that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {'(': 1, ')': -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f'unbalanced parentheses in the HLO text: {text[:80]!r}')


def trips(instruction: Instruction, computations: Mapping[str, list[Instruction]]) -> int | None:
    """How often a while loop runs: as noted by the compiler, or the only integer constant in its condition; else None.
    """
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', instruction.attributes)
    if known:
        return int(known[1])
    bounds = set()
    names = called(instruction, 'condition')
    while names:
        for one in computations.get(names.pop(), ()):
            if one.opcode == 'constant' and re.match(r'[su]\d+\[\]', one.shape):
                bounds.add(int(one.operands))
            names += called(one, 'calls')
    return bounds.pop() if len(bounds) == 1 else None


def called(instruction: Instruction, *roles: str) -> list[str]:
    """The computations that an instruction runs. roles: attributes that name them, such as `body` or those of CALLS."""
    found = []
    for role in roles:
        for several, one in re.findall(rf'\b{role}=(?:\{{([^}}]*)\}}|%?([\w.\-]+))', instruction.attributes):
            found += [name.strip().lstrip('%') for name in (several or one).split(',')]
    return found


class Module:
    """The computations of a compiled step's text, with lookups by name: who defines a value and who uses it.

    entry: the computation that runs first. computations: {name: its instructions, the root last}.
    """

    def __init__(self, text: str) -> None:
        self.computations, self.entry = parse(text)

    @functools.cache
    def by_name(self, computation: str) -> dict[str, Instruction]:
        """{name: Instruction} of a computation."""
        return {one.name: one for one in self.computations[computation]}

    @functools.cache
    def users(self, computation: str) -> dict[str, list[tuple[Instruction, int]]]:
        """{name: [(an instruction that reads it, as which of its operands)]} of a computation."""
        found = {}
        for one in self.computations[computation]:
            for place, name in enumerate(operands(one)):
                found.setdefault(name, []).append((one, place))
        return found

    @functools.cache
    def parameters(self, computation: str) -> dict[int, Instruction]:
        """{number: parameter} of a computation."""
        return {int(one.operands): one for one in self.computations[computation] if one.opcode == 'parameter'}

    def root(self, computation: str) -> Instruction:
        """What a computation returns: the text has it last."""
        return self.computations[computation][-1]

    def operand(self, computation: str, one: Instruction, place: int) -> Instruction:
        """The instruction that defines an operand of `one`."""
        return self.by_name(computation)[operands(one)[place]]

    def inside(self, one: Instruction) -> list[tuple[str, Instruction]]:
        """(computation, instruction) of all that a fusion consists of, nested fusions included."""
        found = []
        if one.opcode == 'fusion':
            for name in called(one, 'calls'):
                for each in self.computations[name]:
                    found += [(name, each), *self.inside(each)]
        return found


def operands(one: Instruction) -> list[str]:
    """Names of the values that an instruction takes."""
    return [] if one.opcode == 'parameter' else re.findall(r'%([\w.\-]+)', one.operands)


def label(one: Instruction) -> str:
    """op_name, the path in the Python code; '' where there is none."""
    found = re.search(r'op_name="([^"]*)"', one.attributes)
    return found[1] if found else ''
