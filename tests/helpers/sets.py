"""Writes every labelled set from the same few rows, in each of its sources, with the expected
Examples of tables.

write(name, source, directory) -> the directory to read from. source: 'official', 'tfds' or
'parquet'. expected(name) -> {split: its Examples}. The splits have different rows, so that no split
can be taken for another.
"""

import hub_parquet as hub
import official
from gpt1_jax.data.tasks.example import Example
from prepared import glue, prepare

PAIRS = official.PAIRS
# TFDS takes SciTail's quotes for the quotes of a CSV file
PLAIN = [pair for pair in PAIRS if '"' not in pair[0] + pair[1]]
UNLABELLED = ('glue_test', 'glue_test_mismatched', 'ax')
THREE_SPLITS = ('dev', 'train', 'test')
SPLITS = {  # of other sets dev, train and glue_test
    'mnli': ('dev', 'train', 'dev_mismatched', *UNLABELLED),
    'mrpc': (*THREE_SPLITS, 'glue_test'),
    'snli': THREE_SPLITS,
    'scitail': THREE_SPLITS,
}

SNLI_HEADER = (
    'gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse '
    'sentence1 sentence2 captionID pairID label1'
).split()
TABLES = {  # set: (columns of the official file, columns of texts, column of the label, labels)
    'cola': ('source label star sentence', 'sentence', 'label', '01'),
    'sst2': ('sentence label', 'sentence', 'label', '01'),
    'mrpc': ('Quality;#1 ID;#2 ID;#1 String;#2 String', '#1 String;#2 String', 'Quality', '01'),
    'qqp': (
        'id qid1 qid2 question1 question2 is_duplicate',
        'question1 question2',
        'is_duplicate',
        '01',
    ),
    'stsb': (
        'index genre filename year old_index source1 source2 sentence1 sentence2 score',
        'sentence1 sentence2',
        'score',
        'score',
    ),
    'mnli': (
        'index promptID pairID genre sentence1_parse sentence2_parse sentence1 sentence2 label1 '
        'gold_label',
        'sentence1 sentence2',
        'gold_label',
        hub.THREE,
    ),
    'qnli': ('index question sentence label', 'question sentence', 'label', hub.TWO),
    'rte': ('index sentence1 sentence2 label', 'sentence1 sentence2', 'label', hub.TWO),
    'wnli': ('index sentence1 sentence2 label', 'sentence1 sentence2', 'label', '01'),
    'snli': (' '.join(SNLI_HEADER), 'sentence1 sentence2', 'gold_label', hub.THREE),
    'scitail': ('premise hypothesis label', 'premise hypothesis', 'label', ['entails', 'neutral']),
}
FILES = {  # {set: {split: file}}, if a file is not called as its split
    'mnli': {
        'dev': 'dev_matched',
        'glue_test': 'test_matched',
        'glue_test_mismatched': 'test_mismatched',
        'ax': '../AX/AX',
    },
    'mrpc': {'test': 'msr_paraphrase_test'},
}
NO_AGREEMENT = (2, 5)  # rows of SNLI's splits


def rows_of(name):
    rows = PLAIN if name == 'scitail' else PAIRS
    return {
        split: rows[number:]
        for number, split in enumerate(SPLITS.get(name, ('dev', 'train', 'glue_test')))
    }


def label_of(name, pair):
    """(the label as the official file writes it, the index or score)."""
    labels = TABLES[name][3]
    if labels == 'score':
        return pair[3], float(pair[3])
    index = int(pair[4]) if labels == '01' else min(hub.THREE.index(pair[2]), len(labels) - 1)
    return labels[index], index


def columns_of(name):
    return [part.split(';' if ';' in part else None) for part in TABLES[name][:2]]


def expected(name):
    n_texts = len(columns_of(name)[1])
    return {
        split: [
            Example(
                str(i), pair[:n_texts], (), None if split in UNLABELLED else label_of(name, pair)[1]
            )
            for i, pair in enumerate(pairs)
            if name != 'snli' or i not in NO_AGREEMENT
        ]
        for split, pairs in rows_of(name).items()
    }


def path_of(name, split, folder):
    file = FILES.get(name, {}).get(split, split.removeprefix('glue_'))
    if name in ('snli', 'scitail'):
        file = f'{name}_1.0_{split}'
    return folder / f'{file}{".txt" if "snli" in file or "msr" in file else ".tsv"}'


def write_official(name, folder):
    """Official files with an 'x' in each column that is not read."""
    if name not in TABLES:
        return OFFICIAL[name](folder)
    header, texts = columns_of(name)
    for split, pairs in rows_of(name).items():
        own = header
        if split in UNLABELLED:
            own = ['id' if name == 'qqp' else 'index', *texts]
        rows = []
        for i, pair in enumerate(pairs):
            label = '-' if name == 'snli' and i in NO_AGREEMENT else label_of(name, pair)[0]
            cells = {TABLES[name][2]: label, 'index': i, 'id': i} | dict(zip(texts, pair))
            rows.append([cells.get(column, 'x') for column in own])
        headless = name == 'scitail' or name == 'cola' and split not in UNLABELLED
        path = path_of(name, split, folder)
        official.tsv(path, rows, None if headless else own, mark=name == 'mrpc')


