"""Fine-tuning on your own labelled data, described by fields: copy the nearest example, or override its fields.

gpt1 finetune --config=configs/custom.py:five_choice --workdir=runs/mine \\
    --config.init_from=runs/gpt1 --config.data.dir=my/data --config.custom.files.dev=valid.csv

`gpt1 finetune --data=my.csv --text=COLUMN --label=COLUMN --init_from=novels --workdir=DIR` fills these fields alone.
Examples: own (every field open), sentiment (classification of a text), two_premises (of three texts), five_choice
(multiple choice, up to five answers), rating (regression, scores from 1 to 7), copa (texts from templates), dream
(several questions about one dialogue).
--inspect shows examples as the model reads them, and trains nothing.
On the command line write a list as a,b and segments as "(('a','b'),('c',))"; --config.custom.cut=None unsets a field.

Not supported: several questions in one row of a table, and answers in a separate file, as in MCTest. Convert such data
to JSON records {"story": ..., "questions": [{"question": ..., "choices": [...], "answer": "A"}, ...]}, and describe
these as `dream` does.
"""
from gpt1_jax.configs import finetune
from ml_collections import ConfigDict, config_dict

from gpt1_jax.rules import choose


def get_config(example='five_choice'):
    config = finetune.get_config('custom')
    config.custom = fields()               # the files are in config.data.dir
    examples = (own, sentiment, two_premises, five_choice, rating, copa, dream)
    choose('example', example, {function.__name__: function for function in examples})(config.custom)
    return config


def fields():
    """Every field with its default."""
    config = ConfigDict()
    config.name = ''                       # of the task, in results and predictions

    config.files = ConfigDict()            # in config.data.dir
    config.files.train = 'train.csv'       # rows to train on
    config.files.dev = config_dict.placeholder(str)         # rows that select the best epoch; or set dev_fraction
    config.files.test = config_dict.placeholder(str)        # labelled rows for the final evaluation
    config.files.unlabelled = config_dict.placeholder(str)  # rows to predict; the label's column is optional
    config.dev_fraction = 0.0              # without a dev file: this fraction of the training rows is used as dev
    config.dev_seed = 0                    # selects these rows, independently of their order in the file

    config.format = 'csv'                  # 'csv', 'tsv', one delimiter character; 'jsonl' or 'json': records, one a
                                           # line or in an array, in files that end in .jsonl or .json
    config.columns = ()                    # column names, if the files have no header or JSON records are lists
    config.questions = config_dict.placeholder(str)   # field of JSON records: a list of objects, each an example
    config.quoting = True                  # cells in double quotes may contain delimiters and line breaks

    config.segments = ()                   # lists of columns: those of a segment are concatenated, <delimiter> is
                                           # between segments; a JSON list of texts is joined by line breaks. Instead of
                                           # a column: a template, '{premise} because' ({{ is a brace), or a dictionary
                                           # from a column's value to a column or template, as in copa
    config.cut = config_dict.placeholder(str)         # the column to truncate in long rows; default: every segment
    config.orders = 1                      # 2 = read both orders of two segments, as in the paper's similarity tasks

    config.label = 'label'                 # column of the label, the score or the right choice. Set one of these:
    config.labels = ()                     # classification: the label names, in index order; default the file's
    config.score = ()                      # regression: (low, high), with soft labels over the integers between
    config.choices = ()                    # multiple choice: a column each, the last may be empty; or a JSON list's
    config.squared = False                 # regression with one output and the squared loss instead of soft labels
    config.max_choices = config_dict.placeholder(int)  # the maximum length of a JSON list of choices
    config.answer = config_dict.placeholder(str)      # what label contains: 'index0', 'index1', 'letter' or 'text'

    config.id = config_dict.placeholder(str)          # column of the ids; default: the row number
    config.metrics = ()                    # names in gpt1_jax/metrics; the first selects the best epoch
    config.positive = config_dict.placeholder(str)    # the positive label of f1; default: the second of two labels
    return config


def own(custom) -> None:
    """Every field open: those of `gpt1 finetune --data=my.csv --text=COLUMN --label=COLUMN`."""


def sentiment(custom) -> None:
    """Classification of one text, with two labels. A row:

    text,label
    "A good film, if long.",positive
    """
    custom.name = 'sentiment'
    custom.files.dev = 'dev.csv'
    custom.segments = (('text',),)
    custom.labels = ('negative', 'positive')


def five_choice(custom) -> None:
    """Multiple choice: up to five answers to a question about a passage, which is truncated if necessary. A row:

    id,passage,question,a,b,c,d,e,answer
    q1,"The cat sat on the mat, then left.",Where did it sit?,a mat,a tree,a hill,a car,,A
    """
    custom.name = 'five_choice'
    custom.files.dev = 'dev.csv'
    custom.segments = (('passage', 'question'),)
    custom.cut = 'passage'
    custom.choices = ('a', 'b', 'c', 'd', 'e')  # as JSON lines: format 'jsonl', choices ('choices',), max_choices 5
    custom.label, custom.answer = 'answer', 'letter'
    custom.id = 'id'


def rating(custom) -> None:
    """Regression: a text's score from 1 to 7, not necessarily an integer; a tenth of the rows is used as dev. A row:

    text,score
    "A good film, if long.",5.5
    """
    custom.name = 'rating'
    custom.dev_fraction = 0.1
    custom.segments = (('text',),)
    custom.label, custom.score = 'score', (1, 7)
    custom.metrics = ('pearson', 'spearman')


def two_premises(custom) -> None:
    """Classification: two concatenated premises, the delimiter, a hypothesis; three labels. Tab-separated:

    premise1  premise2  hypothesis  label
    All cats sleep.  Tom is a cat.  Tom sleeps.  entailment
    """
    custom.name = 'two_premises'
    custom.files.train, custom.files.dev = 'train.tsv', 'dev.tsv'
    custom.format, custom.quoting = 'tsv', False
    custom.segments = (('premise1', 'premise2'), ('hypothesis',))
    custom.labels = ('entailment', 'neutral', 'contradiction')


def copa(custom) -> None:
    """COPA as in SuperGLUE: the more plausible cause or effect, by a template that depends on the question. A line:

    {"premise": "I ran.", "choice1": "I was late.", "choice2": "I sat.", "question": "cause", "label": 0, "idx": 7}
    """
    custom.name = 'copa'
    custom.files.train, custom.files.dev = 'train.jsonl', 'val.jsonl'
    custom.format = 'jsonl'
    # 'column' names the column whose value selects the template; the name of a column may stand for a template.
    custom.segments = (({'column': 'question', 'cause': '{premise} because', 'effect': '{premise} so'},),)
    custom.choices = ('choice1', 'choice2')
    custom.label, custom.answer = 'label', 'index0'
    custom.id = 'idx'


def dream(custom) -> None:
    """DREAM as published: an array of dialogues, each a list [turns, questions, name]. An item:

    [["W: Late again?", "M: The bus."], [{"question": "How did he come?", "choice": ["By bus.", "By car.", "On foot."],
    "answer": "By bus."}], "4-199"]

    The ids of the questions are 4-199/0, 4-199/1, ...
    """
    custom.name = 'dream'
    custom.files.train, custom.files.dev, custom.files.test = 'train.json', 'dev.json', 'test.json'
    custom.format = 'json'
    custom.columns = ('turns', 'questions', 'name')
    custom.questions = 'questions'
    custom.segments = (('turns', 'question'),)
    custom.cut = 'turns'
    custom.choices, custom.max_choices = ('choice',), 3
    custom.label, custom.answer = 'answer', 'text'
    custom.id = 'name'
