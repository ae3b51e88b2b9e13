"""Own sets of JSON records: arrays, lists of texts, several questions a record, and texts made from templates."""
import json
import sys

import pytest

from refusal import refusal
from tiny import ROOT, load_config, override  # noqa: E402

sys.path.insert(0, str(ROOT))

from gpt1_jax.data.tasks import custom, unlabelled  # noqa: E402
from gpt1_jax.data.tasks.example import Example  # noqa: E402
from gpt1_jax.errors import UserError  # noqa: E402

# The first two rows of COPA's train.jsonl in SuperGLUE.
COPA = [{'premise': 'My body cast a shadow over the grass.', 'choice1': 'The sun was rising.',
         'choice2': 'The grass was cut.', 'question': 'cause', 'label': 0, 'idx': 0},
        {'premise': 'The physician misdiagnosed the patient.',
         'choice1': 'The patient filed a malpractice lawsuit against the physician.',
         'choice2': 'The patient disclosed confidential information to the physician.', 'question': 'effect',
         'label': 0, 'idx': 1}]
COPA_EXAMPLES = [
    Example('0', ('My body cast a shadow over the grass. because',), ('The sun was rising.', 'The grass was cut.'), 0),
    Example('1', ('The physician misdiagnosed the patient. so',), (COPA[1]['choice1'], COPA[1]['choice2']), 0)]
DREAM = [[['W: Late again?', 'M: The bus.'],
          [{'question': 'Who is late?', 'choice': ['The man.', 'The woman.', 'The bus.'], 'answer': 'The man.'},
           {'question': 'Why?', 'choice': ['A bike.', 'A bus.', 'A walk.'], 'answer': 'A bus.'}], '4-199'],
         [['M: Hi.'], [{'question': 'Who?', 'choice': ['A.', 'B.', 'C.'], 'answer': 'C.'}], '4-200']]
DREAM_EXAMPLES = [
    Example('4-199/0', ('W: Late again?\nM: The bus.', 'Who is late?'), ('The man.', 'The woman.', 'The bus.'), 0),
    Example('4-199/1', ('W: Late again?\nM: The bus.', 'Why?'), ('A bike.', 'A bus.', 'A walk.'), 1),
    Example('4-200/0', ('M: Hi.', 'Who?'), ('A.', 'B.', 'C.'), 2)]
PAIR = {'name': 'pair', 'files': {'train': 'train.json', 'dev': 'dev.json'}, 'format': 'json',
        'segments': [['a'], ['b']], 'label': 'y', 'labels': ['no', 'yes']}
ROWS = [{'a': 'A.', 'b': 'B.', 'y': 'no'}, {'a': 'C.', 'b': 'D.', 'y': 'yes'}]
PAIRS = [Example('0', ('A.', 'B.'), (), 0), Example('1', ('C.', 'D.'), (), 1)]


def task_of(example, **changes):
    config = load_config('custom', example)
    return custom.task(override(config, {f'custom__{key}': value for key, value in changes.items()})
                       .to_dict()['custom'])


def read(fields, directory, text, split='train'):
    task = custom.task(fields)
    (directory / fields['files'][split]).write_text(text)
    return task.read(directory, split)


def complaint(fields, directory, text):
    return refusal(read, fields, directory, text).removeprefix(f'{directory}/{fields["files"]["train"]}: ')


def lines(records):
    return ''.join(json.dumps(record) + '\n' for record in records)


def test_copa_is_read_by_config_alone_and_rows_to_be_answered_with_the_same_templates(tmp_path):
    path = tmp_path / 'train.jsonl'
    path.write_text(lines(COPA))
    assert task_of('copa').read(tmp_path, 'train') == COPA_EXAMPLES
    path.write_text(lines([{name: value for name, value in record.items() if name != 'label'} for record in COPA]))
    found = unlabelled.read(task_of('copa'), path)
    assert [(e.id, e.texts, e.choices) for e in found] == [(e.id, e.texts, e.choices) for e in COPA_EXAMPLES]


