"""Section 4.1: the jitted training step and the only training loop.

Both work on trees of arrays and know no models, tasks or files.
"""

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.models import dropout
from gpt1_jax.parallel import sharding, xla_options
from gpt1_jax.training import compiling, preemption
from gpt1_jax.training.log_window import Window


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

    def place(self, read: Callable, size: int) -> dict[str, jax.Array]:
        """Places a batch of `size` rows onto the mesh.

        read: slice -> dict of host arrays with these rows.
        """
        return sharding.place(read, size, self.mesh)


def make_program(
    init_params: Callable,
    loss: Callable,
    optimizer: Any,
    schedule: Callable,
    mesh: jax.sharding.Mesh,
    microbatches: int = 1,
    precision: Callable = contextlib.nullcontext,
) -> Program:
    """Makes the jitted init and training step.

    init_params: seed -> parameter tree.
    loss: (params, batch, dropout.Key, hyper, *resident) -> (mean over the batch's rows, metrics).
    optimizer, schedule: as optimizer_config.make and optimizer_config.schedule return them.
    microbatches: the gradients of this many equal parts of a batch are averaged. The loss is the
        same. The dropout masks are also the same, because a part knows the global number of its
        first row.
    precision: of the step's matrix products, as build.precision returns it.

    The step's `hyper` has the values of optimizer_config.hyperparameters, and any others that
    `loss` reads. `resident` are arrays that stay on the devices from step to step, such as the
    training tokens. Most losses take none.
    """

    def init(seed):
        params = init_params(seed)
        zero = jnp.zeros([], jnp.int32)
        return TrainState(zero, params, optimizer.init(params), zero, jnp.zeros([], bool))

    def step(state, batch, hyper, *resident):
        def gradients(batch, first_row):
            key = dropout.Key(hyper['seed'], state.step.astype(jnp.uint32), first_row)
            return jax.value_and_grad(loss, has_aux=True)(
                state.params, batch, key, hyper, *resident
            )

        (value, metrics), grads = _accumulate(gradients, batch, microbatches, mesh)
        learning_rate = schedule(hyper['peak'], hyper['warmup'], hyper['total'], hyper['decay'])(
            state.step
        )
        updates, opt_state = optimizer.update(
            grads, state.opt_state, state.params, learning_rate=learning_rate
        )
        params = jax.tree.map(jnp.add, state.params, updates)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
        # If the loss or the gradient norm is not finite, keep the old params and opt_state. The
        # device decides this, because the host looks one step late.
        good = jnp.isfinite(value) & jnp.isfinite(norm) & ~state.halted
        skips = ~good & ~state.halted & (state.skipped < hyper['skips'])
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(good, new, old),
            (params, opt_state),
            (state.params, state.opt_state),
        )
        new = TrainState(
            state.step + (good | skips), params, opt_state, state.skipped + skips, ~(good | skips)
        )
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
        step,
        donate_argnums=0,
        out_shardings=(shardings, None),
        compiler_options=xla_options.of(mesh.devices.flat[0].platform),
    )
    return Program(
        mesh,
        on_mesh(jitted_init, mesh, precision),
        on_mesh(jitted_step, mesh, precision, 'the training step'),
        sharding.abstract(shapes, mesh),
    )


def on_mesh(
    function: jax.stages.Wrapped, mesh: jax.sharding.Mesh, precision: Callable, name: str = ''
) -> Callable:
    """Wraps a jitted function so that it runs within jax.set_mesh(mesh) and precision().

    Its `trace` is wrapped in the same way. Inside, sharding.constrain finds the mesh. If the
    function has a `name`, its first compilation is announced at once. Any other compilation is
    announced if it takes long. The shapes in the first argument must not change.
    """
    compiled: set[tuple] = set()  # the shapes of the arguments after the first

    def announce(args):
        shapes = tuple(map(np.shape, jax.tree.leaves(args[1:])))
        if shapes in compiled:
            return contextlib.nullcontext()
        patience = 0 if name and not compiled else compiling.PATIENCE_S
        compiled.add(shapes)
        return compiling.announced(name or f'{function.__name__}()', patience)

    def within(function, announce):
        def call(*args):
            with jax.set_mesh(mesh), precision(), announce(args):
                return function(*args)

        return call

    call = within(function, announce)
    call.trace = within(function.trace, contextlib.nullcontext)
    return call


