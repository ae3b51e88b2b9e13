"""Section 4.2, Table 4: Classification (CoLA, SST-2) and Semantic Similarity (MRPC, QQP, STS-B)."""

from gpt1_jax.data.tasks.reading import Split
from gpt1_jax.data.tasks.table_task import Table, glue_splits, table_task

COLA = table_task(
    'cola',
    'classify',
    ('matthews', 'accuracy'),
    # test.tsv has a header
    glue_splits('cola', 8551, 1043, 1063, columns=('source', 'label', 'star', 'sentence')),
    Table(('sentence',), 'label', ('0', '1'), classes=('unacceptable', 'acceptable')),
)

SST2 = table_task(
    'sst2',
    'classify',
    ('accuracy',),
    glue_splits('sst2', 67349, 872, 1821),
    Table(('sentence',), 'label', ('0', '1'), classes=('negative', 'positive')),
)

# TFDS makes MRPC from the original files, in the order of GLUE's files, and numbers the rows of
# train and dev consecutively. TFDS's test rows have no labels, so the labelled test split needs the
# original file or the Hub's file.
MRPC = table_task(
    'mrpc',
    'similarity',
    ('f1', 'accuracy'),
    glue_splits('mrpc', 3668, 408, 1725)
    | {'test': Split(('msr_paraphrase_test.txt',), 1725, parquet=('glue/mrpc:test',))},
    Table(
        ('#1 String', '#2 String'),
        'Quality',
        ('0', '1'),
        renumber=True,
        features={'#1 String': 'sentence1', '#2 String': 'sentence2', 'Quality': 'label'},
        classes=('not_equivalent', 'equivalent'),
    ),
)

# In GLUE's train.tsv, line breaks inside questions have cut rows in two, each part with too few
# columns (line 97,931 has 3 of 6). They are left out, as in TFDS. Two rows with an empty question2
# are kept, as in TFDS: an empty text has no tokens. This leaves 363,849 rows of GLUE's first
# release and 363,846 rows of the present release.
QQP = table_task(
    'qqp',
    'similarity',
    ('f1', 'accuracy'),
    glue_splits('qqp', 363846, 40430, 390965, id_column='id', also_train=363849),
    Table(
        ('question1', 'question2'),
        'is_duplicate',
        ('0', '1'),
        features={'is_duplicate': 'label'},
        leave_out_short=True,
        may_be_empty=True,
        classes=('not_duplicate', 'duplicate'),
    ),
)

STSB = table_task(
    'stsb',
    'similarity',
    ('pearson', 'spearman'),
    glue_splits('stsb', 5749, 1500, 1379),
    Table(
        ('sentence1', 'sentence2'),
        'score',
        ('0', '1', '2', '3', '4', '5'),
        score=(0, 5),
        features={'score': 'label'},
    ),
)
