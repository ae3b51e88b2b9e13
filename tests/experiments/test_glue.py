"""The leaderboard's zip: made from fine-tuned runs, and whatever can be wrong with one, by member, row and cause."""
import json
import pathlib
import shutil
import zipfile

import numpy as np
import pytest
from gpt1_jax.configs import experiments as experiments_config

import sets
import tiny
from experiments import glue_submission, glue_validator
from experiments.glue_validator import MEMBERS
from gpt1_jax import pretrain
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import results
from refusal import refusal

pytestmark = pytest.mark.full
DIRECTORIES = experiments_config.get_config().directories
MODEL = {'kind': 'gpt', 'ops': {}, 'vocab_size': 9, 'n_layer': 1, 'n_embd': 4, 'n_head': 1, 'n_inner': 4, 'n_ctx': 8}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp('glue')
    for task in glue_submission.TASKS:
        sets.write_official(task, root / DIRECTORIES[task])
    shutil.copy(root / 'STS-B' / 'dev.tsv', root / 'STS-B' / 'train.tsv')
    return root


@pytest.fixture(scope='module')
def indices(data):
    return glue_validator.indices_of(data)


@pytest.fixture(scope='module')
def good(indices):
    """{member: a right text}."""
    return {name: glue_validator.HEADER + '\n' + ''.join(
        f'{i}\t{(member.labels or ("2.500",))[-1]}\n' for i in indices[name]) for name, member in MEMBERS.items()}


def zipped(path, members, extra=()):
    """Write {name: text, or None to leave it out}; extra: further (name, text)."""
    with zipfile.ZipFile(path, 'w') as archive:
        for name, text in [*members.items(), *extra]:
            if text is not None:
                archive.writestr(name, text)
    return path


@pytest.fixture
def validate(data, good, tmp_path, capsys):
    """(changed members, extra) -> (exit status, lines) of the program on a zip that is right but for these."""
    def check(changed=None, extra=()):
        path = zipped(tmp_path / 'submission.zip', good | (changed or {}), extra)
        status = glue_validator.main([str(path), f'--data={data}'])
        return status, capsys.readouterr().out.splitlines()
    return check


@pytest.mark.quick
def test_a_good_zip_passes_and_small_sets_are_noted(validate, indices):
    status, lines = validate()
    assert status == 0 and any(f'QQP.tsv: {len(indices["QQP.tsv"])} rows, 390,965 in' in line for line in lines)


def test_a_zip_with_other_members_fails_and_every_fault_is_a_line(validate):
    status, lines = validate({'AX.tsv': None, 'out/CoLA.tsv': 'x', 'RTE.tsv': b'\xff'})
    assert status == 1 and [line.split(' (')[0] for line in lines] == [
        'AX.tsv: missing', 'out/CoLA.tsv: not a member of a submission', 'RTE.tsv: not UTF-8 at byte 0']


@pytest.mark.parametrize('name, row, line, fault', [
    ('RTE', 1, '\ufeffindex\tprediction', "header '\\ufeffindex\\tprediction'"),
    ('RTE', 2, '0\tentailment\r', "'entailment\\r' is not"), ('QNLI', 3, '1 entailment', '1 column(s), must be 2'),
    ('QNLI', 3, None, "index '2', but the test set has 1 there"), ('QNLI', 4, '02\tentailment', "index '02', but"),
    ('QNLI', 5, '3\tneutral', "'neutral' is not one of entailment, not_ent"), ('WNLI', 5, '3\t1.0', 'not one of 0, 1'),
    ('AX', 5, '3\tnot_entailment', 'not one of entailment, neutral, contradiction'),
    ('STS-B', 5, '3\t5.001', 'outside 0..5'), ('STS-B', 5, '3\t-0.1', 'outside 0..5'),
    ('STS-B', 5, '3\tnan', 'not a number'), ('STS-B', 5, '3\t1_0', 'not a number')])
def test_a_broken_row_fails_with_its_number_and_cause(validate, good, name, row, line, fault):
    lines = good[f'{name}.tsv'].splitlines()
    lines[row - 1:row] = [] if line is None else [line]
    status, printed = validate({f'{name}.tsv': '\n'.join(lines) + '\n'})
    assert status == 1 and any(one.startswith(f'{name}.tsv: row {row}: ') and fault in one for one in printed), printed
    assert any(' rows, must be ' in one for one in printed) == (line is None)


