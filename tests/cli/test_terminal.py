"""Output that nobody reads, a terminal that is closed: with real processes."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios

import pytest

from gpt1_jax.runs import checkpoint, results
from many_processes import wait_for
from tiny import ROOT, corpus, small_flags

pytestmark = pytest.mark.full

STEPS = 400


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp('terminal')
    corpus(base / 'text')
    return base


def arguments(base, name, steps=STEPS):
    return [
        sys.executable,
        '-m',
        'gpt1_jax',
        'pretrain',
        '--config=configs/pretrain.py',
        f'--workdir={base / name}',
        *small_flags(
            data__corpus=base / 'text',
            model__n_layer=1,
            model__n_inner=16,
            train__steps=steps,
            batch__size=4,
            log_every=7,
            checkpoint__every=1000,
            eval__every=1000,
        ),
    ]


def rows(base, name):
    return [
        (row['step'], row['loss'])
        for row in results.read(base / name / 'metrics.jsonl')
        if 'loss' in row
    ]


def wait_for_a_row(base, name, process):
    wait_for(lambda: rows(base, name), process)
    assert rows(base, name)[-1][0] < STEPS, 'not in the middle of the run'


@pytest.fixture(scope='module')
def straight(base):
    """The rows of a run under nohup, whose SIGHUP in the middle does nothing."""
    process = subprocess.Popen(
        ['nohup', *arguments(base, 'straight')],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_a_row(base, 'straight', process)
    process.send_signal(signal.SIGHUP)
    assert process.wait(200) == 0, process.stderr.read()
    return rows(base, 'straight')


def test_under_nohup_a_run_ends_as_if_nothing_had_been_hung_up(straight):
    assert [step for step, _ in straight] == [*range(7, STEPS, 7), STEPS]


def test_a_run_whose_output_nobody_reads_goes_on_without_a_word(base, straight):
    command = ' '.join(arguments(base, 'headed')) + ' | head -3; exit ${PIPESTATUS[0]}'
    done = subprocess.run(
        ['bash', '-c', command], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.count('\n')) == (0, 3) and 'Error' not in done.stderr, (
        done.stderr
    )
    assert rows(base, 'headed') == straight


def test_a_run_whose_terminal_is_closed_saves_stops_and_goes_on_later(base, straight):
    master, slave = pty.openpty()

    def controlled():  # by the terminal, which sends SIGHUP when it is closed
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    terminal = dict(stdin=slave, stdout=slave, stderr=slave)
    process = subprocess.Popen(
        arguments(base, 'closed'), cwd=ROOT, preexec_fn=controlled, **terminal
    )
    os.close(slave)
    wait_for_a_row(base, 'closed', process)
    os.close(master)
    assert process.wait(200) == 75
    (step,) = checkpoint.steps(base / 'closed' / 'checkpoints')
    assert 7 <= step < STEPS and rows(base, 'closed')[-1][0] == step // 7 * 7
    subprocess.run(
        arguments(base, 'closed'), cwd=ROOT, check=True, timeout=300, stdout=subprocess.DEVNULL
    )
    assert rows(base, 'closed') == straight


def test_a_short_program_whose_output_nobody_reads_ends_as_a_closed_pipe_ends_any(pretrained):
    reader, writer = os.pipe()
    os.close(reader)
    words = f'-m gpt1_jax generate --init_from={pretrained} --prompt=cat --tokens=2000'.split()
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE
    assert 'Traceback' not in done.stderr and 'BrokenPipe' not in done.stderr
