"""The Hub's Parquet files as a source: the same Examples as from official files of the same rows."""
import subprocess
import sys
import warnings

import pytest

import hub_parquet as hub
import official
from gpt1_jax.data import tasks
from shared import DATA, needs_data

PAIRS = official.PAIRS


@pytest.fixture(autouse=True)
def partial_sets_are_fine():
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', '.*the published set has')
        yield


def equal(name, directory, root, splits, least=19):
    """The same examples of both, whether the directory says that it is Parquet or merely holds such files."""
    task = tasks.get(name)
    for split in splits:
        expected = task.read(directory, split)
        assert task.read(f'parquet:{root}', split) == task.read(root, split) == expected and len(expected) >= least
        assert all(type(e.label) in (int, float, type(None)) for e in task.read(root, split))
        assert all(path.endswith('.parquet') for path in task.files(root, split))


@pytest.mark.parametrize('name, header, row, hub_row', [
    ('rte', 'index sentence1 sentence2 label', lambda i, p: (i, *p[:2], hub.TWO[p[2] != 'entailment']),
     lambda p: (*p[:2], int(p[2] != 'entailment'))),
    ('qnli', 'index question sentence label', lambda i, p: (i, *p[:2], hub.TWO[p[2] != 'entailment']),
     lambda p: (*p[:2], int(p[2] != 'entailment'))),
    ('wnli', 'index sentence1 sentence2 label', lambda i, p: (i, *p[:2], p[4]), lambda p: (*p[:2], int(p[4]))),
    ('qqp', 'id qid1 qid2 question1 question2 is_duplicate', lambda i, p: (i, 5, 6, *p[:2], p[4]),
     lambda p: (*p[:2], int(p[4]))),
    ('stsb', 'index sentence1 sentence2 score', lambda i, p: (i, *p[:2], p[3]), lambda p: (*p[:2], float(p[3]))),
    ('sst2', 'sentence label', lambda i, p: (p[1], p[4]), lambda p: (p[1], int(p[4])))])
def test_a_glue_set_is_the_same_from_both_sources(tmp_path, name, header, row, hub_row):
    folder, header = tmp_path / 'official', header.split()
    rows = [row(i, p) for i, p in enumerate(PAIRS)]
    official.tsv(folder / 'dev.tsv', rows, header)
    if name == 'sst2':
        official.tsv(folder / 'test.tsv', [(i, r[0]) for i, r in enumerate(rows)], ('index', 'sentence'))
    else:
        official.tsv(folder / 'test.tsv', [r[:-1] for r in rows], header[:-1])
    found = [hub_row(p) for p in PAIRS]
    hub.glue(tmp_path / 'hub', name, 'validation', found, n=3)
    hub.glue(tmp_path / 'hub', name, 'test', [(*r[:-1], -1) for r in found])
    equal(name, folder, tmp_path / 'hub', ('dev', 'glue_test'))
    equal(name, folder, tmp_path / 'hub' / name, ('dev', 'glue_test'))  # the directory of one configuration
    assert len(tasks.get(name).files(tmp_path / 'hub', 'dev')) == 3


def test_cola_is_the_same_from_both_sources(tmp_path):
    folder = tmp_path / 'official'
    official.tsv(folder / 'train.tsv', [('gj04', p[4], '' if i % 2 else '*', p[0]) for i, p in enumerate(PAIRS)])
    official.tsv(folder / 'test.tsv', [(i, p[0]) for i, p in enumerate(PAIRS)], ('index', 'sentence'))
    hub.glue(tmp_path / 'hub', 'cola', 'train', [(p[0], int(p[4])) for p in PAIRS])
    hub.glue(tmp_path / 'hub', 'cola', 'test', [(p[0], -1) for p in PAIRS])
    equal('cola', folder, tmp_path / 'hub', ('train', 'glue_test'))


@pytest.mark.parametrize('place', ['data/train-00000-of-00001', 'train-00000-of-00001-0123456789abcdef', 'train',
                                   'cola/train/0000', 'cola/glue-train', 'cola/train'])
