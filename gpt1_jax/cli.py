"""The command line of every entry point.

A user's mistake is one line and a non-zero exit; a traceback is a bug of ours.
"""
import os
import sys

from absl import app, flags, logging

from gpt1_jax.errors import UserError


def run(main, define_flags):
    """Define and parse flags, call main() and exit: 0, 1 with `error: ...` for a UserError, 2 for a flag that cannot
    be, 130 for an interrupt.

    define_flags: called first, as defining a config's flag already reads its file and overrides.
    """
    logging.set_verbosity(logging.ERROR)  # Orbax tells about every file at INFO

    def guarded(argv):
        if len(argv) > 1:
            _fail(f'unexpected argument {argv[1]!r}: options are written --name=value', 2)
        try:
            main()
        except UserError as error:
            _fail(str(error), 1)
        except KeyboardInterrupt:
            _fail('interrupted', 130)

    def parse(argv):
        left = flags.FLAGS(argv)
        if 'config' in flags.FLAGS and flags.FLAGS.config is not None:
            flags.FLAGS.config.to_dict()  # a file that could not be read complains only now
        return left

    def one_line(function, *arguments):
        try:
            return function(*arguments)
        except (flags.Error, OSError) as error:
            _fail(_folded(error), 2)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if 'ml_collections' not in _origin(error):
                raise
            _fail(_folded(error), 2)  # so it reports an unknown field, or a value of the wrong type

    one_line(define_flags)
    app.run(guarded, flags_parser=lambda argv: one_line(parse, argv))


def _folded(error):
    """The error's text on one line; KeyError and AttributeError may hold another error's text, quoted."""
    text = error.args[0] if error.args else error
    return ' '.join(str(text.args[0] if isinstance(text, Exception) and text.args else text).split())


def _origin(error):
    """The file whose line raised the error."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename


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
        except (TypeError, ValueError):
            good = False
        if not good:
            problems.append(f'config.{name} is {value!r}, must be {wanted}')
    if problems:
        raise UserError('; '.join(problems))


def whole(low):
    """Rule: an int of at least `low`."""
    return lambda x: isinstance(x, int) and not isinstance(x, bool) and x >= low, f'a whole number of at least {low}'


def between(low, high):
    """Rule: a number from `low` to below `high`."""
    return lambda x: low <= x < high, f'at least {low} and below {high}'


def positive():
    """Rule: a number above 0."""
    return lambda x: 0 < x < float('inf'), 'above 0'


def optional(rule):
    """Rule: as another one, or None."""
    accepts, wanted = rule
    return lambda x: x is None or accepts(x), f'{wanted}, or None'


def one_of(*values):
    """Rule: one of the values."""
    return lambda x: x in values, 'one of ' + ', '.join(map(repr, values))


# What both trainings' configs have in common.
TRAINING_RULES = {
    'seed': (lambda x: type(x) is int and 0 <= x < 2 ** 32, 'a whole number from 0 to 2^32 - 1'),
    'log_every': whole(1), 'batch.size': whole(1), 'batch.microbatches': whole(1),
    'checkpoint.keep_latest': whole(1), 'checkpoint.keep_best': whole(1), 'optimizer.peak_rate': positive(),
    'optimizer.b1': between(0, 1), 'optimizer.b2': between(0, 1), 'optimizer.eps': positive(),
    'optimizer.weight_decay': between(0, 1), 'optimizer.clip': between(0, float('inf')),
}


def _fail(message, status):
    print(f'error: {message}', file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(status) if status == 130 else sys.exit(status)