def _accumulate(gradients, batch, n, mesh):
    """Returns the mean of value, metrics and gradients over n parts of the batch.

    The parts are computed one after the other. gradients: (part of the batch, uint32 number of its
    first row) -> a tree of means over its rows.
    """
    if n == 1:
        return gradients(batch, jnp.uint32(0))

    def split(x):
        x = x.reshape(n, x.shape[0] // n, *x.shape[1:])
        spec = jax.sharding.PartitionSpec(None, *sharding.BATCH)
        return x if mesh.size == 1 else jax.lax.with_sharding_constraint(x, spec)

    parts = jax.tree.map(split, batch)
    rows = jax.tree.leaves(parts)[0].shape[1]

    def part(index):
        return gradients(jax.tree.map(lambda x: x[index], parts), (index * rows).astype(jnp.uint32))

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(part, jnp.int32(0)))
    total, _ = jax.lax.scan(
        lambda sums, i: (jax.tree.map(jnp.add, sums, part(i)), None), zeros, jnp.arange(n)
    )
    return jax.tree.map(lambda x: x / n, total)


class Batches(NamedTuple):
    """The training data.

    read: (step, slice of rows) -> these rows of the step's batch, a dict of host arrays. It is a
        pure function, which a thread calls one step ahead. Each process reads the rows of its
        devices.
    size: rows of a batch.
    tokens_per_step: real tokens of a batch, on average.
    resident: arrays on the devices that every step takes besides its batch.
    """

    read: Callable
    size: int
    tokens_per_step: float
    resident: tuple[jax.Array, ...] = ()


class Intervals(NamedTuple):
    """The number of steps, and the steps after which the loop logs, evaluates and saves.

    Steps are counted from 1. The loop does each of these at its interval, at `keep_steps`, and
    after the last step.
    """

    total: int
    log_every: int
    evaluate_every: int
    save_every: int
    keep_steps: Sequence[int] = ()

    def evaluates(self, step: int) -> bool:
        return step % self.evaluate_every == 0 or step in self.keep_steps or step == self.total

    def saves(self, step: int) -> bool:
        return step % self.save_every == 0 or step in self.keep_steps or step == self.total

    def logs(self, step: int) -> bool:
        return step % self.log_every == 0 or self.evaluates(step) or self.saves(step)


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

    If a loss or gradient is not finite, the state before it is saved, and a UserError names the
    step. Raises Interrupted after SIGTERM, SIGINT or SIGHUP, once the state is saved.
    """
    step = int(state.step)
    signal = ''
    total = intervals.total
    window = Window(session.unlogged)
    before = None  # the metrics of the previous step
    compiled = set()  # the shapes of batches for which the step is compiled

    def ahead(step):
        """Starts to read and place the batch of a step, in the thread.

        Meanwhile the device works on the step before.
        """
        read = functools.partial(batches.read, step)
        return thread.submit(program.place, read, batches.size) if step < total else None

    with (
        preemption.watch() as stopped_by,
        concurrent.futures.ThreadPoolExecutor(1, 'prefetch') as thread,
    ):
        placed = ahead(step)
        while step < total:
            window.start_clock()
            session.trace.before(step)
            batch = placed.result()
            placed = ahead(step + 1)
            if (shapes := tuple(array.shape for array in batch.values())) not in compiled:
                window.stop_clock()
                compiled.add(shapes)
            state, metrics = program.step(state, batch, hyper, *batches.resident)
            step += 1
            window.add(metrics)
            signal = stopped_by(step)
            session.trace.after(step, metrics, final=bool(signal) or step == total)
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
