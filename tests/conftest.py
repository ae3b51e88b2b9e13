"""Eight devices on any machine, and no silent broadcasting between arrays of different rank
(`slow`: see setup.cfg)."""

import atexit
import os
import shutil
import signal
import tempfile
from importlib.metadata import version

from packaging.version import Version

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Most of a test's time is compiling, and most programs run once. So LLVM does not optimise, and XLA
# writes fusions in its simpler way, which later versions do not have. Two different programs whose
# numbers must be equal to the bit need the usual way, the fixture `fusion_emitters`.
SIMPLER = Version(version('jaxlib')) < Version('0.11.1')
os.environ.setdefault(
    'XLA_FLAGS',
    '--xla_backend_optimization_level=0' + ' --xla_cpu_use_fusion_emitters=false' * SIMPLER,
)
# The processes of the tests, and the programs that they start, share their compiled programs.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
    os.environ['JAX_COMPILATION_CACHE_DIR'] = programs = tempfile.mkdtemp(
        prefix='gpt1_jax_programs'
    )
    os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'
    atexit.register(shutil.rmtree, programs, ignore_errors=True)
# Nor need programs that tests start by their modules import everything twice, for huge pages.
os.environ.setdefault('GPT1_JAX_HUGE_PAGES', '0')

# Started in the background, by nohup or by a supervisor, the tests would hand ignored or blocked
# signals on to the programs that they start.
for _signal, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGTERM))

import jax  # noqa: E402  (after the environment is set)
import pytest  # noqa: E402

# Of this process alone: programs started by a test see the machine as it is.
jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')


@pytest.fixture(autouse=True)
def hang_up():
    """SIGHUP as before: a run that a test stops in this process ignores it from then on
    (gpt1_jax/training/preemption.py), and so would all programs that later tests start."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope='session')
def pretrained(tmp_path_factory):
    """The path of a run of four steps, of which 2 and 4 are saved, to be fine-tuned and scored."""
    from gpt1_jax import pretraining
    from tiny import corpus, pretrain_config

    base = tmp_path_factory.mktemp('pretrained')
    config = pretrain_config(
        corpus(base / 'text'),
        model__n_layer=3,
        model__n_ctx=64,
        tokenizer__merges=200,
        train__steps=4,
        checkpoint__every=2,
        checkpoint__keep_steps=(2,),
    )
    return pretraining.run(config, base / 'run').path


@pytest.fixture(scope='module')
def fusion_emitters():
    """Training steps that this process compiles have the fusions that users' steps have."""
    from gpt1_jax import finetuning, pretraining
    from gpt1_jax.parallel import xla_options

    def forget_programs():
        for module in (pretraining, finetuning):
            module._program.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        if SIMPLER:
            patch.setattr(xla_options, 'of', lambda _: {'xla_cpu_use_fusion_emitters': True})
        forget_programs()
        yield
        forget_programs()


@pytest.fixture
def trusted_code(monkeypatch):
    """Code that a test names outside of a command's config runs, as with --trust_code."""
    from gpt1_jax import user_code

    monkeypatch.setattr(user_code, '_everything_trusted', True)


def pytest_sessionfinish(session, exitstatus):
    """A session in which no test passed, as all were skipped or deselected, is a failure: pytest
    itself says so only where none was collected."""
    reporter = session.config.pluginmanager.get_plugin('terminalreporter')
    if (
        reporter is None
        or session.config.option.collectonly
        or hasattr(session.config, 'workerinput')
    ):
        return
    if exitstatus == 0 and not reporter.stats.get('passed'):
        session.exitstatus = 5  # pytest.ExitCode.NO_TESTS_COLLECTED
