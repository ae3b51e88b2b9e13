"""Section 4.1: the jitted training step and the only training loop. Knows trees of arrays, not models or tasks."""
import contextlib
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax import dropout, preemption, prefetch, sharding, tracing
from gpt1_jax.errors import Interrupted, UserError


class TrainState(NamedTuple):
    """All that changes in training.

    step: int32, batches done; it is also the state of the data and of dropout. skipped: int32, those of them that
    changed nothing as their loss or gradient was not finite. halted: bool, one more of these than hyper['skips'] came:
    every later step leaves the state as it is.
    """
    step: jax.Array
    params: Any
    opt_state: Any
    skipped: jax.Array
    halted: jax.Array


class Program(NamedTuple):
    """The compiled functions of one kind of run on one mesh; runs that differ only in `hyper` share it.

    init: seed -> TrainState. step: (TrainState, batch, hyper) -> (TrainState, metrics); the state passed in is
    consumed. state: TrainState of ShapeDtypeStructs with shardings, the target to restore a checkpoint into.
    """
    mesh: jax.sharding.Mesh
    init: Callable
    step: Callable
    state: TrainState

    @property
    def batch(self):
        """How the rows of a batch lie on the mesh."""
        return sharding.batch_sharding(self.mesh)

    def place(self, read, size):
        """A batch of `size` rows onto the mesh. read: slice -> dict of host arrays, those rows."""
        return sharding.place(read, size, self.mesh)


def make_program(init_params, loss, optimizer, schedule, mesh, microbatches=1):
    """The jitted init and training step.

    init_params: seed -> parameter tree. loss: (params, batch, dropout.Key, hyper) -> (mean over the batch's rows,
        metrics).
    optimizer: an optax transformation that takes `learning_rate`. schedule: (peak, warmup, total) -> optax schedule.
    microbatches: gradients of this many equal parts of a batch are averaged: the same loss and, as parts know the
        global number of their first row, the same dropout masks.
    hyper: dict of scalar arrays: seed (uint32), peak, warmup, total, skips (int32: how many batches may be skipped
        because their loss or gradient is not finite; the next one halts), and whatever else, of any shape, `loss`
        reads at every step.
    """
    def init(seed):
        params = init_params(seed)
        zero = jnp.zeros([], jnp.int32)
        return TrainState(zero, params, optimizer.init(params), zero, jnp.zeros([], bool))

    def gradients(params, batch, key, hyper):
        return jax.value_and_grad(loss, has_aux=True)(params, batch, key, hyper)

    def step(state, batch, hyper):
        key = dropout.Key(hyper['seed'], state.step.astype(jnp.uint32), jnp.uint32(0))
        if microbatches == 1:
            (value, metrics), grads = gradients(state.params, batch, key, hyper)
        else:
            (value, metrics), grads = _accumulate(gradients, microbatches, mesh, state.params, batch, key, hyper)
        rate = schedule(hyper['peak'], hyper['warmup'], hyper['total'])(state.step)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params, learning_rate=rate)
        params = jax.tree.map(jnp.add, state.params, updates)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
        # What is not finite never enters the state: it keeps its values, whatever the host does and when it looks.
        good = jnp.isfinite(value) & jnp.isfinite(norm) & ~state.halted
        skips = ~good & ~state.halted & (state.skipped < hyper['skips'])
        params, opt_state = jax.tree.map(lambda new, old: jnp.where(good, new, old), (params, opt_state),
                                         (state.params, state.opt_state))
        new = TrainState(state.step + (good | skips), params, opt_state, state.skipped + skips, ~(good | skips))
        return new, {'loss': value, **metrics, 'learning_rate': rate, 'grad_norm': norm, 'skipped': new.skipped,
                     'halted': new.halted}

    shapes = jax.eval_shape(init, jax.ShapeDtypeStruct([], jnp.uint32))
    places = sharding.shardings(shapes, mesh)
    jitted_init = jax.jit(init, out_shardings=places)
    jitted_step = jax.jit(step, donate_argnums=0, out_shardings=(places, None))
    return Program(mesh, on_mesh(jitted_init, mesh), on_mesh(jitted_step, mesh), sharding.targets(shapes, mesh))


def on_mesh(function, mesh):
    """The jitted function, and its `trace`, called with the mesh in context, where sharding.constrain finds it."""
    def within(function):
        def call(*args):
            with jax.set_mesh(mesh):
                return function(*args)
        return call
    call = within(function)
    call.trace = within(function.trace)
    return call


