"""Training runs that end before their last step."""

import contextlib
import os
import signal

import pytest

from gpt1_jax.errors import Interrupted
from gpt1_jax.runs.session import Session
from gpt1_jax.training import loop


class Killed(BaseException):
    """Ends a run, and the program around it, without a chance to save."""


@contextlib.contextmanager
def power_cut(step):
    """A run in this context gets no batch after `step` steps, and ends at once."""
    fit = loop.fit

    def cut(program, state, hyper, batches, *rest):
        def read(number, rows):
            if number >= step:
                raise Killed
            return batches.read(number, rows)

        return fit(program, state, hyper, batches._replace(read=read), *rest)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(loop, 'fit', cut)
        yield


@contextlib.contextmanager
def sigterm(step):
    """A run in this context is asked to stop during the step after `step` steps.

    It saves that step.
    """
    show = Session.show

    def kill(session, number):
        show(session, number)
        if number == step:
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(Interrupted, match=f'step {step + 1} of'),
    ):
        patch.setattr(Session, 'show', kill)
        yield
