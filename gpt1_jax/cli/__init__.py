"""The command line of every program: flags, exit status, and one line for each user error.

A traceback is a bug of this library.
"""

import contextlib
import functools
import hashlib
import os
import platform
import signal
import sys
import traceback
import warnings
from collections.abc import Callable

from absl import app, flags, logging

from gpt1_jax import startup, storage, user_code
from gpt1_jax.cli import config_file, config_help, terminal
from gpt1_jax.data.corpus import Join
from gpt1_jax.errors import Interrupted, UserError, one_line, os_line

flags.disclaim_key_flags()  # --help counts flags that are defined here among the caller's


def run(
    main: Callable[[], None], define_flags: Callable[[], None], ends_with_output: bool = False
) -> None:
    """Define and parse flags, call main() and exit.

    The status is 0 after main(), 1 with `error: ...` for a UserError, an OSError or too little
    memory, 2 for a bad flag, and 130 for an interrupt. --help shows the main module's docstring and
    flags.
    define_flags:     called first, because defining a config's flag already reads the config's file
                      and overrides.
    ends_with_output: end the program by SIGPIPE once standard output has no reader (`| head`). By
                      default the program continues silently, and writes its files.
    """
    if 'jax' in sys.modules:
        # For a program that is run by its module. gpt1 did so before these imports
        startup.with_huge_pages()
    terminal.guard(ends_with_output)
    sys.argv[1:] = map(terminal.typed, sys.argv[1:])
    # Orbax logs every file at INFO, and at ERROR the exceptions that it raises
    logging.set_verbosity(logging.FATAL)
    sys.unraisablehook = _unraisable
    warnings.showwarning = _show_warning
    flags.DEFINE_bool(
        'trust_code', False, 'Run the code, FILE:NAME, that only the config.json of a run names.'
    )
    _exit_if_bad(define_flags)
    app.run(
        functools.partial(_run_main, main), flags_parser=lambda argv: _exit_if_bad(_parse, argv)
    )


def _run_main(main, argv):
    """Call main(). Any error that is not a bug ends the program with one line."""
    if len(argv) > 1:
        _fail(f'unexpected argument {argv[1]!r}: options are written --name=value', 2)
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a job in the background has it
            signal.signal(signal.SIGINT, signal.default_int_handler)  # replaces startup.py's
        if 'jax' in sys.modules:
            keep_compiled_programs()
        if 'config' in flags.FLAGS:
            user_code.trust(flags.FLAGS.config)
        if flags.FLAGS.trust_code:
            user_code.trust_everything()
        main()
        sys.stdout.flush()
    except Interrupted as error:
        _fail(
            str(error),
            flags.FLAGS.exit_code_when_stopped if 'exit_code_when_stopped' in flags.FLAGS else 1,
        )
    except UserError as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(os_line(error), 1)
    except KeyboardInterrupt:
        _fail('interrupted', 130)
    except Exception as error:
        if 'RESOURCE_EXHAUSTED' in str(error):
            _fail(
                f'{_folded(error)[:300]}: training takes less with --config.batch.microbatches=N '
                '(the same update), --config.model.remat=True (not for an LSTM) or more devices '
                '(--config.mesh.fsdp=N)',
                1,
            )
        platforms = os.environ.get('JAX_PLATFORMS', '')
        if traceback.extract_tb(error.__traceback__)[-1].filename.endswith('xla_bridge.py') or (
            platforms and not _has_devices()
        ):
            _fail(
                f'JAX_PLATFORMS={platforms}: jax has no such device here '
                f'({_folded(error)[:200] or "none found"}); JAX_PLATFORMS=cpu, or none, takes what '
                'there is',
                1,
            )
        processes = sys.modules.get('gpt1_jax.parallel.processes')
        if processes is None or not processes.lost(error):
            raise
        _fail('no process was named: see the logs of the others', 1)


def keep_compiled_programs() -> None:
    """Keep jax's compiled programs in GPT1_JAX_CACHE, so that a second start compiles nothing.

    JAX_COMPILATION_CACHE_DIR, if set, takes precedence. Programs for a CPU may use instructions
    that other CPUs lack, so each kind of host has a directory. A cache that cannot be read or
    written is silently not used.
    """
    import jax

    if getattr(jax.config, 'jax_compilation_cache_dir') is not None:
        return
    host = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    with contextlib.suppress(OSError):
        directory = storage.cache(f'programs/{host}')
        directory.mkdir(parents=True, exist_ok=True)
        jax.config.update('jax_compilation_cache_dir', str(directory))
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.2)
        warnings.filterwarnings(
            'ignore', message='Error (reading|writing) persistent compilation cache entry'
        )


def _processor():
    """The model and the instruction sets of this host's CPU."""
    with (
        contextlib.suppress(OSError),
        open('/proc/cpuinfo', encoding='utf-8', errors='replace') as file,
    ):
        wanted = ('model name', 'flags', 'Features', 'CPU part')
        return ''.join(sorted({line for line in file if line.startswith(wanted)}))
    return platform.processor()


