"""Section 4.2, Table 2: natural language inference.

python -m experiments.table2_nli --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.data=DATA \\
    --config.out=runs/paper [--dry_run]
"""
from experiments import paper, tables
from experiments.run import command


def run(config, dry_run=False):
    """Fine-tune on each set and write OUT/table2.md; returns its lines, none in a dry run."""
    return tables.script_table(config, dry_run, 'table2.md', 'Table 2: natural language inference', paper.TABLE2)


if __name__ == '__main__':
    command(run)
