"""What a run prints: the table of parameters at its start, a line every so many steps, on a terminal each step."""
import sys

import jax


def parameters(tree):
    """The table, as lines: name, shape, type, count and partition of a parameter tree's leaves (arrays or shapes), and
    the total. The partition has the mesh axis of each dimension, - where it is not divided."""
    rows = [(jax.tree_util.keystr(path, simple=True, separator='/'), ' x '.join(map(str, leaf.shape)), str(leaf.dtype),
             leaf.size, ', '.join(map(_axis, getattr(leaf.sharding, 'spec', ()))))
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]
    rows.append(('parameters', '', '', sum(row[3] for row in rows), ''))
    width = max(len(row[0]) for row in rows)
    return [f'  {name:{width}}  {shape:>22}  {dtype:>8}  {count:>12,}  {partition}'.rstrip()
            for name, shape, dtype, count, partition in rows]


def _axis(axes):
    return '-' if axes is None else axes if isinstance(axes, str) else '+'.join(axes)


def print_line(step, total, metrics):
    """step, loss, rate, tokens/s, time left. metrics: as training.fit logs them."""
    print(f"step {step:,}/{total:,}  loss {metrics['loss']:.4f}  rate {metrics['learning_rate']:.2e}  "
          f"{metrics['tokens_per_s']:,.0f} tokens/s  {duration(metrics['seconds_left'])} left", flush=True)


def print_step(step, total):
    """The step, on a terminal alone, where the next step and any line, all of them longer, are written over it."""
    if sys.stdout.isatty():
        print(f'step {step:,}/{total:,}', end='\033[K\r', flush=True)


def duration(seconds):
    """'1:02:03', or '2 d 1:02:03'."""
    days, rest = divmod(int(seconds), 86400)
    return (f'{days} d ' if days else '') + f'{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}'
