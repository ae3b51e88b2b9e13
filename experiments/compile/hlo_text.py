"""The text of an HLO module (`compiled.as_text()`): its computations, instructions and arrays."""

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# The other types have their number of bits after the letters, as s32 and f8e4m3fn
_BITS = {'pred': 8, 'bf16': 16, 'token': 0}
_ARRAY = re.compile(r'\b([a-z]+\d*\w*)\[([\d,]*)\]')
# Attributes in which an instruction that is not a loop names the computations that it runs.
CALLS = ('calls', 'to_apply', 'branch_computations', 'true_computation', 'false_computation')
# Opcodes that neither compute nor move anything.
NOTHING = (
    'parameter',
    'constant',
    'tuple',
    'get-tuple-element',
    'bitcast',
    'partition-id',
    'replica-id',
    'after-all',
    'opt-barrier',
)


class Array(NamedTuple):
    """An array of a shape."""

    dtype: str
    dims: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of a computation: `NAME = SHAPE OPCODE(OPERANDS)ATTRIBUTES`, as text."""

    computation: str
    name: str
    shape: str
    opcode: str
    operands: str
    attributes: str

    def attribute(self, pattern: str) -> str | None:
        """Return the group of a regular expression in the attributes, or None without a match."""
        match = re.search(pattern, self.attributes)
        return match[1] if match else None

    @property
    def label(self) -> str:
        """The op_name, which is the path in the Python code, or ''."""
        return self.attribute(r'op_name="([^"]*)"') or ''

    @property
    def reads(self) -> list[str]:
        """The names of its operands."""
        return [] if self.opcode == 'parameter' else re.findall(r'%([\w.\-]+)', self.operands)

    def called(self, *roles: str) -> list[str]:
        """Return the computations that it runs. roles: the attributes that name them, such as
        `body` or CALLS."""
        found = re.findall(
            rf'\b(?:{"|".join(roles)})=(?:\{{([^}}]*)\}}|%?([\w.\-]+))', self.attributes
        )
        return [
            name.strip().lstrip('%')
            for several, one in found
            for name in (several or one).split(',')
        ]


def arrays(shape: str) -> list[Array]:
    """Return the arrays of a shape such as `bf16[16,64]{1,0:T(8,128)}`. For a tuple, nested or not,
    these are its elements in order."""
    return [
        Array(dtype, tuple(int(size) for size in dims.split(',') if size))
        for dtype, dims in _ARRAY.findall(shape)
    ]


def nbytes(dtype: str, dims: Sequence[int]) -> int:
    """Return the bytes of an array without padding. dtype: an HLO element type, such as bf16."""
    bits = _BITS[dtype] if dtype in _BITS else int(re.match(r'[a-z]+(\d+)', dtype)[1])
    return math.prod(dims) * bits // 8


def parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Return ({computation: its instructions, the root last}, name of the entry computation)."""
    found = {}
    current = entry = None
    for line in text.splitlines():
        header = re.match(r'(ENTRY )?%?([\w.\-]+) \(.*\{$', line)
        if header:
            current = header[2]
            found[current] = []
            entry = current if header[1] else entry
        elif current is not None and ' = ' in line:
            found[current].append(_instruction(current, line))
    return found, entry


def _instruction(computation, line):
    # A shape has no word before a (
    head = re.match(r'\s*(?:ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\(', line)
    place = head.end()
    depth = 1
    while depth:  # until the operands' parenthesis is closed
        depth += {'(': 1, ')': -1}.get(line[place], 0)
        place += 1
    return Instruction(computation, *head.groups(), line[head.end() : place - 1], line[place:])


class Kernel(NamedTuple):
    """An instruction outside of a fusion.

    times: executions in a step, with the loops around it. known: False if the text does not say how
    often one of these loops runs. Such a loop counts once.
    """

    instruction: Instruction
    times: int
    known: bool


class Module:
    """The computations of a compiled step's text, and its kernels."""

    def __init__(self, text: str) -> None:
        self.computations, self.entry = parse(text)

    def body(self, fusion: Instruction) -> list[Instruction]:
        """Return the instructions of a fusion, the root last."""
        return self.computations[fusion.called('calls')[0]]

    def parts(self, one: Instruction) -> list[Instruction]:
        """Return an instruction, and all parts of a fusion, with nested fusions."""
        inside = self.body(one) if one.opcode == 'fusion' else ()
        return [one, *(part for each in inside for part in self.parts(each))]

    def kernels(
        self, computation: str | None = None, times: int = 1, known: bool = True
    ) -> Iterator[Kernel]:
        """Yield the kernels of a computation, by default the entry, in the order of the schedule.

        Kernels of the computations that it runs are included.
        """
        for one in self.computations[computation or self.entry]:
            if one.opcode == 'while':
                n = self._trips(one)
                for called in one.called('body'):
                    yield from self.kernels(called, times * (n or 1), known and n is not None)
            elif one.opcode in ('call', 'conditional', 'async-start'):
                for called in one.called(*CALLS):
                    yield from self.kernels(called, times, known)
            elif one.opcode not in NOTHING and '"AllocateBuffer"' not in one.attributes:
                yield Kernel(one, times, known)

    def _trips(self, loop):
        """Return how often a while loop runs, or None: as noted by the compiler, or the only
        integer constant in its condition."""
        known = loop.attribute(r'"known_trip_count":\{"n":"(\d+)"\}')
        if known:
            return int(known)
        condition = [
            part
            for name in loop.called('condition')
            for one in self.computations[name]
            for part in self.parts(one)
        ]
        bounds = {
            int(one.operands)
            for one in condition
            if one.opcode == 'constant' and re.match(r'[su]\d+\[\]', one.shape)
        }
        return bounds.pop() if len(bounds) == 1 else None
