"""Tables of a user's own, with choices, a score or labels: the columns, and rows with their
Examples."""

import json

from gpt1_jax.data.tasks.example import Example

FIVE = {'text': ('passage', 'question'), 'label': 'answer', 'choices': ('a', 'b', 'c', 'd', 'e')}
FIVE_ROWS = (
    'id,passage,question,a,b,c,d,e,answer\n'
    'q1,"It sat, then left.",Where?,mat,tree,hill,car,sea,B\n'
    'q2,Dogs ran.,Who ran?,cats,dogs,birds,fish,,d\n'
)
FIVE_EXAMPLES = [
    Example('0', ('It sat, then left.', 'Where?'), ('mat', 'tree', 'hill', 'car', 'sea'), 1),
    Example('1', ('Dogs ran.', 'Who ran?'), ('cats', 'dogs', 'birds', 'fish'), 3),
]
RATING = {'text': ('text',), 'label': 'score', 'score': (1, 7)}
SENTIMENT = {'text': ('text',), 'label': 'label'}
CONFIGS = {'sentiment': SENTIMENT, 'five_choice': FIVE, 'rating': RATING}


def lines(records):
    return ''.join(json.dumps(record) + '\n' for record in records)
