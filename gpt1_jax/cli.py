"""The command line of every entry point.

A user's mistake is one line and a non-zero exit; a traceback is a bug of ours.
"""
import errno
import os
import sys

from absl import app, flags, logging

from gpt1_jax.errors import Interrupted, UserError

flags.disclaim_key_flags()  # --help counts what is defined here among the caller's


def run(main, define_flags):
    """Define and parse flags, call main() and exit: 0, 1 with `error: ...` for a UserError, a full disk or memory, 2
    for a flag that cannot be, 130 for an interrupt. --help shows the main module's docstring and flags.

    define_flags: called first, as defining a config's flag already reads its file and overrides.
    """
    logging.set_verbosity(logging.FATAL)  # Orbax tells about every file at INFO, and at ERROR what it raises as well

    sys.unraisablehook = _unraisable

    def guarded(argv):
        if len(argv) > 1:
            _fail(f'unexpected argument {argv[1]!r}: options are written --name=value', 2)
        try:
            main()
        except Interrupted as error:
            _fail(str(error), flags.FLAGS.exit_code_when_stopped if 'exit_code_when_stopped' in flags.FLAGS else 1)
        except UserError as error:
            _fail(str(error), 1)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            _fail(f'{error.filename or "writing"}: {error.strerror}', 1)
        except KeyboardInterrupt:
            _fail('interrupted', 130)
        except Exception as error:
            if 'RESOURCE_EXHAUSTED' in str(error):
                _fail(f'{_folded(error)[:300]}: training takes less with --config.batch.microbatches=N (the same '
                      'update), --config.model.remat=True or more devices (--config.mesh.fsdp=N)', 1)
            distributed = sys.modules.get('gpt1_jax.distributed')
            if distributed is None or not distributed.lost(error):
                raise
            _fail('no process was named: see the logs of the others', 1)

    def parse(argv):
        try:
            left = flags.FLAGS(argv)
        except SystemExit:  # --help has shown the page, with absl's status of 1
            sys.exit(0)
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

    if hasattr(sys.stdout, 'reconfigure'):  # a file's name may hold what the terminal's encoding does not
        sys.stdout.reconfigure(errors='backslashreplace')
    one_line(define_flags)
    app.run(guarded, flags_parser=lambda argv: one_line(parse, argv))


def _unraisable(found):
    """TensorStore still calls the event loop that Orbax closed at an error, which is told as one line by then."""
    if str(found.exc_value) != 'Event loop is closed':
        sys.__unraisablehook__(found)


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


def define_process_flags():
    """The flags of entry points that run in several processes."""
    flags.DEFINE_string('coordinator', None, 'Several processes: HOST:PORT of process 0, where nothing else tells.')
    flags.DEFINE_integer('processes', None, 'Several processes: how many.')
    flags.DEFINE_integer('process', None, 'Several processes: the number of this one, from 0.')
    flags.DEFINE_bool('deterministic', False, 'On a GPU: only algorithms whose results are the same to the bit.')
    flags.DEFINE_integer('exit_code_when_stopped', 75, 'Exit status after SIGTERM or SIGINT, once the state is saved.')


def _fail(message, status):
    print(f'error: {message}', file=sys.stderr, flush=True)
    sys.stdout.flush()
    # At once where others wait for this process: jax's own ending would first wait for them.
    several = 'gpt1_jax.distributed' in sys.modules and sys.modules['gpt1_jax.distributed'].joined()
    os._exit(status) if status == 130 or several else sys.exit(status)