def test_other_layouts_of_the_hub_are_found(tmp_path, place):
    official.tsv(tmp_path / 'official' / 'train.tsv', [('gj04', p[4], '', p[0]) for p in PAIRS])
    rows = [(p[0], int(p[4]), i) for i, p in enumerate(PAIRS)]
    hub.write(tmp_path / 'hub' / f'{place}.parquet', hub.GLUE['cola'], rows)
    equal('cola', tmp_path / 'official', tmp_path / 'hub', ('train',))


def test_rows_in_another_order_keep_the_ids_of_the_files(tmp_path):
    rows = [(p[0], int(p[4]), i) for i, p in enumerate(PAIRS)]
    hub.write(tmp_path / 'a' / 'train-00000-of-00001.parquet', hub.GLUE['cola'], rows)
    hub.write(tmp_path / 'b' / 'train-00000-of-00001.parquet', hub.GLUE['cola'], rows[::-1])
    assert tasks.get('cola').read(tmp_path / 'a', 'train') == tasks.get('cola').read(tmp_path / 'b', 'train')


def test_mnli_is_the_same_from_both_sources_with_the_diagnostic_set(tmp_path):
    folder = tmp_path / 'official'
    labelled, plain = ('index', 'sentence1', 'sentence2', 'gold_label'), ('index', 'sentence1', 'sentence2')
    rows, reverse = [(i, *p[:3]) for i, p in enumerate(PAIRS)], [(i, *p[:3]) for i, p in enumerate(reversed(PAIRS))]
    places = {'train': 'train', 'dev_matched': 'validation_matched', 'dev_mismatched': 'validation_mismatched',
              'test_matched': 'test_matched', 'test_mismatched': 'test_mismatched', 'AX': 'test'}
    for name, split in places.items():
        found = reverse if 'mis' in name or name == 'AX' else rows
        known = 'test' not in split
        official.tsv(folder / f'{name}.tsv', found if known else [row[:3] for row in found],
                     labelled if known else plain)
        hub.glue(tmp_path / 'hub', 'ax' if name == 'AX' else 'mnli', split,
                 [(*row[1:3], hub.THREE.index(row[3]) if known else -1) for row in found])
    equal('mnli', folder, tmp_path / 'hub', tasks.get('mnli').splits + tasks.get('mnli').unlabelled)


def test_mrpc_is_the_same_and_has_the_labels_of_its_test_split(tmp_path):
    header = ('Quality', '#1 ID', '#2 ID', '#1 String', '#2 String')
    rows = [(p[4], i, 100 + i, *p[:2]) for i, p in enumerate(PAIRS)]
    folder = tmp_path / 'official'
    official.tsv(folder / 'train.tsv', rows, header, mark=True)
    official.tsv(folder / 'msr_paraphrase_test.txt', rows, header, mark=True)
    official.tsv(folder / 'test.tsv', [(i, *row[1:]) for i, row in enumerate(rows)], ('index', *header[1:]), mark=True)
    found = [(*p[:2], int(p[4]), 2 * i) for i, p in enumerate(PAIRS)]  # its idx counts the rows of dev, too
    hub.shards(tmp_path / 'hub' / 'mrpc', 'train', hub.GLUE['mrpc'], found)
    hub.glue(tmp_path / 'hub', 'mrpc', 'test', [row[:3] for row in found])
    equal('mrpc', folder, tmp_path / 'hub', ('train', 'test', 'glue_test'))


def test_snli_leaves_out_and_counts_the_rows_without_agreement(tmp_path, capsys):
    rows = [(*p[:2], '-' if i in (2, 5) else p[2]) for i, p in enumerate(PAIRS)]
    official.tsv(tmp_path / 'official' / 'snli_1.0_dev.txt', rows, ('sentence1', 'sentence2', 'gold_label'))
    found = [(*row[:2], hub.THREE.index(row[2]) if row[2] != '-' else -1) for row in rows]
    (path,) = hub.shards(tmp_path / 'hub' / 'plain_text', 'validation', hub.SNLI, found)
    equal('snli', tmp_path / 'official', tmp_path / 'hub', ('dev',))
    assert f'2 row(s) left out, the first: {path}: row 2: no label (-1)\n' in capsys.readouterr().out


