"""COPA in SuperGLUE's form: which of two sentences is the cause, or the effect, of a premise?

gpt1 finetune --config=finetune:experiments/ideas/copa.py:COPA --workdir=runs/copa \\
    --config.init_from=novels --config.data.dir=COPA
"""

from gpt1_jax.data.tasks import Example, from_records


def example(record):
    link = {'cause': 'because', 'effect': 'so'}[record['question']]
    return Example(
        str(record['idx']),
        (f'{record["premise"]} {link}',),
        (record['choice1'], record['choice2']),
        record.get('label'),
    )


COPA = from_records(
    'copa', 'choice', ('0', '1'), {'train': 'train.jsonl', 'dev': 'val.jsonl'}, example
)
