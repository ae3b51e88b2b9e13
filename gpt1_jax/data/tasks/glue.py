"""Section 4.2, Tables 2 and 4: entailment, similarity and classification, in sets that are tables:
GLUE's (Wang et al., 2018), SNLI and SciTail. WNLI is for GLUE's average."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tasks.sources import Published

# GLUE's test.tsv: unlabelled, for a submission, with the ids in the file
TEST = 'glue_test'
# Decimals of a score. TFDS stores 3.8 as float32, 3.79999995. STS-B's files have up to 14 digits
DECIMALS = 5
THREE = ('entailment', 'neutral', 'contradiction')
TWO = ('entailment', 'not_entailment')
PAIR = ('sentence1', 'sentence2')
PREMISE = {'sentence1': 'premise', 'sentence2': 'hypothesis', 'gold_label': 'label'}


def table(
    name: str,
    head: str,
    labels: tuple[str, ...],
    metrics: tuple[str, ...],
    texts: tuple[str, ...],
    label: str,
    sources: Mapping[str, dict[str, Any]],
    classes: tuple[str, ...] = (),
    may_be_empty: bool = False,
    without_label: str | None = None,
    score: tuple[float, float] | None = None,
    **shared: Any,
) -> Task:
    """Makes the Task of a set that is a table with one example a row.

    texts, label: columns of the official files.
    sources:      {split: fields of Published}. A source with `ids` has no labels.
    classes:      the names of `labels` in TFDS and on the Hub, in their order, if they differ.
    without_label: the label of rows that are left out.
    shared:       fields of Published that all splits have.
    """
    names = dict(zip(labels, labels)) | dict(zip(classes, labels))

    def example(row):
        found = tuple(rows_lib.text(row, column, may_be_empty) for column in texts)
        value = row.get(label)
        if isinstance(value, str):
            value = value.strip()
        return Example('', found, label=None if value == without_label else value)

    made = {}
    unlabelled = tuple(split for split, fields in sources.items() if 'ids' in fields)
    ids = sources[unlabelled[0]]['ids'] if unlabelled else None
    for split, fields in sources.items():
        labelled = split not in unlabelled
        made[split] = Published(
            **shared
            | {
                'needed': (*texts, label) if labelled else texts,
                'label': label if labelled else None,
                'classes': {} if score else names,
            }
            | fields
        )
    return Task(
        name,
        head,
        labels,
        metrics,
        made,
        example,
        unlabelled=unlabelled,
        new=dataclasses.replace(made['train'], ids=ids).new,
        score=score,
        decimals=DECIMALS,
        n_texts=len(texts),
        leave_out_unlabelled=without_label is not None,
    )


def glue(
    config: str,
    train: int | tuple[int, ...],
    dev: int,
    test: int,
    ids: str = 'index',
    **labelled: Any,
) -> dict[str, dict[str, Any]]:
    """The sources of a GLUE task, from train.tsv, dev.tsv and test.tsv or TFDS's glue/CONFIG.

    train, dev, test: numbers of rows, or the numbers in two releases. ids: a column of test.tsv.
    labelled: fields of the other two splits.
    """
    found = three('{0}.tsv', f'glue/{config}', train, dev, test)
    return {
        'train': found['train'] | labelled,
        'dev': found['dev'] | labelled,
        TEST: found['test'] | {'ids': ids},
    }


def source(names: str, rows: int | tuple[int, ...], tfds: str) -> dict[str, Any]:
    """Fields of Published. names: separated by spaces."""
    published = rows if isinstance(rows, tuple) else (rows,)
    return {'names': tuple(names.split()), 'published': published, 'tfds': (tfds,)}


def three(
    names: str, tfds: str, train: int | tuple[int, ...], dev: int, test: int
) -> dict[str, dict[str, Any]]:
    """The sources of a labelled set with three splits. names: with {0} for the split."""
    return {
        'train': source(names.format('train'), train, f'{tfds}:train'),
        'dev': source(names.format('dev'), dev, f'{tfds}:validation'),
        'test': source(names.format('test'), test, f'{tfds}:test'),
    }


in_glue = functools.partial(table, index='idx')

# Table 2

# Rows on which annotators did not agree have the label '-' and do not belong to the set (Bowman et
# al., 2015). The numbers are without these rows.
SNLI = table(
    'snli',
    'classify',
    THREE,
    ('accuracy',),
    PAIR,
    'gold_label',
    three('snli_1.0_{0}.txt snli_1.0_{0}.jsonl', 'snli', 549367, 9842, 9824),
    without_label='-',
    renamed=PREMISE,
)

_AX = [
    f'{folder}{name}.tsv'
    for folder in ('', '../AX/', '../diagnostic/', '../ax/')
    for name in ('AX', 'diagnostic')
]
# dev: matched, from the genres of the training set. ax: GLUE's diagnostic set, which MNLI's model
# answers.
MNLI = in_glue(
    'mnli',
    'classify',
    THREE,
    ('accuracy',),
    PAIR,
    'gold_label',
    {
        'train': source('train.tsv', 392702, 'glue/mnli:train'),
        'dev': source('dev_matched.tsv', 9815, 'glue/mnli:validation_matched'),
        'dev_mismatched': source('dev_mismatched.tsv', 9832, 'glue/mnli:validation_mismatched'),
        TEST: source('test_matched.tsv', 9796, 'glue/mnli:test_matched') | {'ids': 'index'},
        f'{TEST}_mismatched': source('test_mismatched.tsv', 9847, 'glue/mnli:test_mismatched')
        | {'ids': 'index'},
        'ax': source(' '.join(_AX), 1104, 'glue/ax:test') | {'ids': 'index'},
    },
    renamed=PREMISE,
)

# The second release. The first release, which the paper used, was withdrawn.
QNLI = in_glue(
    'qnli',
    'classify',
    TWO,
    ('accuracy',),
    ('question', 'sentence'),
    'label',
    glue('qnli', 104743, 5463, 5463),
)

RTE = in_glue('rte', 'classify', TWO, ('accuracy',), PAIR, 'label', glue('rte', 2490, 277, 3000))

WNLI = in_glue(
    'wnli',
    'classify',
    ('0', '1'),
    ('accuracy',),
    PAIR,
    'label',
    glue('wnli', 635, 71, 146),
    classes=('not_entailment', 'entailment'),
)

# TFDS reads the unquoted files as if they were quoted. So it has 23,097 rows for training, and
# lacks quotes that open a text.
SCITAIL = table(
    'scitail',
    'classify',
    ('entails', 'neutral'),
    ('accuracy',),
    ('premise', 'hypothesis'),
    'label',
    three(
        'scitail_1.0_{0}.tsv tsv_format/scitail_1.0_{0}.tsv', 'sci_tail', (23596, 23097), 1304, 2126
    ),
    classes=('entailment', 'neutral'),
    columns=('premise', 'hypothesis', 'label'),
    renamed_on_hub={'premise': 'sentence1', 'hypothesis': 'sentence2', 'label': 'gold_label'},
)

# Table 4

COLA = in_glue(
    'cola',
    'classify',
    ('0', '1'),
    ('matthews', 'accuracy'),
    ('sentence',),
    'label',
    # test.tsv has a header
    glue('cola', 8551, 1043, 1063, columns=('source', 'label', 'star', 'sentence')),
    classes=('unacceptable', 'acceptable'),
)

SST2 = in_glue(
    'sst2',
    'classify',
    ('0', '1'),
    ('accuracy',),
    ('sentence',),
    'label',
    glue('sst2', 67349, 872, 1821),
    classes=('negative', 'positive'),
)

# TFDS makes MRPC from the original files, in the order of GLUE's files, and numbers the rows of
# train and dev consecutively. TFDS's test rows have no labels, so the labelled test split needs the
# original file or the Hub's file.
MRPC = in_glue(
    'mrpc',
    'similarity',
    ('0', '1'),
    ('f1', 'accuracy'),
    ('#1 String', '#2 String'),
    'Quality',
    glue('mrpc', 3668, 408, 1725)
    | {
        'test': {
            'names': ('msr_paraphrase_test.txt',),
            'published': (1725,),
            'hub': ('glue/mrpc:test',),
        }
    },
    classes=('not_equivalent', 'equivalent'),
    renumber=True,
    renamed={'#1 String': 'sentence1', '#2 String': 'sentence2', 'Quality': 'label'},
)

# In GLUE's train.tsv, line breaks inside questions have cut rows in two, each part with too few
# columns (line 97,931 has 3 of 6). They are left out, as in TFDS. Two rows with an empty question2
# are kept, as in TFDS: an empty text has no tokens. This leaves 363,849 rows of GLUE's first
# release and 363,846 rows of the present release.
QQP = in_glue(
    'qqp',
    'similarity',
    ('0', '1'),
    ('f1', 'accuracy'),
    ('question1', 'question2'),
    'is_duplicate',
    glue('qqp', (363846, 363849), 40430, 390965, 'id', leave_out_short=True),
    classes=('not_duplicate', 'duplicate'),
    may_be_empty=True,
    renamed={'is_duplicate': 'label'},
)

STSB = in_glue(
    'stsb',
    'similarity',
    ('0', '1', '2', '3', '4', '5'),
    ('pearson', 'spearman'),
    PAIR,
    'score',
    glue('stsb', 5749, 1500, 1379),
    score=(0, 5),
    renamed={'score': 'label'},
)
