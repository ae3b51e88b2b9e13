"""gpt1_jax.data.quickstart.overlap: what documents share is found, held out whole, and dropped from evaluation."""

import pytest

from gpt1_jax.data.document import Document
from gpt1_jax.data.quickstart import overlap

pytestmark = pytest.mark.full


LONG = 'One two three four five six seven eight.'
OTHER = 'Alpha beta gamma delta epsilon zeta eta theta iota.'


def documents(*texts):
    return [Document(str(index), text) for index, text in enumerate(texts)]


def test_sentences_end_at_stops_before_a_capital():
    assert overlap.sentences('One here. Two there? "Three!" Four, v. 1.2 of it') == [
        'One here.', 'Two there?', '"Three!"', 'Four, v. 1.2 of it']


def test_abbreviations_and_initials_end_no_sentence():
    assert overlap.sentences('Use a list, e.g. Python has one. See J. Smith et al. For more.') == [
        'Use a list, e.g. Python has one.', 'See J. Smith et al. For more.']


def test_a_line_break_ends_a_sentence():
    assert overlap.sentences('no stop here\nNor  here') == ['no stop here', 'Nor here']


def test_documents_sharing_a_long_sentence_are_one_group():
    shared = documents(LONG, OTHER + ' ' + LONG.upper(), OTHER, 'Nothing is shared by this one document of ours.')
    assert overlap.groups(shared) == [[0, 1, 2], [3]]


def test_short_sentences_group_nothing():
    assert overlap.groups(documents('Returns the result.', 'Returns the result.')) == [[0], [1]]


def test_boilerplate_groups_nothing():
    assert overlap.groups(documents(*[LONG] * 5), common=4) == [[0], [1], [2], [3], [4]]


def test_groups_are_held_out_whole():
    texts = [f'{word} ' * 20 + f'\nSentence of {word} shared by the pair of documents here.'
             for word in 'abcdefghij' for _ in (0, 1)]
    train, held = overlap.hold_out(documents(*texts), 0.3, seed=0)
    assert len(held) == 6 and len(train) == 14
    assert not {document.text for document in held} & {document.text for document in train}


def test_held_out_size_comes_close_from_below():
    many = documents(*(f'word{i} ' * 50 for i in range(200)))
    train, held = overlap.hold_out(many, 0.1, seed=3)
    share = sum(len(d.text) for d in held) / sum(len(d.text) for d in many)
    assert 0.09 < share <= 0.1
    assert sorted(train + held, key=lambda d: int(d.name)) == many


def test_another_seed_holds_out_other_documents():
    many = documents(*(f'word{i} ' * 50 for i in range(200)))
    assert overlap.hold_out(many, 0.1, 0) == overlap.hold_out(many, 0.1, 0) != overlap.hold_out(many, 0.1, 1)


def test_a_copied_sentence_is_seen_whatever_its_case_and_marks():
    seen = overlap.Seen(['Before it. ' + OTHER + ' After it.'])
    assert seen('alpha, BETA gamma delta -- epsilon zeta "eta" theta iota')


def test_a_copy_inside_a_longer_sentence_is_seen():
    assert overlap.Seen(['and so ' + LONG.lower()[:-1] + ' and more'])(LONG)


def test_a_changed_word_or_order_is_not_seen():
    seen = overlap.Seen([OTHER])
    assert not seen('Alpha beta gamma delta epsilon zeta eta theta omega.')
    assert not seen('Beta alpha gamma delta epsilon zeta eta theta iota.')


def test_a_sentence_of_seven_words_is_never_seen():
    assert not overlap.Seen([LONG])('One two three four five six seven.')


def test_texts_too_short_for_a_run_see_nothing():
    assert not overlap.Seen(['too short'])(LONG)
    assert not overlap.Seen([])(LONG)


def test_seen_sentences_are_taken_out_of_a_text():
    assert overlap.without_seen(f'Keep me. {LONG} Keep me too.\n\n{OTHER}', overlap.Seen([LONG])) == (
        f'Keep me. Keep me too.\n\n{OTHER}')


def test_verbatim_finds_copies_and_nothing_else():
    assert overlap.verbatim([LONG, OTHER, 'Too short.'], ['zero ' + LONG + ' Too short.', OTHER[:-6]]) == {LONG}
