"""The leaderboard's zip: made from fine-tuned runs. A refusal names all that is missing."""

import json
import warnings
import zipfile

import numpy as np
import pytest
from gpt1_jax.configs import experiments as experiments_config

import sets
import tiny
from experiments import glue_submission
from experiments.glue_submission import MEMBERS
from experiments.lib import run_list, runner
from gpt1_jax import pretraining
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import results, workdir
from refusal import refusal

pytestmark = pytest.mark.full
DIRECTORIES = experiments_config.get_config().directories
GLUE = list(dict.fromkeys(task for task, _ in MEMBERS.values()))


def stand_in(root, config, task):
    """The directory of a run whose model always says the last label, or 2.5: no weights."""
    run = root / task
    (run / 'checkpoints' / '1' / 'params').mkdir(parents=True)
    of_run = {
        'kind': 'finetune',
        'task': task,
        'labels': tasks.get(task).labels,
        'data': {'dir': f'{config.data}/{DIRECTORIES[task]}'},
        'model': workdir.load(config.pretrained).config['model'],
        'fingerprint': {},
    }
    (run / 'config.json').write_text(json.dumps(of_run))
    return str(run)


def read(run, split):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of sets of another size than the published one
        return tasks.get(run.config['task']).read(run.config['data']['dir'], split)


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    """All of GLUE: MNLI fine-tuned from a tiny model, as for the tables, and stand-ins."""
    root = tmp_path_factory.mktemp('glue')
    for task in GLUE:
        sets.write_official(task, root / 'data' / DIRECTORIES[task])
    books = tiny.corpus(root / 'books')
    gpt = pretraining.run(
        tiny.pretrain_config(books, train__steps=2, model__n_ctx=32), root / 'gpt'
    )
    config = tiny.override(
        tiny.load_config('experiments'),
        dict(
            pretrained=str(gpt.path),
            data=str(root / 'data'),
            out=str(root / 'out'),
            finetune__batch__size=8,
            finetune__batch__eval_size=8,
            finetune__train__epochs=1,
            finetune__batch__lengths=1,
        ),
    )
    runner.carry_out(config, run_list.finetune_runs(config, 'mnli', 'full', keep=True))
    for task in {*GLUE} - {'mnli'}:
        config.submission[task] = stand_in(root, config, task)
    return config


def test_a_submission_has_what_its_models_predicted_for_each_row_of_the_test_files(
    config, tmp_path, monkeypatch
):
    evaluate_run = fine_tuned.evaluate_run

    def predict(run, split, selection):
        if run.config['task'] == 'mnli':
            return evaluate_run(run, split, selection=selection)
        ids = [row.id for row in read(run, split)]
        scores = [2.5] if run.config['task'] == 'stsb' else [0.0, 1.0]
        gold = [None] * len(ids)
        return results.write_predictions(run.predictions(split), ids, gold, [scores] * len(ids))

    monkeypatch.setattr(fine_tuned, 'evaluate_run', predict)
    glue_submission.run(config, tmp_path / 'submission.zip')
    with zipfile.ZipFile(tmp_path / 'submission.zip') as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert list(texts) == list(MEMBERS)
    runs = glue_submission.open_runs(config)
    for name, (task, split) in MEMBERS.items():
        header, *rows = [line.split('\t') for line in texts[name].splitlines()]
        assert header == ['index', 'prediction']
        assert [index for index, _ in rows] == [row.id for row in read(runs[task], split)]
    said = {name: {line.split('\t')[1] for line in texts[name].splitlines()[1:]} for name in texts}
    assert said['RTE.tsv'] == {'not_entailment'} and said['STS-B.tsv'] == {'2.500'}
    labels = runs['mnli'].config['labels']
    predicted = results.read(runs['mnli'].predictions('ax'))
    assert [line.split('\t')[1] for line in texts['AX.tsv'].splitlines()[1:]] == [
        labels[int(np.argmax(row['scores']))] for row in predicted
    ]


def test_all_that_is_missing_is_named_at_once(config, tmp_path):
    changed = config.copy_and_resolve_references()
    changed.directories.mnli = 'absent'
    assert 'mnli: ' in refusal(glue_submission.run, changed, tmp_path / 'submission.zip')
    changed.directories.mnli = config.directories.mnli
    changed.submission.rte = str(tmp_path)
    changed.submission.qnli = changed.submission.cola
    changed.submission.wnli = changed.pretrained
    changed.out = str(tmp_path)  # without tables
    with pytest.raises(UserError) as refused:  # a line longer than others
        glue_submission.run(changed, tmp_path / 'submission.zip')
    for part in (
        f'rte: {tmp_path}: not a run directory',
        f'qnli: {config.submission.cola}: a run of cola; ',
        f'wnli: {config.pretrained}: a run of pretraining',
        'mnli: no run: give --config.submission.mnli=DIR, or make the tables with ',
    ):
        assert part in str(refused.value), part
    assert '\n' not in str(refused.value) and not (tmp_path / 'submission.zip').exists()


@pytest.mark.quick
def test_values_are_in_the_range_of_the_leaderboard_and_other_rows_have_the_best_label():
    rows = [{'id': i, 'scores': [x]} for i, x in (('7', -0.4), ('3', 5.2), ('9', 2.0004))]
    text = glue_submission.member(rows, ())
    assert text == 'index\tprediction\n7\t0.000\n3\t5.000\n9\t2.000\n'
    rows = [{'id': 'a', 'scores': [0.1, 0.7]}]
    assert glue_submission.member(rows, ['no', 'yes']) == 'index\tprediction\na\tyes\n'
