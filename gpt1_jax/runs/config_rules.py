"""Validation of configs: a rule for each field, one line for all the values that are refused."""
import importlib.util
import numbers
from collections.abc import Callable
from typing import Any

from gpt1_jax.errors import UserError, shown
from gpt1_jax.training.optimizer import SCHEDULES

LARGEST = 1e38  # of a number in a config, just below float32's largest
Rule = tuple[Callable[[Any], Any], str]  # (accepts the value, what it must be)


def validate(config: Any, rules: dict[str, Rule]) -> None:
    """UserError listing every field of a config (a ConfigDict, or a nested dict) that its rule refuses.

    rules: {'batch.size': (predicate, 'a whole number of at least 1')}.
    """
    problems = []
    for name, (accepts, wanted) in rules.items():
        value = config
        try:
            for part in name.split('.'):
                value = value[part]
            good = accepts(value)
        except KeyError:
            problems.append(f'config.{name} is missing')
            continue
        except (AttributeError, TypeError, ValueError):  # of a value of another type
            good = False
        if not good:
            problems.append(f'config.{name} is {shown(value)}, must be {wanted}')
    if problems:
        raise UserError('; '.join(problems))


def is_number(x: Any) -> bool:
    return isinstance(x, numbers.Real) and not isinstance(x, bool)


def whole(low: int, high: int = 2 ** 31 - 1) -> Rule:
    """Rule: an int from `low` to `high`, by default the largest int32."""
    return (lambda x: isinstance(x, int) and not isinstance(x, bool) and low <= x <= high,
            f'a whole number from {low} to {high:,}')


def between(low: float, high: float) -> Rule:
    """Rule: a number from `low` to below `high`."""
    return lambda x: is_number(x) and low <= x < high, f'a number of at least {low} and below {high}'


def number() -> Rule:
    """Rule: a finite number that float32 can hold."""
    return lambda x: is_number(x) and -LARGEST < x < LARGEST, f'a number of magnitude below {LARGEST}'


def positive() -> Rule:
    """Rule: a number above 0 that float32 can hold."""
    return lambda x: is_number(x) and 0 < x < LARGEST, f'a number above 0 and below {LARGEST}'


def text() -> Rule:
    """Rule: a str."""
    return lambda x: isinstance(x, str), 'a text'


def flag() -> Rule:
    """Rule: True or False."""
    return lambda x: isinstance(x, bool), 'True or False'


def several(rule: Rule) -> Rule:
    """Rule: a tuple or list of values that another rule accepts."""
    accepts, wanted = rule
    return lambda x: isinstance(x, (tuple, list)) and all(map(accepts, x)), f'a tuple, each of it {wanted}'


def group() -> Rule:
    """Rule: a ConfigDict of fields."""
    return lambda x: isinstance(x.to_dict(), dict), 'a group of fields'


def optional(rule: Rule) -> Rule:
    """Rule: None, or a value that another rule accepts."""
    accepts, wanted = rule
    return lambda x: x is None or accepts(x), f'{wanted}, or None'


def span(text: str) -> tuple[int, int] | None:
    """(START, STOP) of 'START:STOP', or None of ''. ValueError where it is neither."""
    if not text:
        return None
    first, last = (int(part) for part in text.split(':'))
    if not 0 <= first < last:
        raise ValueError
    return first, last


AXIS = (lambda x: whole(-1)[0](x) and x != 0, 'a whole number of at least 1, or -1 for the remaining devices')
TRACKERS = ('wandb', 'trackio')
# The fields that pretraining and fine-tuning have in common.
TRAINING = {
    'seed': whole(0, 2 ** 32 - 1),
    'log_every': whole(1), 'batch.size': whole(1), 'batch.microbatches': whole(1), 'batch.loss_chunks': whole(1),
    'checkpoint.keep_latest': whole(1), 'checkpoint.keep_best': whole(1), 'optimizer.peak_rate': positive(),
    'optimizer.b1': between(0, 1), 'optimizer.b2': between(0, 1), 'optimizer.eps': positive(),
    'optimizer.schedule': (lambda x: x in SCHEDULES, f"one of {', '.join(SCHEDULES)}"),
    'optimizer.decay_steps': whole(0), 'optimizer.weight_decay': between(0, 1), 'optimizer.clip': between(0, LARGEST),
    'train.skip_nonfinite': whole(0),
    'tensorboard': (lambda x: x is False or x is True and importlib.util.find_spec('tensorboardX'),
                    "False, or with the extra tensorboard (pip install 'gpt1_jax[tensorboard]') True"),
    'tracker': (lambda x: x == '' or x in TRACKERS and importlib.util.find_spec(x),
                "'', or with the extra of its name (pip install 'gpt1_jax[wandb]') 'wandb' or 'trackio'"),
    'project': text(),
    'profile': (lambda x: span(x) or True, "START:STOP, two steps, the first the smaller"),
    'model': group(), 'mesh.data': AXIS, 'mesh.fsdp': AXIS, 'mesh.tensor': AXIS,
    'init_from': optional(text()), 'init_step': optional(whole(0)),
}
