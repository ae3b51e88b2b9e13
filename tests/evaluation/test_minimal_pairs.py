"""BLiMP's metrics, from scores that can be worked out on paper, and of controls that know no
grammar."""

import tarfile

import numpy as np
import pytest

from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import blimp
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import minimal_pairs
from gpt1_jax.evaluation.zero_shot_heuristics import Row
from shared import DATA, needs_data

BLIMP = tasks.get('blimp')
# Two sets of one phenomenon and one of another: won, tied, lost.
IDS = ['binding/a/0', 'binding/a/1', 'binding/b/0', 'binding/b/1', 'binding/b/2', 'ellipsis/c/0']
SCORES = np.array([[-1, -2], [-3, -3], [-5, -4], [-5, -4], [-1, -9], [-2, -1]], float)
SEQUENCES = [[([0, 1, 2], 2), ([0, 1, 3], 2)]] * 6


def nothing(sequences):
    return np.zeros(len(sequences))


def measured(scores, ids=IDS, sequences=SEQUENCES, score=nothing, chosen=()):
    """{(group, metric): row}."""
    pairs = [Row(name, 0, pair) for name, pair in zip(ids, sequences, strict=True)]
    rows = minimal_pairs.report(BLIMP, 'test', pairs, np.asarray(scores), score, chosen)
    return {(row['group'], row['metric']): row for row in rows}


def values(*arguments, **options):
    return {name: row['value'] for name, row in measured(*arguments, **options).items()}


def test_sets_come_first_then_phenomena_and_a_tie_is_half_a_pair():
    found = values(SCORES)
    assert found == {
        ('binding/a', 'accuracy'): 0.75,
        ('binding/b', 'accuracy'): pytest.approx(1 / 3),
        ('ellipsis/c', 'accuracy'): 0,
        ('binding', 'accuracy'): pytest.approx((3 / 4 + 1 / 3) / 2),
        ('ellipsis', 'accuracy'): 0,
        (None, 'accuracy'): pytest.approx((3 / 4 + 1 / 3) / 3),
        (None, 'accuracy_ties_wrong'): pytest.approx((1 / 2 + 1 / 3) / 3),
        (None, 'accuracy_ties_right'): pytest.approx((1 + 1 / 3) / 3),
        (None, 'accuracy_phenomena'): pytest.approx((3 / 4 + 1 / 3) / 4),
        (None, 'accuracy_first_unscored'): pytest.approx((3 / 4 + 1 / 3) / 3),
    }


def test_the_filtered_pairs_are_reported_beside_all():
    found = values(SCORES, chosen={'a/0', 'b/1', 'b/2'})
    # Of two sets: c has none of them
    assert found[None, 'accuracy_filtered'] == pytest.approx((1 + 1 / 2) / 2)
    assert found[None, 'accuracy'] == values(SCORES)[None, 'accuracy']
    with pytest.raises(UserError, match='config.data.filter: its file lists none of these pairs'):
        measured(SCORES, chosen={'x/0'})


def test_without_its_first_token_a_sentence_has_the_rest_of_its_log_probability():
    sequences = [[([0, 5, 2], 2), ([0, 6, 2], 2)], [([0, 5, 2, 3], 3), ([0, 5, 3], 2)]]

    def score(beginnings):
        assert beginnings == [([0, 5], 1), ([0, 6], 1), ([0, 5], 1), ([0, 5], 1)]
        return np.array([{5: -4.0, 6: -1.0}[ids[-1]] for ids, _ in beginnings])

    found = values([[-6, -5], [-7, -6]], ['binding/a/0', 'binding/a/1'], sequences, score)
    # -2 and -4; -3 and -2
    assert found[None, 'accuracy'] == 0 and found[None, 'accuracy_first_unscored'] == 0.5


def test_the_interval_is_that_of_resampled_pairs():
    """Against drawing the pairs one by one, and the standard error of a mean of sets."""
    rng = np.random.default_rng(0)
    sets = {name: rng.choice([0, 0.5, 1], p=[0.3, 0.1, 0.6], size=300) for name in 'abcd'}
    ids = [f'binding/{name}/{i}' for name in sets for i in range(300)]
    found = minimal_pairs.mean(
        minimal_pairs.set_means(ids, np.concatenate(list(sets.values()))).values()
    )
    one_by_one = np.mean(
        [values[rng.integers(300, size=(4000, 300))].mean(1) for values in sets.values()], axis=0
    )
    error = np.sqrt(sum(values.var() / 300 for values in sets.values())) / 4
    assert found.draws.std() == pytest.approx(
        error, rel=0.06
    ) and one_by_one.std() == pytest.approx(error, rel=0.06)
    assert np.percentile(found.draws, [2.5, 97.5]) == pytest.approx(
        np.percentile(one_by_one, [2.5, 97.5]), abs=0.002
    )


@needs_data
@pytest.mark.full
def test_scorers_without_grammar_have_their_published_figures_on_the_published_pairs(tmp_path):
    """Fewer words win: 51.04 %, a constant: exactly half. Swapped pairs give the rest, in every set
    and subset."""
    with tarfile.open(DATA / 'blimp.tar.xz') as archive:
        archive.extractall(tmp_path, filter='data')
    examples = BLIMP.read(tmp_path, 'test')
    of_published = {
        'ids': [e.id for e in examples],
        'sequences': [SEQUENCES[0]] * len(examples),
        'chosen': blimp.read_filter(DATA / 'blimp_babylm_filtered_indices.json'),
    }
    scores = np.array([[-len(text.split()) for text in e.choices] for e in examples], float)
    constant, fewer, swapped = (
        values(each, **of_published) for each in (0 * scores, scores, scores[:, ::-1])
    )
    assert len(examples) == 67_000 and round(100 * fewer[None, 'accuracy'], 2) == 51.04
    assert {value for (_, metric), value in constant.items() if 'ties' not in metric} == {0.5}
    other = {
        'accuracy_ties_wrong': 'accuracy_ties_right',
        'accuracy_ties_right': 'accuracy_ties_wrong',
    }
    for (group, metric), value in fewer.items():
        assert value + swapped[group, other.get(metric, metric)] == pytest.approx(1, abs=1e-12)