@pytest.mark.parametrize('indent', [None, 1])
def test_dream_is_read_by_config_alone(tmp_path, indent):
    path = tmp_path / 'train.json'
    path.write_text(json.dumps(DREAM, indent=indent))
    task = task_of('dream')
    assert task.read(tmp_path, 'train') == DREAM_EXAMPLES
    assert (task.segments, task.cut, task.labels) == ((2,), 0, ('1', '2', '3'))
    assert [e.choices for e in unlabelled.read(task, path)] == [e.choices for e in DREAM_EXAMPLES]
    path.write_text(lines(DREAM))  # a dialogue a line
    assert task.read(tmp_path, 'train') == DREAM_EXAMPLES
    path.write_text(lines(DREAM[:1]))  # a single line, whose items are no dialogues
    assert task.read(tmp_path, 'train') == DREAM_EXAMPLES[:2]


MCTEST = {'name': 'mctest', 'files': {'train': 'train.json', 'dev': 'dev.json'}, 'format': 'json',
          'questions': 'questions', 'segments': [['story', 'question']], 'cut': 'story', 'choices': ['choices'],
          'max_choices': 4, 'label': 'answer', 'answer': 'letter'}
STORY = {'story': 'It was hot. The cat slept.', 'questions': [
    {'question': 'Who slept?', 'choices': ['the dog', 'the cat', 'a bird', 'no one'], 'answer': 'B'},
    {'question': 'How was it?', 'choices': ['hot', 'cold', 'wet', 'dry'], 'answer': 'A'}]}


def test_questions_about_a_story_are_a_row_each(tmp_path):
    assert read(MCTEST, tmp_path, lines([STORY])) == [
        Example('0/0', (STORY['story'], 'Who slept?'), ('the dog', 'the cat', 'a bird', 'no one'), 1),
        Example('0/1', (STORY['story'], 'How was it?'), ('hot', 'cold', 'wet', 'dry'), 0)]
    named = [STORY | {'questions': [question | {'q': f'q{i}'} for i, question in enumerate(STORY['questions'])]}]
    assert [e.id for e in read(MCTEST | {'id': 'q'}, tmp_path, lines(named))] == ['q0', 'q1']


def test_the_questions_of_one_story_are_never_both_trained_on_and_dev(tmp_path):
    stories = [STORY | {'story': f'Story {i}.'} for i in range(20)]
    fields = MCTEST | {'files': {'train': 'train.json'}, 'dev_fraction': 0.3}
    train = {e.texts[0] for e in read(fields, tmp_path, json.dumps(stories))}
    dev = {e.texts[0] for e in custom.task(fields).read(tmp_path, 'dev')}
    assert not train & dev and len(train | dev) == 20 and dev


@pytest.mark.parametrize('name', ['train.json', 'train.jsonl'])
@pytest.mark.parametrize('text', [
    json.dumps(ROWS), json.dumps(ROWS, indent=2), '\n' + json.dumps(ROWS, indent=2).replace('\n', '\r\n') + '\n\n',
    lines(ROWS), lines(ROWS).replace('\n', '\n\n'), '\ufeff' + json.dumps(ROWS, indent=2)])
def test_an_array_of_records_and_a_record_a_line_are_the_same_whatever_the_files_name(tmp_path, name, text):
    assert read(PAIR | {'files': {'train': name, 'dev': name}}, tmp_path, text) == PAIRS


def test_the_items_of_records_that_are_lists_are_named_by_columns(tmp_path):
    fields = PAIR | {'columns': ['y', 'a', 'b']}
    text = lines([['no', 'A.', 'B.'], ['yes', 'C.', 'D.']])
    assert read(fields, tmp_path, text) == PAIRS
    (tmp_path / 'new.jsonl').write_text(lines([['A.', 'B.']]))
    assert unlabelled.read(custom.task(fields), tmp_path / 'new.jsonl') == [Example('0', ('A.', 'B.'))]


def test_a_list_of_texts_is_read_as_lines_in_a_template_too(tmp_path):
    rows = [ROWS[0] | {'a': ['One.', ' ', 'Two.']}]
    assert read(PAIR, tmp_path, lines(rows))[0].texts == ('One.\nTwo.', 'B.')
    quoted = PAIR | {'segments': [['Said: {a} {{end}}'], ['b']]}
    assert read(quoted, tmp_path, lines(rows))[0].texts == ('Said: One.\nTwo. {end}', 'B.')


