"""The training step and loop: interruption, losses that are not finite."""

import functools
import json
import os
import re
import signal
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.parallel import xla_options
from gpt1_jax.training import compiling, log_window, optimizer, optimizer_config, profiling
from gpt1_jax.training import loop as loop_lib
from gpt1_jax.training.intervals import Intervals
from gpt1_jax.training.prefetch import Batches
from meshes import hyper, mesh_of

HYPER = hyper()


def bigram(params, batch, key, hyper):
    """The loss of a bigram model, which is not finite where a row's weight is not; its gradient,
    where all `still` are 0."""
    logits = jax.nn.log_softmax(params['kernel'][batch['tokens'][:, :-1]])
    of_tokens = jnp.take_along_axis(logits, batch['tokens'][:, 1:, None], axis=2)
    still = jnp.sqrt(jnp.mean(jnp.square(params['kernel'])) * jnp.mean(batch['still']))
    return still - jnp.mean(jnp.mean(of_tokens, axis=(1, 2)) * batch['weight']), {}


def make(microbatches=1):
    return loop_lib.make_program(
        lambda seed: {'kernel': jax.random.normal(jax.random.key(seed), (50, 50))},
        bigram,
        optimizer.adam(),
        optimizer_config.schedule('cosine'),
        mesh_of((1, 1, 1)),
        microbatches,
    )


program = functools.cache(make)


@pytest.fixture(autouse=True)
def no_thread_stays():
    """However a loop ends."""
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith('prefetch')]


def batch(step, rows, length=9):
    tokens = np.random.default_rng(step).integers(0, 50, (16, length)).astype(np.int32)
    ones = np.ones(16, np.float32)
    return {'tokens': tokens[rows], 'weight': ones[rows], 'still': ones[rows]}


NEVER = 1000  # steps


