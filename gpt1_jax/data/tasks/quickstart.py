"""Labelled sets of the quickstart: experiments/quickstart/novel_tasks.py makes them from novels and writes files."""
from gpt1_jax.data.tasks import json_lines

SPLITS = ('train', 'dev', 'test')
NEXT_WORDS = ('the', 'to', 'of', 'and')

NEXT_WORD = json_lines.task('next_word', 'classify', NEXT_WORDS, SPLITS, segments=(1,))
CONTINUATION = json_lines.task('continuation', 'choice', ('1', '2'), SPLITS, segments=(2,))
