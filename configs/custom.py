"""Fine-tuning on your own labelled table. The fields of config.custom have flags:

gpt1 finetune --data=my.csv --text=COLUMN --label=COLUMN --init_from=novels --workdir=DIR

Rows of another form, such as several questions about one text, need a few lines of Python:
config.task = 'FILE:NAME' (gpt1 help tasks). --inspect shows rows as the model reads them, and
trains nothing.
"""

from gpt1_jax.configs import finetune
from ml_collections import ConfigDict


def get_config():
    config = finetune.get_config('custom')
    config.custom = ConfigDict()
    # a table (.csv, .tsv, .jsonl, .json or .parquet), or a directory or hf:USER/NAME with train.csv
    # and, if there are any, dev.csv and test.csv. Without dev a tenth of train is held out
    config.custom.data = ''
    config.custom.text = ()  # the column of the text, or several, each a segment
    # the column of the label, of the score, or of the right choice: its letter, number or text
    config.custom.label = ''
    config.custom.choices = ()  # of the answers (the last may be empty), or a column of lists
    config.custom.score = ()  # the label is a number: (low, high)
    config.custom.encoding = 'utf-8'  # of tables: utf-8 (or UTF-16), latin-1, cp1252, ...
    return config
