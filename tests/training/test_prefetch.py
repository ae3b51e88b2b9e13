"""One step ahead: order, errors, and what is left when the user goes away."""
import contextlib
import threading

import pytest

from gpt1_jax.training import prefetch


def alive():
    return [thread for thread in threading.enumerate() if thread.name.startswith('prefetch')]


def test_values_come_in_order_and_none_is_made_past_the_end():
    made = []
    assert list(prefetch.ahead(lambda step: made.append(step) or 10 * step, 3, 7)) == [30, 40, 50, 60]
    assert made == [3, 4, 5, 6] and not alive()
    assert list(prefetch.ahead(made.append, 7, 7)) == [] and made == [3, 4, 5, 6]


def test_the_next_value_and_no_more_is_made_while_one_is_in_use():
    begun = [threading.Event() for _ in range(4)]
    with contextlib.closing(prefetch.ahead(lambda step: begun[step].set(), 0, 4)) as values:
        assert not begun[0].is_set()
        for step in range(2):
            next(values)
            assert begun[step + 1].wait(60)
        assert not begun[3].is_set()
    assert not alive() and not begun[3].is_set()


def test_an_error_comes_in_its_own_turn_as_it_was_raised():
    values = prefetch.ahead(lambda step: 1 // (2 - step), 0, 9)
    assert [next(values), next(values)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(values)
    assert not alive()
