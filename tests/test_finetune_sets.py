"""Fine-tuning on a set of each kind, published or described by the user in fields, and the set's
scores."""

import csv
import functools
import json
import pathlib
import shutil

import pytest

import official
import sets
from gpt1_jax import finetuning
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import results, workdir
from gpt1_jax.weights import model_card
from interruptions import power_cut
from tiny import command, finetune_config, override

pytestmark = pytest.mark.full

WORDS = ('cat', 'mat', 'moon', 'hill', 'bread')


def table(path, *rows):
    with open(path, 'w', newline='') as file:
        csv.writer(file, lineterminator='\n').writerows(rows)


def five_choice(directory):
    """Rows of five choices but one in four of four."""
    text = 'The cat, "red" as bread,\nsat on a mat. '
    for split, n in (('train', 24), ('dev', 9)):
        rows = (
            (text * (1 + i % 3), 'Where?', *WORDS[:4], WORDS[4] if i % 4 else '', 'ABCD'[i % 4])
            for i in range(n)
        )
        table(directory / f'{split}.csv', 'passage question a b c d e answer'.split(), *rows)


def rating(directory):
    table(
        directory / 'train.csv',
        ('text', 'score'),
        *((f'{WORDS[i % 5]} {WORDS[i % 3]}, {i}', 1 + i % 13 / 2) for i in range(40)),
    )


def story_cloze(directory):
    official.story_cloze(directory / 'cloze_test_val__spring2016.csv', official.STORIES * 20)


def test_a_changed_training_file_is_noticed_where_dev_has_a_file_of_that_name(
    trusted_code, pretrained, tmp_path
):
    for split in ('train', 'dev'):
        (tmp_path / split).mkdir()
        reviews(tmp_path / split / 'data.csv')
    (tmp_path / 'mine.py').write_text(
        'from gpt1_jax.data.tasks import Example, from_records\n'
        "FILES = {'train': 'train/data.csv', 'dev': 'dev/data.csv'}\n"
        "SET = from_records('set', 'classify', ('negative', 'positive'), FILES,\n"
        "    lambda row: Example('', (row['text'],), label=row['label']))\n"
    )
    config = finetune_config('cola', tmp_path, init_from=str(pretrained), train__epochs=1)
    config.task = f'{tmp_path}/mine.py:SET'
    with power_cut(2):
        finetuning.run(config, tmp_path / 'run')
    file = tmp_path / 'train' / 'data.csv'
    file.write_text(file.read_text().replace('mat', 'hat'))
    with pytest.raises(UserError, match='.the data file train/data.csv has other contents'):
        finetuning.run(config, tmp_path / 'run')


def reviews(path, n=24):
    table(
        path,
        ('text', 'label', 'long'),
        *(
            (f'A {WORDS[i % 5]}, {i}.', ('negative', 'positive')[i % 2], 'ab'[i % 3 % 2])
            for i in range(n)
        ),
    )


@pytest.fixture(scope='module')
def reviewed(pretrained, tmp_path_factory):
    """(config, directory) of a finished run on a file of the user's own, a part of which is dev."""
    directory = tmp_path_factory.mktemp('reviewed')
    reviews(directory / 'train.csv')
    config = finetune_config(
        'custom:sentiment',
        directory / 'train.csv',
        init_from=str(pretrained),
        batch__lengths=1,
        train__epochs=1,
    )
    finetuning.run(config, directory / 'run')
    return config, directory


@pytest.mark.parametrize('field, value', [('encoding', 'latin-1'), ('label', 'long')])
def test_a_finished_run_is_not_scored_by_other_labels_or_another_dev_part(
    reviewed, tmp_path, field, value
):
    config, directory = reviewed
    shutil.copytree(directory / 'run', tmp_path / 'run')
    changed = override(config.copy_and_resolve_references(), {f'custom__{field}': value})
    with pytest.raises(UserError, match='run holds another run .custom.'):
        finetuning.run(changed, tmp_path / 'run', allow_change=True)


def test_a_finished_run_is_scored_on_all_rows_of_another_file_and_keeps_its_own_predictions(
    reviewed, tmp_path
):
    _, directory = reviewed
    run = shutil.copytree(directory / 'run', tmp_path / 'run')
    own = (run / 'predictions_dev.jsonl').read_text()
    limited = json.loads((run / 'config.json').read_text())
    limited['data']['eval_rows'] = 4  # of dev, while it was trained
    (run / 'config.json').write_text(json.dumps(limited))
    rows = 'label;text\n' + 'positive;A cät.\nnegative;A "mat".\n' * 5
    (tmp_path / 'new.csv').write_bytes(rows.encode('latin-1'))
    scored = f'--workdir={run} --evaluate_only --data={tmp_path}/new.csv --encoding=latin-1'
    shown = command('finetune', *scored.split(), check=0).stdout
    first, row = results.read(run / 'results.jsonl')
    assert (row['split'], row['n'], list(row['files'])) == ('test', 10, ['new.csv'])
    assert row['predictions'] in shown and len(results.read(pathlib.Path(row['predictions']))) == 10
    said = command('finetune', *scored.split(), '--split=dev', check=1).stderr
    assert '--split=dev: --data=FILE is scored as the split test' in said

    reviews(tmp_path / 'train.csv', 40)
    assert fine_tuned.evaluate_run(workdir.load(run), 'dev', str(tmp_path))[0]['n'] == 4
    assert (run / 'predictions_dev.jsonl').read_text() == own
    evaluations = model_card.evaluations(workdir.load(run), row['step'], row['digest'])
    for split, file, found in (('dev', 'train.csv', first), ('test', 'new.csv', row)):
        value = f'accuracy {found["value"]:.4f} (n = {found["n"]})'
        assert f'train, {split}, {file}, finetune: {value}' in evaluations


@pytest.mark.parametrize(
    'given, message',
    [
        ('--evaluate_only --text=text', '--text has no effect with --evaluate_only'),
        ('--evaluate_only --config.seed=5', '--config.seed has no effect'),
        ('--selection=final', '--selection goes with --evaluate_only'),
    ],
)
def test_a_flag_that_would_be_ignored_is_refused(reviewed, given, message):
    words = f'--workdir={reviewed[1]}/run {given}'.split()
    assert message in command('finetune', *words, check=1).stderr


@pytest.mark.parametrize(
    'name, make, n, metrics, width',
    [
        (
            'mrpc',
            functools.partial(sets.write_official, 'mrpc'),
            len(sets.PAIRS),
            ['f1', 'accuracy'],
            2,
        ),
        ('story_cloze', story_cloze, 374, ['accuracy'], 2),
        ('custom:five_choice', five_choice, 9, ['accuracy'], 5),
        ('custom:rating', rating, 4, ['pearson', 'spearman'], 1),
    ],
)
def test_each_kind_of_set_trains_and_is_scored(pretrained, tmp_path, name, make, n, metrics, width):
    make(tmp_path)
    given = dict(init_from=str(pretrained), batch__lengths=1, train__epochs=1)
    rows = finetuning.run(finetune_config(name, tmp_path, **given), tmp_path / 'run')
    assert [row['metric'] for row in rows] == metrics
    assert all(-1 <= row['value'] <= 1 for row in rows) and rows[0]['n'] == n
    predictions = results.read(tmp_path / 'run' / 'predictions_dev.jsonl')
    assert len(predictions) == n and max(len(p['scores']) for p in predictions) == width
    if 'five_choice' in name:
        assert [(p['id'], p['gold']) for p in predictions] == [(str(i), i % 4) for i in range(9)]
