"""Section 4.2, Semantic Similarity, Table 4: MRPC, QQP and STS-B."""
from gpt1_jax.data.tasks import glue
from gpt1_jax.data.tasks.reading import Split
from gpt1_jax.data.tasks.tables import table_task

# TFDS makes MRPC from the original files and numbers train and dev through: GLUE's files have the same order.
# Its test rows have their labels taken away, so the labelled test split needs the original file.
MRPC = table_task(
    'mrpc', 'similarity', ('0', '1'), ('f1', 'accuracy'),
    glue.splits('mrpc', 3668, 408, 1725) | {'test': Split(('msr_paraphrase_test.txt',), 1725)},
    texts=('#1 String', '#2 String'), label='Quality', renumber=True,
    features={'#1 String': 'sentence1', '#2 String': 'sentence2', 'Quality': 'label'})

QQP = table_task(
    'qqp', 'similarity', ('0', '1'), ('f1', 'accuracy'), glue.splits('qqp', 363846, 40430, 390965, id_column='id'),
    texts=('question1', 'question2'), label='is_duplicate', features={'is_duplicate': 'label'})

STSB = table_task(
    'stsb', 'similarity', ('0', '1', '2', '3', '4', '5'), ('pearson', 'spearman'),
    glue.splits('stsb', 5749, 1500, 1379),
    texts=('sentence1', 'sentence2'), label='score', score=(0, 5), features={'score': 'label'})
