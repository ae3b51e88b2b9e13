"""Words of the training text: counted as wc does, and the updates by which so many of them have been read."""
import pytest

from gpt1_jax.data import document, words
from gpt1_jax.data.document import Document


@pytest.mark.parametrize('text', [' The  cat\tsat.\n\n"Oh!" - it\u2019s 3\x0bpm\n', '', ' ', 'a', ' ab', 'ab ',
                                  'a\x1cb\x85c\u2028d\u200be\xa0f'])
def test_words_are_those_of_split(text):
    assert document.count_words(Document('x', text)) == len(text.split())


def test_the_first_update_by_which_so_many_words_are_read_and_the_challenge_s_names_of_counts():
    manifest = {'splits': {'train': {'tokens': 4000, 'words': 3000}}}
    assert words.per_step(manifest, 200) == 150
    assert words.steps_at((1500, 300, 301, 3000), 150, 10) == {2: 300, 3: 301, 10: 1500}  # 3000 after the last update
    assert words.steps_at((310, 320), 150, 10) == {3: 320}
    assert words.steps_at((1501, 1649, 1651), 150, 10) == {10: 1649}  # less than an update is missing
    counts = {10 ** 6: '1M', 10 ** 8: '100M', 10 ** 5: '100K', 10 ** 9: '1000M', 1234: '1234'}
    assert {count: words.label(count) for count in counts} == counts
