"""Calls in processes of their own: their answers, their crashes and limits, and that none outlives
its parent."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest
from ml_collections import ConfigDict

from experiments.lib import side_by_side
from gpt1_jax.errors import UserError
from tiny import ROOT

pytestmark = pytest.mark.full


def answer(what, directory):
    """The function that a call runs in its process."""
    print(f'this is {what}')
    if what == 'crash':
        os._exit(3)
    if what == 'mistake':
        raise UserError('no such file')
    if what == 'sleep':
        (directory / 'pid').write_text(str(os.getpid()))
        time.sleep(600)
    return what, os.getpid()


def jobs(directory, *names):
    return [
        side_by_side.Job(name, answer, (name, directory), directory / 'logs' / f'{name}.log')
        for name in names
    ]


def two_at_a_time(minutes=None):
    return ConfigDict({'processes': 2, 'run_minutes': minutes})


def starts(directory):
    """Waits until the call that sleeps has written its process's number."""
    for _ in range(1200):
        if (directory / 'pid').exists() and (directory / 'pid').read_text():
            break
        time.sleep(0.1)


def ends(directory):
    """Whether that process ends within some seconds."""
    pid = int((directory / 'pid').read_text())
    for _ in range(100):
        with contextlib.suppress(OSError):
            if pathlib.Path(f'/proc/{pid}/stat').read_text().split()[2] != 'Z':
                time.sleep(0.1)
                continue
        return True
    return False


def test_a_crash_a_mistake_and_a_call_that_takes_too_long_are_lines_and_the_others_go_on(
    tmp_path, capsys
):
    wanted = jobs(tmp_path, 'sleep', 'crash', 'mistake', 'fine')
    found = {one.job.name: one for one in side_by_side.call(wanted, two_at_a_time(2 / 3))}
    assert found['crash'].error == 'its process ended with status 3'
    assert found['mistake'].error == 'UserError: no such file'
    assert (found['sleep'].error, found['sleep'].value) == ('took over 0:00:40', None)
    what, pid = found['fine'].value
    assert (what, found['fine'].error) == ('fine', '') and pid != os.getpid()
    assert ends(tmp_path)
    assert set(capsys.readouterr().out.split()) == {'sleep', 'crash', 'mistake', 'fine'}
    assert 'this is fine' in (tmp_path / 'logs' / 'fine.log').read_text()
    assert 'Traceback' in (tmp_path / 'logs' / 'mistake.log').read_text()


@pytest.mark.quick
def test_in_this_process_a_mistake_is_the_callers_and_none_starts_once_it_may_not(tmp_path, capsys):
    left = iter([True, False])
    in_turn = ConfigDict({'processes': 0})
    wanted = jobs(tmp_path, 'fine', 'other')
    done = list(side_by_side.call(wanted, in_turn, lambda: next(left)))
    assert [one.value for one in done] == [('fine', os.getpid())]
    with pytest.raises(UserError, match='no such file'):
        list(side_by_side.call(jobs(tmp_path, 'mistake'), in_turn))


def test_processes_end_when_the_caller_stops(tmp_path):
    calls = side_by_side.call(jobs(tmp_path, 'sleep', 'fine'), two_at_a_time())
    with contextlib.closing(calls):
        assert next(calls).job.name == 'fine'
        starts(tmp_path)
    assert ends(tmp_path)


def test_processes_end_when_their_parent_is_killed(tmp_path):
    code = (
        'import pathlib, sys\nfrom experiments.lib import side_by_side\nimport test_side_by_side '
        'as module\n'
        'if __name__ == "__main__":\n'
        '    list(side_by_side.call(module.jobs(pathlib.Path(sys.argv[1]), "sleep"), module.two_at_a_time()))'
    )
    (tmp_path / 'parent.py').write_text(code)
    paths = [ROOT, ROOT / 'tests' / 'helpers', ROOT / 'tests' / 'experiments']
    env = os.environ | {'PYTHONPATH': os.pathsep.join(map(str, paths))}
    with subprocess.Popen(
        [sys.executable, tmp_path / 'parent.py', tmp_path], env=env, cwd=ROOT
    ) as parent:
        starts(tmp_path)
        parent.kill()
    assert ends(tmp_path)
