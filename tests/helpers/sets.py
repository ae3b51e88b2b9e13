"""Writes every labelled set from the same few rows, in each of its sources, with the expected
Examples.

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
SPLITS = {'dev': PAIRS, 'glue_test': PAIRS[::-1]}
ROWS = {
    'mnli': {
        'train': PAIRS[3:],
        'dev': PAIRS,
        'dev_mismatched': PAIRS[1:],
        'glue_test': PAIRS[::-1],
        'glue_test_mismatched': PAIRS[:0:-1],
        'ax': PAIRS[:2:-1],
    },
    'cola': {'train': PAIRS, 'dev': PAIRS[1:], 'glue_test': PAIRS[::-1]},
    'mrpc': {
        'train': PAIRS[:20:2] * 2,
        'dev': PAIRS[1::2] * 2,
        'test': PAIRS[1:],
        'glue_test': PAIRS[::-1],
    },
    'snli': {'train': PAIRS[1:], 'dev': PAIRS, 'test': PAIRS[::-1]},
    'scitail': {'train': PLAIN[1:], 'dev': PLAIN, 'test': PLAIN[::-1]},
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
FILES = {
    'mnli': {
        'train': 'train',
        'dev': 'dev_matched',
        'dev_mismatched': 'dev_mismatched',
        'glue_test': 'test_matched',
        'glue_test_mismatched': 'test_mismatched',
        'ax': '../AX/AX',
    },
    'snli': {split: f'snli_1.0_{split}' for split in ('train', 'dev', 'test')},
    'scitail': {split: f'scitail_1.0_{split}' for split in ('train', 'dev', 'test')},
    'mrpc': {'train': 'train', 'dev': 'dev', 'test': 'msr_paraphrase_test', 'glue_test': 'test'},
}
THEIRS = {
    'dev': 'validation',
    'glue_test': 'test',
    'ax': 'test',
    'dev_mismatched': 'validation_mismatched',
    'glue_test_mismatched': 'test_mismatched',
}  # splits in TFDS and on the Hub
NO_AGREEMENT = (2, 5)  # rows of SNLI


def rows_of(name):
    return ROWS.get(name, SPLITS)


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
    if name not in TABLES:
        return EXPECTED[name]()
    n_texts = len(columns_of(name)[1])
    found = {}
    for split, pairs in rows_of(name).items():
        unlabelled = split in ('glue_test', 'glue_test_mismatched', 'ax')
        found[split] = [
            Example(str(i), pair[:n_texts], (), None if unlabelled else label_of(name, pair)[1])
            for i, pair in enumerate(pairs)
            if name != 'snli' or i not in NO_AGREEMENT
        ]
    return found


def path_of(name, split, folder):
    file = FILES.get(name, {'train': 'train', 'dev': 'dev', 'glue_test': 'test'})[split]
    return folder / f'{file}{".txt" if "snli" in file or "msr" in file else ".tsv"}'


def write_official(name, folder):
    """Official files with an 'x' in each column that is not read."""
    if name not in TABLES:
        return OFFICIAL[name](folder)
    header, texts = columns_of(name)
    for split, pairs in rows_of(name).items():
        rows = []
        unlabelled = split.startswith(('glue_test', 'ax'))
        index = ('id' if name == 'qqp' else 'index') if unlabelled else None
        own = [index, *texts] if unlabelled else header
        for i, pair in enumerate(pairs):
            label = '-' if name == 'snli' and i in NO_AGREEMENT else label_of(name, pair)[0]
            cells = {TABLES[name][2]: label, 'index': i, 'id': i} | dict(zip(texts, pair))
            rows.append([cells.get(column, 'x') for column in own])
        headless = name == 'scitail' or name == 'cola' and not unlabelled
        official.tsv(
            path_of(name, split, folder), rows, None if headless else own, mark=name == 'mrpc'
        )


def write_tfds(name, folder):
    """Writes TFDS data as TFDS's builders make it from the official files."""
    if name not in TABLES:
        return others_tfds(name, folder / 'tfds', folder)
    write_official(name, folder / 'official')
    data = folder / 'tfds'
    files = {split: path_of(name, split, folder / 'official') for split in rows_of(name)}
    if name in ('snli', 'scitail'):
        field = {'snli': 'filepath', 'scitail': 'path'}[name]
        prepare(
            data,
            name.replace('scitail', 'sci_tail'),
            {THEIRS.get(split, split): {field: file} for split, file in files.items()},
        )
    elif name == 'mrpc':
        header = columns_of(name)[0]
        pairs = [
            pair
            for both in zip(*(rows_of(name)[split] for split in ('train', 'dev')))
            for pair in both
        ]
        rows = [(pair[4], i, 100 + i, *pair[:2]) for i, pair in enumerate(pairs)]
        original = {
            'train': official.tsv(folder / 'train.txt', rows, header, mark=True),
            'test': official.tsv(
                folder / 'test.txt',
                [(p[4], 1, 2, *p[:2]) for p in rows_of(name)['glue_test']],
                header,
                mark=True,
            ),
            'dev_ids': official.tsv(folder / 'ids.tsv', [row[1:3] for row in rows[1::2]]),
        }
        prepare(
            data,
            'glue',
            {
                theirs: {'data_file': '', 'split': kind, 'mrpc_files': original}
                for theirs, kind in (('train', 'train'), ('validation', 'dev'), ('test', 'test'))
            },
            'mrpc',
            builder='Glue',
        )
    else:
        matched = '_matched' if name == 'mnli' else ''
        splits = [
            (
                THEIRS.get(split, split) + matched * (split in SPLITS),
                files[split],
                'train' if split == 'train' else 'dev' if split.startswith('dev') else 'test',
            )
            for split in files
        ]
        glue(data, name, [entry for split, entry in zip(files, splits) if split != 'ax'])
        if 'ax' in files:
            glue(data, 'ax', [('test', files['ax'], 'test')])


