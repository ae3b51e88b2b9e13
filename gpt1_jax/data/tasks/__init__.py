"""Tables 2 to 4: the labelled sets by name.

`get(name)` gives the Task; its `read` gives Examples from official files, or from TFDS.
"""
import difflib

from gpt1_jax.data.tasks import classification, custom, derived, nli, pronouns, qa, race, similarity
from gpt1_jax.data.tasks.example import Example, Task  # noqa: F401
from gpt1_jax.errors import UserError

TASKS = {task.name: task for task in (
    nli.SNLI, nli.MNLI, nli.QNLI, nli.SCITAIL, nli.RTE, nli.WNLI,
    race.RACE, qa.STORY_CLOZE,
    similarity.MRPC, similarity.QQP, similarity.STSB,
    classification.COLA, classification.SST2,
    pronouns.DPR, pronouns.WSC273,
    derived.CLOZE, derived.SOURCE, derived.ACCEPTABILITY)}


def get(name):
    """The Task of this name. UserError with the near miss for an unknown one."""
    if name not in TASKS:
        near = difflib.get_close_matches(str(name), TASKS, 1)
        raise UserError(f'unknown task {name!r}' + (f', did you mean {near[0]!r}?' if near else '')
                        + f' (there are {", ".join(TASKS)})')
    return TASKS[name]


def of(config):
    """The Task that a run's config means: by its name, or of the user's own making ('custom')."""
    return custom.task(config.get('custom')) if config['task'] == 'custom' else get(config['task'])
