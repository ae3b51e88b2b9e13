"""Prints a run: its table of parameters, a line every so many steps, and before the first step of
pretraining the text, the plan and the estimated time."""

import datetime
import math
from typing import Any

import jax

from gpt1_jax.parallel import device_peaks, step_cost
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.training import profiling


def parameters(tree: Any) -> list[str]:
    """The lines of a table of a parameter tree's leaves, which are arrays or shapes.

    A line has name, shape, type, count and partition. The last line has the total count. The
    partition is the mesh axis of each dimension, or - if the dimension is not sharded.
    """
    rows = []
    for name, leaf in named_leaves(tree).items():
        shape = ' x '.join(map(str, leaf.shape))
        partition = ', '.join(axis or '-' for axis in getattr(leaf.sharding, 'spec', ()))
        rows.append((name, shape, str(leaf.dtype), leaf.size, partition))
    rows.append(('parameters', '', '', sum(row[3] for row in rows), ''))
    width = max(len(row[0]) for row in rows)
    return [
        f'  {name:{width}}  {shape:>22}  {dtype:>8}  {count:>12,}  {partition}'.rstrip()
        for name, shape, dtype, count, partition in rows
    ]


def print_line(step: int, total: int, metrics: dict) -> None:
    """Print the metrics that loop.fit logs, and device_peaks.measured."""
    print(
        f'step {step:,}/{total:,}  loss {metrics["loss"]:.4f}  rate '
        f'{metrics["learning_rate"]:.2e}  {metrics["tokens_per_s"]:,.0f} '
        f'tokens/s{machine(metrics)}  {duration(metrics["seconds_left"])} left, '
        f'{math.floor(100 * step / total)}% done',
        flush=True,
    )


def machine(metrics: dict) -> str:
    """'  41.2% MFU  memory 61.3 of 78.4 GiB', from the values of device_peaks.measured."""
    text = f'  {metrics["mfu"]:.1%} MFU' if 'mfu' in metrics else ''
    if 'memory_bytes' in metrics:
        text += (
            f'  memory {metrics["memory_bytes"] / 2**30:.1f} of '
            f'{metrics["memory_limit"] / 2**30:.1f} GiB'
        )
    return text


def duration(seconds: float) -> str:
    """'1:02:03', or '2 days, 1:02:03'."""
    return str(datetime.timedelta(seconds=int(seconds)))


def print_plan(
    manifest: dict,
    per_epoch: float,
    total: int,
    n_ctx: int,
    size: int,
    unigram_loss: float,
    warmup_steps: int,
) -> None:
    """Print what text is read, and how often.

    per_epoch, total: steps. size: windows in a batch. unigram_loss: in nats.
    """
    for split, entry in manifest['splits'].items():
        unknown = entry['unknown'] / max(1, entry['tokens'])
        print(
            f'{split} text: {entry["documents"]:,} documents, {entry["tokens"]:,} tokens, '
            f'{unknown:.3%} unknown'
        )
    print(
        f'{total:,} steps of {size} x {n_ctx} tokens: {total / per_epoch:.2f} epochs of '
        f'{per_epoch:,.1f} steps',
        flush=True,
    )
    if warmup_steps > total / 10:
        print(
            f"warning: the warm-up of {warmup_steps:,} steps is more than a tenth of the run's "
            f'{total:,} (config.optimizer.warmup_steps)',
            flush=True,
        )
    print(
        f'a unigram model of the training text has a loss of {unigram_loss:.3f}: training should '
        'pass it soon after the warm-up',
        flush=True,
    )


def print_start(job: Any, step: int) -> None:
    """Print what a session.Job computes and needs, and where it runs. step: the first step."""
    program = job.program
    batches = job.batches
    total = job.intervals.total
    tokens_per_row = int(batches.tokens_per_step) // batches.size
    print('\n'.join(step_cost.lines(program.state, batches.size, tokens_per_row)))
    _print_advice(job)
    beginning = {0: 'starting', total: 'finished'}.get(step, 'resuming')
    where = 'read a step ahead'
    if batches.resident:
        where = f'on each device, {batches.resident[0].nbytes / 2**20:,.1f} MiB'
    print(
        f'step {step:,} of {total:,}: {beginning} on {program.mesh.size} '
        f'{jax.devices()[0].device_kind} device(s) of {jax.process_count()} process(es), '
        f'{dict(program.mesh.shape)}; tokens {where}',
        flush=True,
    )


def _print_advice(job):
    model = job.config['model']
    line = device_peaks.advice(model['dtype'], model['precision'], jax.devices()[0])
    if line:
        print(line)


def estimate(job: Any) -> None:
    """Time a few steps of a session.Job, and print how long the whole run would take.

    UserError as in profiling.time_step.
    """
    print('\n'.join(parameters(job.program.state.params)))
    _print_advice(job)
    seconds, compiling = profiling.time_step(job.program, job.hyper, job.batches)
    rate = job.batches.tokens_per_step / seconds
    use = machine(device_peaks.measured(rate, job.flops_per_token, job.program.mesh))
    total = job.intervals.total
    print(
        f'dry run: {rate:,.0f} tokens/s over three steps after {compiling:.0f} s of '
        f'compiling{use}; {total:,} steps would take {duration(seconds * total)}'
    )
