"""TFDS as the second source: prepared by TFDS's own builders from official files, it gives the same Examples."""

import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import tfds_source
from gpt1_jax.errors import UserError, fail
from prepared import glue, prepare

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:tfds.*keeps neither')]

tfds = pytest.importorskip('tensorflow_datasets')
PAIRS = official.PAIRS


def equal(name, directory, tfds_dir, splits, on_bad=fail):
    task = tasks.get(name)
    for split in splits:
        found = task.read(f'tfds:{tfds_dir}', split, on_bad)
        assert found == task.read(directory, split) and len(found) >= 19
        assert all(type(e.label) in (int, float, type(None)) for e in found)


@pytest.mark.parametrize('name, header, row', [
    ('rte', 'index sentence1 sentence2 label', lambda i, p, label: (i, *p[:2], label)),
    ('qnli', 'index question sentence label', lambda i, p, label: (i, *p[:2], label)),
    ('wnli', 'index sentence1 sentence2 label', lambda i, p, label: (i, *p[:2], p[4])),
    ('qqp', 'id qid1 qid2 question1 question2 is_duplicate', lambda i, p, label: (i, 5, 6, *p[:2], p[4])),
    ('stsb', 'index genre filename year old_index source1 source2 sentence1 sentence2 score',
     lambda i, p, label: (i, 'a', 'b', '2012', '1', 'none', 'none', *p[:2], p[3] if i else '2.11111111111111')),
    ('sst2', 'sentence label', lambda i, p, label: (p[1], p[4]))])
def test_a_glue_set_is_the_same_from_both_sources(tmp_path, name, header, row):
    folder, header = tmp_path / 'official', header.split()
    rows = [row(i, p, 'entailment' if p[2] == 'entailment' else 'not_entailment') for i, p in enumerate(PAIRS)]
    official.tsv(folder / 'dev.tsv', rows, header)
    if name == 'sst2':
        official.tsv(folder / 'test.tsv', [(i, r[0]) for i, r in enumerate(rows)], ('index', 'sentence'))
    else:
        official.tsv(folder / 'test.tsv', [r[:-1] for r in rows], header[:-1])
    glue(tmp_path / 'tfds', name, [('validation', folder / 'dev.tsv', 'dev'), ('test', folder / 'test.tsv', 'test')])
    equal(name, folder, tmp_path / 'tfds', ('dev', 'glue_test'))


def test_cola_is_the_same_from_both_sources(tmp_path):
    folder = tmp_path / 'official'
    official.tsv(folder / 'train.tsv', [('gj04', p[4], '' if i % 2 else '*', p[0]) for i, p in enumerate(PAIRS)])
    official.tsv(folder / 'test.tsv', [(i, p[0]) for i, p in enumerate(PAIRS)], ('index', 'sentence'))
    glue(tmp_path / 'tfds', 'cola', [('train', folder / 'train.tsv', 'train'), ('test', folder / 'test.tsv', 'test')])
    equal('cola', folder, tmp_path / 'tfds', ('train', 'glue_test'))


def test_mnli_is_the_same_from_both_sources_with_the_diagnostic_set(tmp_path):
    folder = tmp_path / 'official'
    labelled, plain = ('index', 'sentence1', 'sentence2', 'gold_label'), ('index', 'sentence1', 'sentence2')
    rows, reverse = [(i, *p[:3]) for i, p in enumerate(PAIRS)], [(i, *p[:3]) for i, p in enumerate(reversed(PAIRS))]
    for name, found in (('train', rows), ('dev_matched', rows[:20]), ('dev_mismatched', reverse)):
        official.tsv(folder / f'{name}.tsv', found, labelled)
    for name in ('test_matched', 'test_mismatched', 'AX'):
        official.tsv(folder / f'{name}.tsv', [row[:3] for row in (rows if name == 'test_matched' else reverse)], plain)
    glue(tmp_path / 'tfds', 'mnli', [
        ('train', folder / 'train.tsv', 'train'), ('validation_matched', folder / 'dev_matched.tsv', 'dev'),
        ('validation_mismatched', folder / 'dev_mismatched.tsv', 'dev'),
        ('test_matched', folder / 'test_matched.tsv', 'test'),
        ('test_mismatched', folder / 'test_mismatched.tsv', 'test')])
    glue(tmp_path / 'tfds', 'ax', [('test', folder / 'AX.tsv', 'test')])
    equal('mnli', folder, tmp_path / 'tfds', tasks.get('mnli').splits + tasks.get('mnli').unlabelled)


