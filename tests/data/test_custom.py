"""A set described by fields: rows of each kind of file and target as Examples, and what is said of bad ones."""
import json
import types

import pytest

from gpt1_jax.data import inputs
from gpt1_jax.data.tasks import custom
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError, fail

FIVE = {'name': 'five', 'files': {'train': 'train.csv', 'dev': 'dev.csv'}, 'segments': [['passage', 'question']],
        'cut': 'passage', 'choices': ['a', 'b', 'c', 'd', 'e'], 'label': 'answer', 'answer': 'letter', 'id': 'id'}
FIVE_ROWS = ('id,passage,question,a,b,c,d,e,answer\n'
             'q1,"It sat, then left.",Where?,mat,tree,hill,car,sea,B\n'
             'q2,Dogs ran.,Who ran?,cats,dogs,birds,fish,,d\n')
FIVE_EXAMPLES = [Example('q1', ('It sat, then left.', 'Where?'), ('mat', 'tree', 'hill', 'car', 'sea'), 1),
                 Example('q2', ('Dogs ran.', 'Who ran?'), ('cats', 'dogs', 'birds', 'fish'), 3)]
RATING = {'name': 'rating', 'files': {'train': 'train.csv', 'dev': 'dev.csv'}, 'segments': [['text']],
          'label': 'score', 'score': [1, 7]}
RATING_LINES = RATING | {'files': {'train': 'train.jsonl', 'dev': 'dev.jsonl'}, 'format': 'jsonl'}
PREMISES = {'name': 'two', 'files': {'train': 'train.tsv', 'dev': 'dev.tsv'}, 'format': 'tsv', 'quoting': False,
            'segments': [['p1', 'p2'], ['h']], 'label': 'label', 'labels': ['no', 'maybe', 'yes']}
DIGITS = types.SimpleNamespace(encode=lambda text: [int(c) for c in text], start_id=10, delimiter_id=11, extract_id=12)


def read(fields, directory, content, split='train', on_bad=fail):
    """The examples of a split whose file is written first: text, or JSON of each record of a list."""
    if isinstance(content, list):
        content = ''.join(json.dumps(record) + '\n' for record in content)
    content = content if isinstance(content, bytes) else content.encode()
    task = custom.task(fields)
    with open(task.files(directory, split)[0], 'wb') as file:
        file.write(content)
    return task.read(directory, split, on_bad)


def complaint(fields, directory, content, split='train'):
    """What is said of the file, without its path."""
    with pytest.raises(UserError) as caught:
        read(fields, directory, content, split)
    path, message = str(caught.value).split(': ', 1)
    assert path == str(directory / fields['files'][split])
    return message


def test_choices_in_columns_are_read_and_empty_ones_at_the_end_are_none(tmp_path):
    assert read(FIVE, tmp_path, FIVE_ROWS) == FIVE_EXAMPLES


def test_choices_in_a_json_list_are_read_the_same(tmp_path):
    fields = FIVE | {'files': {'train': 'train.jsonl', 'dev': 'dev.jsonl'}, 'format': 'jsonl', 'choices': ['choices'],
                     'max_choices': 5}
    records = [{'id': e.id, 'passage': e.texts[0], 'question': e.texts[1], 'choices': list(e.choices),
                'answer': 'ABCDE'[e.label], 'unused': None} for e in FIVE_EXAMPLES]
    assert read(fields, tmp_path, records) == FIVE_EXAMPLES
    # A table's cell may hold the list as well.
    table = FIVE | {'choices': ['choices'], 'max_choices': 5, 'quoting': False, 'format': '|'}
    rows = [f'{r["id"]}|{r["passage"]}|{r["question"]}|{json.dumps(r["choices"])}|{r["answer"]}\n' for r in records]
    assert read(table, tmp_path, 'id|passage|question|choices|answer\n' + ''.join(rows)) == FIVE_EXAMPLES


def test_a_choice_task_says_what_it_is():
    task = custom.task(FIVE)
    assert (task.name, task.head, task.labels, task.metrics) == ('five', 'choice', tuple('ABCDE'), ('accuracy',))
    assert (task.splits, task.unlabelled, task.segments, task.cut) == (('train', 'dev'), (), (2,), 0)


