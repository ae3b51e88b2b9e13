"""Tables 2 to 4: the labelled sets by name.

`get(name)` gives the Task; its `read` gives Examples from official files, TFDS or Parquet files.
"""

from collections.abc import Mapping
from typing import Any

from gpt1_jax import user_code
from gpt1_jax.data.tasks import blimp, glue, own, pronouns, qa
from gpt1_jax.data.tasks.example import Example, Task  # noqa: F401
from gpt1_jax.data.tasks.own import from_records  # noqa: F401
from gpt1_jax.errors import UserError
from gpt1_jax.rules import choose

TASKS = {
    task.name: task
    for task in (
        glue.SNLI,
        glue.MNLI,
        glue.QNLI,
        glue.SCITAIL,
        glue.RTE,
        glue.WNLI,
        qa.RACE,
        qa.STORY_CLOZE,
        glue.MRPC,
        glue.QQP,
        glue.STSB,
        glue.COLA,
        glue.SST2,
        pronouns.DPR,
        blimp.BLIMP,
        pronouns.PRONOUN,
        qa.WORD_ORDER,
    )
}


def get(name: str) -> Task:
    """The Task with this name, or the Task that FILE:NAME names.

    UserError suggesting the most similar name if there is no such Task.
    """
    if not user_code.names_code(name):
        return choose('task', name, TASKS)
    found = user_code.load(name, 'config.task')
    if not isinstance(found, Task):
        raise UserError(
            f'config.task = {name}: is not a Task, which gpt1_jax.data.tasks.from_records makes'
        )
    return found


def of(config: Mapping[str, Any]) -> Task:
    """The Task that a config names, or, for 'custom', the Task of the table in config.custom.

    If the config has `labels`, as the config.json of a run, the table is not read.
    """
    if config['task'] == 'custom':
        if config.get('custom') is None:
            raise UserError('config.task = custom goes with --data=FILE, or with config.custom')
        return own.of(config['custom'], config.get('labels'))
    return get(config['task'])