def test_mrpc_is_the_same_although_tfds_numbers_train_and_dev_through(tmp_path):
    header = ('Quality', '#1 ID', '#2 ID', '#1 String', '#2 String')
    rows = [(p[4], i, 100 + i, *p[:2]) for i, p in enumerate(PAIRS * 2)]
    folder, dev = tmp_path / 'official', [i for i in range(42) if i % 2]
    official.tsv(folder / 'train.tsv', [row for i, row in enumerate(rows) if i not in dev], header, mark=True)
    official.tsv(folder / 'dev.tsv', [rows[i] for i in dev], header, mark=True)
    official.tsv(folder / 'test.tsv', [(i, *row[1:]) for i, row in enumerate(rows)], ('index', *header[1:]), mark=True)
    original = {'train': official.tsv(tmp_path / 'msr_paraphrase_train.txt', rows, header, mark=True),
                'test': official.tsv(tmp_path / 'msr_paraphrase_test.txt', rows, header, mark=True),
                'dev_ids': official.tsv(tmp_path / 'ids.tsv', [rows[i][1:3] for i in dev])}
    kinds = {'train': 'train', 'validation': 'dev', 'test': 'test'}
    arguments = {split: {'data_file': '', 'split': kind, 'mrpc_files': original} for split, kind in kinds.items()}
    prepare(tmp_path / 'tfds', 'glue', arguments, 'mrpc', builder='Glue')
    equal('mrpc', folder, tmp_path / 'tfds', ('train', 'dev', 'glue_test'))
    with pytest.raises(UserError, match='^tfds:.*: TFDS has no labels of mrpc test$'):
        tasks.get('mrpc').read(f'tfds:{tmp_path}/tfds', 'test')


def contents(examples):
    return sorted((e.texts, e.choices, e.label) for e in examples)


def same_rows(name, directory, data_dir, split):
    """Sets without an index: the same rows, in TFDS's order, which is not the file's."""
    task = tasks.get(name)
    found = task.read(f'tfds:{data_dir}', split)
    assert contents(found) == contents(task.read(directory, split))
    assert [int(e.id) for e in found] == sorted(int(e.id) for e in found)


def test_snli_has_the_same_rows_and_drops_those_without_agreement(tmp_path):
    rows = [(*p[:2], '-' if i in (2, 5) else p[2]) for i, p in enumerate(PAIRS)]
    path = official.tsv(tmp_path / 'snli_1.0_dev.txt', rows, ('sentence1', 'sentence2', 'gold_label'))
    prepare(tmp_path, 'snli', {'validation': {'filepath': path}})
    same_rows('snli', tmp_path, tmp_path, 'dev')
    assert len(tasks.get('snli').read(f'tfds:{tmp_path}', 'dev')) == 19


def test_scitail_has_the_same_rows_but_for_the_quotes_that_tfds_swallows(tmp_path):
    rows = [(*p[:2], 'entails' if p[2] == 'entailment' else 'neutral') for p in PAIRS if '"' not in p[0] + p[1]]
    path = official.tsv(tmp_path / 'scitail_1.0_dev.tsv', rows)
    prepare(tmp_path, 'sci_tail', {'validation': {'path': path}})
    same_rows('scitail', tmp_path, tmp_path, 'dev')


def test_story_cloze_has_the_same_rows_and_warns_that_its_parts_differ(tmp_path):
    test = official.story_cloze(tmp_path / 'cloze_test_test__spring2016.csv')
    val = official.story_cloze(tmp_path / 'cloze_test_val__spring2016.csv', official.STORIES * 19)
    prepare(tmp_path, 'story_cloze', {'test': {'filepath': test}, 'validation': {'filepath': val}}, '2016')
    same_rows('story_cloze', tmp_path, tmp_path, 'test')
    task = tasks.get('story_cloze')
    with pytest.warns(UserWarning, match='TFDS keeps neither the ids nor the order of the stories'):
        train, dev = (task.read(f'tfds:{tmp_path}', split) for split in ('train', 'dev'))
    assert (len(train), len(dev)) == (6, 374)
    assert contents(train + dev) == contents(task.read(tmp_path, 'train') + task.read(tmp_path, 'dev'))


