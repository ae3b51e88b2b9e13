"""The layouts of the sets that are not beside the clone, from rows written by hand; and what is said of bad files."""
import json

import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError, fail

PAIRS, PAIR = official.PAIRS, ('sentence1', 'sentence2')
TWO = {'entailment': 'entailment', 'neutral': 'not_entailment', 'contradiction': 'not_entailment'}


def read(name, directory, split, on_bad=fail):
    return tasks.get(name).read(directory, split, on_bad)


def named(name, examples):
    labels = tasks.get(name).labels
    return [(e.id, *e.texts, labels[e.label]) for e in examples]


@pytest.mark.parametrize('folder', ['', 'tsv_format'])
def test_scitail_has_no_header(tmp_path, folder):
    rows = [(p, h, 'entails' if label == 'entailment' else 'neutral') for p, h, label, *_ in PAIRS]
    path = official.tsv(tmp_path / folder / 'scitail_1.0_test.tsv', rows)
    assert named('scitail', read('scitail', tmp_path, 'test')) == [(str(i), *row) for i, row in enumerate(rows)]
    assert tasks.get('scitail').files(tmp_path, 'test') == [str(path)]
    assert rows[7][1] == 'She said "nothing.'  # a quote that no other closes takes no row with it


MNLI_HEADER = ('index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse '
               'sentence2_parse sentence1 sentence2 label1 label2 label3 label4 label5 gold_label').split()


def mnli_rows(test=False):
    filler = ('31193', '31193n', 'slate', '( A )', '( B )', '(ROOT)', '(ROOT)')
    return [(i, *filler, p, h) if test else (i, *filler, p, h, *[label] * 5, label)
            for i, (p, h, label, *_) in enumerate(PAIRS)]


def test_mismatched_genres_are_found_by_their_columns_names(tmp_path):
    official.tsv(tmp_path / 'dev_mismatched.tsv', mnli_rows(), MNLI_HEADER)
    assert named('mnli', read('mnli', tmp_path, 'dev_mismatched')) == [
        (str(i), *pair[:3]) for i, pair in enumerate(PAIRS)]


@pytest.mark.parametrize('name, split, file, header, row', [
    ('mnli', 'glue_test', 'test_matched.tsv', MNLI_HEADER[:10], lambda i, p: mnli_rows(test=True)[i]),
    ('mnli', 'glue_test_mismatched', 'test_mismatched.tsv', MNLI_HEADER[:10], lambda i, p: mnli_rows(test=True)[i]),
    ('mnli', 'ax', 'AX.tsv', ('index', *PAIR), lambda i, p: (i, *p[:2])),
    ('mnli', 'ax', 'diagnostic.tsv', ('index', *PAIR), lambda i, p: (i, *p[:2])),
    ('mnli', 'ax', '../AX/AX.tsv', ('index', *PAIR), lambda i, p: (i, *p[:2])),
    ('mnli', 'ax', '../diagnostic/diagnostic.tsv', ('index', *PAIR), lambda i, p: (i, *p[:2])),
    ('qnli', 'glue_test', 'test.tsv', ('index', 'question', 'sentence'), lambda i, p: (i, *p[:2])),
    ('rte', 'glue_test', 'test.tsv', ('index', *PAIR), lambda i, p: (i, *p[:2])),
    ('wnli', 'glue_test', 'test.tsv', ('index', *PAIR), lambda i, p: (i, *p[:2])),
    ('wnli', 'glue_test', 'test.tsv', ('index', *PAIR, 'label'), lambda i, p: (i, *p[:2], -1)),
    ('mrpc', 'glue_test', 'test.tsv', ('index', '#1 ID', '#2 ID', '#1 String', '#2 String'),
     lambda i, p: (i, 1089874, 1089925, *p[:2])),
    ('qqp', 'glue_test', 'test.tsv', ('id', 'question1', 'question2'), lambda i, p: (i, *p[:2])),
    ('stsb', 'glue_test', 'test.tsv', 'index genre filename year old_index source1 source2 sentence1 sentence2'.split(),
     lambda i, p: (i, 'main-captions', 'MSRvid', '2012test', '0024', 'none', 'none', *p[:2]))])
