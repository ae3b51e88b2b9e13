"""Damaged files: each is read and gives the right values, or is refused by a UserError of one line.

python -m pytest -m slow tests/test_fuzz.py      9,600 of them; --hypothesis-seed=N for others
"""

import collections
import itertools
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import damages
import fuzz_files
import fuzz_runs
import fuzz_sets
from gpt1_jax.errors import UserError, os_errors_in_one_line

pytestmark = pytest.mark.full

KINDS = {  # {name: the function that writes its targets, from a directory and a world}
    'GLUE, SNLI, SciTail': fuzz_sets.tables,
    'other sets': fuzz_sets.other_sets,
    'own sets': fuzz_sets.custom_sets,
    'vocabularies': fuzz_files.tokenizers,
    'weights of other programs': fuzz_files.weights,
    'corpora': fuzz_files.corpora,
    'runs': fuzz_runs.runs,
    'results, predictions': fuzz_files.logs,
}


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    return fuzz_runs.make_world(tmp_path_factory.mktemp('fuzz'))


@pytest.mark.parametrize('n', [100, pytest.param(1200, marks=pytest.mark.slow)])
@pytest.mark.parametrize('kind', KINDS)
def test_bad_input_is_refused_in_one_line_or_gives_what_it_should(
    world, kind, n, tmp_path, request
):
    targets = list(KINDS[kind](tmp_path / 'sound', world))
    for number, target in enumerate(targets):  # each is accepted before it is changed
        target.read(shutil.copytree(target.directory, tmp_path / f'whole{number}'))
    refused = collections.Counter()
    numbers = itertools.count()

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
        number = data.draw(st.integers(0, len(targets) - 1))
        file = data.draw(st.sampled_from(targets[number].files))
        place = tmp_path / f'{next(numbers):05}'
        directory = place / data.draw(st.sampled_from(('data', 'two words', 'a[b]*', 'café')))
        shutil.copytree(targets[number].directory, directory)
        damages.damage(data.draw, directory / file)
        try:
            with os_errors_in_one_line():
                targets[number].read(directory)
            refused[False] += 1
        except UserError as error:
            assert fuzz_files.is_one_line(str(error)), repr(error)
            assert place.name in str(error) or not targets[number].named, error
            refused[True] += 1
        shutil.rmtree(place)

    run()
    assert refused[True] >= 3 and refused.total() == n