@pytest.mark.filterwarnings('ignore:Duplicate name')
def test_a_member_twice_or_damaged_or_full_of_faults_fails(validate, good, tmp_path):
    assert validate(extra=[('RTE.tsv', good['RTE.tsv'])]) == (1, ['RTE.tsv: duplicate in the zip'])
    _, lines = validate({'CoLA.tsv': good['CoLA.tsv'].replace('\t1', '\t2')})
    assert len(lines) == glue_validator.SHOWN + 1 and 'more faults' in lines[-1]
    path = zipped(tmp_path / 'damaged.zip', good)
    path.write_bytes(path.read_bytes().replace(b'0\tnot_entailment', b'0\tnot-entailment', 1))
    assert any('damaged (Bad CRC-32' in fault for fault in glue_validator.faults(path))
    path.write_bytes(b'not a zip')
    assert 'not a zip file' in glue_validator.faults(path)[0]
    assert 'No such file' in glue_validator.faults(tmp_path / 'other.zip')[0]


def test_without_data_the_published_sizes_count_and_a_test_file_that_is_missing_is_one_line(tmp_path, good, capsys):
    found = glue_validator.faults(zipped(tmp_path / 'submission.zip', good | {
        'WNLI.tsv': 'index\tprediction\n' + ''.join(f'{i}\t0\n' for i in range(146))}))
    assert any(fault.startswith('CoLA.tsv: ') and fault.endswith(' rows, must be 1,063') for fault in found)
    assert not any(fault.startswith('WNLI.tsv') for fault in found)
    assert glue_validator.main([str(tmp_path / 'x.zip'), f'--data={tmp_path}']) == 1
    assert 'CoLA/test.tsv: no such file' in capsys.readouterr().out


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
            results.write_predictions(run / f'predictions_{member.split}.jsonl', ids, [None] * len(ids), scores)
    return str(run)


def submit(config, out):
    """Make a zip. The stand-ins have no weights: their predictions stay as they are."""
    predict = fine_tuned.evaluate_run

    def evaluate_run(run, *args, **options):
        return None if str(run.path) in config.submission.values() else predict(run, *args, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fine_tuned, 'evaluate_run', evaluate_run)
        glue_submission.run(config, out)


@pytest.fixture(scope='module')
def submitted(data, indices, tmp_path_factory):
    """(config, zip): STS-B and MNLI fine-tuned from a tiny pretrained model, stand-ins for the others."""
    root = tmp_path_factory.mktemp('submission')
    gpt = pretrain.run(tiny.pretrain_config(tiny.corpus(root / 'books'), train__steps=2, model__n_ctx=32), root / 'gpt')
    config = tiny.override(tiny.load_config('experiments'), dict(
        pretrained=str(gpt.path), data=str(data), out=str(root / 'out'), finetune__batch__size=8,
        finetune__batch__eval_size=8, finetune__train__epochs=1, finetune__batch__lengths=1, seeds_small=(3, 4)))
    for task in set(glue_submission.TASKS) - {'stsb', 'mnli'}:
        config.submission[task] = stand_in(root, task, data / DIRECTORIES[task], indices)
    with pytest.warns(UserWarning, match='QQP/test.tsv .*: .* rows, the published set has 390,965'):
        submit(config, root / 'submission.zip')
    return config, root / 'submission.zip'


def test_a_submission_has_what_its_models_predicted_and_passes_the_validator(submitted, tmp_path, indices):
    config, path = submitted
    assert glue_validator.faults(path, indices) == []
    with zipfile.ZipFile(path) as archive:
        rows = {name: [line.split('\t') for line in archive.read(name).decode().splitlines()][1:]
                for name in archive.namelist()}
    assert [{line[1] for line in rows[name]} for name in ('RTE.tsv', 'WNLI.tsv')] == [{'not_entailment'}, {'1'}]
    assert all(0 <= float(line[1]) <= 5 and len(line[1].split('.')[1]) == 3 for line in rows['STS-B.tsv'])
    (run,) = (pathlib.Path(config.out) / 'runs').glob('mnli-*')
    predicted = [json.loads(line) for line in (run / 'predictions_ax.jsonl').read_text().splitlines()]
    labels = tasks.get('mnli').labels
    assert rows['AX.tsv'] == [[row['id'], labels[int(np.argmax(row['scores']))]] for row in predicted]
    (run / 'predictions_ax.jsonl').write_text('of another test file')
    submit(config, tmp_path / 'again.zip')  # predicts anew
    assert (tmp_path / 'again.zip').read_bytes() == path.read_bytes()


