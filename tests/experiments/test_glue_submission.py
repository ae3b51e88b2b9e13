"""experiments.glue_submission: the leaderboard's zip from fine-tuned runs."""
import json
import pathlib
import random
import zipfile

import numpy as np
import pytest
from test_glue_validator import MEMBERS, N, good, unlabelled_sets

import tiny
from experiments import glue_submission, glue_validator
from gpt1_jax import pretrain
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:.*the published set has')]


def labelled(directory, header, labels, n=16, dev='dev'):
    """Write train.tsv and a dev file of one or two sentences and a label."""
    directory.mkdir(parents=True, exist_ok=True)
    for split in ('train', dev):
        rng = random.Random(split)
        rows = [[str(i), *(tiny.sentence(rng) for _ in range(header.count('sentence'))), labels[i % len(labels)]]
                for i in range(n)]
        (directory / f'{split}.tsv').write_text('\n'.join([header, *map('\t'.join, rows)]) + '\n')


MODEL = {'vocab_size': 9, 'n_layer': 1, 'n_embd': 4, 'n_head': 1, 'n_inner': 4, 'n_ctx': 8}


def stand_in(root, task, data):
    """A directory that looks like a fine-tuned run with predictions: the last label, or 2.5."""
    run = root / task
    (run / 'checkpoints' / '1' / 'params').mkdir(parents=True)
    labels = tasks.get(task).labels
    config = {'kind': 'finetune', 'task': task, 'labels': labels, 'data': {'dir': str(data)}}
    run.joinpath('config.json').write_text(json.dumps(config | {'model': MODEL, 'fingerprint': {}}))
    for member in MEMBERS.values():
        if member.task == task:
            scores = np.tile([2.5] if task == 'stsb' else np.eye(len(labels))[-1], (N, 1))
            results.write_predictions(run / f'predictions_{member.split}.jsonl', list(map(str, range(N))), [None] * N,
                                      scores)
    return str(run)


@pytest.fixture(scope='module')
def submitted(tmp_path_factory):
    """(config, zip, notes): STS-B and MNLI fine-tuned from a tiny pretrained model, stand-ins for the others."""
    root = tmp_path_factory.mktemp('submission')
    data = unlabelled_sets(root / 'glue')
    labelled(data / 'STS-B', 'index\tsentence1\tsentence2\tscore', [f'{x / 2:.3f}' for x in range(11)])
    labelled(data / 'MNLI', 'index\tsentence1\tsentence2\tgold_label', glue_validator.NLI, dev='dev_matched')
    gpt = pretrain.run(tiny.pretrain_config(tiny.corpus(root / 'books'), train__steps=2, model__n_ctx=32), root / 'gpt')
    config = tiny.override(tiny.load_config('experiments'), dict(
        pretrained=str(gpt.path), data=str(data), out=str(root / 'out'), finetune__batch__size=8,
        finetune__batch__eval_size=8, finetune__train__epochs=1, finetune__batch__lengths=1, seeds_small=(3, 4)))
    for task in glue_submission.TASKS:
        if task not in ('stsb', 'mnli'):
            config.submission[task] = stand_in(root, task, data / config.directories[task])
    notes = glue_submission.run(config, root / 'submission.zip', reuse=True)
    return config, root / 'submission.zip', notes


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_fine_tuned_runs_give_a_submission_that_the_validator_passes(submitted, capsys):
    config, path, notes = submitted
    assert glue_validator.main([str(path), f'--data={config.data}']) == 0
    assert list(members(path)) == list(MEMBERS)
    assert len(notes) == 11 and 'CoLA.tsv has 6 rows, the published test set 1,063' in notes[0]


def test_predictions_are_label_names_and_scores_with_three_decimals(submitted):
    found = members(submitted[1])
    rows = {name: [line.split('\t') for line in text.splitlines()] for name, text in found.items()}
    for name, (header, *lines) in rows.items():
        assert header == ['index', 'prediction'] and [line[0] for line in lines] == list(map(str, range(N)))
    assert {line[1] for line in rows['RTE.tsv'][1:]} == {'not_entailment'}
    assert {line[1] for line in rows['WNLI.tsv'][1:]} == {'1'}
    assert {line[1] for name in ('MNLI-m.tsv', 'MNLI-mm.tsv', 'AX.tsv') for line in rows[name][1:]} <= set(
        glue_validator.NLI)
    assert all(0 <= float(line[1]) <= 5 and len(line[1].split('.')[1]) == 3 for line in rows['STS-B.tsv'][1:])


