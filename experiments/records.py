"""Writes the page of records from their certificates.

python -m experiments.records

A record is a believed improvement of GPT-1's own recipe at 0.2M parameters, on the novels of the
package and a fixed number of training tokens (experiments/ideas/records.py). Its certificate stands
beside the page. `gpt1 verify FILE --trust_code` trains two of its trials again.
"""

import pathlib
import statistics

from gpt1_jax import storage
from gpt1_jax.ablation import certificate, ledger
from gpt1_jax.runs.markdown import table

FOLDER = pathlib.Path(__file__).parent / 'results' / 'records'
ABOUT = """# Records

The loss of GPT-1's own recipe at 0.2M parameters, on the ten novels of the package, and what
lowers it. Each trial has {updates:,} updates of 16 x 64 tokens, 1.0M in all. A difference is in
nats a token, with a 95% interval over {seeds} seeds that no other trial had. *Believed* is said
by the rule of the search, which counts all confirmations that it has begun.
"""
HOW = """This trains two trials of a record again, chosen at random, and computes interval and
verdict from the rows:

```
gpt1 verify experiments/results/records/stable_rate.certificate.json --trust_code
```

To set a record, confirm an idea on this baseline, and certify it:

```
C="gpt1 ablate --config=experiments/ideas/records.py --out=runs/records"
$C --confirm --idea='NAME: FIELD=VALUE'
$C --certify=NAME --trust_code
```"""


def lines(folder: pathlib.Path = FOLDER) -> list[str]:
    """Returns the page. UserError for a certificate whose rows do not agree with its verdict."""
    cells = []
    for file in sorted(folder.glob('*.certificate.json')):
        contents = certificate.read(file)
        row = certificate.recompute(contents, file)
        by_key = {trial['key']: trial['loss'] for trial in contents['trials']}
        ours, theirs = (
            statistics.mean(by_key[pair[side]] for pair in row['runs']) for side in (0, 1)
        )
        middle, low, high = row['nats']
        changes = ' '.join(f'{name}={value}' for name, value in row['changes'].items())
        believed = 'yes' if row['key'] in ledger.believed(contents['ledger']) else 'no'
        cells.append(
            [
                f'[{row["idea"]}](records/{file.name})',
                f'`{changes}`',
                f'{ours:.4f}',
                f'{theirs:.4f}',
                f'{middle:+.4f} ({low:+.4f} to {high:+.4f})',
                believed,
            ]
        )
    cells.sort(key=lambda cell: cell[2])
    columns = ['idea', 'changes', 'its loss', "the baseline's", 'difference', 'believed']
    about = ABOUT.format(updates=row['updates'], seeds=len(row['seeds']))
    return [*about.splitlines(), '', *table(columns, cells), *HOW.splitlines()]


def main() -> None:
    page = FOLDER.with_suffix('.md')
    storage.write(page, ('\n'.join(lines()) + '\n').encode())
    print(f'wrote {page}')


if __name__ == '__main__':
    main()
