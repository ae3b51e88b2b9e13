"""A user's own set, described by fields and no code: inspected, fine-tuned on, scored and predicted."""
import json
import random

import pytest

from gpt1_jax import finetune
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import results, workdir
from interruptions import power_cut
from tiny import load_config, override

pytestmark = pytest.mark.full

WORDS = ('cat', 'mat', 'moon', 'hill', 'bread')


def five_choice(directory, form):
    """Rows of five choices but one in four of four; form: 'csv' or 'jsonl'. Returns what to override in the config."""
    for split, n in (('train', 24), ('dev', 9), ('new', 5)):
        records = [{'id': f'{split}{i}', 'passage': 'The cat, "red" as bread,\nsat on a mat. ' * (1 + i % 3),
                    'question': 'Where?', 'choices': list(WORDS[:5 - (i % 4 == 0)]), 'answer': 'ABCD'[i % 4]}
                   for i in range(n)]
        if form == 'jsonl':
            text = ''.join(json.dumps(record) + '\n' for record in records)
        else:
            text = 'id,passage,question,a,b,c,d,e,answer\n' + ''.join(
                ','.join([r['id'], '"' + r['passage'].replace('"', '""') + '"', r['question'],
                          *(r['choices'] + [''])[:5], r['answer']]) + '\n' for r in records)
        (directory / f'{split}.{form}').write_text(text)
    files = {f'custom__files__{split}': f'{name}.{form}'
             for split, name in (('train', 'train'), ('dev', 'dev'), ('unlabelled', 'new'))}
    return files | (dict(custom__format='jsonl', custom__choices=('choices',), custom__max_choices=5)
                    if form == 'jsonl' else {})


def rating(directory, _):
    rng = random.Random(0)
    rows = [f'"{" ".join(rng.choices(WORDS, k=5))}, {i}",{1 + i % 13 / 2}\n' for i in range(40)]
    (directory / 'train.csv').write_text('text,score\n' + ''.join(rows))
    return {}


def sentiment(directory, _):
    for split, n in (('train', 24), ('dev', 9)):
        rows = [f'"A {WORDS[i % 5]}, {i}.",{("negative", "positive")[i % 2]}\n' for i in range(n)]
        (directory / f'{split}.csv').write_text('text,label\n' + ''.join(rows))
    return {}


def config_of(example, directory, pretrained, **overrides):
    small = dict(data__dir=str(directory), init_from=str(pretrained), batch__size=8, batch__eval_size=8,
                 batch__lengths=1, train__epochs=1, log_every=1)
    return override(load_config('custom', example), small | overrides)


def test_a_changed_training_file_is_noticed_where_dev_has_a_file_of_that_name(pretrained, tmp_path):
    sentiment(tmp_path, None)
    for split in ('train', 'dev'):
        (tmp_path / split).mkdir()
        (tmp_path / f'{split}.csv').rename(tmp_path / split / 'data.csv')
    config = config_of('sentiment', tmp_path, pretrained, custom__files__train='train/data.csv',
                       custom__files__dev='dev/data.csv')
    with power_cut(2):
        finetune.run(config, tmp_path / 'run')
    rows = (tmp_path / 'train' / 'data.csv').read_text()
    (tmp_path / 'train' / 'data.csv').write_text(rows.replace('mat', 'hat'))
    with pytest.raises(UserError, match='run holds another run .fingerprint.files.train/data.csv: '):
        finetune.run(config, tmp_path / 'run')


@pytest.mark.parametrize('example, make, form, n, metrics, width', [
    ('five_choice', five_choice, 'jsonl', 9, ['accuracy'], 5), ('five_choice', five_choice, 'csv', 9, ['accuracy'], 5),
    ('rating', rating, None, 4, ['pearson', 'spearman'], 1), ('sentiment', sentiment, None, 9, ['accuracy'], 2)])
def test_each_example_trains_and_is_scored(pretrained, tmp_path, example, make, form, n, metrics, width):
    config = config_of(example, tmp_path, pretrained, **make(tmp_path, form))
    rows = finetune.run(config, tmp_path / 'run')
    assert [row['metric'] for row in rows] == metrics and all(-1 <= row['value'] <= 1 for row in rows)
    assert rows[0]['task'] == example and rows[0]['n'] == n
    predictions = results.read(tmp_path / 'run' / 'predictions_dev.jsonl')
    assert len(predictions) == n and max(len(p['scores']) for p in predictions) == width
    if example == 'five_choice':
        assert [p['id'] for p in predictions] == [f'dev{i}' for i in range(9)]
        assert [p['gold'] for p in predictions] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    # What the run's directory holds is enough to score again.
    again = fine_tuned.evaluate_run(workdir.load(tmp_path / 'run'), 'dev')
    assert [row['value'] for row in again] == [row['value'] for row in rows]
