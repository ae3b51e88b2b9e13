"""The text of an HLO module (`compiled.as_text()`): its computations, instructions and arrays."""

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# The other types have their number of bits after the letters, as s32 and f8e4m3fn
_BITS = {'pred': 8, 'bf16': 16, 'token': 0}
_ARRAY = re.compile(r'\b([a-z]+\d*\w*)\[([\d,]*)\](?:\{([\d,]*)(?::([^}]*))?\})?')
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
    """An array of a shape. bytes: padded to whole tiles. in_hbm: False in a memory on the chip."""

    dtype: str
    dims: tuple[int, ...]
    bytes: int
    in_hbm: bool


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
        """op_name, the path in the Python code, or ''."""
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
    """Return the arrays of a shape. For a tuple, nested or not, these are its elements in order.

    `bf16[16,12,64]{2,1,0:T(8,128)(2,1)S(1)}` has the dimensions and their order in memory, the
    fastest first. For a TPU it also has the tiles that the last dimensions are padded to, and the
    memory space: S(1) is on the chip.
    """
    found = []
    for dtype, dims, order, place in _ARRAY.findall(shape):
        sizes = _numbers(dims)
        space = re.search(r'S\((\d+)\)', place)
        size = nbytes(dtype, _padded(sizes, _numbers(order), place))
        found.append(Array(dtype, sizes, size, space is None or space[1] == '0'))
    return found


def hbm_bytes(shape: str) -> int:
    """Return the bytes of a shape's arrays that lie in main memory."""
    return sum(array.bytes for array in arrays(shape) if array.in_hbm)


def nbytes(dtype: str, dims: Sequence[int]) -> int:
    """Return the bytes of an array without padding. dtype: an HLO element type, such as bf16."""
    bits = _BITS[dtype] if dtype in _BITS else int(re.match(r'[a-z]+(\d+)', dtype)[1])
    return math.prod(dims) * bits // 8


def _padded(sizes, order, place):
    """Return the sizes, fastest dimension first, the first of them rounded up to whole tiles."""
    physical = [sizes[i] for i in order] or sizes[::-1]
    tile = re.search(r'T\(([\d,]+)\)', place)
    parts = [*(_numbers(tile[1])[::-1] if tile else ()), *[1] * len(sizes)]
    return [-(-size // part) * part for size, part in zip(physical, parts)]


def _numbers(text):
    return tuple(int(number) for number in text.split(',') if number)


def parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Return ({computation: its instructions, the root last}, name of the entry computation)."""
    found = {}
    current = entry = None
    for line in text.splitlines():
        header = re.match(r'(ENTRY )?%?([\w.\-]+) \(.*\{$', line)
        if header:
            current, found[header[2]] = header[2], []
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
    """The computations of a compiled step's text: definitions and users of values, and kernels."""

    def __init__(self, text: str) -> None:
        self.computations, self.entry = parse(text)

    @functools.cache
    def _by_name(self, computation):
        return {one.name: one for one in self.computations[computation]}

    @functools.cache
    def _users(self, computation):
        found = collections.defaultdict(list)
        for one in self.computations[computation]:
            for place, name in enumerate(one.reads):
                found[name].append((one, place))
        return found

    def operands(self, one: Instruction) -> list[Instruction]:
        """Return the instructions that define an instruction's operands."""
        return [self._by_name(one.computation)[name] for name in one.reads]

    def users(self, one: Instruction) -> list[tuple[Instruction, int]]:
        """Return [(an instruction that reads the value, the operand's place)]."""
        return self._users(one.computation)[one.name]

    def body(self, fusion: Instruction) -> list[Instruction]:
        """Return the instructions of a fusion, the root last."""
        return self.computations[fusion.called('calls')[0]]

    def parameter(self, fusion: Instruction, place: int) -> Instruction:
        """Return the parameter in a fusion's body that stands for the operand at a place."""
        return next(
            one
            for one in self.body(fusion)
            if (one.opcode, one.operands) == ('parameter', str(place))
        )

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