def test_glues_test_rows_have_no_label_and_the_files_own_index(tmp_path, name, split, file, header, row):
    mark = name == 'mrpc'
    official.tsv(tmp_path / 'task' / file, [row(i, pair) for i, pair in enumerate(PAIRS)][::-1], header, mark)
    (tmp_path / 'task').mkdir(exist_ok=True)
    assert read(name, tmp_path / 'task', split) == [
        Example(str(i), pair[:2]) for i, pair in reversed(list(enumerate(PAIRS)))]


@pytest.mark.parametrize('name', ['cola', 'sst2'])
def test_the_test_files_of_single_sentences_have_a_header(tmp_path, name):
    official.tsv(tmp_path / 'test.tsv', [(i, pair[0]) for i, pair in enumerate(PAIRS)], ('index', 'sentence'))
    assert read(name, tmp_path, 'glue_test')[9] == Example('9', ('The café closed at 5.',))


def test_wnli_and_qqp_are_read_by_their_columns_names(tmp_path):
    rows = [(i, *p[:2], p[4]) for i, p in enumerate(PAIRS)]
    official.tsv(tmp_path / 'wnli' / 'dev.tsv', rows, ('index', *PAIR, 'label'))
    official.tsv(tmp_path / 'qqp' / 'dev.tsv', [(-1, -1, -1, *p[:2], p[4]) for p in PAIRS],
                 'id qid1 qid2 question1 question2 is_duplicate'.split())
    expected = [(str(i), *p[:2], p[4]) for i, p in enumerate(PAIRS)]
    assert named('wnli', read('wnli', tmp_path / 'wnli', 'dev')) == expected
    assert named('qqp', read('qqp', tmp_path / 'qqp', 'dev')) == expected


def test_the_labelled_test_file_of_mrpc_is_the_original_one(tmp_path):
    official.tsv(tmp_path / 'msr_paraphrase_test.txt', [(p[4], 1, 2, *p[:2]) for p in PAIRS],
                 ('Quality', '#1 ID', '#2 ID', '#1 String', '#2 String'), mark=True)
    assert named('mrpc', read('mrpc', tmp_path, 'test')) == [(str(i), *p[:2], p[4]) for i, p in enumerate(PAIRS)]


SNLI_HEADER = ('gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 '
               'sentence2 captionID pairID label1 label2 label3 label4 label5').split()


def snli_rows():
    """Rows 2 and 5 without agreement; of the five annotators' labels the last four are empty, as in training rows."""
    return [('-' if i in (2, 5) else label, '( A )', '( B )', '(ROOT)', '(ROOT)', p, h, f'{i}.jpg#0', f'{i}.jpg#0n',
             label, '', '', '', '') for i, (p, h, label, *_) in enumerate(PAIRS)]


@pytest.mark.parametrize('ending', ['txt', 'jsonl'])
def test_pairs_without_agreement_are_no_part_of_snli(tmp_path, capsys, ending):
    if ending == 'txt':
        official.tsv(tmp_path / 'snli_1.0_test.txt', snli_rows(), SNLI_HEADER)
    else:
        lines = [json.dumps(dict(zip(SNLI_HEADER, row)) | {'annotator_labels': ['neutral']}) for row in snli_rows()]
        (tmp_path / 'snli_1.0_test.jsonl').write_text('\n'.join(lines) + '\n')
    skipped = []
    assert named('snli', read('snli', tmp_path, 'test', skipped.append)) == [
        (str(i), *pair[:3]) for i, pair in enumerate(PAIRS) if i not in (2, 5)]
    assert skipped == []
    assert '(snli test): 2 row(s) left out, the first: ' in capsys.readouterr().out
    with pytest.warns(UserWarning, match='snli_1.0_test.* .snli test.: 19 rows, the published set has 9,824'):
        read('snli', tmp_path, 'test')


def test_the_text_file_of_snli_goes_before_the_json_lines(tmp_path):
    official.tsv(tmp_path / 'snli_1.0_dev.txt', snli_rows(), SNLI_HEADER)
    (tmp_path / 'snli_1.0_dev.jsonl').write_text('broken')
    assert len(read('snli', tmp_path, 'dev')) == 19


