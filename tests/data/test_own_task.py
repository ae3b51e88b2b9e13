"""A Task in a file of the user's, config.task = FILE:NAME: COPA and DREAM, to copy, and the
messages about mistakes."""

import dataclasses
import functools
import json
import pathlib

import pytest

from gpt1_jax import finetuning, predict, user_code, zero_shot
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import Example, from_records, unlabelled
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results, workdir
from own_sets import lines
from refusal import refusal
from tiny import ROOT, finetune_config, load_config

YOURS = f'{ROOT}/gpt1_jax/data/tasks/your_task.py'
# The first two rows of COPA's train.jsonl in SuperGLUE.
COPA_ROWS = [
    ('My body cast a shadow over the grass.', 'The sun was rising.', 'The grass was cut.', 'cause'),
    (
        'The physician misdiagnosed the patient.',
        'The patient filed a malpractice lawsuit against the physician.',
        'The patient disclosed confidential information to the physician.',
        'effect',
    ),
]
COPA = [
    dict(zip(('premise', 'choice1', 'choice2', 'question'), row), label=0, idx=i)
    for i, row in enumerate(COPA_ROWS)
]
COPA_EXAMPLES = [
    Example(str(i), (f'{row[0]} {word}',), row[1:3], 0)
    for i, (row, word) in enumerate(zip(COPA_ROWS, ('because', 'so')))
]
QUESTIONS = [
    {'question': 'Who is late?', 'choice': ['A man.', 'A cat.', 'A bus.'], 'answer': 'A man.'},
    {'question': 'Why?', 'choice': ['A bike.', 'A bus.', 'A walk.'], 'answer': 'A bus.'},
]
DREAM = [
    [['W: Late again?', 'M: The bus.'], QUESTIONS, '4-199'],
    [['M: Hi.'], [{'question': 'Who?', 'choice': ['A.', 'B.', 'C.'], 'answer': 'C.'}], '4-200'],
]
TEXT = 'W: Late again?\nM: The bus.'
DREAM_EXAMPLES = [
    Example('4-199/0', (TEXT, 'Who is late?'), ('A man.', 'A cat.', 'A bus.'), 0),
    Example('4-199/1', (TEXT, 'Why?'), ('A bike.', 'A bus.', 'A walk.'), 1),
    Example('4-200/0', ('M: Hi.', 'Who?'), ('A.', 'B.', 'C.'), 2),
]


@pytest.mark.parametrize(
    'name, records, expected', [('COPA', COPA, COPA_EXAMPLES), ('DREAM', DREAM, DREAM_EXAMPLES)]
)
@pytest.mark.parametrize('write', [lines, json.dumps, functools.partial(json.dumps, indent=1)])
def test_published_sets_are_read_by_the_files_to_copy_labelled_or_not(
    trusted_code, tmp_path, name, records, expected, write
):
    task = tasks.get(f'{YOURS}:{name}')
    path = tmp_path / ('train.jsonl' if name == 'COPA' else 'train.json')
    path.write_text(write(records))
    assert task.files(tmp_path, 'train') == [str(path)]
    assert task.read(tmp_path, 'train') == expected
    found = unlabelled.read(task, path)
    assert found == [dataclasses.replace(example, label=None) for example in expected]
    assert name == 'DREAM' or [row.record for row in found] == records


def test_a_score_is_read_by_the_file_to_copy(trusted_code, tmp_path):
    rows = ''.join(f'{i},"text, {i}",{i}.5\n' for i in range(20))
    (tmp_path / 'train.csv').write_text(f'id,text,price\n{rows}')
    price = tasks.get(f'{YOURS}:PRICE')
    found = [one for split in ('train', 'dev') for one in price.read(tmp_path, split)]
    assert price.squared and len(found) == 20
    for one in found:
        assert (one.texts, one.label) == ((f'text, {one.id}',), int(one.id) + 0.5)


def test_a_table_without_a_header_is_read_by_the_file_to_copy(trusted_code, tmp_path):
    rows = ''.join(f'{("ham", "spam")[i % 2]}\tSo "{i}\tbody {i}\n' for i in range(20))
    (tmp_path / 'mail.tsv').write_text(rows)
    spam = tasks.get(f'{YOURS}:SPAM')
    train, dev = (spam.read(tmp_path, split) for split in ('train', 'dev'))
    assert (len(train), len(dev), spam.metrics[0]) == (16, 4, 'f1')
    for one in train + dev:
        assert (one.texts, one.label) == ((f'So "{one.id}', f'body {one.id}'), int(one.id) % 2)


def test_rows_to_predict_have_the_records_of_their_file(tmp_path):
    (tmp_path / 'lists.jsonl').write_text('["A.", 1]\n["B.", 0]\n')
    rows = unlabelled.read(reviews(lambda row: Example('', (row[0],))), tmp_path / 'lists.jsonl')
    assert [row.record for row in rows] == [{'record': ['A.', 1]}, {'record': ['B.', 0]}]


def reviews(make):
    return from_records('reviews', 'classify', ('bad', 'good'), {'train': 'train.csv'}, make)


def test_columns_name_those_of_a_table_without_a_header_as_its_error_says(tmp_path):
    """As MCTest is published."""
    (tmp_path / 'a.tsv').write_text('mc160\tA story.\tWho?\nmc161\tA tale.\tWhat?\n')

    def task(**options):
        example = lambda row: Example('', (row['story'],), label=0)  # noqa: E731
        return from_records('m', 'classify', ('a', 'b'), {'train': 'a.tsv'}, example, **options)

    said = "KeyError: 'story' (columns: mc160, A story., Who?; of a table without a header, give "
    assert f'{said}from_records columns=(NAME, ...))' in refusal(task().read, tmp_path, 'train')
    named = task(columns=('id', 'story', 'question'), dev_fraction=0)
    assert [one.texts[0] for one in named.read(tmp_path, 'train')] == ['A story.', 'A tale.']