def _accumulate(gradients, n, mesh, params, batch, key, hyper):
    """The mean of value, metrics and gradients over n parts of the batch, one after the other."""
    def split(x):
        x = x.reshape(n, x.shape[0] // n, *x.shape[1:])
        place = jax.sharding.PartitionSpec(None, *sharding.BATCH)
        return x if mesh.size == 1 else jax.lax.with_sharding_constraint(x, place)
    parts = jax.tree.map(split, batch)
    rows = jax.tree.leaves(parts)[0].shape[1]

    def part(index):
        piece = jax.tree.map(lambda x: x[index], parts)
        return gradients(params, piece, key._replace(row=(index * rows).astype(jnp.uint32)), hyper)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(part, jnp.int32(0)))
    total, _ = jax.lax.scan(lambda sums, i: (jax.tree.map(jnp.add, sums, part(i)), None), zeros, jnp.arange(n))
    return jax.tree.map(lambda x: x / n, total)


def fit(program, state, hyper, batch, size, total, *, log, log_every, evaluate, evaluate_at, save, save_at,
        tokens_per_step, trace=tracing.Trace(), show=lambda step, total: None):
    """Train to `total` batches; the only loop.

    batch: (step, rows) -> those rows (a slice) of the step's `size` rows, a dict of host arrays, a pure function,
    called one step ahead in a thread; each process asks for its own. log: (step, {name: float}) every `log_every`
    updates, with the means since the last call. show: (step, total), after every update. evaluate: state -> {name:
    float}, where evaluate_at(step). save: (state, step, evaluation or None), where save_at(step), at the end and when
    interrupted. Losses are read at log points alone, and whether the state has halted one step late, so the device
    never waits. Raises UserError naming the step where a loss or gradient is not finite, after saving the state before
    it; Interrupted after SIGTERM or SIGINT.
    """
    step = first = int(state.step)
    pending, seconds, timed, since = [], 0.0, 0, None  # seconds: of `timed` updates since the last log
    began, before = time.perf_counter(), None

    def placed(step):
        return program.place(lambda rows: batch(step, rows), size)

    def flush():
        nonlocal pending, seconds, timed
        means = {name: _mean([float(m[name]) for m in pending]) for name in pending[0] if name not in STATE}
        if pending[-1]['skipped']:
            means['skipped'] = int(pending[-1]['skipped'])
        pace = seconds / timed if timed else time.perf_counter() - began
        log(step, means | {'tokens_per_s': tokens_per_step / pace, 'seconds_left': pace * (total - step)})
        pending, seconds, timed = [], 0.0, 0

    with preemption.watch() as stopped_by, contextlib.closing(prefetch.ahead(placed, step, total)) as batches:
        while step < total:
            if since is None:
                since = time.perf_counter()
            trace.before(step)
            state, metrics = program.step(state, next(batches), hyper)
            step += 1
            pending.append(metrics)
            if step == first + 1:  # the first update compiles: its time tells nothing
                jax.block_until_ready(metrics)
                since, timed = time.perf_counter(), -1
            timed += 1
            trace.after(step, metrics, final=step == total)
            signal = stopped_by(step)
            done, saves = step == total, save_at(step) or step == total or signal
            waits = step % log_every == 0 or saves or evaluate_at(step)
            if (metrics if waits else before or metrics)['halted']:  # waits for that step: this one, or the one before
                _halt(state, pending, size, save)
            before = metrics
            show(step, total)
            if waits:
                pending = jax.device_get(pending)
                seconds, since = seconds + time.perf_counter() - since, None  # what follows is not the step's time
                flush()
            evaluation = evaluate(state) if evaluate_at(step) or done else None
            if saves:
                save(state, step, evaluation)
            if signal and not done:
                raise Interrupted(f'stopped by {signal} at step {step:,} of {total:,}; the state is saved: '
                                  'run the same command again to go on')
    return state


STATE = ('skipped', 'halted')  # metrics that are counts, not figures to average


def _mean(values):
    """Of those that are finite: a skipped batch has no loss."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def _halt(state, pending, size, save):
    """Save the state, which no value that is not finite has entered, and raise UserError."""
    metrics = next(m for m in pending if m['halted'])
    step = int(state.step)
    save(state, step, None)
    raise UserError(f'loss {float(metrics["loss"])}, gradient norm {float(metrics["grad_norm"])} at step {step + 1:,} '
                    f'(rows {step * size:,} to {(step + 1) * size - 1:,} in the order of training): the state of step '
                    f'{step:,} is saved; try a lower optimizer.peak_rate or a longer warm-up, or let the run skip such '
                    'batches with --config.train.skip_nonfinite=N')
