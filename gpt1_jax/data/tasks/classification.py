"""Section 4.2, Classification, Table 4: CoLA and SST-2."""
from gpt1_jax.data.tasks.tables import tsv_task

COLA = tsv_task(
    'cola', 'classify', {'train': 'train.tsv', 'dev': 'dev.tsv'}, texts=('sentence',), label_column='label',
    labels=('0', '1'), metrics=('matthews', 'accuracy'), rows={'train': 8551, 'dev': 1043},
    columns=('source', 'label', 'star', 'sentence'))  # train and dev have no header

SST2 = tsv_task(
    'sst2', 'classify', {'train': 'train.tsv', 'dev': 'dev.tsv'}, texts=('sentence',), label_column='label',
    labels=('0', '1'), metrics=('accuracy',), rows={'train': 67349, 'dev': 872})
