"""What pretraining prints before its first step: the text, the plan, the sizes, the estimated time."""
from typing import Any

import jax

from gpt1_jax.parallel import device_peaks, step_cost
from gpt1_jax.runs import console
from gpt1_jax.training import loop, profiling


def print_plan(manifest: dict, per_epoch: float, total: int, n_ctx: int, size: int, unigram_loss: float,
               warmup_steps: int) -> None:
    """Print what is read, and how often. per_epoch, total: steps. size: windows in a batch. unigram_loss: in nats."""
    for split, entry in manifest['splits'].items():
        unknown = entry['unknown'] / max(1, entry['tokens'])
        print(f"{split} text: {entry['documents']:,} documents, {entry['tokens']:,} tokens, {unknown:.3%} unknown")
    print(f'{total:,} steps of {size} x {n_ctx} tokens: {total / per_epoch:.2f} epochs of {per_epoch:,.1f} steps',
          flush=True)
    if warmup_steps > total / 10:
        print(f"warning: the warm-up of {warmup_steps:,} steps is more than a tenth of the run's {total:,} "
              '(config.optimizer.warmup_steps)', flush=True)
    print(f'a unigram model of the training text has a loss of {unigram_loss:.3f}: training should pass it soon '
          'after the warm-up', flush=True)


def print_start(program: loop.Program, state: loop.TrainState, total: int, batches: loop.Batches, model: Any) -> None:
    """Print what the program computes and needs, and where it runs. model: the backbone's config."""
    tokens_per_row = int(batches.tokens_per_step) // batches.size
    print('\n'.join(step_cost.lines(program.state, batches.size, tokens_per_row)))
    _print_advice(model)
    step = int(state.step)
    beginning = 'resuming' if step else 'starting'
    where = 'read a step ahead'
    if batches.resident:
        where = f'on each device, {batches.resident[0].nbytes / 2**20:,.1f} MiB'
    print(f'step {step:,} of {total:,}: {beginning} on {program.mesh.size} {jax.devices()[0].device_kind} device(s) of '
          f'{jax.process_count()} process(es), {dict(program.mesh.shape)}; tokens {where}',
          flush=True)


def _print_advice(model):
    line = device_peaks.advice(model.dtype, model.precision, jax.devices()[0])
    if line:
        print(line)


def estimate(program: loop.Program, hyper: dict, batches: loop.Batches, total: int, model: Any) -> None:
    """Time a few steps and print what the whole run would take; of a step that does not fit, only what it needs."""
    print('\n'.join(console.parameters(program.state.params)))
    _print_advice(model)
    flops = step_cost.flops_per_token(program.state.params, int(batches.tokens_per_step) // batches.size)
    step, compiling, memory = profiling.compile_step(program, hyper, batches)
    free, seconds = profiling.free_memory(program.mesh), None
    if free is None or memory <= free:
        seconds = profiling.time_steps(program, step, hyper, batches, steps=3)
    if seconds is None:
        there = '' if free is None else f' ({free / 2**30:.1f} GiB)'
        print(f'dry run: a step needs {memory / 2**30:.1f} GiB, more than a device has free{there}, and '
              f'was not run. {total:,} steps are {flops * batches.tokens_per_step * total:.3g} FLOP. Less memory: '
              '--config.batch.microbatches=N (the same update), --config.model.remat=True (not for an LSTM)')
        return
    rate = batches.tokens_per_step / seconds
    use = console.machine(device_peaks.measured(rate, flops, program.mesh))
    print(f'dry run: {rate:,.0f} tokens/s over three steps after {compiling:.0f} s of '
          f'compiling{use}; {total:,} steps would take {console.duration(seconds * total)}')
