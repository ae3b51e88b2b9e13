"""Tables 2 to 4: the labelled sets by name.

`get(name)` gives the Task; its `read` gives Examples from official files.
"""
import difflib

from gpt1_jax.data.tasks import classification, derived, nli, qa, similarity
from gpt1_jax.data.tasks.example import Example, Task  # noqa: F401
from gpt1_jax.errors import UserError

TASKS = {task.name: task for task in (
    classification.COLA, classification.SST2, nli.RTE, similarity.MRPC, qa.STORY_CLOZE,
    derived.CLOZE, derived.SOURCE, derived.ACCEPTABILITY)}


def get(name):
    """The Task of this name. UserError with the near miss for an unknown one."""
    if name not in TASKS:
        near = difflib.get_close_matches(str(name), TASKS, 1)
        raise UserError(f'unknown task {name!r}' + (f', did you mean {near[0]!r}?' if near else '')
                        + f' (there are {", ".join(TASKS)})')
    return TASKS[name]
