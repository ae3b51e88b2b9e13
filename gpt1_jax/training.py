"""Section 4.1: the jitted training step and the only training loop. Knows trees of arrays, not models or tasks."""
import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax import dropout, sharding
from gpt1_jax.errors import Interrupted, UserError


class TrainState(NamedTuple):
    """All that changes in training. step: int32, updates made; it is also the state of the data and of dropout."""
    step: jax.Array
    params: Any
    opt_state: Any


class Program(NamedTuple):
    """The compiled functions of one kind of run on one mesh; runs that differ only in `hyper` share it.

    init: seed -> TrainState. step: (TrainState, batch, hyper) -> (TrainState, metrics); the state passed in is
    consumed. state: TrainState of ShapeDtypeStructs with shardings, the target to restore a checkpoint into. batch: a
    batch's sharding.
    """
    mesh: jax.sharding.Mesh
    init: Callable
    step: Callable
    state: TrainState
    batch: jax.sharding.Sharding

    def place(self, batch):
        """A host batch (dict of arrays, rows first) onto the mesh."""
        return jax.tree.map(lambda x: jax.device_put(x, self.batch), batch)


def make_program(init_params, loss, optimizer, schedule, mesh, microbatches=1):
    """The jitted init and training step.

    init_params: seed -> parameter tree. loss: (params, batch, dropout.Key, hyper) -> (mean over the batch's rows,
        metrics).
    optimizer: an optax transformation that takes `learning_rate`. schedule: (peak, warmup, total) -> optax schedule.
    microbatches: gradients of this many equal parts of a batch are averaged: the same loss and, as parts know the
        global number of their first row, the same dropout masks.
    hyper: dict of scalar arrays: seed (uint32), peak, warmup, total, and whatever else `loss` reads.
    """
    def init(seed):
        params = init_params(seed)
        return TrainState(jnp.zeros([], jnp.int32), params, optimizer.init(params))

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
        metrics = {'loss': value, **metrics, 'learning_rate': rate, 'grad_norm': norm}
        return TrainState(state.step + 1, params, opt_state), metrics

    shapes = jax.eval_shape(init, jax.ShapeDtypeStruct([], jnp.uint32))
    places = sharding.shardings(shapes, mesh)
    jitted_init = jax.jit(init, out_shardings=places)
    jitted_step = jax.jit(step, donate_argnums=0, out_shardings=(places, None))
    return Program(mesh, on_mesh(jitted_init, mesh), on_mesh(jitted_step, mesh), sharding.targets(shapes, mesh),
                   sharding.batch_sharding(mesh))


def on_mesh(function, mesh):
    """The function called with the mesh in context, where sharding.constrain finds it."""
    def call(*args):
        with jax.set_mesh(mesh):
            return function(*args)
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


def fit(program, state, hyper, batch, total, *, log, log_every, evaluate, evaluate_at, save, save_at, tokens_per_step):
    """Train to `total` updates; the only loop.

    batch: step -> host batch, a pure function. log: (step, {name: float}) every `log_every` updates, with the means
    since the last call. evaluate: state -> {name: float}, where evaluate_at(step). save: (state, step, evaluation or
    None), where save_at(step), at the end and when interrupted. Losses are read at log points alone, so the device
    never waits. Raises UserError naming the step when the loss is not finite (nothing is saved then), Interrupted after
    SIGTERM or SIGINT.
    """
    step = first = int(state.step)
    pending, seconds, timed, since = [], 0.0, 0, None  # seconds: of `timed` updates since the last log
    began = time.perf_counter()

    def flush():
        nonlocal pending, seconds, timed
        for number, metrics in enumerate(pending, step - len(pending) + 1):
            for name in ('loss', 'grad_norm'):
                if not math.isfinite(metrics[name]):
                    raise UserError(f'{name} is {metrics[name]} at step {number}: nothing was saved since; try a lower '
                                    'optimizer.peak_rate or a longer warm-up')
        means = {name: sum(float(m[name]) for m in pending) / len(pending) for name in pending[0]}
        pace = seconds / timed if timed else time.perf_counter() - began
        log(step, means | {'tokens_per_s': tokens_per_step / pace, 'seconds_left': pace * (total - step)})
        pending, seconds, timed = [], 0.0, 0

    with _signals() as stop:
        while step < total:
            if since is None:
                since = time.perf_counter()
            state, metrics = program.step(state, program.place(batch(step)), hyper)
            step += 1
            pending.append(metrics)
            if step == first + 1:  # the first update compiles: its time tells nothing
                jax.block_until_ready(metrics)
                since, timed = time.perf_counter(), -1
            timed += 1
            done, stopped = step == total, bool(stop)
            saves = save_at(step) or done or stopped
            if step % log_every == 0 or saves or evaluate_at(step):
                pending = jax.device_get(pending)  # waits for this step
                seconds, since = seconds + time.perf_counter() - since, None  # what follows is not the step's time
                flush()
            evaluation = evaluate(state) if evaluate_at(step) or done else None
            if saves:
                save(state, step, evaluation)
            if stopped and not done:
                raise Interrupted(f'stopped by {stop[0]} at step {step:,} of {total:,}; the state is saved: '
                                  'run the same command again to go on')
    return state


@contextlib.contextmanager
def _signals():
    """Collects the names of SIGTERM and SIGINT instead of dying of them; a second one is not caught."""
    caught = []

    def handler(number, frame):
        caught.append(signal.Signals(number).name)
        print(f'{caught[-1]}: saving after this step, then stopping', file=sys.stderr, flush=True)
        for s, old in previous.items():
            signal.signal(s, old)

    try:
        previous = {s: signal.signal(s, handler) for s in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread: whoever runs us there handles signals
        previous = {}
    try:
        yield caught
    finally:
        for s, old in previous.items():
            signal.signal(s, old)
