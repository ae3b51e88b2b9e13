"""Section 3.3: the input layouts, as literal ids."""
import types

import pytest

from gpt1_jax.data import inputs
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.errors import UserError

# A tokenizer of digits: '12' -> [1, 2]. Specials follow its ten rows.
DIGITS = types.SimpleNamespace(encode=lambda text: [int(c) for c in text if c.isdigit()], start_id=10, delimiter_id=11,
                               extract_id=12)


def ids(example, head, n_ctx=512):
    return inputs.encode(example, head, DIGITS, n_ctx).sequences


def test_classification_is_start_text_extract():
    assert ids(Example('0', ('567',)), 'classify') == [[10, 5, 6, 7, 12]]


def test_entailment_is_start_premise_delimiter_hypothesis_extract():
    assert ids(Example('0', ('56', '7')), 'classify') == [[10, 5, 6, 11, 7, 12]]


def test_similarity_is_both_orders():
    assert ids(Example('0', ('56', '7')), 'similarity') == [[10, 5, 6, 11, 7, 12], [10, 7, 11, 5, 6, 12]]


def test_multiple_choice_is_one_sequence_a_choice():
    assert ids(Example('0', ('56',), ('7', '89')), 'choice') == [[10, 5, 6, 11, 7, 12], [10, 5, 6, 11, 8, 9, 12]]


def test_a_single_text_keeps_its_first_510_tokens():
    (sequence,) = ids(Example('0', ('1' * 300 + '2' * 300,)), 'classify')
    assert sequence == [10] + [1] * 300 + [2] * 210 + [12]


def test_two_texts_keep_their_first_254_tokens_each():
    (sequence,) = ids(Example('0', ('1' * 255, '2' * 600)), 'classify')
    assert sequence == [10] + [1] * 254 + [11] + [2] * 254 + [12]


def test_a_row_that_was_cut_says_so():
    assert [inputs.encode(Example('0', ('1' * n,)), 'classify', DIGITS, 16).cut for n in (14, 15)] == [False, True]


TASK = Task('t', 'classify', ('a', 'b'), ('accuracy',), ('train',), None, None)


def test_a_label_out_of_range_names_the_row():
    with pytest.raises(UserError, match=r't: row x7: label 2 is out of range 0\.\.1'):
        inputs.encode_all([Example('x7', ('1',), label=2)], TASK, DIGITS, 16)


def test_a_missing_label_names_the_row():
    with pytest.raises(UserError, match='t: row x7 has no label'):
        inputs.encode_all([Example('x7', ('1',))], TASK, DIGITS, 16)


def test_no_examples_is_an_error():
    with pytest.raises(UserError, match='t: no examples'):
        inputs.encode_all([], TASK, DIGITS, 16)
