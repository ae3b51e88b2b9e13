"""The profiler's traces: of the steps that were asked for, and no others."""

import collections

import jax
import jax.numpy as jnp
import pytest

from gpt1_jax.training import profiling

STEPS = 6


def executions(span, directory):
    """How often the trace of a loop of STEPS steps says that the step was run, once or more for
    each."""
    step = jax.jit(lambda x: x + 1)
    x = step(jnp.zeros(3))
    trace = profiling.Trace(span, directory)
    for number in range(STEPS):
        trace.before(number)
        x = step(x)
        trace.after(number + 1, x)
    trace.close()
    (file,) = directory.rglob('*.xplane.pb')
    planes = jax.profiler.ProfileData.from_file(str(file)).planes
    return collections.Counter(
        event.name for plane in planes for line in plane.lines for event in line.events
    )['PjitFunction(<lambda>)']


def test_a_trace_that_training_left_running_is_written_when_it_is_closed(tmp_path):
    trace = profiling.Trace((0, 9), tmp_path / 'failed')
    trace.before(0)
    trace.close()
    trace.close()
    assert list((tmp_path / 'failed').rglob('*.xplane.pb')) and executions(
        (1, 2), tmp_path / 'next'
    )


@pytest.mark.parametrize(
    'span, steps', [((2, 5), 3), ((STEPS - 2, STEPS + 9), 2)], ids=['inside', 'beyond the end']
)
def test_a_trace_has_the_steps_of_its_span(span, steps, tmp_path):
    assert (
        executions(span, tmp_path / 'several') == steps * executions((1, 2), tmp_path / 'one') > 0
    )
