"""Fine-tuning on your own labelled file. Most of these fields follow from flags:

gpt1 finetune --data=my.csv --text=COLUMN --label=COLUMN --init_from=novels --workdir=DIR

Rows of another form, such as several questions about one text, need a few lines of Python:
config.task = 'FILE:NAME' (experiments/ideas/copa.py). --inspect shows rows as the model reads them,
and trains nothing. On the command line, write a list as a,b and segments as
"(('a','b'),('c',))".
"""

from gpt1_jax.configs import finetune
from ml_collections import ConfigDict, config_dict


def get_config():
    config = finetune.get_config('custom')
    config.custom = fields()  # the files are in config.data.dir
    return config


def fields():
    """Return every field with its default."""
    config = ConfigDict()
    config.name = ''  # of the task, in results and predictions

    config.files = ConfigDict()  # in config.data.dir
    config.files.train = 'train.csv'  # rows to train on
    # rows that select the best epoch, in place of dev_fraction
    config.files.dev = config_dict.placeholder(str)
    config.files.test = config_dict.placeholder(str)  # labelled rows for the final evaluation
    # rows to predict, with or without the label's column
    config.files.unlabelled = config_dict.placeholder(str)
    # without a dev file, use this fraction of the training rows as dev
    config.dev_fraction = 0.0
    config.dev_seed = 0  # selects these rows, whatever their order in the file

    # 'csv', 'tsv' or a delimiter character, or 'jsonl', 'json' or 'parquet': records, in files that
    # end in .jsonl, .json (one a line or in an array) or .parquet
    config.format = 'csv'
    # of tables: utf-8 (or UTF-16, which is recognized), latin-1, cp1252, ...
    config.encoding = 'utf-8'
    config.quoting = True  # cells in double quotes may contain delimiters and line breaks

    # lists of columns, a list for each segment: its columns are concatenated, and <delimiter> is
    # put between segments
    config.segments = ()

    # column of the label, the score or the right choice. Set one of labels, score and choices
    config.label = 'label'
    config.labels = ()  # classification: the label names, in index order (default: the file's)
    config.score = ()  # regression: (low, high), with soft labels over the integers between
    config.choices = ()  # multiple choice: a column each (the last may be empty), or a JSON list's
    config.squared = False  # regression with one output and the squared loss instead of soft labels
    # the maximum length of a JSON list of choices
    config.max_choices = config_dict.placeholder(int)
    # the form of label: 'index0', 'index1', 'letter' or 'text'
    config.answer = config_dict.placeholder(str)

    config.id = config_dict.placeholder(str)  # column of the ids (default: the row number)
    # accuracy, f1, macro_f1, matthews, or pearson, spearman: the first selects the best epoch
    config.metrics = ()
    # the positive label of f1 (default: the second of two labels)
    config.positive = config_dict.placeholder(str)
    return config
