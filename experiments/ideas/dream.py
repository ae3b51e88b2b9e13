"""DREAM, as published: dialogues [turns, questions, name], with questions of three choices.

gpt1 finetune --config=finetune:experiments/ideas/dream.py:DREAM --workdir=runs/dream \\
    --config.init_from=novels --config.data.dir=dream/data
"""

from gpt1_jax.data.tasks import Example, from_records


def examples(dialogue):
    turns, questions, name = dialogue
    for number, asked in enumerate(questions):
        choices = asked['choice']
        label = choices.index(asked['answer']) if 'answer' in asked else None
        yield Example(
            f'{name}/{number}', ('\n'.join(turns), asked['question']), tuple(choices), label
        )


# A dialogue and a question are one segment (segments). A long dialogue is cut (cut).
FILES = {'train': 'train.json', 'dev': 'dev.json', 'test': 'test.json'}
DREAM = from_records(
    'dream', 'choice', ('0', '1', '2'), FILES, examples, n_texts=2, segments=(2,), cut=0
)
