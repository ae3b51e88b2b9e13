"""What a list of runs is made of: fine-tuning of a task under a condition, a run a seed; zero-shot scoring."""
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from configs import zero_shot as zero_shot_config
from gpt1_jax import finetune, heuristics, rules, transfer, workdir
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError, about

# The sets whose figures in the paper are medians of several runs, or ought to be: few rows, a wide spread over seeds.
SEVERAL_SEEDS = ('cola', 'mrpc', 'stsb', 'rte', 'story_cloze', 'wnli')
# Where the labels of the paper's own test split are public; GLUE keeps its own, so `dev` stands in.
LABELLED_TEST = ('snli', 'scitail', 'race', 'story_cloze')
# The rows of Table 5: what each one changes. The auxiliary objective stays on without pretraining (the paper leaves it
# open); the LSTM's weights are another pretrained run.
CONDITIONS = {'full': {}, 'no_pretraining': {'n_transfer': transfer.NOTHING}, 'no_aux': {'lm_weight': 0.0}, 'lstm': {}}


def _groups(rule):
    """Rule: fields of a config, each of which another rule accepts."""
    accepts, wanted = rule
    return lambda x: all(map(accepts, workdir.flatten(x.to_dict()).values())), f'a group of fields, each of it {wanted}'


SEEDS = (lambda x: x and rules.several(rules.TRAINING['seed'])[0](x), 'a tuple of seeds')
RULES = {
    'pretrained': rules.optional(rules.text()), 'lstm': rules.optional(rules.text()), 'out': rules.text(),
    'data': rules.text(),
    'results': rules.optional(rules.text()), 'keep_checkpoints': rules.flag(), 'any_version': rules.flag(),
    'start': rules.flag(),
    'directories': _groups(rules.text()), 'seeds': SEEDS, 'seeds_small': SEEDS,
    'grid_seeds': rules.optional(SEEDS),
    'layers': rules.several(rules.whole(transfer.NOTHING)), 'layer_tasks': rules.several(rules.text()),
    'zero_shot_tasks': rules.several(rules.text()), 'zero_shot_steps': rules.several(rules.whole(0)),
    'submission': _groups(rules.optional(rules.text())),
    'grid': _groups((lambda x: x and rules.several(rules.number())[0](x), 'a tuple of numbers')),
    **{name: (lambda x: all(map(rules.group()[0], x.values())), 'a group of fields for each task that it names')
       for name in ('tasks', 'zero_shot')},
    **{f'finetune.{name}': rule for name, rule in finetune.RULES.items()}}


@dataclasses.dataclass(frozen=True, eq=False)
class Planned:
    """One run of a list.

    name:       file-name safe, unique in its list. task: a name in gpt1_jax.data.tasks.
    condition:  which row of a table, line of a figure: 'full', 'no_pretraining', 'layers_3', ...
    kind:       'finetune' or 'zero_shot'. config: the ConfigDict of that entry point, complete but for `results`.
    splits:     those that it scores. selections: parameters that a fine-tuned run scores: 'final', 'best' on dev.
    steps:      zero-shot alone: the pretraining updates scored.
    keep:       its checkpoint is wanted later: it is not deleted, and a run that lost it is done again.
    """
    name: str
    task: str
    condition: str
    seed: int
    kind: str
    config: ConfigDict
    splits: tuple[str, ...]
    selections: tuple[str, ...] = ('final', 'best')
    steps: tuple[int, ...] = ()
    keep: bool = False


