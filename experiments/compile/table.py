"""Compiles the pretraining step for a list of slices.

python -m experiments.compile.table [--out=experiments/results/compile]

Slices are compiled one after another, each in its own process (experiments.compile.check), which
takes minutes on two cores. Each adds a row to OUT/rows.jsonl. OUT/table.md is the table. Rerun an
interrupted command to resume it. To compile rows again, delete them.
"""

import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags

from experiments.compile import check
from gpt1_jax import cli
from gpt1_jax.runs import results
from gpt1_jax.runs.markdown import table


class Entry(NamedTuple):
    """A line of the table: the paper's config in bfloat16 with these fields."""

    slice: str
    topology: str
    batch: int
    fsdp: int = 1
    tensor: int = 1
    microbatches: int = 1

    @property
    def arguments(self) -> list[str]:
        return [
            f'--topology={self.topology}',
            '--config.model.dtype=bfloat16',
            f'--config.batch.size={self.batch}',
            f'--config.batch.microbatches={self.microbatches}',
            f'--config.mesh.fsdp={self.fsdp}',
            f'--config.mesh.tensor={self.tensor}',
        ]

    def matches(self, row: dict) -> bool:
        """Return whether a row of rows.jsonl belongs to this entry."""
        return (
            row['topology'],
            row['batch'],
            row['mesh']['fsdp'],
            row['mesh']['tensor'],
            row['microbatches'],
            row['dtype'],
            row['remat'],
        ) == (*self[1:], 'bfloat16', False)


# The paper's batch of 64 windows, then a scaled batch of 64 a chip (128 an H200), in as many
# microbatches as it needs to fit. Meshes with and without fsdp show the cost of fsdp at a size that
# does not need it.
ENTRIES = (
    Entry('v5e-4', 'v5e:2x2', 64, fsdp=4),
    Entry('v5e-4', 'v5e:2x2', 256, fsdp=4, microbatches=4),
    Entry('v5e-256', 'v5e:16x16', 64, fsdp=4, tensor=4),
    Entry('v5e-256', 'v5e:16x16', 16384, fsdp=16, microbatches=4),
    Entry('v5e-256', 'v5e:16x16', 16384, microbatches=4),
    Entry('v4-16', 'v4:2x2x2', 64, fsdp=4),
    Entry('v4-16', 'v4:2x2x2', 512, fsdp=4, microbatches=2),
    Entry('v5p-1024', 'v5p:8x8x8', 32768, fsdp=8),
    Entry('v5p-1024', 'v5p:8x8x8', 32768),
    Entry('v6e-8', 'v6e:2x4', 64, fsdp=4),
    Entry('v6e-8', 'v6e:2x4', 512, fsdp=4, microbatches=2),
    Entry('one H200', 'h200:1', 64),
    Entry('one H200', 'h200:1', 128),
    Entry('eight H200s', 'h200:8', 64, fsdp=4),
    Entry('eight H200s', 'h200:8', 1024, fsdp=4),
    Entry('eight H200s', 'h200:8', 1024),
)


def compile_all(entries: Sequence[Entry], path: pathlib.Path) -> None:
    """Append the missing rows to the JSON-lines file. A slice that fails is printed."""
    for entry in entries:
        if any(map(entry.matches, results.read(path))):
            continue
        words = ['experiments.compile.check', *entry.arguments, f'--json={path}']
        print(' '.join(words), flush=True)
        subprocess.run([sys.executable, '-m', *words])


def render(entries: Sequence[Entry], rows: Sequence[dict]) -> list[str]:
    """Return the lines of table.md, with a line for each entry that has a row."""
    found = []
    for entry in entries:
        for row in [row for row in rows if entry.matches(row)][-1:]:
            size = f'{entry.batch:,} x 512'
            if entry.microbatches > 1:
                size += f' in {entry.microbatches}'
            mesh = ' x '.join(str(n) for n in row['mesh'].values())
            found.append([entry.slice, size, mesh, *check.cells(row)])
    versions = sorted({f'jax {row["jax"]}, {row["compiler"]}' for row in rows if 'compiler' in row})
    cores = sorted({row['cores'] for row in rows})
    return [
        '# The pretraining step, compiled for slices',
        '',
        f"The paper's config in bfloat16, compiled on {' or '.join(map(str, cores))} cores "
        f'without the hardware: {"; ".join(versions)}. MB are 10^6 bytes, GiB 2^30. A batch `in 4` '
        'is in four microbatches. Collectives are counted a step, those in the loop over layers as '
        'often as it runs; the bytes are what each chip sends by ring algorithms. FLOPs are by '
        'formula.',
        '',
        *table(['slice', 'batch', 'mesh: data x fsdp x tensor', *check.COLUMNS], found),
    ]


def main() -> None:
    f = flags.FLAGS
    out = pathlib.Path(f.out)
    out.mkdir(parents=True, exist_ok=True)
    compile_all(ENTRIES, out / 'rows.jsonl')
    lines = render(ENTRIES, results.read(out / 'rows.jsonl'))
    (out / 'table.md').write_text('\n'.join(lines).rstrip() + '\n', encoding='utf-8')
    print(out / 'table.md')


def _define_flags():
    flags.DEFINE_string('out', 'experiments/results/compile', 'Where rows.jsonl and table.md go.')


if __name__ == '__main__':
    cli.run(main, _define_flags)
