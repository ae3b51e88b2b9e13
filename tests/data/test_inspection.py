"""What a user is shown before training, line by line."""
import types

import pytest

from gpt1_jax.data import bpe_training, inputs, inspection
from gpt1_jax.data.tasks.example import Example, Task

# A word a token: letters count from 1 ('c' is 3), specials are 30, 31, 32.
LETTERS = types.SimpleNamespace(
    encode=lambda text: [ord(c) - 96 for c in text.replace(' ', '')], start_id=30, delimiter_id=31, extract_id=32,
    piece=lambda i: f'{chr(96 + i)} ')


def shown(task, examples, n_ctx=64):
    return inspection.lines(task, examples, inputs.encode_all(examples, task, LETTERS, n_ctx), LETTERS, n_ctx)


def task(head='classify', labels=('no', 'yes'), **details):
    return Task('mine', head, labels, ('accuracy',), ('train',), None, None, **details)


def test_a_row_is_shown_as_pieces_ids_and_pooled_position():
    assert '\n'.join(shown(task(segments=(2, 1)), [Example('7', ('a b', 'c', 'd'), (), 1)])) == '''\
mine: 1 of 1 rows as the model reads them

row 7
  text 1  a b
  text 2  c
  text 3  d
  label   yes (index 1)
  target  no=0 yes=1
  cut     no
  sequence: 7 tokens, pooled at position 6
    <start>:30 a:1 b:2 c:3 <delimiter>:31 d:4 <extract>:32

rows          1
labels        no   0    0.0%
              yes  1  100.0%
tokens a row  median 7, 95% at most 7, longest 7; the context is 64
cut           0 rows, 0.0%'''


def test_each_choice_is_shown_padded_to_the_longest_of_its_row_and_rows_may_have_fewer():
    examples = [Example('x', ('q',), ('a', 'bcd'), 1), Example('y', ('q',), ('a', 'b', 'c'), 0)]
    lines = shown(task('choice', ('A', 'B', 'C'), segments=(1,)), examples)
    assert '\n'.join(lines[9:13]) == '''\
  choice A: 5 tokens, pooled at position 4, 2 of padding
    <start>:30 q:17 <delimiter>:31 a:1 <extract>:32
  choice B, the right one: 7 tokens, pooled at position 6
    <start>:30 q:17 <delimiter>:31 b:2 c:3 d:4 <extract>:32'''
    assert '\n'.join(lines[-8:]) == '''\
rows           2
labels         A  1   50.0%
               B  1   50.0%
               C  0    0.0%
choices a row  2  1   50.0%
               3  1   50.0%
tokens a row   median 5, 95% at most 7, longest 7; the context is 64 (of each row its longest sequence)
cut            0 rows, 0.0%'''


def test_both_orders_are_shown():
    lines = shown(task('similarity'), [Example('0', ('a', 'b'), (), 0)])
    assert lines[8:12] == [
        '  order 1: 5 tokens, pooled at position 4', '    <start>:30 a:1 <delimiter>:31 b:2 <extract>:32',
        '  order 2: 5 tokens, pooled at position 4', '    <start>:30 b:2 <delimiter>:31 a:1 <extract>:32']


@pytest.mark.parametrize('details, values, expected', [
    (dict(labels=('1', '2', '3'), score=(1, 3)), [1, 1.25, 2.5, 2.4], [
        '  target  1=1 2=0 3=0', 'score         smallest 1, mean 1.788, largest 2.5', '              1  2   50.0%',
        '              2  1   25.0%', '              3  1   25.0%']),
    (dict(labels=('y',), score=(0.0, 1.0), squared=True), [0.25], [
        '  target  0.25 (0 to 1 as 0 to 1)', '              0  1  100.0%']),
    (dict(labels=('y',), score=(-1.5, 3.5), squared=True), [3.5], [
        '  target  1 (-1.5 to 3.5 as 0 to 1)', '              -1.5 to -1  0    0.0%',
        '              3 to 3.5    1  100.0%']),
    (dict(), [None, None], ['  label   none', '  target  none', 'without label  2'])])
def test_scores_are_counted_by_whole_numbers_or_in_ten_parts_and_missing_labels_are_said(details, values, expected):
    lines = shown(task(**details), [Example(str(i), ('a',), (), value) for i, value in enumerate(values)])
    assert set(expected) <= set(lines)


def test_the_first_row_and_two_others_that_stay_the_same_are_shown_and_some_may_not_be_encoded():
    examples = [Example(str(i), ('a',), (), 0) for i in range(20)]
    rows, again = ([line for line in shown(task(), examples) if line.startswith('row ')] for _ in range(2))
    assert len(rows) == 3 and rows[0] == 'row 0' and len(set(rows)) == 3 and rows == again
    encoded = inputs.encode_all(examples[7:8], task(), LETTERS, 64)
    assert 'row 7' in inspection.lines(task(), examples, encoded, LETTERS, 64)


def test_cut_rows_are_counted_and_long_sequences_shown_around_their_specials_no_wider_than_a_screen():
    examples = [Example('0', ('a' * 200, 'b'), (), 0), Example('1', ('a', 'b'), (), 0)]
    lines = shown(task(cut=0), examples, n_ctx=128)
    assert '  cut     yes' in lines and lines[-1] == 'cut           1 rows, 50.0%'
    assert lines[-2] == 'tokens a row  median 5, 95% at most 128, longest 128; the context is 128'
    assert ' '.join(lines[9:11]).split() == [
        '<start>:30', *['a:1'] * 8, '[108', 'more]', *['a:1'] * 8, '<delimiter>:31', 'b:2', '<extract>:32']
    lines = shown(task(), [Example('0', ('abcdefghijklmnopqrstuvwxyz' * 2 + ' word word', 'x ' * 300), (), 0)], 512)
    assert max(map(len, lines)) <= inspection.WIDTH
    assert any(line.startswith('  text 2  x x x') and line.endswith('…') for line in lines)


def test_pieces_show_where_a_word_goes_on_and_ends():
    words = bpe_training.train(['the cat sat on the mat and the cats ran'] * 5, merges=8)
    pieces = [inspection.piece(i, words) for i in words.encode('the cot\n§')]
    assert pieces[0] == 'the' and '\\n' in pieces and pieces[-1] == '</w>' and '�@@' in pieces
    assert ''.join(p.removesuffix('@@') for p in pieces[1:pieces.index('\\n')]).replace('</w>', '') == 'cot'