def scitail(root, split, name=str):
    return hub.shards(root / 'snli_format', split, hub.SCITAIL, [
        ('( parse )', '(ROOT)', p[0], '(ROOT)', p[1], ['entails'], name(p[2])) for p in PAIRS])


@pytest.mark.parametrize('word', ['entailment', 'entails'])
def test_scitail_is_read_from_snli_format(tmp_path, word):
    official.tsv(tmp_path / 'official' / 'scitail_1.0_dev.tsv',
                 [(*p[:2], 'entails' if p[2] == 'entailment' else 'neutral') for p in PAIRS])
    scitail(tmp_path / 'hub', 'validation', lambda label: word if label == 'entailment' else 'neutral')
    hub.shards(tmp_path / 'hub' / 'tsv_format', 'validation', hub.SCITAIL_TSV, [('a', 'b', 'neutral')])
    equal('scitail', tmp_path / 'official', tmp_path / 'hub', ('dev',))


def test_scitail_s_tsv_format_is_refused(tmp_path):
    hub.shards(tmp_path / 'tsv_format', 'validation', hub.SCITAIL_TSV, [('a', 'b', 'neutral')])
    assert hub.complaint('scitail', tmp_path) == (
        f'{tmp_path}: no Parquet file of snli_format validation, such as '
        'snli_format/validation-00000-of-00001.parquet')
    assert hub.complaint('scitail', tmp_path / 'tsv_format') == (
        f"{tmp_path}/tsv_format/validation-00000-of-00001.parquet: no column 'sentence1' (columns: premise, "
        'hypothesis, label)')


@pytest.mark.parametrize('folders', [('all',), ('middle', 'high'), ('',)])
def test_race_is_the_same_however_its_rows_are_divided(tmp_path, folders):
    official.race(tmp_path / 'official', 'dev')
    rows = hub.race_rows(official.PASSAGES)
    for folder in folders:
        part = [row for row in rows if len(folders) == 1 or row[0].startswith(folder)]
        hub.shards(tmp_path / 'hub' / folder, 'validation', hub.RACE, part, n=2)
    equal('race', tmp_path / 'official', tmp_path / 'hub', ('dev',))


@pytest.mark.parametrize('column', ['example_id', 'article'])
def test_a_race_question_without_its_passage_is_named(tmp_path, column):
    rows = hub.race_rows(official.PASSAGES)
    rows[2] = tuple(None if name == column else value for name, value in zip(hub.RACE, rows[2]))
    (path,) = hub.shards(tmp_path / 'all', 'validation', hub.RACE, rows)
    assert hub.complaint('race', tmp_path) == f'{path}: row 2: no {column}'


def test_race_by_passage_has_the_same_questions(tmp_path):
    high = {'middle': [], 'high': official.PASSAGES['high']}
    official.race(tmp_path / 'official', 'test', high)
    rows = []
    for passage in high['high']:
        problems = [{'question': q, 'answer': a, 'options': o} for q, o, a in zip(
            passage['questions'], passage['options'], passage['answers'])]
        rows.append((passage['article'], str(problems)))
    hub.shards(tmp_path / 'hub' / 'high', 'test', hub.RACE_BY_PASSAGE, rows)
    task = tasks.get('race')
    found, expected = task.read(tmp_path / 'hub', 'test'), task.read(tmp_path / 'official', 'test')
    assert [(e.texts, e.choices, e.label) for e in found] == [(e.texts, e.choices, e.label) for e in expected]
    assert [found[0].id, found[-1].id] == ['high/passage0/0', 'high/passage2/3']
    hub.shards(tmp_path / 'bad' / 'high', 'test', hub.RACE_BY_PASSAGE, [('An article.', '__import__("os")')])
    assert hub.complaint('race', tmp_path / 'bad', 'test').endswith(
        'row 0: problems is no list of questions with options and answers')


