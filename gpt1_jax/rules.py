"""What the fields of a config may hold: one list of rules a config, one line for all that they refuse."""
import importlib.util
import numbers

from gpt1_jax.errors import UserError, shown

LARGEST = 1e38  # of a number in a config: float32 ends a little later


def validate(config, rules):
    """UserError listing every field of a ConfigDict that its rule refuses.

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
        except (AttributeError, TypeError, ValueError, RecursionError):  # of a value of another kind
            good = False
        if not good:
            problems.append(f'config.{name} is {shown(value)}, must be {wanted}')
    if problems:
        raise UserError('; '.join(problems))


def is_number(x):
    return isinstance(x, numbers.Real) and not isinstance(x, bool)


def whole(low, high=2 ** 31 - 1):
    """Rule: an int from `low` to `high`, by default what steps and rows are counted with."""
    return (lambda x: isinstance(x, int) and not isinstance(x, bool) and low <= x <= high,
            f'a whole number from {low} to {high:,}')


def between(low, high):
    """Rule: a number from `low` to below `high`."""
    return lambda x: is_number(x) and low <= x < high, f'a number of at least {low} and below {high}'


def number():
    """Rule: a number that float32 holds."""
    return lambda x: is_number(x) and -LARGEST < x < LARGEST, f'a number of magnitude below {LARGEST}'


def positive():
    """Rule: a number above 0 that float32 holds."""
    return lambda x: is_number(x) and 0 < x < LARGEST, f'a number above 0 and below {LARGEST}'


def text():
    """Rule: a str, as names and paths are."""
    return lambda x: isinstance(x, str) and '\0' not in x, 'a text'


def flag():
    """Rule: True or False."""
    return lambda x: isinstance(x, bool), 'True or False'


def several(rule):
    """Rule: a tuple or list of what another rule accepts."""
    accepts, wanted = rule
    return lambda x: isinstance(x, (tuple, list)) and all(map(accepts, x)), f'a tuple, each of it {wanted}'


def group():
    """Rule: fields of a config."""
    return lambda x: isinstance(x.to_dict(), dict), 'a group of fields'


def optional(rule):
    """Rule: as another one, or None."""
    accepts, wanted = rule
    return lambda x: x is None or accepts(x), f'{wanted}, or None'


def span(text):
    """(START, STOP) of 'START:STOP', or None of ''. ValueError where it is neither."""
    if not text:
        return None
    first, last = (int(part) for part in text.split(':'))
    if not 0 <= first < last:
        raise ValueError
    return first, last


AXIS = (lambda x: whole(-1)[0](x) and x != 0, 'a whole number of at least 1, or -1 for what remains')
# What both trainings' configs have in common.
TRAINING = {
    'seed': whole(0, 2 ** 32 - 1),
    'log_every': whole(1), 'batch.size': whole(1), 'batch.microbatches': whole(1), 'batch.loss_chunks': whole(1),
    'checkpoint.keep_latest': whole(1), 'checkpoint.keep_best': whole(1), 'optimizer.peak_rate': positive(),
    'optimizer.b1': between(0, 1), 'optimizer.b2': between(0, 1), 'optimizer.eps': positive(),
    'optimizer.weight_decay': between(0, 1), 'optimizer.clip': between(0, LARGEST),
    'train.skip_nonfinite': whole(0),
    'tensorboard': (lambda x: x is False or x is True and importlib.util.find_spec('tensorboardX'),
                    "False, or with the extra tensorboard (pip install 'gpt1_jax[tensorboard]') True"),
    'profile': (lambda x: span(x) or True, "START:STOP, two steps, the first the smaller"),
    'model': group(), 'mesh.data': AXIS, 'mesh.fsdp': AXIS, 'mesh.tensor': AXIS,
    'init_from': optional(text()), 'init_step': optional(whole(0)),
}