def test_the_test_file_of_story_cloze_is_read_whole(tmp_path):
    path = official.story_cloze(tmp_path / 'cloze_test_test__spring2016 - cloze_test_ALL_test.csv')
    found = read('story_cloze', tmp_path, 'test')
    assert tasks.get('story_cloze').files(tmp_path, 'test') == [str(path)] and len(found) == 20
    assert found[0] == Example('id-0', (
        'Ann wanted a bike. Ann saved money for weeks. It was hard. At last, the bike was there.',),
        ('Ann had never wanted it.', 'Ann smiled, and went home.'), 1)


def test_a_story_left_out_moves_no_other_between_train_and_dev(tmp_path):
    stories = official.STORIES * 20
    official.story_cloze(tmp_path / 'good' / 'cloze_test_val__spring2016.csv', stories)
    broken = [*stories[:7], (*stories[7][:-1], '3'), *stories[8:]]
    official.story_cloze(tmp_path / 'bad' / 'cloze_test_val__spring2016.csv', broken)
    for split in ('train', 'dev'):
        skipped = []
        found = read('story_cloze', tmp_path / 'bad', split, skipped.append)
        assert found == [e for e in read('story_cloze', tmp_path / 'good', split) if e.id != 'id-7']
        assert len(skipped) == (split == 'dev')
    assert len(found) == 373


def complaint(name, directory, split='dev', on_bad=fail):
    with pytest.raises(UserError) as caught:
        read(name, directory, split, on_bad)
    assert '\n' not in str(caught.value)
    return str(caught.value)


BAD_ROWS = [
    ('cola', b'gj04\t1\t\tA cat.\ngj04\t1\tA dog.\n', 'row 2: 3 columns, expected 4 (source, label, star, sentence)'),
    ('sst2', b'sentence\tlabel\nA cat.\t1\nA\tdog.\t0\n', 'row 3: 3 columns, expected 2 (sentence, label)'),
    ('cola', b'gj04\t1\t\tA cat.\ngj04\t2\t\tA dog.\n', "row 2: label '2' is none of 0, 1"),
    ('cola', b'gj04\t1\t\tA cat.\ngj04\t1\t\t \n', 'row 2: sentence is empty'),
    ('rte', b'index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n1\tA.\t\tentailment\n',
     'row 3: sentence2 is empty'),
    ('mnli', b'sentence1\tsentence2\tgold_label\nA.\tB.\tneutral\nA.\tB.\t-\n',
     "row 3: label '-' is none of entailment, neutral, contradiction"),
    ('stsb', b'sentence1\tsentence2\tscore\nA.\tB.\t3.5\nA.\tB.\t5.1\n', 'row 3: score 5.1 is out of range 0 to 5'),
    ('stsb', b'sentence1\tsentence2\tscore\nA.\tB.\t3.5\nA.\tB.\tnan\n', 'row 3: score nan is out of range 0 to 5'),
    ('stsb', b'sentence1\tsentence2\tscore\nA.\tB.\t3.5\nA.\tB.\thigh\n', "row 3: score 'high' is not a number")]


@pytest.mark.parametrize('name, content, expected', BAD_ROWS)
def test_a_bad_row_is_named_with_its_file_and_cause_or_left_out(tmp_path, name, content, expected):
    path = tmp_path / {'mnli': 'dev_matched.tsv'}.get(name, 'dev.tsv')
    path.write_bytes(content)
    message = f'{path}: {expected}'
    assert complaint(name, tmp_path) == message
    skipped = []
    assert len(read(name, tmp_path, 'dev', skipped.append)) == 1 and skipped == [message]


@pytest.mark.parametrize('name, content, expected', [
    ('cola', b'gj04\t1\t\tA caf\xe9.\n', 'not UTF-8 at byte 13'),
    ('cola', b'gj04\t1\t\tA cat.\ngj04\t1\t\tA caf\xe9.\n', 'not UTF-8 at byte 28'),
    ('cola', b'', 'empty'), ('rte', b'\n', 'empty'),
    ('rte', b'index\tsentence1\tlabel\n0\tA.\tentailment\n',
     "no column 'sentence2' (columns: index, sentence1, label)"),
    ('rte', b'index\tsentence1\tsentence2\tlabel\n', 'no rows')])
def test_a_bad_file_is_an_error_even_where_bad_rows_are_left_out(tmp_path, name, content, expected):
    (tmp_path / 'dev.tsv').write_bytes(content)
    for on_bad in (fail, [].append):
        found = complaint(name, tmp_path, on_bad=on_bad)
        assert found.replace(f' ({name} dev)', '') == f'{tmp_path / "dev.tsv"}: {expected}'


