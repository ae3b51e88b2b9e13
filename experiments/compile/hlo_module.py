"""An HLO module with its instructions by name: who defines a value and who uses it."""
import functools
import re

from experiments.compile import hlo_text
from experiments.compile.hlo_text import Instruction


class Module:
    """The computations of a compiled step's text. Instructions are named within their computation.

    entry: the computation that runs first. computations: {name: its instructions, the root last}.
    """

    def __init__(self, text: str) -> None:
        self.computations, self.entry = hlo_text.parse(text)

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
            for name in hlo_text.called(one, 'calls'):
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
