"""The defects of the published files: cut rows, empty texts, missing columns at the end, quotes,
odd line ends.

Sources: GLUE-baselines issue 5 (QQP), the readme of SNLI 1.0, TFDS's builders (which rows they
keep).
"""

import pytest

import official
import sets
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import unlabelled
from gpt1_jax.data.tasks.example import Example
from prepared import glue

pytestmark = pytest.mark.full

QQP_HEADER = 'id qid1 qid2 question1 question2 is_duplicate'.split()
# As line 97,931 of the published train.tsv and the one before it: a line break in a question has
# cut a row in two.
CUT = [
    ('213220', '213221', '213222', '"What is known of him? '),
    ('"', 'Was Muhammad a real historical figure? What is the evidence for his existence?', '0'),
]


def test_qqp_leaves_its_cut_rows_out_says_so_in_one_line_and_keeps_an_empty_question(
    tmp_path, capsys
):
    pairs = [*(pair[:2] for pair in official.PAIRS[:5]), ('How?', '')]
    rows = [
        (str(133273 + i), str(2 * i), str(2 * i + 1), *pair, '1') for i, pair in enumerate(pairs)
    ]
    path = official.tsv(tmp_path / 'train.tsv', [*rows[:2], *CUT, *rows[2:]], QQP_HEADER)
    qqp = tasks.get('qqp')
    expected = [  # ids count the cut rows, too
        Example(str(i + 2 * (i > 1)), pair, (), 1) for i, pair in enumerate(pairs)
    ]
    assert qqp.read(tmp_path, 'train') == expected
    assert capsys.readouterr().err == (
        f'{path} (qqp train): 2 row(s) left out, the first: {path}: row 4: 4 columns, expected 6 '
        '(id, qid1, qid2, question1, question2, is_duplicate)\n'
    )
    skipped = []
    assert qqp.read(tmp_path, 'train', skipped.append) == expected and skipped == []
    assert capsys.readouterr().err == ''  # said once
    new = official.tsv(tmp_path / 'new.tsv', [('7', 'How?', '')], ('id', 'question1', 'question2'))
    assert unlabelled.read(qqp, new) == [Example('7', ('How?', ''))]
    pytest.importorskip('tensorflow_datasets')
    glue(tmp_path / 'tfds', 'qqp', {'train': (path, 'train')})
    assert qqp.read(f'tfds:{tmp_path}/tfds', 'train') == expected


def test_annotators_may_be_missing_in_snli_and_the_text_file_is_read(tmp_path):
    """Four of the five annotators' labels are missing in nearly all rows of SNLI's train file."""
    header = [*sets.SNLI_HEADER, 'label2', 'label3', 'label4', 'label5']
    first = ['neutral', '( A )', '( B )', '(ROOT)', '(ROOT)', 'A.', 'B.', '0.jpg', '0n', 'neutral']
    rows = [first, [*first, *['neutral'] * 4]]
    official.tsv(tmp_path / 'snli_1.0_test.txt', rows, header)
    (tmp_path / 'snli_1.0_test.jsonl').write_text('broken')
    found = tasks.get('snli').read(tmp_path, 'test')
    assert found == [Example(str(i), ('A.', 'B.'), (), 1) for i in range(2)]


def test_a_story_left_out_moves_no_other_between_train_and_dev(tmp_path):
    stories = official.STORIES * 20
    broken = [*stories[:7], (*stories[7][:-1], '3'), *stories[8:]]
    for folder, given in (('good', stories), ('bad', broken)):
        official.story_cloze(tmp_path / folder / 'cloze_test_val__spring2016.csv', given)
    for split in ('train', 'dev'):
        skipped = []
        found = tasks.get('story_cloze').read(tmp_path / 'bad', split, skipped.append)
        whole = tasks.get('story_cloze').read(tmp_path / 'good', split)
        assert found == [e for e in whole if e.id != 'id-7']
        assert len(skipped) == (split == 'dev')
    assert len(found) == 373


def test_a_directory_may_begin_with_the_name_of_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    (tmp_path / 'dev.tsv').write_text('gj04\t1\t\tA cat.\n')
    cola = tasks.get('cola')
    assert cola.read('~', 'dev') == [Example('0', ('A cat.',), label=1)]
    assert cola.files('~', 'dev') == [f'{tmp_path}/dev.tsv']


@pytest.mark.parametrize('file', ['diagnostic.tsv', '../AX/AX.tsv'])
def test_the_diagnostic_set_is_found_beside_mnli(tmp_path, file):
    (tmp_path / 'MNLI').mkdir()
    official.tsv(tmp_path / 'MNLI' / file, [(7, 'A.', 'B.')], ('index', 'sentence1', 'sentence2'))
    assert tasks.get('mnli').read(tmp_path / 'MNLI', 'ax') == [Example('7', ('A.', 'B.'))]


def test_blank_lines_are_no_rows_and_move_no_ids_as_in_tfds(tmp_path):
    (tmp_path / 'dev.tsv').write_bytes(b'sentence\tlabel\r\nA.\t1\r\n\r\nB.\t0\r\n\r\n\n')
    found = tasks.get('sst2').read(tmp_path, 'dev')
    assert found == [Example('0', ('A.',), (), 1), Example('1', ('B.',), (), 0)]
    pytest.importorskip('tensorflow_datasets')
    glue(tmp_path / 'tfds', 'sst2', {'validation': (tmp_path / 'dev.tsv', 'dev')})
    assert found == tasks.get('sst2').read(f'tfds:{tmp_path}/tfds', 'dev')


# What str.splitlines or a CSV reader would trip over
ODD = 'A\xa0B\u2028C\u2029D\x85E\x0bF\x0cG\x1cH\ufeffI "J'


@pytest.mark.parametrize(
    'name, header, row',
    [
        ('rte', ('index', 'sentence1', 'sentence2', 'label'), ('0', ODD, 'B.', 'entailment')),
        ('cola', None, ('gj04', '0', '*', ODD)),
    ],
)
def test_a_text_holds_no_break_spaces_quotes_and_all_that_is_no_line_feed(
    tmp_path, name, header, row
):
    """Quotes and no-break spaces stand in the published MNLI, QNLI, MRPC and RTE; they end no line
    and no cell."""
    official.tsv(tmp_path / 'dev.tsv', [row, row], header, mark=True)
    assert [e.texts[0] for e in tasks.get(name).read(tmp_path, 'dev')] == [ODD, ODD]
