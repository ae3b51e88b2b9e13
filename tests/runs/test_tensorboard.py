"""TensorBoard's event files hold what metrics.jsonl holds, whatever happened to the run."""
import pytest

from event_files import points, points_of
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


def test_a_run_that_goes_on_at_earlier_steps_has_each_point_once(path):
    start(path, 0, 5)
    start(path, 3, 8)
    start(path, 3, 4)
    found = start(path, 4, 6)
    assert found == points_of(results.read(path)) and [step for step, _ in found['loss']] == [1, 2, 3, 4, 5, 6]
    assert len({round(value - 5 + step / 10) for step, value in found['loss']}) == 3  # of the starts that they are from


@pytest.mark.parametrize('before', [True, False], ids=['a kill cut its end', 'it was switched on later'])
def test_what_is_missing_of_the_rows_before_is_written_again(path, before):
    assert bool(start(path, 0, 4, tensorboard=before)) == before
    for file in path.parent.glob('tensorboard/*'):
        file.write_bytes(file.read_bytes()[:-3])
    assert start(path, 2, 6) == points_of(results.read(path))
