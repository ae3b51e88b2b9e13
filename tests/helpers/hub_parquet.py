"""Writes Parquet files as the `datasets` library writes them to the Hub, with the names, types and
metadata of the set's card."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

TYPES = {
    'string': pa.string(),
    'int32': pa.int32(),
    'float32': pa.float32(),
    'strings': pa.list_(pa.string()),
}


def feature(kind):
    """A column's entry in the metadata.

    kind: a name in TYPES, or the label names of a ClassLabel.
    """
    if isinstance(kind, list):
        return {'names': kind, '_type': 'ClassLabel'}
    if kind == 'strings':
        return {'feature': {'dtype': 'string', '_type': 'Value'}, '_type': 'Sequence'}
    return {'dtype': kind, '_type': 'Value'}


def write(path, columns, rows):
    """Writes one file.

    columns: {name: kind}. rows: tuples in that order.
    """
    info = {'info': {'features': {name: feature(kind) for name, kind in columns.items()}}}
    schema = pa.schema(
        [
            (name, pa.int64() if isinstance(kind, list) else TYPES[kind])
            for name, kind in columns.items()
        ],
        {'huggingface': json.dumps(info)},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(schema.types)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, row_group_size=8)
    return path


def shards(folder, split, columns, rows, n=1):
    """A split in n files, train-00000-of-00002.parquet and so on."""
    size = -(-len(rows) // n)
    return [
        write(
            folder / f'{split}-{i:05}-of-{n:05}.parquet', columns, rows[i * size : (i + 1) * size]
        )
        for i in range(n)
    ]


# The configurations of nyu-mll/glue.
THREE = ['entailment', 'neutral', 'contradiction']
TWO = ['entailment', 'not_entailment']


def columns(texts, label):
    """The columns of a configuration. texts: separated by spaces."""
    return dict.fromkeys(texts.split(), 'string') | {'label': label, 'idx': 'int32'}


GLUE = {
    'cola': columns('sentence', ['unacceptable', 'acceptable']),
    'sst2': columns('sentence', ['negative', 'positive']),
    'mrpc': columns('sentence1 sentence2', ['not_equivalent', 'equivalent']),
    'qqp': columns('question1 question2', ['not_duplicate', 'duplicate']),
    'stsb': columns('sentence1 sentence2', 'float32'),
    'mnli': columns('premise hypothesis', THREE),
    'ax': columns('premise hypothesis', THREE),
    'qnli': columns('question sentence', TWO),
    'rte': columns('sentence1 sentence2', TWO),
    'wnli': columns('sentence1 sentence2', ['not_entailment', 'entailment']),
}
SNLI = {'premise': 'string', 'hypothesis': 'string', 'label': THREE}
SCITAIL = {
    'sentence1_binary_parse': 'string',
    'sentence1_parse': 'string',
    'sentence1': 'string',
    'sentence2_parse': 'string',
    'sentence2': 'string',
    'annotator_labels': 'strings',
    'gold_label': 'string',
}
RACE = {
    'example_id': 'string',
    'article': 'string',
    'answer': 'string',
    'question': 'string',
    'options': 'strings',
}
DPR = {'sentence': 'string', 'pronoun': 'string', 'candidates': 'strings', 'label': ['0', '1']}


def glue(root, config, split, rows, n=1):
    """rows: (texts ..., label). idx is the position."""
    return shards(root / config, split, GLUE[config], [(*row, i) for i, row in enumerate(rows)], n)


def race_rows(passages):
    """The rows of ehovy/race of {level: passages}, as official.PASSAGES."""
    return [
        (passage['id'], passage['article'], answer, question, options)
        for level in ('middle', 'high')
        for passage in passages[level]
        for question, options, answer in zip(
            passage['questions'], passage['options'], passage['answers']
        )
    ]