@pytest.mark.parametrize(
    'head, labels, options, message',
    [
        ('regression', (), {}, "head is 'regression', must be classify, similarity, choice; of "),
        ('classify', (), {}, 'labels is (), must be names; of labels that are numbers: labels ()'),
        ('classify', ('a', 'b'), {'metrics': ('acuracy',)}, "no metric of labels 'acuracy'"),
        ('classify', (), {'score': (0, 5), 'metrics': ('f1',)}, "no metric of scores 'f1'"),
    ],
)
def test_a_declaration_that_fits_no_task_says_how_a_score_is_declared(
    head, labels, options, message
):
    said = refusal(from_records, 'price', head, labels, {'train': 'a.csv'}, str, **options)
    assert message in said


def test_a_score_is_soft_labels_of_whole_numbers_or_squared():
    def task(low, high):
        return from_records('p', 'classify', (), {'train': 'a'}, str, score=(low, high))

    assert (task(0, 5).labels, task(0, 5).squared) == (tuple('012345'), False)
    assert (task(0, 5.5).labels, task(0, 5.5).squared) == (('score',), True)
    assert task(0, 10_000).squared and task(0, 5).metrics == ('pearson', 'spearman')


@pytest.mark.parametrize(
    'texts, label, cause',
    [
        (('A',), 2, 'label is 2, must be a name in labels or an index below 2'),
        (('A',), None, 'no label'),
        (('A',), 12.43, 'label is 12.43, must be a name .*of a score, declare its limits: score='),
        (('A',), ['a', 'b'], 'label is .*a row has several labels; one label a row is supported'),
        (('A', 'b'), 1, '2 texts, expected 1'),
        ((' ',), 1, 'texts and choices are'),
    ],
)
def test_a_bad_row_is_named_with_its_cause(tmp_path, texts, label, cause):
    (tmp_path / 'train.csv').write_text('text,good\nA.,1\n')
    with pytest.raises(UserError, match=f'^{tmp_path}/train.csv: row 2: {cause}'):
        reviews(lambda row: Example('', texts, label=label)).read(tmp_path, 'train')


@pytest.mark.parametrize(
    'make, cause',
    [
        (lambda row: Example('', (row['txt'],)), ".*test_own_task.py: line .*KeyError: 'txt'"),
        (lambda row: [row['text']], "<lambda> returns 'A.', must return an Example"),
    ],
)
def test_a_fault_of_the_user_s_function_is_named_with_its_line(tmp_path, make, cause):
    (tmp_path / 'train.csv').write_text('text,good\nA.,1\n')
    with pytest.raises(UserError, match=f'^{tmp_path}/train.csv: row 2: {cause}'):
        reviews(make).read(tmp_path, 'train')


def test_what_is_no_task_is_named(trusted_code, tmp_path):
    (tmp_path / 'mine.py').write_text('TASK = 3\n')
    assert 'mine.py:TASK: is not a Task, which' in refusal(tasks.get, f'{tmp_path}/mine.py:TASK')


@pytest.mark.full
def test_a_task_of_one_s_own_is_fine_tuned_predicted_and_scored_zero_shot(
    tmp_path, pretrained, monkeypatch
):
    row = dict(zip(COPA[0], ('The cat ran.', 'A dog ran.', 'It sat.', 'cause')))
    for name in ('train', 'val'):
        rows = lines(row | {'idx': i, 'label': i % 2} for i in range(40))
        (tmp_path / f'{name}.jsonl').write_text(rows)
    mine = tmp_path / 'mine.py'
    mine.write_text(pathlib.Path(YOURS).read_text())
    name = f'{mine}:COPA'
    config = finetune_config('cola', tmp_path, init_from=str(pretrained), train__epochs=1)
    config.task = load_config('finetune', name).task
    assert config.task == name
    rows = finetuning.run(config, tmp_path / 'run')
    assert [row['task'] for row in rows] == ['copa'] and rows[0]['n'] == 40
    run = workdir.load(tmp_path / 'run')
    assert run.config['fingerprint']['code'].keys() == {name}
    given = (str(run.path), str(tmp_path / 'val.jsonl'), tmp_path / 'out.jsonl')
    answers, _ = predict.run(*given)
    assert len(answers) == 40 and results.read(given[2]) == answers

    scored = load_config('zero_shot', name)
    scored.init_from = str(pretrained)
    scored.data.dir = str(tmp_path)
    scored.results = str(tmp_path / 'results.jsonl')
    found = zero_shot.run(scored, [4])
    assert [(row['task'], row['n']) for row in found] == [('copa', 40)]

    key = zero_shot.run_key(scored, 4)
    mine.write_text(mine.read_text() + '\n# edited\n')
    monkeypatch.setattr(user_code, '_modules', {})  # a new process
    assert zero_shot.run_key(scored, 4) != key
    with pytest.raises(UserError, match='mine.py:COPA, which has changed since'):
        workdir.load(run.path)
    monkeypatch.setattr(user_code, '_trusted', set())
    file = tmp_path / 'run' / 'config.json'
    file.write_text(file.read_text().replace('"code"', '"was"'))
    with pytest.raises(UserError, match='(config.json was edited|config.task = ).*mine.py:COPA'):
        predict.run(*given)