def _has_devices():
    jax = sys.modules.get('jax')
    try:
        return jax is None or bool(jax.devices())
    except Exception:  # RuntimeError or AssertionError for a platform that is absent or unknown
        return False


def _parse(argv):
    try:
        return flags.FLAGS(argv)
    except SystemExit:  # absl exits with 1 after --help
        if given := config_file.chosen:
            lines = config_help.lines(*config_help.load(given))
            print('\n'.join(['', f'Fields of {given}, set by --config.FIELD=VALUE:', '', *lines]))
        sys.exit(0)
    except flags.UnrecognizedFlagError as error:
        raise flags.Error(
            f'{error}; --help lists what there is, gpt1 help coming_from the flags of other '
            'libraries'
        ) from None


def _exit_if_bad(function, *arguments):
    """Call a function that defines or parses flags.

    A bad flag, or a bad field of a config, ends the program.
    """
    try:
        return function(*arguments)
    except (flags.Error, OSError, UserError) as error:
        _fail(_folded(error), 2)


def _unraisable(unraisable):
    """Ends the program for an interrupt in a callback, such as jax's for the garbage collector.

    Python would drop the interrupt, and the program would go on.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        _fail('interrupted', 130)
    sys.__unraisablehook__(unraisable)


def _show_warning(message, category, *_):
    """Prints a warning on one line, as an error is."""
    kind = 'warning' if category is UserWarning else category.__name__
    _print_once(f'{kind}: {one_line(str(message))}')


@functools.cache
def _print_once(line):
    print(line, file=sys.stderr, flush=True)


def _folded(error):
    """The error's text on one line.

    KeyError and AttributeError may hold another error, whose text is then taken without quotes.
    """
    text = error.args[0] if error.args else error
    return ' '.join(
        str(text.args[0] if isinstance(text, Exception) and text.args else text).split()
    )


def define_process_flags() -> None:
    """Defines the flags of programs that may run in several processes."""
    flags.DEFINE_string(
        'coordinator', None, 'Several processes: HOST:PORT of process 0 (JAX_COORDINATOR_ADDRESS).'
    )
    flags.DEFINE_integer('processes', None, 'Several processes: how many (JAX_NUM_PROCESSES).')
    flags.DEFINE_integer(
        'process', None, 'Several processes: the number of this one, from 0 (JAX_PROCESS_ID).'
    )
    flags.DEFINE_bool(
        'deterministic', False, 'On a GPU: only algorithms whose results are the same to the bit.'
    )
    flags.DEFINE_integer(
        'exit_code_when_stopped', 75, 'Exit status after SIGTERM, SIGINT or SIGHUP, once saved.'
    )


def define_run_flags() -> None:
    """Defines the flags of programs that train a run."""
    flags.DEFINE_string(
        'workdir', None, 'Directory of the run; an unfinished run there is resumed.'
    )
    flags.DEFINE_bool(
        'allow_change', False, 'Resume even if the length, rate or similar settings have changed.'
    )
    flags.DEFINE_bool(
        'fallback', False, 'If the newest checkpoint is damaged, resume from the newest sound one.'
    )


def define_model_flags() -> None:
    """Defines the flags of programs that read a pretrained model, for from_hub.local_run."""
    flags.DEFINE_string(
        'init_from',
        None,
        "'novels', the model that comes with the package; the "
        'directory of a pretrained run or of a Hugging Face model; or hf:USER/NAME',
        required=True,
    )
    flags.DEFINE_integer('step', None, 'a saved step (default: the latest)')


def define_row_flags() -> None:
    """Defines the flags that say which rows of a text form a document, for `join`."""
    flags.DEFINE_string(
        'text_field', 'text', 'field of JSON lines, or column of Parquet, that holds the text'
    )
    flags.DEFINE_string(
        'join_by', None, 'join neighbouring rows with the same value in this column to one document'
    )
    flags.DEFINE_integer(
        'join_characters',
        None,
        'join rows to documents of at most so many characters',
        lower_bound=1,
    )
    flags.DEFINE_string('join_with', ' ', 'what is put between joined rows')
    flags.DEFINE_string('split_at', None, "a text between documents, such as '<|endoftext|>'")


def join() -> Join:
    """The document.Join of these flags."""
    f = flags.FLAGS
    return Join(f.join_by, f.join_characters, f.join_with, f.split_at)


def _fail(message, status):
    # The output comes before the error. A closed stdout must not hide the error
    with contextlib.suppress(SystemExit):
        sys.stdout.flush()
    print(f'error: {message}', file=sys.stderr, flush=True)
    # os._exit if other processes wait for this process: jax's clean-up at exit would first wait for
    # them.
    several = (
        'gpt1_jax.parallel.processes' in sys.modules
        and sys.modules['gpt1_jax.parallel.processes'].joined()
    )
    os._exit(status) if status == 130 or several else sys.exit(status)