def test_definite_pronouns_are_the_same(tmp_path):
    rows = [(f'{before} it {after}', 'it', [a, b], 'AB'.index(right))
            for before, _, after, a, b, right in official.SCHEMAS]
    (tmp_path / 'official').mkdir()
    official.definite_pronouns(tmp_path / 'official' / 'test.c.txt',
                               [(s, p, ','.join(found), found[right]) for s, p, found, right in rows])
    hub.shards(tmp_path / 'hub' / 'plain_text', 'test', hub.DPR, rows)
    equal('dpr', tmp_path / 'official', tmp_path / 'hub', ('test',))


def test_winograd_schemas_are_the_same_with_their_spelling_and_spaces(tmp_path):
    schemas = [*official.SCHEMAS, ('', 'It', 'recieved a prize.', 'The cat', 'the dog', 'B'),
               ('Ann saw Bea but nobody saw', 'her', '.', 'Ann', 'Bea', 'A')]
    rows = []
    for before, pronoun, after, a, b, right in schemas:  # as the Hub's loading script joined the parts
        text = ' '.join([before, pronoun, after]).strip()
        rows.append((text, pronoun, len(before) + 1 if before else 0, 'x', 0, [a, b], 'AB'.index(right), '(made up)'))
    schemas[-1] = schemas[-1][:2] + (' . ',) + schemas[-1][3:]
    (tmp_path / 'official').mkdir()
    official.wsc(tmp_path / 'official' / 'WSCollection.xml', schemas)
    hub.shards(tmp_path / 'hub' / 'wsc273', 'test', hub.WSC, rows)
    task = tasks.get('wsc273')
    skipped = []
    found = task.read(tmp_path / 'hub', 'test', skipped.append)
    assert found == task.read(tmp_path / 'official', 'test', [].append) and len(found) == 22
    hub.shards(tmp_path / 'bad' / 'wsc273', 'test', hub.WSC, [(*rows[0][:2], 3, *rows[0][3:])])
    assert hub.complaint('wsc273', tmp_path / 'bad', 'test').endswith("row 0: the pronoun 'it' is not at 3")


@needs_data
@pytest.mark.full
@pytest.mark.parametrize('name, folder', [
    ('cola', 'CoLA'), ('mrpc', 'MRPC'), ('qqp', 'QQP'), ('stsb', 'STS-B'), ('sst2', 'SST-2'), ('rte', 'RTE')])
def test_published_rows_survive_the_way_through_parquet(tmp_path, name, folder):
    expected = tasks.get(name).read(DATA / folder, 'dev')
    hub.shards(tmp_path / name, 'validation', hub.GLUE[name],
               [(*e.texts, e.label, int(e.id)) for e in expected], n=2)
    assert tasks.get(name).read(tmp_path, 'dev') == expected


def test_official_files_go_before_parquet_files_of_the_same_directory(tmp_path):
    official.tsv(tmp_path / 'train.tsv', [('gj04', '1', '', 'From the table.')])
    hub.glue(tmp_path, 'cola', 'train', [('From Parquet.', 1)])
    assert tasks.get('cola').read(tmp_path, 'train')[0].texts == ('From the table.',)
    assert tasks.get('cola').read(f'parquet:{tmp_path}', 'train')[0].texts == ('From Parquet.',)


def test_pyarrow_is_imported_only_when_such_files_are_met(tmp_path):
    official.tsv(tmp_path / 'train.tsv', [('gj04', '1', '', 'A.'), ('gj04', '0', '', 'B.')])
    code = ('import sys, warnings; warnings.simplefilter("ignore"); from gpt1_jax.data import tasks; '
            f'tasks.get("cola").read({str(tmp_path)!r}, "train"); print({{"pyarrow", "huggingface_hub"}} & '
            'set(sys.modules))')
    found = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert found.stdout == 'set()\n'