def test_a_score_is_a_value_with_soft_labels_or_a_squared_loss(tmp_path):
    task = custom.task(RATING)
    assert (task.head, task.labels, task.score, task.squared) == ('classify', tuple('1234567'), (1, 7), False)
    assert task.metrics == ('pearson', 'spearman')
    assert read(RATING, tmp_path, 'text,score\nGood.,5.5\nBad.,1\n') == [
        Example('0', ('Good.',), (), 5.5), Example('1', ('Bad.',), (), 1.0)]
    squared = custom.task(RATING | {'score': [0.5, 2.5], 'squared': True})
    assert (squared.labels, squared.score, squared.squared) == (('score',), (0.5, 2.5), True)


def test_the_columns_of_a_segment_are_laid_end_to_end_and_a_delimiter_stands_between_segments(tmp_path):
    task = custom.task(PREMISES)
    assert (task.head, task.labels, task.segments, task.cut) == ('classify', ('no', 'maybe', 'yes'), (2, 1), None)
    (example,) = read(PREMISES, tmp_path, 'p1\tp2\th\tlabel\n12\t3\t45\tyes\n')
    assert example == Example('0', ('12', '3', '45'), (), 2)
    (row,) = inputs.encode_all([example], task, DIGITS, 64)
    assert row.sequences == [[10, 1, 2, 3, 11, 4, 5, 12]] and row.target == [0, 0, 1]


def test_both_orders_are_the_similarity_head():
    task = custom.task(PREMISES | {'segments': [['p1'], ['p2']], 'orders': 2, 'metrics': ['f1', 'accuracy'],
                                   'labels': ['same', 'other'], 'positive': 'same'})
    assert (task.head, task.segments, task.metrics, task.positive) == ('similarity', (1, 1), ('f1', 'accuracy'), 0)


def test_a_quoted_cell_holds_delimiters_quotes_and_line_breaks(tmp_path):
    rows = 'text,score\n"A ""good"" one,\nif long.",6\nPlain "as" it is.,2\n'
    assert [e.texts[0] for e in read(RATING, tmp_path, rows)] == ['A "good" one,\nif long.', 'Plain "as" it is.']


def test_a_cell_may_hold_a_long_document(tmp_path):
    (example,) = read(RATING, tmp_path, f'text,score\n"{"word " * 40_000}",6\n')
    assert example.texts == (' '.join(['word'] * 40_000),)


def test_without_quoting_quotes_are_text(tmp_path):
    (example,) = read(PREMISES, tmp_path, 'p1\tp2\th\tlabel\n"He said\t"x" y\tz"\tno\r\n')
    assert example.texts == ('"He said', '"x" y', 'z"') and example.label == 0


def test_a_byte_order_mark_and_windows_line_ends_are_no_text(tmp_path):
    assert read(RATING, tmp_path, b'\xef\xbb\xbftext,score\r\nGood.,5\r\n') == [Example('0', ('Good.',), (), 5.0)]
    fields = RATING_LINES
    assert read(fields, tmp_path, b'\xef\xbb\xbf{"text": "Good.", "score": 5}\r\n')[0].label == 5.0


def test_columns_without_a_header_are_named_and_an_unlabelled_file_lacks_the_label(tmp_path):
    fields = PREMISES | {'columns': ['label', 'p1', 'p2', 'h', 'source'], 'files': {
        'train': 'train.tsv', 'dev': 'dev.tsv', 'test': 'test.tsv', 'unlabelled': 'new.tsv'}}
    task = custom.task(fields)
    assert (task.splits, task.unlabelled) == (('train', 'dev', 'test'), ('unlabelled',))
    assert read(fields, tmp_path, 'yes\tA\tB\tC\tx\n', 'test') == [Example('0', ('A', 'B', 'C'), (), 2)]
    assert read(fields, tmp_path, 'A\tB\tC\tx\n', 'unlabelled') == [Example('0', ('A', 'B', 'C'))]


def test_an_unlabelled_file_with_a_header_may_have_the_label_or_not(tmp_path):
    fields = RATING | {'files': RATING['files'] | {'unlabelled': 'new.csv'}}
    for content in ('text\nGood.\n', 'text,score\nGood.,\n'):
        for of_id in ({}, {'id': 'id'}):  # ids are optional, too
            assert read(fields | of_id, tmp_path, content, 'unlabelled') == [Example('0', ('Good.',))]
    assert read(fields | {'id': 'id'}, tmp_path, 'id,text\n7,Good.\n', 'unlabelled') == [Example('7', ('Good.',))]
    assert custom.task(fields | {'choices': ('',)}) == custom.task(fields)  # --config.custom.choices=