def plans(config, task: str, condition: str, settings: Mapping | None = None, seeds: Sequence[int] | None = None,
          keep: bool = False) -> list[Planned]:
    """A fine-tuning run a seed, of the pretrained run that the condition wants; none where `config.lstm` is not given.

    config: configs/experiments.py's. condition: a name in CONDITIONS, or any other with its own settings.
    settings: {'optimizer.peak_rate': 1e-4, ...}, over config.finetune, config.tasks.TASK and the condition's.
    """
    origin = config.lstm if condition.split('@')[0] == 'lstm' else config.pretrained
    if not origin and condition.split('@')[0] == 'lstm':
        return []
    if not origin:
        raise UserError('give --config.pretrained=DIR, a pretrained run')
    made = []
    for seed in seeds_of(config, task) if seeds is None else seeds:
        tuned = config.finetune.copy_and_resolve_references().lock()  # a misspelt field is an error
        try:
            tuned.update(config.tasks.get(task, ConfigDict()))
            tuned.update_from_flattened_dict(CONDITIONS.get(condition.split('@')[0], {}) | dict(settings or {}))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f'config.tasks.{task} or the settings of {condition} do not fit configs/finetune.py: '
                            f'{" ".join(str(error).split())}') from None
        tuned.task, tuned.seed, tuned.data.dir = task, seed, directory(config, task)
        tuned.init_from = str(origin)
        splits = [s for s in tasks.get(task).splits if s.startswith('dev') or s == 'test' and task in LABELLED_TEST]
        splits = [s for s in splits if s == 'dev' or has_data(task, tuned.data.dir, s)]
        tuned.eval.splits = (*splits, *(['train'] if task in config.layer_tasks else []))  # for Figure 2: one run, both
        tuned.eval.selections = ('final', 'best')
        made.append(Planned(f'{task}-{condition}-{seed}', task, condition, seed, 'finetune', tuned,
                            tuned.eval.splits, keep=keep))
    return made


def zero_shot_plan(config, task: str, condition: str = 'full', steps: Sequence[int] = ()) -> list[Planned]:
    """The scoring of every saved update (or `steps`, or config.zero_shot_steps) of the pretrained run, or of the
    LSTM's: one Planned, or none where config.lstm is not given."""
    origin = config.lstm if condition == 'lstm' else config.pretrained
    if not origin:
        return []
    scored = zero_shot_config.get_config(task).lock()
    scored.data.dir, scored.init_from = directory(config, task), str(origin)
    try:
        scored.update(config.zero_shot.get(task, ConfigDict()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f'config.zero_shot.{task} does not fit configs/zero_shot.py: '
                        f'{" ".join(str(error).split())}') from None
    return [Planned(f'{task}-zero_shot-{condition}', task, condition, 0, 'zero_shot', scored, (scored.data.split,),
                    selections=(), steps=tuple(steps or config.zero_shot_steps or workdir.load(origin).steps()))]


def check(config, pretrained: bool = True):
    """UserError, one line, for what would only show after hours: a pretrained run or data that is nowhere, a name that
    is no task."""
    rules.validate(config, RULES)
    if pretrained and not config.pretrained:
        raise UserError('give --config.pretrained=DIR, a pretrained run')
    for origin in (config.pretrained, config.lstm) if pretrained else ():
        if origin:
            workdir.load(origin)
    if not config.data:
        raise UserError('give --config.data=DIR, the directory that holds the data sets')
    with about(config.data):
        if not config.data.startswith('tfds:') and not pathlib.Path(config.data).is_dir():
            raise UserError(f'{config.data}: no such directory (the data sets)')
    for field, metric in (('layer_tasks', 'accuracy'), ('zero_shot_tasks', None), ('tasks', None), ('zero_shot', None)):
        for name in config[field]:
            if name not in config.directories:
                raise UserError(f'config.{field}: there is no task {name!r} (there are '
                                f'{", ".join(sorted(config.directories))})')
            if metric and metric not in tasks.get(name).metrics:
                raise UserError(f'config.{field}: {name} has no {metric}')
    for name in config.zero_shot_tasks:
        heuristics.get(name)


def seeds_of(config, task: str) -> tuple[int, ...]:
    return tuple(config.seeds_small if task in SEVERAL_SEEDS else config.seeds)


def directory(config, task: str) -> str:
    """Where a task's files are: config.data and config.directories.TASK; 'tfds:...' in either stands for itself."""
    if task not in config.directories:
        raise UserError(f'config.directories.{task} is missing')
    name = config.directories[task]
    return next((one for one in (name, config.data) if one.startswith('tfds:')), str(pathlib.Path(config.data) / name))


def has_data(task: str, data_dir: str, split: str) -> bool:
    """Whether all files of a split are there."""
    try:
        files = tasks.get(task).files(data_dir, split)
    except (UserError, OSError):
        return False
    return bool(files) and all(pathlib.Path(file).exists() for file in files)
