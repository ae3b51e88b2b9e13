"""Pronouns and their two candidates: the set of Rahman and Ng, and the Winograd schemas."""
import collections
import re
import warnings

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import pronouns
from gpt1_jax.data.tasks.example import Example
from shared import DATA, needs_data

DPR, WSC = tasks.get('dpr'), tasks.get('wsc273')
BLOCKS = [('The pitcher hit the wall because it was near.', 'it', 'The pitcher,the wall', 'the wall'),
          ('A hen saw a bug and it ate it.', 'it', 'A hen,a bug', 'A hen'),
          ("Ann left as Eve's aunt had hurt her.", 'her', 'Ann,Eve', 'Ann')]


def test_a_pronoun_is_the_first_whole_word_of_its_letters(tmp_path):
    official.definite_pronouns(tmp_path / 'test.c.txt', BLOCKS)
    assert DPR.read(tmp_path, 'test') == [
        Example('0', ('The pitcher hit the wall because ', ' was near.'), ('The pitcher', 'the wall'), 1),
        Example('1', ('A hen saw a bug and ', ' ate it.'), ('A hen', 'a bug'), 0),
        Example('2', ("Ann left as Eve's aunt had hurt ", '.'), ('Ann', 'Eve'), 0)]


def test_a_capital_is_no_hindrance():
    assert pronouns.split_at_pronoun('She ran, but Sheila did not.', 'she') == ('', ' ran, but Sheila did not.')
    assert pronouns.split_at_pronoun('IT fell, then it rose.', 'it') == ('IT fell, then ', ' rose.')


def test_case_spaces_and_articles_make_no_other_candidate():
    assert pronouns.right_one(('The bee', 'the  flower'), 'Flower') == 1
    assert pronouns.right_one(('the bee', 'The Bee'), 'The Bee') == 1


@needs_data
def test_the_published_sentences_hold_their_pronouns_as_often_as_documented():
    counts = collections.Counter()
    for file in ('train', 'test'):
        lines = (DATA / 'DPR' / f'{file}.c.txt').read_text().split('\n')
        for sentence, pronoun in zip(lines[::5], lines[1::5]):
            if sentence:
                found = [m.start() for m in re.finditer(rf'\b{pronoun}\b', sentence)]
                counts[min(len(found), 2)] += 1
                counts['inside'] += 0 <= sentence.lower().find(pronoun) < found[0]
    assert counts == {1: 1829, 2: 51, 'inside': 403}


@needs_data
def test_a_published_sentence_is_whole_again_with_a_candidate_in_place():
    found = DPR.read(DATA / 'DPR', 'test')
    chicken = next(e for e in found if e.texts[0].startswith('A chicken'))
    assert chicken.texts == ('A chicken pecked at a bug and ', ' ate it.') and chicken.label == 0
    assert all(after.strip() for e in found for after in e.texts[1:])


def test_a_full_stop_alone_follows_the_pronoun_without_a_space(tmp_path):
    schema = ('He wrote\n the  letter and I recieved', 'it', '.', 'the letter', 'he', 'A')
    official.wsc(tmp_path / 'WSCollection.xml', [schema])
    assert WSC.read(tmp_path, 'test') == [
        Example('0', ('He wrote the letter and I received ', '.'), ('the letter', 'he'), 0)]


def test_the_collection_has_grown_but_its_first_273_are_the_set(tmp_path):
    official.wsc(tmp_path / 'WSCollection.xml', (official.SCHEMAS * 15)[:285])
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert len(WSC.read(tmp_path, 'test')) == 273
