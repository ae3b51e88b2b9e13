"""Section 4.1: the jitted training step and the only training loop.

Both work on trees of arrays and know no models, tasks or files.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.models import dropout
from gpt1_jax.parallel import sharding, xla_options
from gpt1_jax.training import compiling, microbatches, preemption
from gpt1_jax.training.intervals import Intervals
from gpt1_jax.training.log_window import Window
from gpt1_jax.training.prefetch import Batches, prefetched


class TrainState(NamedTuple):
    """Everything that changes in training.

    step: int32, batches seen. It determines the next batch and its dropout masks.
    skipped: int32, how many batches changed nothing because their loss or gradient was not finite.
    halted: bool, set by the first such batch after hyper['skips'] of them. From then on every step
        leaves the state unchanged.
    """

    step: jax.Array
    params: Any
    opt_state: Any
    skipped: jax.Array
    halted: jax.Array


class Program(NamedTuple):
    """The compiled functions of a kind of run on a mesh.

    Runs that differ only in `hyper` share them.

    init: seed -> TrainState.
    step: (TrainState, batch, hyper, *resident) -> (TrainState, metrics). The state passed in is
        donated.
    state: TrainState of ShapeDtypeStructs with shardings, the target to restore a checkpoint into.
    """

    mesh: jax.sharding.Mesh
    init: Callable
    step: Callable
    state: TrainState


def make_program(
    init_params: Callable,
    loss: Callable,
    optimizer: Any,
    schedule: Callable,
    mesh: jax.sharding.Mesh,
    n_parts: int = 1,
    precision: Callable = contextlib.nullcontext,
) -> Program:
    """Makes the jitted init and training step.

    init_params: seed -> parameter tree.
    loss: (params, batch, dropout.Key, hyper, *resident) -> (mean over the batch's rows, metrics).
    optimizer, schedule: as optimizer_config.make and optimizer_config.schedule return them.
    n_parts: the gradients of so many equal parts of a batch are averaged (microbatches). The loss
        is the same. The dropout masks are also the same, because a part knows the global number of
        its first row.
    precision: of the step's matrix products, as build.precision returns it.

    The step's `hyper` has the values of optimizer_config.hyperparameters, and any others that
    `loss` reads. `resident` are arrays that stay on the devices from step to step, such as the
    training tokens. Most losses take none.
    """

    def init(seed):
        params = init_params(seed)
        zero = jnp.zeros([], jnp.int32)
        return TrainState(zero, params, optimizer.init(params), zero, jnp.zeros([], bool))

    def training_step(state, batch, hyper, *resident):
        def gradients(batch, first_row):
            key = dropout.Key(hyper['seed'], state.step.astype(jnp.uint32), first_row)
            return jax.value_and_grad(loss, has_aux=True)(
                state.params, batch, key, hyper, *resident
            )

        (value, metrics), grads = microbatches.mean_of_parts(gradients, batch, n_parts)
        learning_rate = schedule(hyper, state.step)
        updates, opt_state = optimizer.update(
            grads, state.opt_state, state.params, learning_rate=learning_rate
        )
        params = jax.tree.map(jnp.add, state.params, updates)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
        # The device decides what a step does, because the host looks one step late:
        #
        #     loss and norm    batches skipped before     the step
        #     finite           any number                 updates
        #     not finite       fewer than hyper['skips']  counts, but changes no weight
        #     not finite       hyper['skips']             halts, and so does every later step
        good = jnp.isfinite(value) & jnp.isfinite(norm) & ~state.halted
        skips = ~good & ~state.halted & (state.skipped < hyper['skips'])
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(good, new, old),
            (params, opt_state),
            (state.params, state.opt_state),
        )
        counts = good | skips
        new = TrainState(state.step + counts, params, opt_state, state.skipped + skips, ~counts)
        return new, {
            'loss': value,
            **metrics,
            'learning_rate': learning_rate,
            'grad_norm': norm,
            'skipped': new.skipped,
            'halted': new.halted,
        }

    shapes = jax.eval_shape(init, jax.ShapeDtypeStruct([], jnp.uint32))
    shardings = sharding.shardings(shapes, mesh)
    jitted_init = jax.jit(init, out_shardings=shardings)
    jitted_step = jax.jit(
        training_step,
        donate_argnums=0,
        out_shardings=(shardings, None),
        compiler_options=xla_options.of(mesh.devices.flat[0].platform),
    )
    return Program(
        mesh,
        compiling.on_mesh(jitted_init, mesh, precision),
        compiling.on_mesh(jitted_step, mesh, precision),
        sharding.abstract(shapes, mesh),
    )


def fit(
    program: Program,
    state: TrainState,
    hyper: dict,
    batches: Batches,
    intervals: Intervals,
    session: Any,
    evaluate: Callable[[TrainState], float],
) -> TrainState:
    """Trains to `intervals.total` steps. This is the only training loop.

    session: a runs.session.Session, which receives metrics and states. evaluate: state -> its
    quality, of which more is better.

    The host reads metrics only if it logs, and checks one step late whether the state has halted.
    So the device does not wait for the host between logged steps.

    If a loss or gradient is not finite, and hyper['skips'] such batches were skipped before, the
    state before it is saved, and a UserError names the step. Raises Interrupted after SIGTERM,
    SIGINT or SIGHUP, once the state is saved.
    """
    step = int(state.step)
    signal = ''
    total = intervals.total
    window = Window(session.unlogged)
    before = None  # the metrics of the previous step

    placed = prefetched(batches, program.mesh, step, total)
    with preemption.watch() as stopped_by, contextlib.closing(placed):
        while step < total:
            window.start_clock()
            session.trace.before(step)
            batch = next(placed)
            window.before_step(batch)
            state, metrics = program.step(state, batch, hyper, *batches.resident)
            step += 1
            window.add(metrics)
            signal = stopped_by(step)
            session.trace.after(step, metrics)
            logs = intervals.logs(step)
            # One step late, unless the host waits anyway.
            last = metrics if logs or signal or before is None else before
            if last['halted']:
                _halt(state, window, batches, session)
            before = metrics
            session.show(step)
            if logs:
                session.log(step, window.row(batches.tokens_per_step, total - step))
            quality = evaluate(state) if intervals.evaluates(step) else None
            if signal or intervals.saves(step):
                session.save(state, step, quality, window.unlogged())
            if signal:
                break
        # The signal may also have come while the last state was evaluated or saved. The work after
        # training may also be long.
        signal = signal or stopped_by(total + 1)
    if signal:
        raise Interrupted(
            f'stopped by {signal} at step {step:,} of {total:,}; the state is saved: rerun the '
            'same command to resume'
        )
    return state


def _halt(state, window, batches, session):
    """Saves the state before the step that is not finite, and raises UserError."""
    step = int(state.step)
    place = next(i for i, metrics in enumerate(window.metrics) if metrics['halted'])
    bad = window.metrics[place]
    window.metrics = window.metrics[:place]
    session.save(state, step, None, window.unlogged())
    raise UserError(
        f'loss {float(bad["loss"])}, gradient norm {float(bad["grad_norm"])} at step {step + 1:,} '
        f'(rows {step * batches.size:,} to {(step + 1) * batches.size - 1:,} in the order of '
        f'training): the state of step {step:,} is saved; try a lower optimizer.peak_rate or a '
        'longer warm-up, or let the run skip such batches with --config.train.skip_nonfinite=N'
    )