def test_a_file_with_nothing_but_bad_rows_is_an_error(tmp_path):
    (tmp_path / 'dev.tsv').write_text('sentence\tlabel\nA.\t2\nB.\t2\n')
    path = tmp_path / 'dev.tsv'
    assert complaint('sst2', tmp_path, on_bad=[].append) == (
        f"{path} (sst2 dev): all 2 rows are bad, the first: {path}: row 2: label '2' is none of 0, 1")


def test_an_index_that_stands_twice_is_a_bad_row(tmp_path):
    (tmp_path / 'test.tsv').write_text('index\tsentence\n0\tA.\n0\tB.\n')
    assert complaint('cola', tmp_path, 'glue_test') == f"{tmp_path}/test.tsv: row 3: id '0' stands twice"


def test_a_broken_line_of_json_is_named(tmp_path):
    path = tmp_path / 'snli_1.0_dev.jsonl'
    good = '{"gold_label": "neutral", "sentence1": "A.", "sentence2": "B."}'
    path.write_text(f'{good}\n{good[:-1]}\n["A."]\n{{"gold_label": "neutral", "sentence1": "A."}}\n')
    assert complaint('snli', tmp_path).startswith(f'{path}: row 2: not JSON (')
    skipped = []
    assert len(read('snli', tmp_path, 'dev', skipped.append)) == 1
    assert skipped[1:] == [f'{path}: row 3: list, expected an object', f'{path}: row 4: no sentence2']


def test_a_missing_file_is_named_with_the_other_names_it_may_have(tmp_path):
    assert complaint('mrpc', tmp_path) == f'{tmp_path}/dev.tsv: no such file'
    assert complaint('snli', tmp_path) == f'{tmp_path}/snli_1.0_dev.txt: no such file (nor snli_1.0_dev.jsonl)'
    assert complaint('story_cloze', tmp_path) == f'{tmp_path}/cloze_test_val__spring2016*.csv: no such file'
    (tmp_path / 'dev.tsv').mkdir()
    assert complaint('mrpc', tmp_path) == f'{tmp_path}/dev.tsv: is a directory, not a file'


def test_two_files_that_could_be_meant_are_an_error(tmp_path):
    for name in ('a', 'b'):
        official.story_cloze(tmp_path / f'cloze_test_test__spring2016 {name}.csv')
    assert '2 files match cloze_test_test__spring2016*.csv, expected one' in complaint('story_cloze', tmp_path, 'test')


def test_a_broken_story_names_its_row(tmp_path):
    path = official.story_cloze(tmp_path / 'cloze_test_test__spring2016.csv')
    path.write_text(path.read_text().replace('Cid threw the lamp away.,1', 'Cid threw the lamp away.,3'))
    assert complaint('story_cloze', tmp_path, 'test') == f"{path}: row 4: label '3' is none of 1, 2"
    path.write_text(path.read_text().replace('Bob saved money for weeks.', ' '))
    skipped = []
    assert len(read('story_cloze', tmp_path, 'test', skipped.append)) == 18
    assert skipped == [f'{path}: row 3: InputSentence2 is empty', f"{path}: row 4: label '3' is none of 1, 2"]


def test_a_broken_quote_in_a_story_is_an_error(tmp_path):
    path = official.story_cloze(tmp_path / 'cloze_test_test__spring2016.csv')
    path.write_text(path.read_text().replace('Tom was glad.', '"Tom was glad.'))
    assert complaint('story_cloze', tmp_path, 'test', [].append) == f'{path}: row 21: unexpected end of data'


def test_too_few_stories_cannot_be_split(tmp_path):
    path = official.story_cloze(tmp_path / 'cloze_test_val__spring2016.csv')
    assert complaint('story_cloze', tmp_path) == f'{path}: 20 stories, the split takes 374 of them for validation'


def test_text_may_hold_what_other_programs_take_for_line_ends(tmp_path):
    (tmp_path / 'dev.tsv').write_bytes('sentence\tlabel\r\nA\u2028B\x85C.\t1\r\nD "E.\t0\r\n'.encode())
    assert [e.texts for e in read('sst2', tmp_path, 'dev')] == [('A\u2028B\x85C.',), ('D "E.',)]
