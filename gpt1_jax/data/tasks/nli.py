"""Section 4.2, Natural Language Inference, Table 2: RTE."""
from gpt1_jax.data.tasks.tables import tsv_task

RTE = tsv_task(
    'rte', 'classify', {'train': 'train.tsv', 'dev': 'dev.tsv'}, texts=('sentence1', 'sentence2'), label_column='label',
    labels=('entailment', 'not_entailment'), metrics=('accuracy',), rows={'train': 2490, 'dev': 277}, id_column='index')
