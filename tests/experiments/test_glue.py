"""The leaderboard's zip: made from fine-tuned runs. A refusal names member, row and cause."""

import json
import pathlib
import shutil
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
from gpt1_jax.runs import results
from refusal import refusal

pytestmark = pytest.mark.full
DIRECTORIES = experiments_config.get_config().directories
MODEL = {
    'kind': 'gpt',
    'ops': {},
    'vocab_size': 9,
    'n_layer': 1,
    'n_embd': 4,
    'n_head': 1,
    'n_inner': 4,
    'n_ctx': 8,
}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp('glue')
    for task in glue_submission.TASKS:
        sets.write_official(task, root / DIRECTORIES[task])
    shutil.copy(root / 'STS-B' / 'dev.tsv', root / 'STS-B' / 'train.tsv')
    return root


@pytest.fixture(scope='module')
def indices(data):
    """{member: the indices of its test file}."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of sets of another size than the published one
        for name, member in MEMBERS.items():
            examples = tasks.get(member.task).read(data / DIRECTORIES[member.task], member.split)
            found[name] = [example.id for example in examples]
    return found


def stand_in(root, task, data, indices):
    """A directory that looks like a fine-tuned run with predictions: the last label, or 2.5."""
    run = root / task
    (run / 'checkpoints' / '1' / 'params').mkdir(parents=True)
    labels = tasks.get(task).labels
    config = {'kind': 'finetune', 'task': task, 'labels': labels, 'data': {'dir': str(data)}}
    run.joinpath('config.json').write_text(json.dumps(config | {'model': MODEL, 'fingerprint': {}}))
    for name, member in MEMBERS.items():
        if member.task == task:
            ids = indices[name]
            scores = np.tile([2.5] if task == 'stsb' else np.eye(len(labels))[-1], (len(ids), 1))
            results.write_predictions(
                run / f'predictions_{member.split}.jsonl', ids, [None] * len(ids), scores
            )
    return str(run)


def submit(config, out):
    """Make a zip. The stand-ins have no weights: their predictions stay as they are."""
    predict = fine_tuned.evaluate_run

    def evaluate_run(run, *args, **options):
        return (
            None if str(run.path) in config.submission.values() else predict(run, *args, **options)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fine_tuned, 'evaluate_run', evaluate_run)
        glue_submission.run(config, out)


@pytest.fixture(scope='module')
def submitted(data, indices, tmp_path_factory):
    """(config, zip): STS-B and MNLI fine-tuned from a tiny pretrained model, stand-ins for the
    others."""
    root = tmp_path_factory.mktemp('submission')
    gpt = pretraining.run(
        tiny.pretrain_config(tiny.corpus(root / 'books'), train__steps=2, model__n_ctx=32),
        root / 'gpt',
    )
    config = tiny.override(
        tiny.load_config('experiments'),
        dict(
            pretrained=str(gpt.path),
            data=str(data),
            out=str(root / 'out'),
            finetune__batch__size=8,
            finetune__batch__eval_size=8,
            finetune__train__epochs=1,
            finetune__batch__lengths=1,
            seeds_small=(3, 4),
        ),
    )
    for task in ('stsb', 'mnli'):
        runner.carry_out(config, run_list.finetune_runs(config, task, 'full', keep=True)[:1])
    for task in set(glue_submission.TASKS) - {'stsb', 'mnli'}:
        config.submission[task] = stand_in(root, task, data / DIRECTORIES[task], indices)
    with pytest.warns(UserWarning, match='QQP/test.tsv .*: .* rows, the published set has 390,965'):
        submit(config, root / 'submission.zip')
    return config, root / 'submission.zip'


def test_a_submission_has_what_its_models_predicted_for_each_row_of_the_test_files(
    submitted, tmp_path, indices
):
    config, path = submitted
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert list(texts) == list(MEMBERS) and all(
        text.startswith('index\tprediction\n') for text in texts.values()
    )
    rows = {
        name: [line.split('\t') for line in text.splitlines()][1:] for name, text in texts.items()
    }
    assert {name: [index for index, _ in lines] for name, lines in rows.items()} == indices
    assert [{line[1] for line in rows[name]} for name in ('RTE.tsv', 'WNLI.tsv')] == [
        {'not_entailment'},
        {'1'},
    ]
    assert all(
        0 <= float(line[1]) <= 5 and len(line[1].split('.')[1]) == 3 for line in rows['STS-B.tsv']
    )
    (run,) = (pathlib.Path(config.out) / 'runs').glob('mnli-*')
    predicted = [
        json.loads(line) for line in (run / 'predictions_ax.jsonl').read_text().splitlines()
    ]
    labels = tasks.get('mnli').labels
    assert rows['AX.tsv'] == [
        [row['id'], labels[int(np.argmax(row['scores']))]] for row in predicted
    ]
    (run / 'predictions_ax.jsonl').write_text('of another test file')
    submit(config, tmp_path / 'again.zip')  # predicts anew
    assert (tmp_path / 'again.zip').read_bytes() == path.read_bytes()


def test_all_that_is_missing_is_named_at_once(submitted, indices, tmp_path):
    out = tmp_path / 'submission.zip'
    config = submitted[0].copy_and_resolve_references()
    config.directories.mnli = 'absent'
    assert 'mnli: ' in refusal(glue_submission.run, config, out)
    config.out = str(tmp_path)  # without tables
    config.directories.mnli = submitted[0].directories.mnli
    config.submission.cola = str(tmp_path)
    config.submission.qnli = config.submission.rte
    config.submission.wnli = stand_in(tmp_path, 'wnli', tmp_path / 'nothing', indices)
    with pytest.raises(UserError) as refused:  # a line longer than others
        glue_submission.run(config, out)
    for part in (
        'not a run directory',
        'stsb: no run: give --config.submission.stsb=DIR, or make the tables with ',
        'a run of rte; ',
        'mnli: no run',
        'nothing/test.tsv: no such file',
    ):
        assert part in str(refused.value), part
    assert '\n' not in str(refused.value) and not out.exists()


@pytest.mark.quick
def test_scores_out_of_range_are_clipped_and_there_is_one_for_each_label():
    text = glue_submission.lines(
        'STS-B.tsv', ['7', '3', '9'], np.array([[-0.4], [5.2], [2.0004]]), ['0', '1']
    )
    assert text == 'index\tprediction\n7\t0.000\n3\t5.000\n9\t2.000\n'
    with pytest.raises(UserError, match='RTE.tsv: 3 scores a row, must be 2'):
        glue_submission.lines(
            'RTE.tsv', ['0'], np.array([[0.0, 1.0, 2.0]]), ['entailment', 'not_entailment']
        )


@pytest.mark.quick
@pytest.mark.parametrize(
    'text, message',
    [
        ('', 'is empty, 0 bytes'),
        ('{"id": "0", "gold": null, "scores": [NaN, 1]}', 'line 1: scores is'),
        ('{"id": "0", "gold": null}', "line 1: no field 'scores'"),
        (
            '{"id": 0, "gold": null, "scores": [1]}\n{"id": 1, "gold": null, "scores": [1, 2]}',
            'its lines have different numbers',
        ),
    ],
)
def test_damaged_predictions_are_not_submitted(tmp_path, text, message):
    (tmp_path / 'p.jsonl').write_text(text)
    assert refusal(glue_submission.read_scores, tmp_path / 'p.jsonl').startswith(
        f'{tmp_path}/p.jsonl: {message}'
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    'ids, labels, message',
    [
        (
            '0123',
            ['entailment', 'neutral'],
            "prediction 'neutral' is not one of entailment, not_entailment",
        ),
        ('012', ['entailment', 'not_entailment'], '3 rows, must be 4'),
        (
            '0132',
            ['entailment', 'not_entailment'],
            "row 4: index '3', but the test set has 2 there",
        ),
    ],
)
def test_what_the_leaderboard_would_refuse_is_named(ids, labels, message):
    assert refusal(glue_submission.check, 'RTE.tsv', ids, '0123', labels) == f'RTE.tsv: {message}'


def test_predictions_of_another_test_file_are_not_submitted(submitted, tmp_path, indices):
    config = submitted[0].copy_and_resolve_references()
    shorter = indices | {'RTE.tsv': indices['RTE.tsv'][1:]}
    config.submission.rte = stand_in(tmp_path, 'rte', f'{config.data}/RTE', shorter)
    assert 'RTE.tsv: ' in refusal(submit, config, tmp_path / 'submission.zip')
    assert not (tmp_path / 'submission.zip').exists()