def test_the_step_is_compiled_with_xla_s_options_for_the_mesh_s_platform(monkeypatch):
    monkeypatch.setattr(xla_options, 'of', lambda platform: {f'no_option_for_{platform}': True})
    p = make()
    state = p.init(jnp.uint32(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match='no_option_for_cpu'):
        p.step(state, batch(0, slice(16)), HYPER)


class Calls:
    """A session that records its calls, and also does a test's own work."""

    trace = profiling.Trace(None, None)

    def __init__(self, unlogged=(), show=lambda step: None, log=lambda step: None):
        self.unlogged = unlogged
        self.show = show
        self._also_log = log
        self.logged = []
        self.saved = []
        self.states = []
        self.evaluated = []
        self.state = self.error = None

    def log(self, step, values):
        self.logged.append((step, values))
        self._also_log(step)

    def save(self, state, step, quality, unlogged):
        self.left = unlogged
        self.saved.append((step, quality))
        self.states.append(jax.device_get(state))

    def evaluate(self, state):
        self.evaluated.append(int(state.step))
        return 0.5


def loop(
    p,
    total,
    read=batch,
    hyper=HYPER,
    state=None,
    log_every=3,
    evaluate_every=4,
    save_every=5,
    **how,
):
    """Runs a loop of so many steps, from the start unless a state is given. Returns the calls of
    its session."""
    calls = Calls(**how)
    state = p.init(jnp.uint32(0)) if state is None else state
    try:
        calls.state = loop_lib.fit(
            p,
            state,
            hyper,
            Batches(read, 16, 128),
            Intervals(total, log_every, evaluate_every, save_every),
            calls,
            calls.evaluate,
        )
    except UserError as error:
        calls.error = error
    return calls


def send(number, *steps):
    """A callback that sends this process a signal after these steps."""
    return lambda step: os.kill(os.getpid(), number) if step in steps else None


def test_the_loop_logs_evaluates_and_saves_at_its_steps_and_at_the_end():
    calls = loop(program(), 12)
    assert calls.saved == [(5, None), (10, None), (12, 0.5)]
    assert calls.evaluated == [4, 8, 12]
    assert [s for s, _ in calls.logged] == [3, 4, 5, 6, 8, 9, 10, 12]


def test_a_row_has_the_learning_rate_of_its_step_and_the_mean_loss_since_the_row_before():
    each = dict(loop(program(), 6, log_every=1).logged)
    for step, row in loop(program(), 6, evaluate_every=NEVER, save_every=NEVER).logged:
        assert (
            row['learning_rate'] == each[step]['learning_rate'] != each[step - 1]['learning_rate']
        )
        assert row['loss'] == pytest.approx(
            np.mean([each[i]['loss'] for i in (step - 2, step - 1, step)])
        )


def test_a_signal_saves_after_the_step_and_says_how_to_go_on():
    calls = loop(program(), 12, log=send(signal.SIGTERM, 6))
    assert isinstance(calls.error, Interrupted)
    assert calls.saved[-1][0] == 7 and 'SIGTERM at step 7 of 12' in str(calls.error)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_rows_of_a_loop_that_stopped_between_them_are_those_of_one_that_did_not():
    p = program()
    rare = dict(log_every=6, evaluate_every=NEVER, save_every=NEVER)
    first = loop(p, 12, show=send(signal.SIGTERM, 7), **rare)
    assert first.saved[-1][0] == 8 and len(first.left) == 2
    again = loop(
        p,
        12,
        state=jax.device_put(first.states[-1], jax.tree.map(lambda x: x.sharding, p.state)),
        unlogged=json.loads(json.dumps(first.left)),
        **rare,
    )
    straight = loop(p, 12, **rare).logged
    assert [s for s, _ in first.logged + again.logged] == [s for s, _ in straight]
    assert again.logged[-1][1]['loss'] == straight[-1][1]['loss']


def test_batches_are_read_once_each_and_an_error_comes_at_its_own_step():
    p = program()
    read = []

    def reader(step, rows):
        read.append(step)
        if step == 7:
            raise UserError('the shard is gone')
        return batch(step, rows)

    loop(p, 6, reader)
    assert read == [0, 1, 2, 3, 4, 5]
    read.clear()
    calls = loop(p, 12, reader)
    assert str(calls.error) == 'the shard is gone' and read == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [s for s, _ in calls.logged] == [3, 4, 5, 6]  # the seventh update is done, unlogged


@pytest.mark.parametrize(
    'log_every, rates', [(3, [128, 128, 128]), (1, [1.28, 128, 128, 128, 128, 128, 128])]
)
def test_a_step_that_compiles_is_not_timed(monkeypatch, log_every, rates):
    p = program()
    now = [0.0]
    seen = set()
    lengths = [9, 9, 5, 9, 3, 5, 9]
    monkeypatch.setattr(log_window, 'time', types.SimpleNamespace(perf_counter=lambda: now[0]))

    def step(state, placed, hyper):
        shape = placed['tokens'].shape
        now[0] += 1 if shape in seen else 100
        seen.add(shape)
        return p.step(state, placed, hyper)

    def read(step, rows):
        return batch(step, rows, lengths[step])

    calls = loop(
        p._replace(step=step), 7, read, log_every=log_every, evaluate_every=NEVER, save_every=NEVER
    )
    assert [values['tokens_per_s'] for _, values in calls.logged] == rates  # of 128 tokens a step
    assert calls.logged[1][1]['seconds_left'] == 7 - calls.logged[1][0]


def test_a_line_says_that_the_step_is_compiled_and_how_long_it_took(capsys, monkeypatch):
    p = make(microbatches=2)
    state = p.init(jnp.uint32(0))
    monkeypatch.setattr(compiling, 'PATIENCE_S', 0)

    def read(step, rows):
        return batch(step, rows, 9 - step % 2)

    loop(p, 4, read, state=state)
    said = r'(compiling training_step\(\) \.\.\. \d+ s\n){2}'  # for two shapes
    assert re.fullmatch(said, capsys.readouterr().err)
    loop(p, 4, read)
    assert capsys.readouterr().err == ''


def test_steps_of_another_process_do_not_count_in_the_pace(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(log_window, 'time', types.SimpleNamespace(perf_counter=lambda: now[0]))
    window = log_window.Window([{'learning_rate': 0.1, 'skipped': 0}] * 99)
    now[0] = 20  # to compile
    window.add({'learning_rate': 0.1, 'skipped': 0})
    assert window.row(1000, 10) == {'learning_rate': 0.1, 'tokens_per_s': 50, 'seconds_left': 200}


def bad_at(*steps, name='weight', value=np.nan):
    def read(step, rows):
        found = batch(step, rows)
        if step in steps:
            found[name] = np.full_like(found[name], value)
        return found

    return read


@pytest.mark.parametrize(
    'name, value, waits', [('weight', np.nan, True), ('weight', np.nan, False), ('still', 0, True)]
)
def test_a_loss_or_gradient_that_is_not_finite_halts_before_the_state_is_touched(
    name, value, waits
):
    p = program()
    calls = loop(
        p,
        12,
        bad_at(7, name=name, value=value),
        save_every=8 if waits else NEVER,
        log_every=NEVER,
        evaluate_every=NEVER,
    )
    assert (
        ', gradient norm nan at step 8 (rows 112 to 127 in the order of training): the state of '
        'step 7 is saved'
        in (str(calls.error))
        and str(calls.error).startswith('loss nan') == (name == 'weight')
    )
    whole = loop(p, 7, bad_at()).state
    (saved,) = calls.states
    assert calls.saved == [(7, None)] and int(saved.step) == 7
    jax.tree.map(
        np.testing.assert_array_equal,
        (saved.params, saved.opt_state),
        jax.device_get((whole.params, whole.opt_state)),
    )


def test_bad_batches_are_skipped_as_often_as_allowed_and_counted():
    p = program()
    calls = loop(p, 9, bad_at(2, 5), hyper=HYPER | {'skips': np.int32(2)}, log_every=1)
    assert int(calls.state.step) == 9 and int(calls.state.skipped) == 2
    assert [m.get('skipped') for _, m in calls.logged] == [None, None, 1, 1, 1, 2, 2, 2, 2]
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(jax.device_get(calls.state.params)))
    assert int(calls.state.opt_state[1].count) == 7
    calls = loop(p, 9, bad_at(2, 5), hyper=HYPER | {'skips': np.int32(1)})
    assert 'step 6' in str(calls.error) and 'the state of step 5 is saved' in str(calls.error)
    assert calls.saved[-1][0] == 5
