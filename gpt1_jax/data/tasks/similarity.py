"""Section 4.2, Semantic Similarity, Table 4: MRPC."""
from gpt1_jax.data.tasks.tables import tsv_task

MRPC = tsv_task(
    'mrpc', 'similarity', {'train': 'train.tsv', 'dev': 'dev.tsv', 'test': 'msr_paraphrase_test.txt'},
    texts=('#1 String', '#2 String'), label_column='Quality', labels=('0', '1'), metrics=('f1', 'accuracy'),
    rows={'train': 3668, 'dev': 408, 'test': 1725})
