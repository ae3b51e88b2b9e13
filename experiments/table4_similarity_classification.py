"""Section 4.2, Table 4: semantic similarity and classification, and the GLUE score.

python -m experiments.table4_similarity_classification --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.data=DATA --config.out=runs/paper [--dry_run]
"""
from experiments import paper, tables
from experiments.run import command


def run(config, dry_run=False):
    """Fine-tune on each set of GLUE and write OUT/table4.md; returns its lines, none in a dry run."""
    return tables.script_table(
        config, dry_run, 'table4.md', 'Table 4: semantic similarity and classification', paper.TABLE4,
        [figure.task for figures in paper.GLUE.values() for figure in figures], tables.glue_line)


if __name__ == '__main__':
    command(run)