def theirs(name, split):
    """The split's name in TFDS and on the Hub."""
    if split == 'ax':
        return 'test'
    found = split.removeprefix('glue_').replace('dev', 'validation')
    return f'{found}_matched' if name == 'mnli' and split in ('dev', 'glue_test') else found


def write_tfds(name, folder):
    """Writes TFDS data as TFDS's builders make it from the official files."""
    data = folder / 'tfds'
    if name not in TABLES:
        return others_tfds(name, data, folder)
    write_official(name, folder / 'official')
    files = {split: path_of(name, split, folder / 'official') for split in rows_of(name)}
    if name in ('snli', 'scitail'):
        builder, field = {'snli': ('snli', 'filepath'), 'scitail': ('sci_tail', 'path')}[name]
        splits = {theirs(name, split): {field: file} for split, file in files.items()}
        return prepare(data, builder, splits)
    more = {'mrpc_files': original_mrpc(folder)} if name == 'mrpc' else {}
    for config in (name, 'ax'):
        splits = {
            theirs(name, split): (file, split.removeprefix('glue_').partition('_')[0])
            for split, file in files.items()
            if (split == 'ax') == (config == 'ax') and (name, split) != ('mrpc', 'test')
        }
        if splits:
            glue(data, config, splits, **more)


def original_mrpc(folder):
    """The files that TFDS divides by the numbers of the dev rows."""
    given = rows_of('mrpc')
    header = columns_of('mrpc')[0]
    rows = [
        (pair[4], i, 100 + i, *pair[:2]) for i, pair in enumerate((*given['train'], *given['dev']))
    ]
    test = [(pair[4], 1, 2, *pair[:2]) for pair in given['glue_test']]
    dev = [row[1:3] for row in rows[len(given['train']) :]]
    return {
        'train': official.tsv(folder / 'train.txt', rows, header, mark=True),
        'test': official.tsv(folder / 'test.txt', test, header, mark=True),
        'dev_ids': official.tsv(folder / 'ids.tsv', dev),
    }


ELSEWHERE = {'snli': ('plain_text', hub.SNLI), 'scitail': ('snli_format', hub.SCITAIL)}


def write_parquet(name, folder):
    """Writes the Hub's files, in two shards, with labels as numbers."""
    if name not in TABLES:
        return PARQUET[name](folder)
    n_texts = len(columns_of(name)[1])
    for split, pairs in rows_of(name).items():
        if (name, split) == ('mrpc', 'test'):  # the Hub's test split has labels, and is GLUE's
            continue
        rows = []
        for i, pair in enumerate(pairs):
            label = label_of(name, pair)[1]
            if name == 'snli' and i in NO_AGREEMENT or name != 'mrpc' and split in UNLABELLED:
                label = -1
            if name == 'scitail':
                rows.append(('( )', '(ROOT)', pair[0], '(ROOT)', pair[1], ['x'], hub.THREE[label]))
            elif name == 'snli':
                rows.append((*pair[:2], label))
            else:  # MRPC's idx counts the rows of the other splits, too
                rows.append((*pair[:n_texts], label, 2 * i if name == 'mrpc' else i))
        config = 'ax' if split == 'ax' else name
        place, columns = ELSEWHERE.get(name) or (config, hub.GLUE[config])
        hub.shards(folder / place, theirs(name, split), columns, rows, n=2)


# RACE, Story Cloze, the pronouns


def dpr_rows():
    return [
        (f'{before} it {after}', 'it', both, right)
        for before, after, *both, right in official.SCHEMAS
    ]


def dpr_official(folder):
    blocks = [(*row[:2], ','.join(row[2]), row[2][row[3]]) for row in dpr_rows()]
    return official.definite_pronouns(folder / 'test.c.txt', blocks)


def others_tfds(name, data, folder):
    if name == 'race':
        from etils import epath  # TFDS's builder walks such paths

        official.race(folder, 'dev')
        for level in ('middle', 'high'):
            prepare(data, 'race', {'dev': {'path': epath.Path(folder / 'dev' / level)}}, level)
    else:
        splits = {'test': {'filepath': dpr_official(folder)}}
        builder = 'DefinitePronounResolution'
        prepare(data, 'definite_pronoun_resolution', splits, builder=builder)


OFFICIAL = {
    'race': lambda folder: official.race(folder, 'dev'),
    'dpr': dpr_official,
    'story_cloze': lambda folder: official.story_cloze(
        folder / 'cloze_test_test__spring2016 - x.csv'
    ),
}
PARQUET = {
    'race': lambda folder: hub.shards(
        folder / 'all', 'validation', hub.RACE, hub.race_rows(official.PASSAGES), n=2
    ),
    'dpr': lambda folder: hub.shards(folder / 'plain_text', 'test', hub.DPR, dpr_rows()),
}
WRITE = {'official': write_official, 'tfds': write_tfds, 'parquet': write_parquet}


# TFDS has no index of these sets, so their rows come in TFDS's order.
UNORDERED = {(name, 'tfds') for name in ('snli', 'scitail', 'dpr')}


def write(name, source, folder):
    folder.mkdir(parents=True)
    WRITE[source](name, folder)
    return f'tfds:{folder}/tfds' if source == 'tfds' else str(folder)
