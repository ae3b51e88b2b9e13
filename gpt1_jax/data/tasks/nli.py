"""Section 4.2, Natural Language Inference, Table 2: SNLI, MNLI, QNLI, SciTail, RTE. Also WNLI, for
GLUE's average."""

from gpt1_jax.data.tasks.reading import Split
from gpt1_jax.data.tasks.table_task import GLUE_TEST, Table, glue_splits, glue_test, table_task

THREE = ('entailment', 'neutral', 'contradiction')
TWO = ('entailment', 'not_entailment')
PAIR = ('sentence1', 'sentence2')


SPLITS = {'train': 'train', 'dev': 'validation', 'test': 'test'}  # TFDS's names

# Rows on which annotators did not agree have the label '-' and do not belong to the set (Bowman et
# al., 2015). The numbers are without these rows.
SNLI = table_task(
    'snli',
    'classify',
    ('accuracy',),
    {
        split: Split(
            (f'snli_1.0_{split}.txt', f'snli_1.0_{split}.jsonl'), rows, (f'snli:{SPLITS[split]}',)
        )
        for split, rows in (('train', 549367), ('dev', 9842), ('test', 9824))
    },
    Table(
        PAIR,
        'gold_label',
        THREE,
        without_label=('-', '-1'),
        index=None,
        features={'sentence1': 'premise', 'sentence2': 'hypothesis', 'gold_label': 'label'},
    ),
)

# dev: matched, from the genres of the training set. ax: GLUE's diagnostic set, which MNLI's model
# answers.
MNLI = table_task(
    'mnli',
    'classify',
    ('accuracy',),
    {
        'train': Split(('train.tsv',), 392702, ('glue/mnli:train',)),
        'dev': Split(('dev_matched.tsv',), 9815, ('glue/mnli:validation_matched',)),
        'dev_mismatched': Split(
            ('dev_mismatched.tsv',), 9832, ('glue/mnli:validation_mismatched',)
        ),
        GLUE_TEST: glue_test(('test_matched.tsv',), 9796, ('glue/mnli:test_matched',)),
        f'{GLUE_TEST}_mismatched': glue_test(
            ('test_mismatched.tsv',), 9847, ('glue/mnli:test_mismatched',)
        ),
        'ax': glue_test(
            tuple(
                f'{folder}{name}.tsv'
                for folder in ('', '../AX/', '../diagnostic/', '../ax/')
                for name in ('AX', 'diagnostic')
            ),
            1104,
            ('glue/ax:test',),
        ),
    },
    Table(
        PAIR,
        'gold_label',
        THREE,
        features={'sentence1': 'premise', 'sentence2': 'hypothesis', 'gold_label': 'label'},
    ),
)

# The second release. The first release, which the paper used, was withdrawn.
QNLI = table_task(
    'qnli',
    'classify',
    ('accuracy',),
    glue_splits('qnli', 104743, 5463, 5463),
    Table(('question', 'sentence'), 'label', TWO),
)

RTE = table_task(
    'rte', 'classify', ('accuracy',), glue_splits('rte', 2490, 277, 3000), Table(PAIR, 'label', TWO)
)

WNLI = table_task(
    'wnli',
    'classify',
    ('accuracy',),
    glue_splits('wnli', 635, 71, 146),
    Table(PAIR, 'label', ('0', '1'), classes=('not_entailment', 'entailment')),
)

# TFDS reads the unquoted files as if they were quoted. So it has fewer rows for training, and lacks
# quotes that open a text.
SCITAIL = table_task(
    'scitail',
    'classify',
    ('accuracy',),
    {
        split: Split(
            (f'scitail_1.0_{split}.tsv', f'tsv_format/scitail_1.0_{split}.tsv'),
            rows,
            (f'sci_tail:{SPLITS[split]}',),
            ('premise', 'hypothesis', 'label'),
            also_rows=in_tfds,
        )
        for split, rows, in_tfds in (('train', 23596, 23097), ('dev', 1304, 0), ('test', 2126, 0))
    },
    Table(
        ('premise', 'hypothesis'),
        'label',
        ('entails', 'neutral'),
        index=None,
        classes=('entailment', 'neutral'),
        in_parquet={'premise': 'sentence1', 'hypothesis': 'sentence2', 'label': 'gold_label'},
    ),
)
