"""Thousands of damaged files: each is read, and then gives what it should, or is refused by a UserError of one line.

python -m pytest -m slow tests/test_fuzz.py -s      10,000 of them; --hypothesis-seed=N for others
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

# {kind: inputs of the long run}
KINDS = {
    'GLUE, SNLI, SciTail': 2000, 'other sets': 2000, 'own sets': 1800, 'vocabularies': 800,
    'weights of other programs': 800, 'corpora': 600, 'prepared tokens': 600, 'interrupted preparation': 200,
    'runs': 600, 'results, predictions': 600}
SHORT = 40  # inputs of each kind in the default suite


@pytest.fixture(scope='module')
def targets(tmp_path_factory):
    """{kind: what is fuzzed of it}."""
    world = fuzz_runs.make_world(tmp_path_factory.mktemp('fuzz'))
    vocabulary = world.vocabulary
    return {
        'GLUE, SNLI, SciTail': fuzz_sets.tables(vocabulary), 'other sets': fuzz_sets.other_sets(vocabulary),
        'own sets': fuzz_sets.custom_sets(vocabulary), 'vocabularies': fuzz_files.tokenizers(vocabulary),
        'weights of other programs': fuzz_files.weights(), 'corpora': fuzz_files.corpora(),
        'prepared tokens': fuzz_files.prepared(fuzz_files.copied(world.prepared)),
        'interrupted preparation': fuzz_runs.interrupted(world), 'runs': fuzz_runs.runs(world),
        'results, predictions': fuzz_files.logs()}


def fuzz(targets, n, directory, number=0):
    """Makes n inputs; {'accepted': ..., 'refused': ...}. Fails with the simplest input that is neither."""
    counts, numbers = collections.Counter(), itertools.count()

    @seed(number)
    @settings(max_examples=n, database=None, deadline=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.generate, Phase.shrink])
    @given(st.data())
    def run(data):
        place = directory / f'{next(numbers):05}'
        place.mkdir(parents=True)
        try:
            fuzz_files.one_input(targets, data.draw, place)
            counts['accepted'] += 1
        except UserError as error:
            assert fuzz_files.is_one_line(str(error)), repr(error)
            counts['refused'] += 1
        finally:
            shutil.rmtree(place, ignore_errors=True)

    run()
    return counts


def test_before_it_is_changed_every_input_is_accepted(targets, tmp_path):
    for number, target in enumerate(itertools.chain(*targets.values())):
        fuzz_files.write(target.files, tmp_path / str(number))
        target.read(tmp_path / str(number))


@pytest.mark.parametrize('kind', KINDS)
def test_bad_input_is_refused_in_one_line_or_gives_what_it_should(targets, kind, tmp_path):
    counts = fuzz(targets[kind], SHORT, tmp_path)
    assert counts['refused'] >= 3 and counts.total() == SHORT


@pytest.mark.slow
def test_ten_thousand_bad_inputs(targets, tmp_path, request):
    number = int(request.config.getoption('--hypothesis-seed') or 0)
    total = collections.Counter()
    for kind, n in KINDS.items():
        counts = fuzz(targets[kind], n, tmp_path / kind, number)
        total += counts
        print(f'{kind:26} {counts.total():6,} inputs: {dict(counts)}', flush=True)
    assert total.total() >= 10_000 and set(KINDS) == set(targets)