def test_a_member_is_what_its_model_said(submitted):
    config, path, _ = submitted
    (run,) = (pathlib.Path(config.out) / 'runs').glob('mnli-*')
    labels = tasks.get('mnli').labels
    said = [json.loads(line) for line in (run / 'predictions_ax.jsonl').read_text().splitlines()]
    assert members(path)['AX.tsv'] == 'index\tprediction\n' + ''.join(
        f'{row["id"]}\t{labels[int(np.argmax(row["scores"]))]}\n' for row in said)


def test_the_same_predictions_give_the_same_bytes(submitted, tmp_path):
    glue_submission.run(submitted[0], tmp_path / 'again.zip', reuse=True)
    assert (tmp_path / 'again.zip').read_bytes() == submitted[1].read_bytes()


def test_all_that_is_missing_is_told_at_once(submitted, tmp_path):
    config = submitted[0].copy_and_resolve_references()
    config.pretrained = ''
    config.submission.cola, config.submission.qnli = str(tmp_path), config.submission.rte
    config.submission.wnli = stand_in(tmp_path, 'wnli', tmp_path / 'nothing')
    with pytest.raises(UserError) as found:
        glue_submission.run(config, tmp_path / 'submission.zip')
    for part in ('cola: ', 'not a run directory', 'stsb: no run: give --config.submission.stsb=DIR', 'qnli: ',
                 'a run of rte', 'mnli: no run', 'WNLI.tsv: ', 'nothing/test.tsv: no such file'):
        assert part in str(found.value), part
    assert '\n' not in str(found.value) and not (tmp_path / 'submission.zip').exists()


def test_tasks_that_cannot_be_fine_tuned_are_told(submitted, tmp_path):
    config = submitted[0].copy_and_resolve_references()
    config.submission.rte = config.submission.qqp = None
    with pytest.raises(UserError, match='needs all nine tasks.*qqp: .*RTE lacks files|qqp: .*; rte: .*lacks files'):
        glue_submission.run(config, tmp_path / 'submission.zip')


def test_tasks_that_may_not_be_fine_tuned_now_are_told(submitted, tmp_path):
    config = submitted[0].copy_and_resolve_references()
    config.out, config.start = str(tmp_path), False
    with pytest.raises(UserError, match='needs all nine tasks.*stsb: not run; mnli: not run'):
        glue_submission.run(config, tmp_path / 'submission.zip')


def test_predictions_of_other_rows_are_refused(submitted, tmp_path):
    config = submitted[0].copy_and_resolve_references()
    config.submission.rte = stand_in(tmp_path, 'rte', tmp_path / 'RTE')
    (tmp_path / 'RTE').mkdir()
    (tmp_path / 'RTE' / 'test.tsv').write_text('index\tsentence1\tsentence2\n' + ''.join(
        f'{i}\ta b.\tc d.\n' for i in range(N + 1)))
    with pytest.raises(UserError, match='predictions_glue_test.jsonl: 6 rows that are not the 7 of the test file'):
        glue_submission.run(config, tmp_path / 'submission.zip', reuse=True)


def test_scores_out_of_range_are_clipped():
    text = glue_submission.lines('STS-B.tsv', ['7', '3', '9'], np.array([[-0.4], [5.2], [2.0004]]), ['0', '1'])
    assert text == 'index\tprediction\n7\t0.000\n3\t5.000\n9\t2.000\n'


def test_labels_that_are_not_the_leaderboards_are_refused():
    with pytest.raises(UserError, match='RTE.tsv: 2 scores a row for the labels yes, no'):
        glue_submission.lines('RTE.tsv', ['0'], np.array([[0.0, 1.0]]), ['yes', 'no'])


def test_a_faulty_zip_never_gets_its_name(tmp_path):
    out = tmp_path / 'submission.zip'
    out.write_bytes(b'before')
    texts = {name: good(name) for name in MEMBERS} | {'AX.tsv': good('AX.tsv').replace('5', '6')}
    with pytest.raises(UserError, match="AX.tsv: row 7: index '6' is not in the test set"):
        glue_submission.write(out, texts, {name: list(map(str, range(N))) for name in MEMBERS})
    assert out.read_bytes() == b'before' and list(tmp_path.iterdir()) == [out]
