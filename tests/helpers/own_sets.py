"""Custom sets for config.custom, with choices, a score or labels: their rows and the Examples of
these rows."""

import json

from gpt1_jax.data.tasks.example import Example

CSV = {'files': {'train': 'train.csv', 'dev': 'dev.csv'}}
LINES = {'files': {'train': 'train.jsonl', 'dev': 'dev.jsonl'}, 'format': 'jsonl'}
FIVE = CSV | {
    'name': 'five',
    'segments': [['passage', 'question']],
    'label': 'answer',
    'choices': ['a', 'b', 'c', 'd', 'e'],
    'answer': 'letter',
    'id': 'id',
}
FIVE_ROWS = (
    'id,passage,question,a,b,c,d,e,answer\n'
    'q1,"It sat, then left.",Where?,mat,tree,hill,car,sea,B\n'
    'q2,Dogs ran.,Who ran?,cats,dogs,birds,fish,,d\n'
)
FIVE_EXAMPLES = [
    Example('q1', ('It sat, then left.', 'Where?'), ('mat', 'tree', 'hill', 'car', 'sea'), 1),
    Example('q2', ('Dogs ran.', 'Who ran?'), ('cats', 'dogs', 'birds', 'fish'), 3),
]
RATING = CSV | {'name': 'rating', 'segments': [['text']], 'label': 'score', 'score': [1, 7]}
PREMISES = {
    'name': 'two',
    'files': {'train': 'train.tsv', 'dev': 'dev.tsv'},
    'format': 'tsv',
    'quoting': False,
    'segments': [['p1', 'p2'], ['h']],
    'label': 'label',
    'labels': ['no', 'maybe', 'yes'],
}

SENTIMENT = CSV | {
    'name': 'sentiment',
    'segments': [['text']],
    'label': 'label',
    'labels': ['negative', 'positive'],
}
RATED = RATING | {
    'files': {'train': 'train.csv'},
    'dev_fraction': 0.1,
    'metrics': ['pearson', 'spearman'],
}
CONFIGS = {'sentiment': SENTIMENT, 'five_choice': FIVE | {'name': 'five_choice'}, 'rating': RATED}


def lines(records):
    return ''.join(json.dumps(record) + '\n' for record in records)
