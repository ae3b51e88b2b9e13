"""Labelled sets of the quickstart: data/quickstart/derived.py makes them from documentation and writes files."""
from gpt1_jax.data.tasks import json_lines

LIBRARIES = ('python', 'numpy', 'jax')  # the labels of `source`: first parts of document names

CLOZE = json_lines.task('cloze', 'choice', ('1', '2'), ('train', 'dev', 'test'), n_texts=1)
SOURCE = json_lines.task('source', 'classify', LIBRARIES, ('train', 'dev', 'test'), n_texts=1)
ACCEPTABILITY = json_lines.task('acceptability', 'choice', ('1', '2'), ('dev', 'test'), n_texts=0)
