"""The values by which two runs are compared."""

from gpt1_jax.runs import checkpoint, results


def arrays(run, step):
    """The digests of all arrays of a step, by item and name."""
    return {
        item: {name: a['digest'] for name, a in leaves.items()}
        for item, leaves in checkpoint.read_meta(run.checkpoints, step)['arrays'].items()
    }


def losses(run):
    return [(row['step'], row['loss']) for row in results.read(run.metrics) if 'loss' in row]


def rows(run):
    """The rows of metrics.jsonl, without values that depend on the machine's speed."""
    return [
        {name: value for name, value in row.items() if name not in ('tokens_per_s', 'seconds_left')}
        for row in results.read(run.metrics)
    ]


def points_of(rows):
    """{name: [(step, value), ...]} of the numbers in rows of metrics.jsonl."""
    found = {}
    for row in rows:
        for name, value in row.items():
            if name != 'step' and not isinstance(value, str):
                found.setdefault(name, []).append((row['step'], value))
    return found