def test_numbers_and_truths_in_json_are_read_as_json_writes_them(tmp_path):
    fields = RATING_LINES | {'score': None, 'labels': ['false', 'true'], 'id': 'n'}
    assert read(fields, tmp_path, [{'n': 7, 'text': 12, 'score': True}]) == [Example('7', ('12',), (), 1)]
    assert read(fields | {'labels': [0, 1]}, tmp_path, [{'n': 7, 'text': 'x', 'score': 0}])[0].label == 0


@pytest.mark.parametrize('answer, cell, label', [
    ('index0', '0', 0), ('index0', '3', 3), ('index1', '1', 0), ('index1', '4', 3), ('letter', 'A', 0),
    ('letter', 'd', 3), ('text', ' birds ', 2)])
def test_the_right_choice_is_given_as_declared(tmp_path, answer, cell, label):
    rows = f'id,passage,question,a,b,c,d,e,answer\nq,P,Q,cats,dogs,birds,fish,,{cell}\n'
    assert read(FIVE | {'answer': answer}, tmp_path, rows)[0].label == label


@pytest.mark.parametrize('answer, cell, cause', [
    ('index0', '4', "'4' is not one of the row's 4 choices, 0 to 3"),
    ('index1', '0', "'0' is not one of the row's 4 choices, 1 to 4"),
    ('letter', 'E', "'E' is not one of the row's 4 choices, A to D"),
    ('text', 'Birds', "'Birds' is not one of the row's choices"),
    ('text', 'dogs', "'dogs' is more than one of the row's choices")])
def test_an_answer_that_is_no_choice_is_named(tmp_path, answer, cell, cause):
    rows = f'id,passage,question,a,b,c,d,e,answer\nq,P,Q,dogs,dogs,birds,fish,,{cell}\n'
    assert complaint(FIVE | {'answer': answer}, tmp_path, rows) == f'row 2: answer: {cause}'


HEADER = 'id,passage,question,a,b,c,d,e,answer\n'
JSON_FIVE = FIVE | {'files': RATING_LINES['files'], 'format': 'jsonl', 'choices': ['a'], 'max_choices': 3}
RECORD = {'id': 'q', 'passage': 'P', 'question': 'Q', 'a': ['x', 'y'], 'answer': 'A'}


@pytest.mark.parametrize('fields, content, cause', [
    (RATING, 'text,score\nA,1\n ,2\n', 'row 3: text is empty'),
    (RATING, 'text,score\nA,\n', 'row 2: score is empty'),
    (RATING, 'text,score\nA,good\n', "row 2: score 'good' is not a number"),
    (RATING, 'text,score\nA,nan\n', 'row 2: score nan is out of range 1 to 7'),
    (PREMISES, 'p1\tp2\th\tlabel\nA\tB\tC\tNo\n', "row 2: label 'No' is not one of no, maybe, yes"),
    (FIVE, HEADER + 'q,P,Q,x,,y,,,A\n', 'row 2: b is empty, and a choice after it is not'),
    (FIVE, HEADER + 'q,P,Q,x,,,,,A\n', 'row 2: b is empty, so the row has 1 choices, must be 2 or more'),
    (FIVE, HEADER + 'q,P,Q,x,y,,,,A\nq,P,Q,x,y,,,,A\n', "row 3: duplicate id 'q'"),
    (FIVE, HEADER + ',P,Q,x,y,,,,A\n', 'row 2: id is empty'),
    (JSON_FIVE, [RECORD | {'a': ['x']}], 'row 1: a: 1 choices, must be 2 to 3 (config.custom.max_choices)'),
    (JSON_FIVE, [RECORD | {'a': ['x', ' ', 'z']}], 'row 1: a: choice 2 is empty'),
    (JSON_FIVE, [RECORD | {'a': {'x': 'y'}}], 'row 1: a: not a JSON list of texts'),
    (JSON_FIVE, [RECORD | {'a': '[x'}],
     'row 1: a: not JSON (Expecting value: line 1 column 2 (char 1)), must be a JSON list'),
    (JSON_FIVE, [RECORD | {'passage': [['P']]}], 'row 1: passage: [["P"]] is not a text'),
    (JSON_FIVE, [RECORD | {'passage': None}], 'row 1: passage is empty'),
    (JSON_FIVE, [RECORD, {'id': 'r', 'passage': 'P'}], "row 2: no question"),
    (JSON_FIVE, [7], 'row 1: int, expected an object'),
    (JSON_FIVE, json.dumps(RECORD) + '\n{"id"\n',
     "row 2: not JSON (Expecting ':' delimiter: line 1 column 6 (char 5))")])
