"""experiments.glue_validator: whatever can be wrong with a submission, named by member, row and cause."""
import subprocess
import sys
import zipfile

import pytest

import tiny
from experiments import glue_validator
from experiments.glue_validator import MEMBERS
from gpt1_jax.data import tasks

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:.*the published set has')]
N = 6  # rows of each test set here
HEADERS = {
    'CoLA.tsv': 'index\tsentence', 'SST-2.tsv': 'index\tsentence',
    'MRPC.tsv': '\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String',
    'STS-B.tsv': 'index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2',
    'QQP.tsv': 'id\tquestion1\tquestion2',
    'MNLI-m.tsv': 'index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t'
                  'sentence2_parse\tsentence1\tsentence2',
    'QNLI.tsv': 'index\tquestion\tsentence', 'RTE.tsv': 'index\tsentence1\tsentence2',
    'WNLI.tsv': 'index\tsentence1\tsentence2', 'AX.tsv': 'index\tsentence1\tsentence2'}
HEADERS['MNLI-mm.tsv'] = HEADERS['MNLI-m.tsv']


def unlabelled_sets(root, indices=range(N)):
    """Write the eleven unlabelled sets in their official layouts; returns the root."""
    for name, member in MEMBERS.items():
        path = root / member.files[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = HEADERS[name].count('\t')
        rows = ['\t'.join([str(i), *[f'The cat sat on row {i}.'] * columns]) for i in indices]
        path.write_text('\n'.join([HEADERS[name], *rows]) + '\n', encoding='utf-8')
    return root


def good(name, rows=N):
    """A right text of a member."""
    prediction = (MEMBERS[name].labels or ('2.500',))[-1]
    return 'index\tprediction\n' + ''.join(f'{i}\t{prediction}\n' for i in range(rows))


def zipped(path, changed=None, extra=()):
    """Write a zip of right members but for the changed: {name: text, or None to leave it out}; extra: (name, text)."""
    members = {name: good(name) for name in MEMBERS} | (changed or {})
    with zipfile.ZipFile(path, 'w') as archive:
        for name, text in [*members.items(), *extra]:
            if text is not None:
                archive.writestr(name, text)
    return path


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return unlabelled_sets(tmp_path_factory.mktemp('glue'))


@pytest.fixture
def validate(data, tmp_path, capsys):
    """(changed members, extra) -> (exit status, lines of faults) of the zip that has them."""
    def check(changed=None, extra=()):
        path = zipped(tmp_path / 'submission.zip', changed, extra)
        status = glue_validator.main([str(path), f'--data={data}'])
        return status, capsys.readouterr().out.splitlines()
    return check


def with_row(name, row, line):
    """A right member but for one row, counted from 1 with the header."""
    lines = good(name).splitlines()
    lines[row - 1:row] = [] if line is None else [line]
    return {name: '\n'.join(lines) + '\n'}


def test_a_good_zip_passes(validate):
    status, lines = validate()
    assert status == 0 and 'a good submission' in lines[0]


def test_small_sets_are_told_from_the_published_ones(validate):
    assert 'leaderboard would refuse it' in validate()[1][1] and 'QQP.tsv 6 for 390,965' in validate()[1][1]


@pytest.mark.parametrize('changed, fault', [
    ({'AX.tsv': None}, 'AX.tsv: missing'),
    ({'README.md': 'x'}, 'README.md: not a member of a submission'),
    ({'CoLA.tsv': None, 'out/CoLA.tsv': good('CoLA.tsv')}, 'out/CoLA.tsv: must stand at the top level'),
    ({'out/': ''}, 'out/: not a member of a submission'),
    ({'RTE.tsv': ''}, "RTE.tsv: row 1: header '', must be 'index\\tprediction'"),
    ({'RTE.tsv': good('RTE.tsv').replace('index', 'id', 1)}, "RTE.tsv: row 1: header 'id\\tprediction'"),
    ({'RTE.tsv': '\ufeff' + good('RTE.tsv')}, 'RTE.tsv: row 1: begins with a byte-order mark'),
    ({'RTE.tsv': good('RTE.tsv').replace('\n', '\r\n')}, 'RTE.tsv: row 2: ends with a carriage return'),
    ({'RTE.tsv': good('RTE.tsv').encode('utf-8') + b'\xff'}, 'RTE.tsv: not UTF-8 at byte'),
    (with_row('QNLI.tsv', 3, '1\tentailment\tx'), 'QNLI.tsv: row 3: 3 columns'),
    (with_row('QNLI.tsv', 3, '1 entailment'), 'QNLI.tsv: row 3: 1 column, must be 2'),
    (with_row('QNLI.tsv', 3, None), 'QNLI.tsv: 5 rows, must be 6'),
    (with_row('QNLI.tsv', 3, None), 'QNLI.tsv: index 1 is missing'),
    (with_row('QNLI.tsv', 4, '1\tentailment'), 'QNLI.tsv: row 4: index 1 stands already in row 3'),
    (with_row('QNLI.tsv', 4, '17\tentailment'), "QNLI.tsv: row 4: index '17' is not in the test set (0..5)"),
    (with_row('QNLI.tsv', 4, '02\tentailment'), "QNLI.tsv: row 4: index '02' is not in the test set"),
    ({'QNLI.tsv': 'index\tprediction\n' + ''.join(f'{i}\tentailment\n' for i in (0, 2, 1, 3, 4, 5))},
     'QNLI.tsv: row 3: index 2, but the test set has 1 there (2 rows out of order)'),
    (with_row('QNLI.tsv', 5, '3\tneutral'), "QNLI.tsv: row 5: prediction 'neutral' is not one of entailment, not_ent"),
    (with_row('MNLI-mm.tsv', 5, '3\tnot_entailment'), "MNLI-mm.tsv: row 5: prediction 'not_entailment' is not one of"),
    (with_row('AX.tsv', 5, '3\t0'), "AX.tsv: row 5: prediction '0' is not one of entailment, neutral, contradiction"),
    (with_row('WNLI.tsv', 5, '3\t1.0'), "WNLI.tsv: row 5: prediction '1.0' is not one of 0, 1"),
    (with_row('STS-B.tsv', 5, '3\t5.001'), 'STS-B.tsv: row 5: prediction 5.001 is outside 0..5'),
    (with_row('STS-B.tsv', 5, '3\t-0.1'), 'STS-B.tsv: row 5: prediction -0.1 is outside 0..5'),
    (with_row('STS-B.tsv', 5, '3\tnan'), "STS-B.tsv: row 5: prediction 'nan' is not a number"),
    (with_row('STS-B.tsv', 5, '3\t1_0'), "STS-B.tsv: row 5: prediction '1_0' is not a number"),
])
def test_a_broken_zip_fails_with_member_row_and_cause(validate, changed, fault):
    status, lines = validate(changed)
    assert status == 1 and any(fault in line for line in lines), lines


def test_every_fault_is_told(validate):
    _, lines = validate({'AX.tsv': None} | with_row('WNLI.tsv', 5, '3\tx') | with_row('STS-B.tsv', 2, '0\t9'))
    assert len(lines) == 3


def test_a_member_full_of_faults_is_cut_short(validate):
    _, lines = validate({'CoLA.tsv': 'index\tprediction\n' + '0\t2\n' * 50})
    assert len(lines) == glue_validator.SHOWN + 1 and 'more faults' in lines[-1]


@pytest.mark.filterwarnings('ignore:Duplicate name')
def test_a_member_twice_fails(validate):
    status, lines = validate(extra=[('RTE.tsv', good('RTE.tsv'))])
    assert status == 1 and lines == ['RTE.tsv: duplicate in the zip']


def test_a_damaged_member_fails(tmp_path):
    path = zipped(tmp_path / 'submission.zip')
    path.write_bytes(path.read_bytes().replace(b'0\tnot_entailment', b'0\tnot-entailment', 1))
    assert any('damaged (Bad CRC-32' in fault for fault in glue_validator.faults(path))


@pytest.mark.parametrize('content', [b'', b'not a zip'])
def test_what_is_no_zip_fails(tmp_path, content):
    path = tmp_path / 'submission.zip'
    path.write_bytes(content)
    assert 'not a zip file' in glue_validator.faults(path)[0]
    assert 'no such file' in glue_validator.faults(tmp_path / 'other.zip')[0]


def test_without_data_the_published_sizes_count(tmp_path):
    found = glue_validator.faults(zipped(tmp_path / 'submission.zip', {'WNLI.tsv': good('WNLI.tsv', 146)}))
    assert 'CoLA.tsv: 6 rows, must be 1,063' in found and 'QQP.tsv: 6 rows, must be 390,965' in found
    assert not any(fault.startswith('WNLI.tsv') for fault in found)


def test_a_whole_submission_of_the_published_sizes_passes(tmp_path):
    path = zipped(tmp_path / 'submission.zip', {name: good(name, member.rows) for name, member in MEMBERS.items()})
    assert glue_validator.faults(path) == []


def test_the_index_is_the_test_files_own(tmp_path):
    root = unlabelled_sets(tmp_path / 'glue', indices=(7, 3, 12))
    changed = {name: 'index\tprediction\n' + ''.join(
        f'{i}\t{(member.labels or ("0.000",))[0]}\n' for i in (7, 3, 12)) for name, member in MEMBERS.items()}
    path = zipped(tmp_path / 'submission.zip', changed)
    indices, found = glue_validator.indices_of(root)
    assert found == [] and glue_validator.faults(path, indices) == []


def test_a_test_file_that_is_missing_or_has_an_index_twice_is_named(tmp_path):
    root = unlabelled_sets(tmp_path / 'glue')
    (root / 'WNLI' / 'test.tsv').unlink()
    (root / 'RTE' / 'test.tsv').write_text('index\tsentence1\tsentence2\n0\ta\tb\n0\tc\td\n')
    _, found = glue_validator.indices_of(root)
    assert len(found) == 2
    assert 'RTE/test.tsv: row 3: index 0 stands already in row 2' in found[0] and 'WNLI.tsv: no test file' in found[1]


def test_the_command_says_so_and_exits_with_one(tmp_path):
    path = zipped(tmp_path / 'submission.zip')
    found = subprocess.run([sys.executable, '-m', 'experiments.glue_validator', str(path)], cwd=tiny.ROOT,
                           capture_output=True, text=True)
    assert found.returncode == 1 and 'CoLA.tsv: 6 rows, must be 1,063' in found.stdout
    assert found.stderr == f'error: {path} is not a GLUE submission\n'


def test_the_test_files_are_those_that_the_readers_read(data):
    indices, _ = glue_validator.indices_of(data)
    for name, member in MEMBERS.items():
        task = tasks.get(member.task)
        directory = data / member.files[0].split('/')[0]
        assert [example.id for example in task.read(str(directory), member.split)] == indices[name]
        assert task.files(str(directory), member.split) == [str(data / member.files[0])]
