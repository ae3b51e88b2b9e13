"""Damaged files: each is read and gives the right values, or is refused by a UserError of one line.

python -m pytest -m slow tests/test_fuzz.py      10,000 of them; --hypothesis-seed=N for others
"""

import collections
import itertools
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import fuzz_files
import fuzz_runs
import fuzz_sets
from gpt1_jax.errors import UserError

pytestmark = pytest.mark.full

KINDS = {  # {name: the function that makes its files from a world}
    'GLUE, SNLI, SciTail': fuzz_sets.tables,
    'other sets': fuzz_sets.other_sets,
    'own sets': fuzz_sets.custom_sets,
    'vocabularies': fuzz_files.tokenizers,
    'weights of other programs': lambda world: fuzz_files.weights(),
    'corpora': lambda world: fuzz_files.corpora(),
    'prepared tokens': fuzz_files.prepared,
    'runs': fuzz_runs.runs,
    'results, predictions': lambda world: fuzz_files.logs(),
}


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    return fuzz_runs.make_world(tmp_path_factory.mktemp('fuzz'))


@pytest.mark.parametrize('n', [100, pytest.param(1200, marks=pytest.mark.slow)])
@pytest.mark.parametrize('kind', KINDS)
def test_bad_input_is_refused_in_one_line_or_gives_what_it_should(
    world, kind, n, tmp_path, request
):
    targets = KINDS[kind](world)
    refused = collections.Counter()
    numbers = itertools.count()
    for number, target in enumerate(targets):  # before it is changed each is accepted
        fuzz_files.write(target.files, tmp_path / 'whole' / str(number))
        target.read(tmp_path / 'whole' / str(number))

    @seed(int(request.config.getoption('--hypothesis-seed') or 0))
    @settings(
        max_examples=n,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def run(data):
        place = tmp_path / f'{next(numbers):05}'
        place.mkdir()
        try:
            fuzz_files.one_input(targets, data.draw, place)
            refused[False] += 1
        except UserError as error:
            assert fuzz_files.is_one_line(str(error)), repr(error)
            refused[True] += 1
        finally:
            shutil.rmtree(place, ignore_errors=True)

    run()
    assert refused[True] >= 3 and refused.total() == n
