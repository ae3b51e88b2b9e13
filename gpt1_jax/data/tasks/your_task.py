"""Tasks of your own, to copy: what --data, --text and --label cannot say is a few lines of Python.

    gpt1 help tasks > FILE.py
    gpt1 finetune --config=finetune:FILE.py:COPA --config.data.dir=COPA \\
        --config.init_from=novels --workdir=runs/copa

`from_records` takes the name, the head (classify, similarity or choice), the names of the labels,
the files in config.data.dir, and a function that makes an Example of a record: its id ('' for its
position), its texts, its choices and its label, which is the name or the index of the right one.
--inspect in place of --workdir shows rows as the model reads them.
"""

from gpt1_jax.data.tasks import Example, from_records


# COPA in SuperGLUE's form: which of two sentences is the cause, or the effect, of a premise?
def copa(record):
    link = {'cause': 'because', 'effect': 'so'}[record['question']]
    texts = (f'{record["premise"]} {link}',)
    choices = (record['choice1'], record['choice2'])
    return Example(str(record['idx']), texts, choices, record.get('label'))


COPA_FILES = {'train': 'train.jsonl', 'dev': 'val.jsonl'}
COPA = from_records('copa', 'choice', ('0', '1'), COPA_FILES, copa)


# DREAM, as published: dialogues [turns, questions, name], each with several questions. A dialogue
# and a question are one segment (segments). Only a long dialogue is cut (cut), never the question.
def dream(dialogue):
    turns, questions, name = dialogue
    for number, asked in enumerate(questions):
        choices = asked['choice']
        label = choices.index(asked['answer']) if 'answer' in asked else None
        texts = ('\n'.join(turns), asked['question'])
        yield Example(f'{name}/{number}', texts, tuple(choices), label)


FILES = {split: f'{split}.json' for split in ('train', 'dev', 'test')}
DREAM = from_records(
    'dream', 'choice', ('0', '1', '2'), FILES, dream, n_texts=2, segments=(2,), cut=0
)


# A number as the label: score=(LOW, HIGH), without labels.
def price(row):
    return Example(row['id'], (row['text'],), label=row['price'])


PRICE = from_records('price', 'classify', (), {'train': 'train.csv'}, price, score=(0, 99.5))


# A table without a header, in which quotation marks are text. The best epoch is that of the highest
# F1 of the label 'spam' (positive). A fifth of the rows is dev, chosen by dev_seed.
def mail(row):
    return Example('', (row['subject'], row['body']), label=row['kind'])


SPAM = from_records(
    'spam',
    'classify',
    ('ham', 'spam'),
    {'train': 'mail.tsv'},
    mail,
    metrics=('f1', 'accuracy'),
    columns=('kind', 'subject', 'body'),
    quoted=False,
    positive=1,
    n_texts=2,
    dev_fraction=0.2,
    dev_seed=1,
)
