"""experiments.blimp_words: pairs with common words against the others of their sets, by hand."""
import types

import numpy as np
import pytest

import official
from experiments import blimp_words
from gpt1_jax import api
from gpt1_jax.data.tasks import blimp
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results

pytestmark = pytest.mark.full


@pytest.mark.quick
def test_pairs_are_compared_inside_their_sets():
    # Set a: 3 of 4 selected pairs right, 1 of 2 others. Set b: 0 of 2, 1 of 2. Set c has no others.
    ids = [f'x/a/{i}' for i in range(6)] + [f'x/b/{i}' for i in range(4)] + [f'x/c/{i}' for i in range(3)]
    right = np.array([1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1], float)
    selected = np.array([1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1], bool)
    found = blimp_words.compare(ids, right, selected, least=2)
    assert found.sets == 2 and (found.selected.n, found.others.n) == (6, 4)
    assert found.selected.value == pytest.approx((3 / 4 + 0) / 2)
    assert found.others.value == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert found.difference.value == pytest.approx(-1 / 8)
    np.testing.assert_allclose(found.difference.draws.mean(), -1 / 8, atol=0.02)
    # Of independent means: the variances add up; p (1 - p) / n of each set, over the square of two sets.
    variance = (3 / 16 / 4 + 0 + 1 / 4 / 2 + 1 / 4 / 2) / 4
    assert found.difference.draws.var() == pytest.approx(variance, rel=0.1)
    assert blimp_words.compare(ids, right, selected, least=3) is None


def test_the_rarest_word_of_a_pair_counts_and_words_are_the_tokenizer_s():
    counts = {'the': 900_000, 'cat': 99_997, 'alumnus': 3, '.': 1_000_000}
    pairs = [{'the', 'cat'}, {'the', 'alumnus'}, {'the', 'cat', 'impressionists'}]
    np.testing.assert_allclose(blimp_words.rarest(pairs, counts), [99_997 / 2, 1.5, 0])
    assert blimp_words.split_words(pairs[::2], api.load('novels').tokenizer).tolist() == [False, True]
    assert blimp_words.words_of("The cat's hat. THE cat!") == {'the', 'cat', "'s", 'hat', '.', '!'}


def test_the_program_prints_a_table_and_names_a_pair_of_other_files(tmp_path, monkeypatch, capsys):
    data = official.blimp(tmp_path / 'blimp', pairs=120)
    examples = blimp.BLIMP.read(str(data), 'test')
    rng = np.random.default_rng(0)
    results.write_predictions(tmp_path / 'scores.jsonl', [one.id for one in examples], [0] * len(examples),
                              rng.standard_normal((len(examples), 2)))
    (tmp_path / 'text.txt').write_text('\n'.join(one.choices[0] for one in examples[::3]))
    monkeypatch.setattr(blimp_words.flags, 'FLAGS', types.SimpleNamespace(
        init_from='novels', predictions=str(tmp_path / 'scores.jsonl'), data=str(data),
        corpus=[str(tmp_path / 'text.txt')]))
    blimp_words.main()
    printed = capsys.readouterr().out
    assert f'{len(examples):,} pairs, mean of the sets ' in printed and '| every word one token |' in printed
    results.write_predictions(tmp_path / 'scores.jsonl', ['binding/other/1'], [0], np.zeros((1, 2)))
    with pytest.raises(UserError, match="scores.jsonl: 'binding/other/1' is no pair of "):
        blimp_words.main()