def test_race_is_the_same_from_both_sources(tmp_path, monkeypatch):
    from etils import epath  # TFDS's builder walks such paths
    from tensorflow_datasets.core.features.feature import TensorInfo
    monkeypatch.setattr(TensorInfo, 'dtype', property(lambda self: self.np_dtype))  # to write lists of lists
    official.race(tmp_path, 'dev')
    for level in ('middle', 'high'):
        prepare(tmp_path / 'tfds', 'race', {'dev': {'path': epath.Path(tmp_path / 'dev' / level)}}, level)
    equal('race', tmp_path, tmp_path / 'tfds', ('dev',))
    assert len(tasks.get('race').files(f'tfds:{tmp_path}/tfds', 'dev')) == 2


def test_definite_pronouns_are_the_same_but_for_their_order(tmp_path):
    blocks = [(f'{before} it {after}', 'it', f'{a},{b}', a if right == 'A' else b)
              for before, _, after, a, b, right in official.SCHEMAS]
    path = official.definite_pronouns(tmp_path / 'test.c.txt', blocks)
    prepare(tmp_path, 'definite_pronoun_resolution', {'test': {'filepath': path}}, builder='DefinitePronounResolution')
    same_rows('dpr', tmp_path, tmp_path, 'test')


def test_winograd_schemas_are_the_same_from_both_sources(tmp_path):
    def examples():  # as its builder makes them; to parse the file it needs a package that is not installed
        for i, (before, pronoun, after, a, b, right) in enumerate(official.SCHEMAS):
            yield i, {'text': f'{before} {pronoun} {after}', 'option1': a, 'option1_normalized': a, 'option2': b,
                      'option2_normalized': b, 'pronoun_start': len(before) + 1, 'pronoun_text': pronoun,
                      'pronoun_end': len(before) + 1 + len(pronoun), 'label': 'AB'.index(right), 'idx': i}

    official.wsc(tmp_path / 'WSCollection.xml')
    prepare(tmp_path, 'wsc273', {'test': {}}, examples=examples, builder='Wsc273')
    equal('wsc273', tmp_path, tmp_path, ('test',))


def test_labels_are_numbered_as_the_builders_number_them():
    from tensorflow_datasets.text.glue import Glue
    names = {config.name: config.label_classes for config in Glue.BUILDER_CONFIGS}
    for name in ('mnli', 'qnli', 'rte'):
        assert list(tasks.get(name).labels) == names[name]
    assert names['cola'] == ['unacceptable', 'acceptable'] and names['sst2'] == ['negative', 'positive']
    assert names['wnli'] == ['not_entailment', 'entailment'] and names['qqp'] == ['not_duplicate', 'duplicate']
    assert names['mrpc'] == ['not_equivalent', 'equivalent'] and names['stsb'] is None


@pytest.fixture
def rte(tmp_path):
    path = official.tsv(tmp_path / 'dev.tsv', [(i, *p[:2], 'entailment') for i, p in enumerate(PAIRS)],
                        ('index', 'sentence1', 'sentence2', 'label'))
    glue(tmp_path, 'rte', [('validation', path, 'dev')])
    return tmp_path


def complaint(directory, split='dev', on_bad=fail, name='rte'):
    with pytest.raises(UserError) as caught:
        tasks.get(name).read(directory, split, on_bad)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def test_a_set_that_is_not_prepared_says_how_to(tmp_path, monkeypatch):
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    assert complaint('tfds:') == (
        f"tfds:: glue/rte is not in {tmp_path}, to prepare it: pip install 'gpt1_jax[tfds]'; "
        'tfds build glue --config=rte '
        f'--imports=tensorflow_datasets.text --file_format=array_record --data_dir={tmp_path}')
    assert complaint(f'tfds:{tmp_path}', name='story_cloze').endswith(' --manual_dir=FOLDER_OF_THE_CSV_FILES')
    assert complaint(f'tfds:{tmp_path}', name='snli').startswith(f'tfds:{tmp_path}: snli is not in {tmp_path}')


