"""The cycles of Pallas kernels on a TPU, by the compiler's final schedule.

The HLO text has no estimate for these kernels. A TPU core issues one bundle of instructions a
cycle, so a kernel takes at least as many cycles as bundles are executed. Waits for memory are not
in the schedule. Branches count as taken. A branch on one value of the grid's last index,
`pl.when(pl.program_id(2) == 0)`, counts as taken in one step of that index.
"""

import atexit
import functools
import math
import os
import pathlib
import re
import shutil
import tempfile

from gpt1_jax.errors import UserError

_BUNDLE = re.compile(r'\s*(?:0x)?[0-9a-f]+\s+(?:[A-Z]{2})?\s*:\s(>*)\s*\{')
_LOOP = re.compile(r'\s*(?:0x)?[0-9a-f]+\s+LB:')
_EXIT = re.compile(r'scmp\.ge\.s32\.totalorder [^;]*?, (\d+) /\* loop exit test')
# The grid's index along an axis, the same in each stage of the pipeline, and spilled registers.
_INDEX = re.compile(r'(%s\w+) = sphi [^;]*?stage = \d+ iter bound = (\d+)')
_NEXT = re.compile(r'(%s\w+) = sadd\.s32 1, (%s\w+)')
_LAST = re.compile(r'scmp\.ge\.s32\.totalorder (%s\w+), (\d+)')
_SPILLED = re.compile(r'sst \[smem:\[#(\w+_spill)\]\] (%s\w+)')
_RELOADED = re.compile(r'(%s\w+) = sld \[smem:\[#(\w+_spill)\]\]')
_TEST = re.compile(r'(%p\w+) = scmp\.ne\.s32\.totalorder (%s\w+), \d+')
_BRANCH = re.compile(r'sbr\.rel \((%p\w+)\) target = \$region(\d+)')


@functools.cache
def folder() -> str:
    """Make the folder that the compiler writes its schedules to, until the process ends.

    Call this before the compiler is first used, because the compiler reads its flags only then. If
    you call it later, the folder stays empty.
    """
    path = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    flags = (
        f'--xla_jf_dump_to={path} --xla_jf_dump_llo_text=true '
        '--xla_jf_dump_llo_pass_label_regex=final_bundles'
    )
    os.environ['LIBTPU_INIT_ARGS'] = f'{os.environ.get("LIBTPU_INIT_ARGS", "")} {flags}'.strip()
    return path


def cycles(instruction: str) -> int:
    """Return the cycles of an HLO instruction's kernel, as it was compiled last.

    Some kernels differ only in the memories that their arrays lie in. The compiler writes schedules
    for only some of them, each under its kernel's name, `name.3`. The other kernels get the longest
    of these schedules. UserError if there is no schedule.
    """

    # The compiler writes ID-NAME-NUMBER-final_bundles.txt, where NAME has letters, digits, '_', '.'
    # and '-'.
    def files(name):
        return sorted(pathlib.Path(folder()).glob(f'*-{name}-[0-9]*-final_bundles.txt'))

    family = instruction.rpartition('.')[0] or instruction
    found = files(instruction)[-1:] or [*files(family), *files(f'{family}.[0-9]*')]
    if not found:
        raise UserError(
            f'the compiler wrote no schedule of {instruction}, so its time is not known'
        )
    return max(executed(file.read_text()) for file in found)


def executed(text: str) -> int:
    """Return the bundles of a schedule that are executed, counted with the loops around them.

    The number of '>' before a bundle is the number of its loops. A loop begins at LB. The test at
    its end names how often it runs, so the test of an inner loop comes first. If a test compares no
    constant, the loop counts once.
    """
    lines = [line for line in text.splitlines() if _BUNDLE.match(line)]
    loops = []  # how often each loop runs, in the order in which they begin
    inside = []  # for each bundle, its loops as places in that list
    current = {}  # {depth: the last loop of that depth}
    unclosed = []  # loops whose test has not come yet
    for line in lines:
        depth = len(_BUNDLE.match(line)[1])
        if _LOOP.match(line):
            current[depth] = len(loops)
            unclosed.append(len(loops))
            loops.append(1)
        inside.append([current[d] for d in range(1, depth + 1) if d in current])
        for trips in _EXIT.findall(line):
            if unclosed:
                loops[unclosed.pop()] = int(trips)
    times = [math.prod(loops[number] for number in numbers) for numbers in inside]
    for first, end, steps in _guarded(lines):
        times[first:end] = [n / steps for n in times[first:end]]
    return round(sum(times))


def _guarded(lines):
    """Return (first, end, steps) of the bundles that run in only one of `steps` steps of the grid's
    last index."""
    text = '\n'.join(lines)
    axes = dict(_INDEX.findall(text))  # {register: axis}
    lengths = dict(_LAST.findall(text))
    last = {
        axes[index]: int(lengths[after])
        for after, index in _NEXT.findall(text)
        # The other indices carry: their next value is not compared directly
        if index in axes and after in lengths
    }
    spilled = dict(_SPILLED.findall(text))
    reloaded = {register: spilled.get(slot) for register, slot in _RELOADED.findall(text)}
    tests = {
        test: axes.get(reloaded.get(register, register)) for test, register in _TEST.findall(text)
    }
    for place, line in enumerate(lines):
        for test, region in _BRANCH.findall(line):
            if tests.get(test) in last:
                ends = (
                    n
                    for n in range(place + 1, len(lines))
                    if re.search(rf'region {region}\b', lines[n])
                )
                yield place + 1, next(ends, place + 1), last[tests[test]]
