"""Labelled sets of the quickstart: experiments/quickstart/novel_tasks.py makes them from novels and writes files."""
from gpt1_jax.data.tasks import json_lines

SPLITS = ('train', 'dev', 'test')
PRONOUNS = ('he', 'him')

PRONOUN = json_lines.task('pronoun', 'classify', PRONOUNS, SPLITS, segments=(1,))
CONTINUATION, WORD_ORDER = (json_lines.task(name, 'choice', ('1', '2'), SPLITS, segments=(2,))
                            for name in ('continuation', 'word_order'))