def write_parquet(name, folder):
    """Writes the Hub's files, in two shards, with labels as numbers."""
    if name not in TABLES:
        return PARQUET[name](folder)
    for split, pairs in rows_of(name).items():
        theirs = THEIRS.get(split, split) + '_matched' * (name == 'mnli' and split in SPLITS)
        rows = []
        for i, pair in enumerate(pairs):
            label = (
                -1
                if split.startswith(('glue_test', 'ax')) or name == 'snli' and i in NO_AGREEMENT
                else label_of(name, pair)[1]
            )
            rows.append((*pair[: len(columns_of(name)[1])], label))
        if name == 'snli':
            hub.shards(folder / 'plain_text', theirs, hub.SNLI, rows, n=2)
        elif name == 'scitail':
            hub.shards(
                folder / 'snli_format',
                theirs,
                hub.SCITAIL,
                [
                    ('( )', '(ROOT)', a, '(ROOT)', b, ['x'], hub.THREE[label])
                    for a, b, label in rows
                ],
                n=2,
            )
        elif name == 'mrpc' and split == 'test':
            continue  # the Hub's test split has labels, and is GLUE's
        elif name == 'mrpc':  # its idx counts the rows of the other splits, too
            known = {pair[:2]: int(pair[4]) for pair in PAIRS}
            hub.shards(
                folder / 'mrpc',
                theirs,
                hub.GLUE['mrpc'],
                [(*row[:2], known[row[:2]], 2 * i) for i, row in enumerate(rows)],
                n=2,
            )
        else:
            hub.glue(folder, 'ax' if split == 'ax' else name, theirs, rows, n=2)


# RACE, Story Cloze, the pronouns


def race():
    return {
        'dev': [
            Example(
                f'{level}/{passage["id"]}/{i}',
                (passage['article'], question),
                tuple(options),
                'ABCD'.index(answer),
            )
            for level in ('middle', 'high')
            for passage in sorted(
                official.PASSAGES[level], key=lambda p: int(p['id'].strip('midlehg.tx'))
            )
            for i, (question, options, answer) in enumerate(
                zip(passage['questions'], passage['options'], passage['answers'])
            )
        ]
    }


def story_cloze():
    return {
        'test': [
            Example(f'id-{i}', (' '.join(story[:4]),), story[4:6], int(story[6]) - 1)
            for i, story in enumerate(official.STORIES)
        ]
    }


def dpr_rows():
    return [
        (f'{before} it {after}', 'it', [a, b], 'AB'.index(right))
        for before, _, after, a, b, right in official.SCHEMAS
    ]


def dpr():
    return {
        'test': [
            Example(str(i), (f'{before} ', f' {after}'), (a, b), 'AB'.index(right))
            for i, (before, _, after, a, b, right) in enumerate(official.SCHEMAS)
        ]
    }


def dpr_official(folder):
    return official.definite_pronouns(
        folder / 'test.c.txt',
        [(s, p, ','.join(both), both[right]) for s, p, both, right in dpr_rows()],
    )


def others_tfds(name, data, folder):
    if name == 'race':
        from etils import epath  # TFDS's builder walks such paths

        official.race(folder, 'dev')
        for level in ('middle', 'high'):
            prepare(data, 'race', {'dev': {'path': epath.Path(folder / 'dev' / level)}}, level)
    else:
        prepare(
            data,
            'definite_pronoun_resolution',
            {'test': {'filepath': dpr_official(folder)}},
            builder='DefinitePronounResolution',
        )


EXPECTED = {'race': race, 'story_cloze': story_cloze, 'dpr': dpr}
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
MATRIX = [
    (name, source)
    for name in (*TABLES, *EXPECTED)
    for source in WRITE
    if name != 'story_cloze' or source == 'official'
]
# TFDS has no index of these sets, so their rows come in TFDS's order.
UNORDERED = {(name, 'tfds') for name in ('snli', 'scitail', 'dpr')}


def write(name, source, folder):
    folder.mkdir(parents=True)
    WRITE[source](name, folder)
    return f'tfds:{folder}/tfds' if source == 'tfds' else str(folder)
