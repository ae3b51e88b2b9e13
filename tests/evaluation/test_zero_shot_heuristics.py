"""The zero-shot heuristics, under a scorer whose log-probabilities can be added up on paper."""

import dataclasses
import functools
import itertools
import types

import numpy as np
import pytest

from gpt1_jax.data import bpe_training
from gpt1_jax.data.published import from_published
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import zero_shot_heuristics as heuristics
from shared import ENCODER, MERGES, WITHOUT_VOCABULARY

WORDS = ['<unk>', 'a', 'b', 'c', 'd', 'very', 'positive', 'negative', 'x', 'y']
TOKENIZER = types.SimpleNamespace(encode=lambda text: [WORDS.index(word) for word in text.split()])
# Of the preferred next word, of another one after a word with a preference, of any after a word
# without one.
LIKELY = -0.1
UNLIKELY = -5.0
ANY = -2.3


def answer(task, text, examples, train=None, tokenizer=TOKENIZER):
    """(scores, details) of examples where each word of `text` is likely to be followed by the
    text's next one."""
    heuristic = heuristics.get(task)
    rows = [
        heuristics.encode_all(heuristic, some, tokenizer, 32, task)
        for some in (examples, train or examples)
    ]
    preferred = dict(itertools.pairwise(TOKENIZER.encode(text)))

    def log(i, j):
        return ANY if i not in preferred else LIKELY if preferred[i] == j else UNLIKELY

    def score(sequences):
        return np.array(
            [sum(itertools.starmap(log, itertools.pairwise(ids[-n - 1 :]))) for ids, n in sequences]
        )

    return heuristics.answer_scores(heuristic, score, *rows)


SPELT = types.SimpleNamespace(encode=lambda text: TOKENIZER.encode(text.replace('positive', 'x y')))
LINES = types.SimpleNamespace(encode=TOKENIZER.encode, newline_id=WORDS.index('y'))
ANSWERS = Example('1', ('a b', 'c'), ('x', 'd x', 'd', 'y y'), 1)
SCHEMA = Example('1', ('a b ', ' c d'), ('x', 'y x y'), 0)
AT_THE_START = Example('1', ('', ' c d'), ('x', 'x y'), 0)


@pytest.mark.parametrize(
    'task, example, tokenizer, sequences, preferred, expected',
    [
        # negative is label 0, positive is label 1; of a word of two tokens the sum
        (
            'sst2',
            Example('1', ('a b',), label=1),
            TOKENIZER,
            [([1, 2, 5, 7], 1), ([1, 2, 5, 6], 1)],
            'very positive',
            [UNLIKELY, LIKELY],
        ),
        (
            'sst2',
            Example('1', ('a',), label=1),
            SPELT,
            [([1, 5, 7], 1), ([1, 5, 8, 9], 2)],
            'very x y',
            [UNLIKELY, 2 * LIKELY],
        ),
        # means over the answers' tokens: by the sum the one-word answer would win
        (
            'race',
            ANSWERS,
            TOKENIZER,
            [([1, 2, 3, 8], 1), ([1, 2, 3, 4, 8], 2), ([1, 2, 3, 4], 1), ([1, 2, 3, 9, 9], 2)],
            'c d x',
            [UNLIKELY, LIKELY, LIKELY, (UNLIKELY + ANY) / 2],
        ),
        # the pronoun is replaced, and only what comes after the candidate is scored
        (
            'dpr',
            SCHEMA,
            TOKENIZER,
            [([1, 2, 8, 3, 4], 2), ([1, 2, 9, 8, 9, 3, 4], 2)],
            'y c d',
            [(ANY + LIKELY) / 2, LIKELY],
        ),
        (
            'dpr',
            AT_THE_START,
            TOKENIZER,
            [([8, 3, 4], 2), ([8, 9, 3, 4], 2)],
            'y c d',
            [(ANY + LIKELY) / 2, LIKELY],
        ),
        # sums over all tokens after a line break
        (
            'blimp',
            Example('1', (), ('a b c', 'a c'), 0),
            LINES,
            [([9, 1, 2, 3], 3), ([9, 1, 3], 2)],
            'y a b',
            [2 * LIKELY + ANY, LIKELY + UNLIKELY],
        ),
    ],
)
def test_what_is_scored_and_how_it_is_added_up(
    task, example, tokenizer, sequences, preferred, expected
):
    (row,) = heuristics.encode_all(heuristics.get(task), [example], tokenizer, 32, task)
    assert row.sequences == sequences
    scores, details = answer(task, preferred, [example], tokenizer=tokenizer)
    np.testing.assert_allclose(scores, [expected], rtol=1e-5)
    assert scores.argmax() == np.argmax(expected)  # of equal scores the first
    assert details == {}


