"""Labelled sets of the quickstart: experiments/quickstart/novel_tasks.py makes them from novels and writes files."""
from gpt1_jax.data.tasks import json_lines

SPLITS = ('train', 'dev', 'test')

ORDER = json_lines.task('order', 'classify', ('as written', 'shuffled'), SPLITS, segments=(1,))
CONTINUATION = json_lines.task('continuation', 'choice', ('1', '2'), SPLITS, segments=(2,))