def test_the_default_directory_is_that_of_tfds(rte, monkeypatch):
    monkeypatch.setenv('TFDS_DATA_DIR', str(rte))
    task = tasks.get('rte')
    assert task.read('tfds:', 'dev') == task.read(rte, 'dev')
    (path,) = task.files('tfds:', 'dev')
    assert path == str(rte / 'glue' / 'rte' / '2.0.0' / 'glue-validation.array_record-00000-of-00001')


def test_a_split_that_is_not_prepared_is_named(rte):
    assert complaint(f'tfds:{rte}', 'train') == f"{rte}/glue/rte/2.0.0: no split 'train' (there are validation)"


def test_the_newest_version_is_read(rte):
    older = rte / 'glue' / 'rte' / '1.0.1'
    older.mkdir()
    (older / 'dataset_info.json').write_text('broken')
    assert len(tasks.get('rte').read(f'tfds:{rte}', 'dev')) == 21
    older.rename(older.with_name('10.0.0'))
    assert complaint(f'tfds:{rte}').startswith(f'{rte}/glue/rte/10.0.0: TFDS cannot open it (')


class Records(list):
    """A data source of given records."""
    def __getitems__(self, indices):
        return [self[i] for i in indices]


def with_records(monkeypatch, records):
    """Opening any set gives these records."""
    builder = tfds.builder_from_directory

    def opened(path):
        real = builder(path)
        monkeypatch.setattr(real, 'as_data_source', lambda split: Records(records))
        return real

    monkeypatch.setattr(tfds, 'builder_from_directory', opened)


def test_a_record_that_was_cut_short_is_named_even_where_bad_rows_are_left_out(rte, monkeypatch):
    good = {'idx': 0, 'sentence1': b'A.', 'sentence2': b'B.', 'label': 0}
    with_records(monkeypatch, [good, good | {'idx': 1, 'sentence2': None}])
    for on_bad in (fail, [].append):
        assert complaint(f'tfds:{rte}', on_bad=on_bad) == (
            f'{rte}/glue/rte/2.0.0: validation record 1: a value is missing, as in a truncated file: '
            'prepare the set again')


def test_bad_records_are_named_or_left_out(rte, monkeypatch):
    good = {'idx': 4, 'sentence1': 'A.', 'sentence2': 'B\u00e9.'.encode(), 'label': 1}
    with_records(monkeypatch, [good, good | {'idx': 2, 'label': -1}, good | {'idx': 3, 'sentence1': b' '}])
    where = f'{rte}/glue/rte/2.0.0: validation record'
    assert complaint(f'tfds:{rte}') == f"{where} 1: label '-1' is none of entailment, not_entailment"
    skipped = []
    (found,) = tasks.get('rte').read(f'tfds:{rte}', 'dev', skipped.append)
    assert (found.id, found.texts, found.label) == ('4', ('A.', 'Bé.'), 1)  # text may come as bytes or not
    assert skipped[1] == f'{where} 2: sentence1 is empty'


def test_a_file_that_was_cut_short_is_named(rte):
    (path,) = tfds_source.files(f'tfds:{rte}', 'glue/rte:validation')
    with open(path, 'r+b') as file:
        file.truncate(100)
    assert complaint(f'tfds:{rte}').startswith(f'{rte}/glue/rte/2.0.0: ')


def test_data_prepared_in_another_format_is_named(tmp_path):
    from tensorflow_datasets.text.glue import Glue
    made = Glue(config='rte', data_dir=tmp_path)
    made.info.set_splits({})
    (tmp_path / 'glue' / 'rte' / '2.0.0').mkdir(parents=True)
    made.info.write_to_directory(tmp_path / 'glue' / 'rte' / '2.0.0')
    assert complaint(f'tfds:{tmp_path}').startswith(f'{tmp_path}/glue/rte/2.0.0: ')