def test_a_bad_row_is_named_with_its_column_and_cause(tmp_path, fields, content, cause):
    assert complaint(fields, tmp_path, content) == cause


@pytest.mark.parametrize('fields, content, cause', [
    (RATING, b'text,score\nA caf\xe9.,1\n', 'not UTF-8 at byte 16'), (RATING, b'', 'empty'),
    (JSON_FIVE, b'{"a": "\xe9"}', 'not UTF-8 at byte 7'), (JSON_FIVE, b'', 'empty'),
    (RATING, 'text,score\n', 'no rows'),
    (RATING, 'text,scores\nA,1\n', "no column 'score' (columns: text, scores)"),
    (RATING, 'text,score,text\nA,1,B\n', "two columns are called 'text'")])
def test_a_bad_file_is_named_with_its_cause(tmp_path, fields, content, cause):
    assert complaint(fields, tmp_path, content).startswith(cause)


def test_bad_rows_are_left_out_and_told_where_a_list_is_given(tmp_path):
    skipped = []
    found = read(RATING, tmp_path, 'text,score\nA,1\n,2\nB,9\nC,3,4\nD,5\n', on_bad=skipped.append)
    assert found == [Example('0', ('A',), (), 1.0), Example('4', ('D',), (), 5.0)]
    assert [line.split(': ', 1)[1] for line in skipped] == [
        'row 3: text is empty', 'row 4: score 9 is out of range 1 to 7',
        'row 5: 3 columns, expected 2 (text, score)']
    with pytest.raises(UserError, match='the first: .*row 2: score is empty'):
        read(RATING, tmp_path, 'text,score\nA,\n', on_bad=[].append)


PARTED = RATING | {'files': {'train': 'train.csv'}, 'dev_fraction': 0.25, 'dev_seed': 3}


def parts(directory, texts, fields=PARTED):
    """(train, dev) as sets of texts, where each row has one text."""
    read(fields, directory, 'text,score\n' + ''.join(f'{text},1\n' for text in texts))
    return [[e.texts[0] for e in custom.task(fields).read(directory, split)] for split in ('train', 'dev')]


def test_a_share_of_the_training_rows_becomes_dev_whatever_their_order(tmp_path):
    texts = [f'text {i}' for i in range(40)]
    train, dev = parts(tmp_path, texts)
    assert len(dev) == 10 and sorted(train + dev) == sorted(texts) and not set(train) & set(dev)
    again = parts(tmp_path, texts[::-1])
    assert (again[0], again[1]) == (train[::-1], dev[::-1])
    assert set(parts(tmp_path, texts, PARTED | {'dev_seed': 4})[1]) != set(dev)
    assert custom.task(PARTED).files(tmp_path, 'dev') == [str(tmp_path / 'train.csv')]


def test_rows_with_the_same_text_are_never_both_trained_on_and_dev(tmp_path):
    train, dev = parts(tmp_path, [f'text {i % 10}' for i in range(40)])
    assert len(train) + len(dev) == 40 and not set(train) & set(dev)


def test_a_share_that_leaves_nothing_to_train_on_is_an_error(tmp_path):
    with pytest.raises(UserError, match='1 rows leave none for train beside config.custom.dev_fraction = 0.25'):
        parts(tmp_path, ['A'])


def test_a_split_that_is_not_there_and_tfds_are_errors(tmp_path):
    with pytest.raises(UserError, match=r"rating has no split 'test' \(there are train, dev\)"):
        custom.task(RATING).read(tmp_path, 'test')
    with pytest.raises(UserError, match='tfds:x: TFDS has no set rating'):
        custom.task(RATING).read('tfds:x', 'train')
