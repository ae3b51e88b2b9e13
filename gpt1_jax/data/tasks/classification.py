"""Section 4.2, Classification, Table 4: CoLA and SST-2."""
from gpt1_jax.data.tasks.table_task import Table, glue_splits, table_task

COLA = table_task(
    'cola', 'classify', ('matthews', 'accuracy'),
    glue_splits('cola', 8551, 1043, 1063, columns=('source', 'label', 'star', 'sentence')),  # test.tsv has a header
    Table(('sentence',), 'label', ('0', '1'), classes=('unacceptable', 'acceptable')))

SST2 = table_task(
    'sst2', 'classify', ('accuracy',), glue_splits('sst2', 67349, 872, 1821),
    Table(('sentence',), 'label', ('0', '1'), classes=('negative', 'positive')))