@pytest.mark.parametrize('task', ['race', 'word_order'])
def test_a_long_document_keeps_its_beginning_alike_for_all_answers(task):
    example = Example('1', ('a b c d d c b a', 'x'), ('y', 'd y'), 0)
    (row,) = heuristics.encode_all(heuristics.get(task), [example], TOKENIZER, 7, task)
    # Of seven tokens the question takes one and the longer answer two: the document has four.
    assert row.sequences == [([1, 2, 3, 4, 8, 9], 1), ([1, 2, 3, 4, 8, 4, 9], 2)]


def test_cola_is_cut_where_the_training_split_says():
    train = [
        Example(str(i), (text,), label=label)
        for i, (text, label) in enumerate([('a b', 1), ('a b c', 1), ('a c', 0), ('b d', 0)])
    ]
    dev = [
        Example('x', ('a b c',), label=1),
        Example('y', ('a d',), label=1),
        Example('z', ('b x',), label=0),
    ]
    scores, details = answer('cola', 'a b', dev, train)
    # Training means are LIKELY, (LIKELY + ANY) / 2, UNLIKELY, ANY: the best cut lies between the
    # second and the last.
    cut = ((LIKELY + ANY) / 2 + ANY) / 2
    assert details == {'threshold': pytest.approx(cut, rel=1e-4)}
    np.testing.assert_allclose(
        scores, [[0, (LIKELY + ANY) / 2 - cut], [0, UNLIKELY - cut], [0, ANY - cut]], rtol=1e-4
    )


def test_the_threshold_is_the_best_of_all_cuts():
    """By scikit-learn's Matthews correlation; of scores that are all different, and with ties."""
    sklearn = pytest.importorskip('sklearn.metrics')
    rng = np.random.default_rng(0)
    for digits in (9, 0) * 10:
        gold = rng.integers(0, 2, 60)
        scores = np.round(rng.normal(size=60) + 0.7 * gold, digits)
        cuts = [float(cut) for cut in map(np.mean, itertools.pairwise(np.unique(scores)))]
        values = [sklearn.matthews_corrcoef(gold, scores > cut) for cut in cuts]
        assert values[cuts.index(heuristics.best_threshold(scores, gold))] == pytest.approx(
            max(values)
        )


@pytest.mark.parametrize(
    'task, example, message',
    [
        ('cola', Example('3', ('a b',)), 'label None is not in 0..1'),
        (
            'cola',
            Example('3', ('a ' * 40,), label=1),
            '39 of 40 tokens to score: needs 1 to 31, and one before',
        ),
        ('dpr', Example('3', ('a ', ' '), ('x', 'y'), 0), '0 of 2 tokens to score'),
    ],
)
def test_a_row_that_cannot_be_scored_is_named_or_skipped(task, example, message):
    heuristic = heuristics.get(task)
    with pytest.raises(UserError, match=f'^{task}: row 3: {message}'):
        heuristics.encode_all(heuristic, [example], TOKENIZER, 32, task)
    skipped = []
    good = dataclasses.replace(
        example, id='8', texts=('a ', ' c') if task == 'dpr' else ('a b',), label=0
    )
    rows = heuristics.encode_all(heuristic, [example, good], TOKENIZER, 32, task, skipped.append)
    assert [row.id for row in rows] == ['8'] and len(skipped) == 1


@functools.cache
def published():
    if not ENCODER.exists():
        pytest.skip(WITHOUT_VOCABULARY)
    return from_published(ENCODER, MERGES)


def own():
    return bpe_training.train(
        ['the man said tom would go because he had it and his dog was old'] * 3, vocab_size=300
    )


@pytest.mark.parametrize('make', [published, own])
@pytest.mark.parametrize(
    'before, candidate, after, scored',
    [
        ('The man said ', 'Tom', ' would go.', 'would go .'),
        ('', 'The old dog', ' was old.', 'was old .'),
        ('he took ', "Tom's", ' dog.', 'dog .'),
        ('he saw ', 'the man', '.', '.'),
        ('he took ', 'the man', "'s dog.", "'s dog ."),  # his
        ('he said ', 'Tom', "'d go.", "'d go ."),  # spaCy leaves Tom'd in one piece
        ('he said ', 'Tom', '\nAnd he had it.', '\nand he had it .'),
        ('A "man" - ', 'naïve Tom', ', old…', ', old ...'),
    ],
)
def test_the_rest_begins_right_after_the_candidate_whatever_the_joint(
    make, before, candidate, after, scored
):
    tokenizer = make()
    [(ids, n)] = heuristics.pronoun(Example('1', (before, after), (candidate,), 0), tokenizer, 512)
    assert (
        ids == tokenizer.encode(before + candidate + after) and tokenizer.decode(ids[-n:]) == scored
    )
    head = tokenizer.decode(tokenizer.encode(before + candidate))
    assert tokenizer.decode(ids[:-n]).replace(' ', '') == head.replace(' ', '')