QUESTION = STORY['questions'][0]


@pytest.mark.parametrize('fields, text, cause', [
    (PAIR, '[{"a": "A."},\n{"a": \n', 'neither a JSON array of records nor a record a line: not JSON (Expecting value'),
    (PAIR, '{\n "data": []\n}', 'one JSON object, expected an array of records or a record a line'),
    (PAIR, '[]', 'no rows'), (PAIR, ' \n\n', 'no rows'),
    (PAIR, json.dumps([ROWS[0], {'a': 'A.', 'b': 'B.'}], indent=1), 'record 2: no y'),
    (PAIR, '[\n{"a": "A.", "b": "B.", "y": "no"},\n7]', 'record 2: int, expected an object'),
    (PAIR, '[' * 10_000, 'neither a JSON array of records nor a record a line: not JSON (maximum recursion depth'),
    *[(PAIR, lines([ROWS[0] | {'a': value}]), 'row 1: a is empty') for value in (None, float('nan'))],
    (PAIR, lines([ROWS[0] | {'y': ['no']}]), 'row 1: y: ["no"] is not a text'),
    (PAIR | {'id': 'i'}, lines([ROWS[0] | {'i': ['no']}]), 'row 1: i: ["no"] is not a text'),
    (PAIR | {'columns': ['y', 'a', 'b']}, lines([['no', 'A.']]), 'row 1: 2 items, expected 3 (y, a, b)'),
    (PAIR | {'columns': ['y', 'a', 'b']}, lines(ROWS), 'row 1: dict, expected a list (y, a, b)'),
    (MCTEST | {'id': 'i'}, lines([STORY | {'i': [1]}]), 'row 1: question 1: i: [1] is not a text'),
    *[(MCTEST, lines([STORY | {'questions': questions}]), f'row 1: {cause}') for questions, cause in (
        ([], 'questions: not a list of objects'),
        ([QUESTION, {'question': 'Why?', 'answer': 'A'}], 'question 2: choices: not a JSON list of texts'),
        ([QUESTION | {'answer': 'E'}], "question 1: answer: 'E' is not one of the row's 4 choices"))]])
def test_a_bad_record_is_named(tmp_path, fields, text, cause):
    assert complaint(fields, tmp_path, text).startswith(cause)


def test_a_template_may_join_columns_of_a_table_and_a_column_may_stand_twice(tmp_path):
    fields = {'name': 'x', 'files': {'train': 't.csv', 'dev': 'd.csv'}, 'segments': [
        ['{a.b} or {c d}?', 'c d'], [{'column': 'kind', 'x': 'c d', 'y': '{a.b}!'}]], 'cut': 'a.b', 'label': 'kind2',
        'labels': ['no', 'yes']}
    task = custom.task(fields)
    (tmp_path / 't.csv').write_text('a.b,c d,kind,kind2\nA,C,x,no\nA,C,y,yes\n')
    assert [e.texts for e in task.read(tmp_path, 'train')] == [('A or C?', 'C', 'C'), ('A or C?', 'C', 'A!')]
    assert (task.segments, task.cut) == ((2, 1), 0)
    (tmp_path / 't.csv').write_text('a.b,c d,kind,kind2\nA,C,z,no\n')
    with pytest.raises(UserError, match="t.csv: row 2: kind: 'z' is not one of x, y$"):
        task.read(tmp_path, 'train')
    (tmp_path / 't.csv').write_text('a.b,kind,kind2\nA,x,no\n')
    with pytest.raises(UserError, match="t.csv: no column 'c d'"):
        task.read(tmp_path, 'train')


def test_an_array_of_texts_is_answered_by_any_task(tmp_path):
    path = tmp_path / 'new.json'
    path.write_text(json.dumps([{'id': 'a', 'texts': ['A.', 'B.']}, {'texts': ['C.', 'D.']}], indent=1))
    assert unlabelled.read(custom.task(PAIR), path) == [Example('a', ('A.', 'B.')), Example('1', ('C.', 'D.'))]
