"""Is this zip a GLUE submission? Every fault is a line that names the member, the row and the cause.

python -m experiments.glue_validator submission.zip [--data=GLUE_ROOT]

Without --data the rows of a member are those of the published test set, 0..n-1. With it they are those of the test
files in GLUE_ROOT (CoLA/test.tsv and so on), in their order; a set of another size than the published one is reported.
Needs no model and no accelerator: it reads the zip as the leaderboard does, and nothing of what wrote it.
"""
import argparse
import dataclasses
import math
import pathlib
import re
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence

NLI = ('entailment', 'neutral', 'contradiction')
TWO_WAY = ('entailment', 'not_entailment')
BINARY = ('0', '1')
HEADER = 'index\tprediction'
SHOWN = 20               # faults shown of a member; then their number
SCORE = re.compile(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?')


@dataclasses.dataclass(frozen=True)
class Member:
    """One file of the zip.

    task, split: what predicts it, in gpt1_jax's names. labels: what a prediction may be; () = a number from 0 to 5.
    rows: of the published test set. files: the test set's places under a GLUE root, the first that is there counts.
    """
    task: str
    split: str
    labels: tuple[str, ...]
    rows: int
    files: tuple[str, ...]


MEMBERS = {
    'CoLA.tsv': Member('cola', 'glue_test', BINARY, 1063, ('CoLA/test.tsv',)),
    'SST-2.tsv': Member('sst2', 'glue_test', BINARY, 1821, ('SST-2/test.tsv',)),
    'MRPC.tsv': Member('mrpc', 'glue_test', BINARY, 1725, ('MRPC/test.tsv',)),
    'STS-B.tsv': Member('stsb', 'glue_test', (), 1379, ('STS-B/test.tsv',)),
    'QQP.tsv': Member('qqp', 'glue_test', BINARY, 390965, ('QQP/test.tsv',)),
    'MNLI-m.tsv': Member('mnli', 'glue_test', NLI, 9796, ('MNLI/test_matched.tsv',)),
    'MNLI-mm.tsv': Member('mnli', 'glue_test_mismatched', NLI, 9847, ('MNLI/test_mismatched.tsv',)),
    'QNLI.tsv': Member('qnli', 'glue_test', TWO_WAY, 5463, ('QNLI/test.tsv',)),
    'RTE.tsv': Member('rte', 'glue_test', TWO_WAY, 3000, ('RTE/test.tsv',)),
    'WNLI.tsv': Member('wnli', 'glue_test', BINARY, 146, ('WNLI/test.tsv',)),
    # GLUE's diagnostic set has had several names and homes; its predictions are the MNLI model's.
    'AX.tsv': Member('mnli', 'ax', NLI, 1104, tuple(
        f'{folder}/{name}.tsv' for folder in ('MNLI', 'AX', 'diagnostic', 'ax') for name in ('AX', 'diagnostic'))),
}


def faults(path: str | pathlib.Path, indices: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """What is wrong with a zip, a line each; [] for a submission.

    indices: {member: the test file's own index, in order}; a member without one has 0..n-1 of the published size.
    """
    if not pathlib.Path(path).is_file():
        return [f'{path}: no such file']
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            found = _names(entries)
            for entry in entries:
                if entry.filename in MEMBERS:
                    text, fault = _text(archive, entry)
                    wanted = (indices or {}).get(entry.filename)
                    found += [fault] if fault else _rows(entry.filename, text, wanted)
    except (zipfile.BadZipFile, OSError) as error:
        return [f'{path}: not a zip file ({error})']
    return found


def indices_of(root: str | pathlib.Path) -> tuple[dict[str, list[str]], list[str]]:
    """({member: first column of its test file under a GLUE root}, faults: files missing or with an index twice)."""
    indices, found = {}, []
    for name, member in MEMBERS.items():
        places = [pathlib.Path(root) / file for file in member.files]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            found.append(f'{name}: no test file {" or ".join(map(str, places))}')
            continue
        try:
            # utf-8-sig: a byte-order mark may come first. Lines end at line feeds alone: text holds other separators.
            header, *lines = path.read_bytes().decode('utf-8-sig').removesuffix('\n').split('\n')
        except UnicodeDecodeError as error:
            found.append(f'{name}: {path}: not UTF-8 at byte {error.start}')
            continue
        column = header.split('\t')[0].strip()
        if column not in ('index', 'id'):  # QQP's is called id
            found.append(f'{name}: {path}: the first column is {column[:60]!r}, not index')
            continue
        indices[name] = [line.split('\t')[0].strip() for line in lines]
        found += [f'{name}: {path}: {fault}' for fault in duplicates(indices[name])]
    return indices, found


def duplicates(values: Sequence[str]) -> list[str]:
    """'row 7: index 3 stands already in row 5' of every value that came before; the header is row 1."""
    first, found = {}, []
    for row, value in enumerate(values, 2):
        if value in first:
            found.append(f'row {row}: index {value} stands already in row {first[value]}')
        first.setdefault(value, row)
    return found


def _names(entries):
    """Faults of the list of members: unknown, duplicate and missing names."""
    found, seen = [], set()
    for entry in entries:
        name = entry.filename
        if name in seen:
            found.append(f'{name}: duplicate in the zip')
        elif name not in MEMBERS and name.rstrip('/').rsplit('/', 1)[-1] in MEMBERS:
            found.append(f'{name}: must stand at the top level, not in a directory')
        elif name not in MEMBERS:
            found.append(f'{name}: not a member of a submission (those are {", ".join(MEMBERS)})')
        seen.add(name)
    return found + [f'{name}: missing' for name in MEMBERS if name not in seen]


def _text(archive, entry):
    """(text of a member, None) or (None, fault)."""
    try:
        return archive.read(entry).decode('utf-8'), None
    except UnicodeDecodeError as error:
        return None, f'{entry.filename}: not UTF-8 at byte {error.start}'
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        return None, f'{entry.filename}: damaged ({error})'


def _rows(name, text, wanted):
    """Faults of a member's text. wanted: the indices it must have, in order; None = 0..n-1 of the published set."""
    member = MEMBERS[name]
    wanted = list(map(str, range(member.rows))) if wanted is None else list(wanted)
    if text.startswith('\ufeff'):
        return [f'{name}: row 1: begins with a byte-order mark']
    header, *lines = text.removesuffix('\n').split('\n')
    found = []
    if header != HEADER:
        found.append(f'row 1: header {header[:60]!r}, must be {HEADER!r}')
    if len(lines) != len(wanted):
        found.append(f'{len(lines):,} rows, must be {len(wanted):,}')
    indices = {}
    for row, line in enumerate(lines, 2):
        cells = line.split('\t')
        if len(cells) != 2:
            columns = '1 column' if len(cells) == 1 else f'{len(cells)} columns'
            found.append(f'row {row}: {columns}, must be 2 with a tab between')
            continue
        indices[row] = cells[0]
        cause = _prediction(cells[1], member.labels)
        found += [f'row {row}: {cause}'] if cause else []
    found += _indices(indices, wanted)
    if len(found) > SHOWN:
        found = [*found[:SHOWN], f'and {len(found) - SHOWN:,} more faults']
    return [f'{name}: {fault}' for fault in found]


def _indices(indices, wanted):
    """Faults of {row: index}: unknown, twice, missing; and, where all that is right, the first out of order."""
    known, first, found = set(wanted), {}, []
    for row, index in indices.items():
        if index not in known:
            found.append(f'row {row}: index {index[:60]!r} is not in the test set ({_span(wanted)})')
        elif index in first:
            found.append(f'row {row}: index {index} stands already in row {first[index]}')
        first.setdefault(index, row)
    missing = [index for index in wanted if index not in first]
    found += [f'index {index} is missing' for index in missing]
    if not found:
        moved = [(row, index, right) for (row, index), right in zip(indices.items(), wanted) if index != right]
        found = [f'row {row}: index {index}, but the test set has {right} there ({len(moved):,} rows out of order)'
                 for row, index, right in moved[:1]]
    return found


def _span(wanted):
    return f'{wanted[0]}..{wanted[-1]}' if wanted else 'which is empty'


def _prediction(value, labels):
    """What is wrong with one prediction, or None."""
    if value.endswith('\r'):
        return 'ends with a carriage return; lines end with a line feed alone'
    if labels:
        return None if value in labels else f'prediction {value[:60]!r} is not one of {", ".join(labels)}'
    if not SCORE.fullmatch(value) or not math.isfinite(float(value)):
        return f'prediction {value[:60]!r} is not a number'
    return None if 0 <= float(value) <= 5 else f'prediction {value[:60]} is outside 0..5'


def main(arguments: Sequence[str]) -> int:
    """Print the faults, or that there are none; the exit status."""
    parser = argparse.ArgumentParser(prog='python -m experiments.glue_validator', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('zip', help='the submission')
    parser.add_argument('--data', help='directory of the GLUE sets, each in its folder; default: the published sizes')
    chosen = parser.parse_args(arguments)
    indices, found = indices_of(chosen.data) if chosen.data else ({}, [])
    found += faults(chosen.zip, indices)
    for fault in found:
        print(fault)
    if found:
        print(f'error: {chosen.zip} is not a GLUE submission', file=sys.stderr)
        return 1
    other = [f'{name} {len(values):,} for {MEMBERS[name].rows:,}' for name, values in indices.items()
             if len(values) != MEMBERS[name].rows]
    print(f'{chosen.zip}: a good submission' + (f' for the files in {chosen.data}' if chosen.data else ''))
    if other:
        print(f'but the leaderboard would refuse it: rows here and in the published test sets are {", ".join(other)}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
