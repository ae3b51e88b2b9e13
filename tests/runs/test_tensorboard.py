"""TensorBoard's event files hold what metrics.jsonl holds, whatever happened to the run."""
import errno
import importlib.util

import pytest
from tensorboardX import record_writer

from event_files import masked_crc, points, points_of
from gpt1_jax.errors import UserError
from gpt1_jax.runs import config_rules as rules
from gpt1_jax.runs import results

pytestmark = pytest.mark.full


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'metrics.jsonl'


def start(path, step, last, tensorboard=True):
    """A start of a run that goes on from a step and is killed after `last`."""
    log = results.Log(path, step, tensorboard=tensorboard)
    for one in range(step + 1, last + 1):
        log.append({'step': one, 'loss': 5 - one / 10 + len(list(path.parent.glob('tensorboard/*'))), 'skipped': 1})
        if one % 2 == 0:
            log.append({'step': one, 'valid_loss': 4 - one / 10})
    return points(path.parent / 'tensorboard') if (path.parent / 'tensorboard').exists() else {}


def test_the_readers_checksum_is_the_standards():
    # RFC 3720, B.4: the CRC-32C of 32 bytes of zeros is 0x8A9136AA, here with TFRecord's mask
    assert masked_crc(bytes(32)) == ((0x8A9136AA >> 15 | 0x8A9136AA << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_every_number_of_every_row_is_a_point(path):
    found = start(path, 0, 5)
    assert found == points_of(results.read(path)) and found.keys() == {'loss', 'skipped', 'valid_loss'}
    assert [step for step, _ in found['loss']] == [1, 2, 3, 4, 5]


def test_a_run_that_goes_on_at_earlier_steps_has_each_point_once(path):
    start(path, 0, 5)
    start(path, 3, 8)
    start(path, 3, 4)
    found = start(path, 4, 6)
    assert found == points_of(results.read(path)) and [step for step, _ in found['loss']] == [1, 2, 3, 4, 5, 6]
    assert len({round(value - 5 + step / 10) for step, value in found['loss']}) == 3  # of the starts that they are from


def test_a_run_that_begins_anew_keeps_no_point(path):
    start(path, 0, 5)
    assert [step for step, _ in start(path, 0, 2)['loss']] == [1, 2]


def test_what_a_kill_cut_short_is_written_again(path):
    start(path, 0, 4)
    (file,) = (path.parent / 'tensorboard').iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert start(path, 2, 6) == points_of(results.read(path))


def test_switched_on_later_it_has_the_rows_before_too(path):
    assert start(path, 0, 4, tensorboard=False) == {}
    assert start(path, 3, 6) == points_of(results.read(path))


def test_one_process_of_several_writes(path):
    results.Log(path, 0, writes=False, tensorboard=True).append({'step': 1, 'loss': 1.0})
    assert not list(path.parent.iterdir())


def test_a_full_disk_is_one_line(path, monkeypatch):
    def full(self):
        raise OSError(errno.ENOSPC, 'No space left on device')
    log = results.Log(path, 0, tensorboard=True)
    monkeypatch.setattr(record_writer.RecordWriter, 'flush', full)
    with pytest.raises(UserError, match='events.out.tfevents.*: No space left on device'):
        log.append({'step': 1, 'loss': 1.0})


def test_without_the_extra_the_config_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    accepts, wanted = rules.TRAINING['tensorboard']
    assert accepts(False) and not accepts(True) and "pip install 'gpt1_jax[tensorboard]'" in wanted
