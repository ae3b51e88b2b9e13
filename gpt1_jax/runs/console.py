"""What a run prints: its table of parameters, and a line every so many steps."""
import datetime
import math
from typing import Any

from gpt1_jax.parallel.sharding import named_leaves


def parameters(tree: Any) -> list[str]:
    """The table of a parameter tree's leaves (arrays or shapes), as lines: name, shape, type, count and partition, and
    the total count. The partition has the mesh axis of each dimension, - where it is not sharded."""
    rows = []
    for name, leaf in named_leaves(tree).items():
        shape = ' x '.join(map(str, leaf.shape))
        partition = ', '.join(axis or '-' for axis in getattr(leaf.sharding, 'spec', ()))
        rows.append((name, shape, str(leaf.dtype), leaf.size, partition))
    rows.append(('parameters', '', '', sum(row[3] for row in rows), ''))
    width = max(len(row[0]) for row in rows)
    return [f'  {name:{width}}  {shape:>22}  {dtype:>8}  {count:>12,}  {partition}'.rstrip()
            for name, shape, dtype, count, partition in rows]


def print_line(step: int, total: int, metrics: dict) -> None:
    """Print the metrics that loop.fit logs, and device_peaks.measured."""
    print(f"step {step:,}/{total:,}  loss {metrics['loss']:.4f}  rate {metrics['learning_rate']:.2e}  "
          f"{metrics['tokens_per_s']:,.0f} tokens/s{machine(metrics)}  {duration(metrics['seconds_left'])} left, "
          f'{math.floor(100 * step / total)}% done', flush=True)


def machine(metrics: dict) -> str:
    """'  41.2% MFU  memory 61.3 of 78.4 GiB' of what device_peaks.measured found."""
    text = f"  {metrics['mfu']:.1%} MFU" if 'mfu' in metrics else ''
    if 'memory_bytes' in metrics:
        text += f"  memory {metrics['memory_bytes'] / 2**30:.1f} of {metrics['memory_limit'] / 2**30:.1f} GiB"
    return text


def duration(seconds: float) -> str:
    """'1:02:03', or '2 days, 1:02:03'."""
    return str(datetime.timedelta(seconds=int(seconds)))