def test_all_that_is_missing_is_named_at_once(submitted, indices, tmp_path):
    out = tmp_path / 'submission.zip'
    config = submitted[0].copy_and_resolve_references()
    config.out, config.start = str(tmp_path), False
    assert 'stsb: not fine-tuned yet; mnli: not fine-tuned yet' in refusal(glue_submission.run, config, out)
    config.directories.mnli = 'absent'
    missing = refusal(glue_submission.run, config, out)
    assert 'absent lacks files of train or dev' in missing and missing.count('mnli: ') == 4  # and three test files
    config.directories.mnli = submitted[0].directories.mnli
    shutil.copytree(submitted[0].out, tmp_path / 'tables')  # whose runs have lost their weights
    for checkpoints in (tmp_path / 'tables').glob('runs/*/checkpoints'):
        shutil.rmtree(checkpoints)
    config.out, config.results = str(tmp_path / 'tables'), None
    rows = results.read(tmp_path / 'tables' / 'results.jsonl')
    (tmp_path / 'tables' / 'results.jsonl').unlink()
    results.append(tmp_path / 'tables' / 'results.jsonl', *(row | {'run': row['run'].replace(
        submitted[0].out, config.out)} for row in rows))
    glue_submission.run(config, out, dry_run=True)
    assert not out.exists()
    config.pretrained = ''
    config.submission.cola, config.submission.qnli = str(tmp_path), config.submission.rte
    config.submission.wnli = stand_in(tmp_path, 'wnli', tmp_path / 'nothing', indices)
    with pytest.raises(UserError) as refused:  # a line longer than others
        glue_submission.run(config, out)
    for part in ('not a run directory', 'stsb: no run: give --config.submission.stsb=DIR; ', 'a run of rte; ',
                 'mnli: no run', 'nothing/test.tsv: no such file'):
        assert part in str(refused.value), part
    assert '\n' not in str(refused.value) and not out.exists()


@pytest.mark.quick
def test_scores_out_of_range_are_clipped_and_there_is_one_for_each_label():
    text = glue_submission.lines('STS-B.tsv', ['7', '3', '9'], np.array([[-0.4], [5.2], [2.0004]]), ['0', '1'])
    assert text == 'index\tprediction\n7\t0.000\n3\t5.000\n9\t2.000\n'
    with pytest.raises(UserError, match='RTE.tsv: 3 scores a row, must be 2'):
        glue_submission.lines('RTE.tsv', ['0'], np.array([[0.0, 1.0, 2.0]]), ['entailment', 'not_entailment'])


@pytest.mark.quick
@pytest.mark.parametrize('text, message', [
    ('', 'empty, or its lines'), ('{"id": "0", "gold": null, "scores": [NaN, 1]}', 'line 1: scores is'),
    ('{"id": "0", "gold": null}', "line 1: no field 'scores'"),
    ('{"id": 0, "gold": null, "scores": [1]}\n{"id": 1, "gold": null, "scores": [1, 2]}', 'empty, or its lines')])
def test_damaged_predictions_are_not_submitted(tmp_path, text, message):
    (tmp_path / 'p.jsonl').write_text(text)
    assert refusal(glue_submission.read_scores, tmp_path / 'p.jsonl').startswith(f'{tmp_path}/p.jsonl: {message}')


def test_a_faulty_zip_never_gets_its_name(tmp_path, good, indices):
    out = tmp_path / 'submission.zip'
    out.write_bytes(b'before')
    with pytest.raises(UserError, match="AX.tsv: row 7: index '6', but the test set has 5 there"):
        glue_submission.write(out, good | {'AX.tsv': good['AX.tsv'].replace('\n5\t', '\n6\t')}, indices)
    assert out.read_bytes() == b'before' and list(tmp_path.iterdir()) == [out]
