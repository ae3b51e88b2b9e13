"""Is this zip a GLUE submission? Every fault is a line that names the member, the row and the cause.

python -m experiments.glue_validator submission.zip [--data=GLUE_ROOT]

Without --data the rows of a member are those of the published test set, 0..n-1. With it they are those of the test
files in GLUE_ROOT (CoLA/test.tsv and so on), in their order; a set of another size than the published one is reported.
Needs no model and no accelerator.
"""
import argparse
import math
import pathlib
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import BinaryIO, NamedTuple

from gpt1_jax.configs import experiments

from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError, os_errors_in_one_line

NLI = ('entailment', 'neutral', 'contradiction')
TWO_WAY = ('entailment', 'not_entailment')
BINARY = ('0', '1')
HEADER = 'index\tprediction'
SHOWN = 20               # faults shown of a member; then their number
SCORE = re.compile(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?')


class Member(NamedTuple):
    """One file of the zip.

    task, split: what predicts it, in gpt1_jax's names. labels: what a prediction may be; () = a number from 0 to 5.
    rows: of the published test set.
    """
    task: str
    split: str
    labels: tuple[str, ...]
    rows: int


MEMBERS = {
    'CoLA.tsv': Member('cola', 'glue_test', BINARY, 1063),
    'SST-2.tsv': Member('sst2', 'glue_test', BINARY, 1821),
    'MRPC.tsv': Member('mrpc', 'glue_test', BINARY, 1725),
    'STS-B.tsv': Member('stsb', 'glue_test', (), 1379),
    'QQP.tsv': Member('qqp', 'glue_test', BINARY, 390965),
    'MNLI-m.tsv': Member('mnli', 'glue_test', NLI, 9796),
    'MNLI-mm.tsv': Member('mnli', 'glue_test_mismatched', NLI, 9847),
    'QNLI.tsv': Member('qnli', 'glue_test', TWO_WAY, 5463),
    'RTE.tsv': Member('rte', 'glue_test', TWO_WAY, 3000),
    'WNLI.tsv': Member('wnli', 'glue_test', BINARY, 146),
    'AX.tsv': Member('mnli', 'ax', NLI, 1104)}  # GLUE's diagnostic set, by the model of MNLI


def faults(path: str | pathlib.Path | BinaryIO, indices: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """What is wrong with a zip, a file or its path, a line each; [] for a submission.

    indices: {member: the test file's own index, in order}; a member without one has 0..n-1 of the published size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            found = [f'{name}: missing' for name in MEMBERS if name not in names]
            found += [f'{name}: duplicate in the zip' for name in MEMBERS if names.count(name) > 1]
            found += [f'{name}: not a member of a submission (those are {", ".join(MEMBERS)}, at the top level)'
                      for name in names if name not in MEMBERS]
            for name in filter(MEMBERS.__contains__, dict.fromkeys(names)):
                wanted = (indices or {}).get(name) or list(map(str, range(MEMBERS[name].rows)))
                found += [f'{name}: {fault}' for fault in _member(archive, name, wanted)]
    except (zipfile.BadZipFile, OSError) as error:
        return [f'{path}: not a zip file ({error})']
    return found


def _member(archive, name, wanted):
    """Faults of a member. wanted: the indices that it must have, in order."""
    try:
        text = archive.read(name).decode('utf-8')
    except UnicodeDecodeError as error:
        return [f'not UTF-8 at byte {error.start}']
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        return [f'damaged ({error})']
    header, *lines = text.removesuffix('\n').split('\n')
    found = []
    if header != HEADER:
        found.append(f'row 1: header {header[:60]!r}, must be {HEADER!r}')
    if len(lines) != len(wanted):
        found.append(f'{len(lines):,} rows, must be {len(wanted):,}')
    for row, (line, index) in enumerate(zip(lines, wanted), 2):
        cells = line.split('\t')
        if len(cells) != 2:
            found.append(f'row {row}: {len(cells)} column(s), must be 2 with a tab between')
            continue
        if cells[0] != index:  # so are most rows after it
            found.append(f'row {row}: index {cells[0][:60]!r}, but the test set has {index} there')
            break
        cause = _wrong_with(cells[1], MEMBERS[name].labels)
        found += [f'row {row}: {cause}'] if cause else []
    return found if len(found) <= SHOWN else [*found[:SHOWN], f'and {len(found) - SHOWN:,} more faults']


def _wrong_with(value, labels):
    if labels:
        return None if value in labels else f'prediction {value[:60]!r} is not one of {", ".join(labels)}'
    if not SCORE.fullmatch(value) or not math.isfinite(float(value)):
        return f'prediction {value[:60]!r} is not a number'
    return None if 0 <= float(value) <= 5 else f'prediction {value[:60]} is outside 0..5'


def indices_of(root: str | pathlib.Path) -> dict[str, list[str]]:
    """{member: the first column of its test file under a GLUE root}. UserError for a missing or damaged file."""
    directories = experiments.get_config().directories
    with os_errors_in_one_line(), warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of sets of another size, which `main` prints
        return {name: [example.id for example in tasks.get(member.task).read(
            str(pathlib.Path(root) / directories[member.task]), member.split)] for name, member in MEMBERS.items()}


def other_sizes(indices: Mapping[str, Sequence[str]]) -> list[str]:
    """['CoLA.tsv: 5 rows, 1,063 in the published test set']: members of another size."""
    return [f'{name}: {len(ids):,} rows, {MEMBERS[name].rows:,} in the published test set'
            for name, ids in indices.items() if len(ids) != MEMBERS[name].rows]


def main(arguments: Sequence[str]) -> int:
    """Print the faults, or that there are none; the exit status."""
    parser = argparse.ArgumentParser(prog='python -m experiments.glue_validator', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('zip', help='the submission')
    parser.add_argument('--data', help='directory of the GLUE sets, each in its folder; default: the published sizes')
    chosen = parser.parse_args(arguments)
    try:
        indices = indices_of(chosen.data) if chosen.data else {}
        found = faults(chosen.zip, indices)
    except UserError as error:
        found = [str(error)]
    if found:
        print(*found, sep='\n')
        print(f'error: {chosen.zip} is not a GLUE submission', file=sys.stderr)
        return 1
    print(f'{chosen.zip}: a good submission' + (f' for the files in {chosen.data}' if chosen.data else ''))
    for other in other_sizes(indices):
        print(f'but the leaderboard would refuse {other}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
