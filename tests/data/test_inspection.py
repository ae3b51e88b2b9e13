"""The lines that a user sees before training."""

import types

from gpt1_jax.data import inspection, splits
from gpt1_jax.data.tasks.example import Example, Task

# A word a token: letters count from 1 ('c' is 3), specials are 30, 31, 32.
LETTERS = types.SimpleNamespace(
    encode=lambda text: [ord(c) - 96 for c in text.replace(' ', '')],
    start_id=30,
    delimiter_id=31,
    extract_id=32,
    piece=lambda i: f'{chr(96 + i)} ',
)


def shown(task, examples, n_ctx=64):
    return inspection.lines(
        task, examples, splits.encode_all(examples, task, LETTERS, n_ctx), LETTERS, n_ctx
    )


def task(head='classify', labels=('no', 'yes'), **details):
    return Task('mine', head, labels, ('accuracy',), ('train',), None, None, **details)


def test_labels_and_texts_have_no_control_characters():
    odd = task(labels=('a\x1b[31m', 'b\n# c'))
    lines = shown(odd, [Example('7', ('a\x1b', 'c'), (), 1)])
    assert all(line.isprintable() for line in lines)
    assert '  label: b # c (index 1)' in lines


def test_a_row_is_shown_as_pieces_ids_and_pooled_position():
    assert (
        '\n'.join(shown(task(segments=(2, 1)), [Example('7', ('a b', 'c', 'd'), (), 1)]))
        == """\
mine: 1 of 1 rows as the model reads them

row 7
  text 1: a b
  text 2: c
  text 3: d
  label: yes (index 1)
  cut: no
  sequence: 7 tokens, pooled at position 6
    <start>:30 a:1 b:2 c:3 <delimiter>:31 d:4 <extract>:32

rows: 1
label no: 0 rows, 0.0%
label yes: 1 rows, 100.0%
tokens a row: median 7, 95% at most 7, longest 7; the context is 64
cut: 0 rows, 0.0%"""
    )


def test_each_choice_and_both_orders_are_shown_and_choices_counted():
    lines = shown(
        task('choice', ('A', 'B', 'C'), segments=(1,)),
        [Example('x', ('q',), ('a', 'bcd'), 1), Example('y', ('q',), ('a', 'b', 'c'), 0)],
    )
    assert (
        '\n'.join(lines[8:12])
        == """\
  choice A: 5 tokens, pooled at position 4
    <start>:30 q:17 <delimiter>:31 a:1 <extract>:32
  choice B, the right one: 7 tokens, pooled at position 6
    <start>:30 q:17 <delimiter>:31 b:2 c:3 d:4 <extract>:32"""
    )
    assert '2 choices: 1 rows, 50.0%' in lines
    lines = shown(task('similarity'), [Example('0', ('a', 'b'), (), 0)])
    assert '    <start>:30 b:2 <delimiter>:31 a:1 <extract>:32' in lines


def test_cut_rows_are_counted_and_the_specials_of_long_ones_shown_no_wider_than_a_screen():
    long = Example('0', ('a' * 200, 'b'), (), 0)
    short = Example('1', ('a', 'b'), (), 0)
    lines = shown(task(cut=0), [long, short], n_ctx=128)
    assert '  cut: yes' in lines and lines[-2:] == [
        'cut: 1 rows, 50.0%',
        'of text 1, which is cut to what the others leave of 128 tokens',
    ]
    ends = ' '.join(['a:1'] * 8)
    expected = f'<start>:30 {ends} [108 more] {ends} <delimiter>:31 b:2 <extract>:32'
    assert ' '.join(' '.join(lines[8:10]).split()) == expected
    assert max(map(len, lines)) <= inspection.WIDTH
    lines = shown(task(n_texts=2), [long], n_ctx=128)
    assert lines[-2].strip() == 'each of 2 segments keeps its first 62 of 128 tokens'
    assert 'n_texts=2, segments=(2,), cut=0' in lines[-1]


def test_scores_are_summed_up_and_missing_labels_told():
    examples = [Example(str(i), ('a',), (), value) for i, value in enumerate([1, 1.25, 2.5, 2.4])]
    lines = shown(task(labels=('1', '2', '3'), score=(1, 3)), examples)
    assert 'score: smallest 1, mean 1.788, largest 2.5' in lines
    assert '  label: none' in shown(task(), [Example('0', ('a',))])


def test_a_long_text_is_shown_up_to_the_edge_also_where_it_has_no_spaces():
    lines = shown(task(segments=(2,)), [Example('7', ('a ' * 99, 'x' * 150), (), 1)], 512)
    for line in (line for line in lines if line.startswith('  text')):
        assert len(line) == inspection.WIDTH and line.endswith(' …')
