"""The runs that an experiment needs.

Fine-tuning of a task under a condition has one run a seed. Zero-shot scoring of a pretrained run's
checkpoints is one run.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from gpt1_jax.configs import experiments
from gpt1_jax.configs import zero_shot as zero_shot_config
from ml_collections import ConfigDict

from gpt1_jax import finetuning, rules, storage
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import zero_shot_heuristics
from gpt1_jax.runs import workdir
from gpt1_jax.training import transfer
from gpt1_jax.weights import from_hub

# Tasks whose test labels are public. GLUE keeps its labels, so `dev` stands in.
LABELLED_TEST = ('snli', 'scitail', 'race', 'story_cloze')
NO_MODEL = 'give --config.pretrained=DIR, a pretrained run'
# A data directory that begins with one of these is taken as it is
SOURCES = ('tfds:', 'parquet:', 'hf:')
# The rows of Table 5, with the settings that each row changes. Without pretraining the auxiliary
# objective stays on (the paper leaves this open). The LSTM starts from another pretrained run.
CONDITIONS = {
    'full': {},
    'no_pretraining': {'n_transfer': transfer.NOTHING},
    'no_aux': {'lm_weight': 0.0},
    'lstm': {},
}

OUT = (lambda x: '://' not in x, 'a local directory')
SEEDS = (lambda x: x and rules.several(finetuning.RULES['seed'])[0](x), 'a tuple of seeds')
GRID = (
    lambda x: all(
        each and rules.several(rules.number())[0](each) for each in rules.flatten(x).values()
    ),
    'a group of fields, each of it a tuple of numbers',
)
PER_TASK = (
    lambda x: all(map(rules.GROUP[0], x.values())),
    'a group of fields for each task that it names',
)
RULES = {
    name: rule
    for name, rule in rules.of_defaults(
        experiments.get_config(),
        {
            **dict.fromkeys(('seeds', 'seeds_small', 'grid_seeds'), SEEDS),
            'layers': rules.several(rules.whole(-1)),
            'out': OUT,
            'results': (OUT[0], 'a local file'),
            'zero_shot_steps': rules.several(rules.whole(0)),
            'processes': rules.whole(0, 64),
            'run_minutes': rules.optional(rules.positive()),
            'curves.conditions': (
                lambda x: 'full' in x and {*x} <= {'full', 'no_pretraining', 'no_aux'},
                "a tuple of 'full' and any of 'no_pretraining' and 'no_aux'",
            ),
            'curves.rows': (
                lambda x: x and rules.several(rules.whole(1))[0](x),
                'a tuple of numbers of rows',
            ),
            'curves.seeds': SEEDS,
            'curves.updates': rules.whole(1),
            **dict.fromkeys(
                [f'curves.rates.{name}' for name in ('full', 'no_pretraining', 'no_aux')],
                rules.positive(),
            ),
            **{f'finetune.{name}': rule for name, rule in finetuning.RULES.items()},
        },
    ).items()
    if not name.startswith('grid.')
} | {'grid': GRID, 'tasks': PER_TASK, 'zero_shot': PER_TASK}


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run of a list, and its result.

    name:       file-name safe, unique in its list. task: a name in gpt1_jax.data.tasks.
    condition:  the row of a table or line of a figure: 'full', 'no_pretraining', 'layers_3', ...
    kind:       'finetune' or 'zero_shot'. config: the ConfigDict of that program, complete except
                for `results`.
    steps:      the pretraining steps to score, only for zero-shot.
    keep:       its checkpoint is needed later. The checkpoint is not deleted, and if it is lost the
                run is done again.

    status:     'to do', 'done' (in results.jsonl), 'ran', 'no data', 'left out', 'failed'.
    key:        the key of its rows. rows: its rows of results.jsonl. error: one line. tokens: to
                process, estimated in a dry run.
    """

    name: str
    task: str
    condition: str
    seed: int
    kind: str
    config: ConfigDict
    steps: tuple[int, ...] = ()
    keep: bool = False
    status: str = 'to do'
    key: str = ''
    rows: tuple[dict, ...] = ()
    error: str = ''
    tokens: int = 0

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it scores."""
        return (
            tuple(self.config.eval.splits) if self.kind == 'finetune' else (self.config.data.split,)
        )

    @property
    def splits_read(self) -> tuple[str, ...]:
        """The splits that it scores, and train to fine-tune or to choose a threshold."""
        needs_train = self.kind == 'finetune' or zero_shot_heuristics.get(self.task).threshold
        return tuple(dict.fromkeys(('train', *self.splits) if needs_train else self.splits))

    def lacks_data(self) -> bool:
        """Returns whether files that it reads are missing."""
        return not all(
            has_data(self.task, self.config.data.dir, split) for split in self.splits_read
        )


def finetune_runs(
    config: ConfigDict,
    task: str,
    condition: str,
    settings: Mapping | None = None,
    seeds: Sequence[int] | None = None,
    keep: bool = False,
) -> list[Run]:
    """Returns a fine-tuning run for each seed, from the condition's pretrained run.

    For the LSTM there are no runs if `config.lstm` is not given. config: configs/experiments.py's.
    condition: a name in CONDITIONS, or another name with its own settings. After an '@' it names
    the settings. settings: {'optimizer.peak_rate': 1e-4, ...}, which override config.finetune,
    config.tasks.TASK and the condition's settings. seeds: default `seeds_of` the task.
    """
    base = condition.split('@')[0]
    origin = config.lstm if base == 'lstm' else config.pretrained
    if not origin:
        if base == 'lstm':
            return []
        raise UserError(NO_MODEL)
    runs = []
    for seed in seeds_of(config, task) if seeds is None else seeds:
        tuned = config.finetune.copy_and_resolve_references().lock()  # an unknown field is an error
        with _fits(f'config.tasks.{task} or the settings of {condition}', 'configs/finetune.py'):
            tuned.update(config.tasks.get(task, ConfigDict()))
            tuned.eval.selections = ('final', 'best')
            tuned.update_from_flattened_dict(CONDITIONS.get(base, {}) | dict(settings or {}))
        tuned.task = task
        tuned.seed = seed
        tuned.data.dir = directory(config, task)
        tuned.init_from = str(origin)
        tuned.eval.splits = _scored_splits(config, task, tuned.data.dir)
        runs.append(
            Run(f'{task}-{condition}-{seed}', task, condition, seed, 'finetune', tuned, keep=keep)
        )
    return runs


@contextlib.contextmanager
def _fits(changes, file):
    """Raises UserError if changes of a config do not fit its file."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f'{changes}: does not fit {file}: {" ".join(str(error).split())}') from None


def _scored_splits(config, task, data_dir):
    """Returns dev, and the other dev splits and labelled test splits that exist. For Figure 2 it
    adds the training split."""
    labelled = [
        split
        for split in tasks.get(task).splits
        if split.startswith('dev') or (split == 'test' and task in LABELLED_TEST)
    ]
    there = [split for split in labelled if split == 'dev' or has_data(task, data_dir, split)]
    return (*there, *['train'] * (task in config.layer_tasks))


def zero_shot_runs(
    config: ConfigDict, task: str, condition: str = 'full', steps: Sequence[int] = ()
) -> list[Run]:
    """Returns one Run that scores a task at saved steps of the pretrained run or the LSTM's.

    condition: 'full' for the pretrained run, 'lstm' for the LSTM's. If that run is not given, or
    has none of the steps, the list is empty. steps: by default config.zero_shot_steps, or all steps
    that the run has saved. An LSTM may have been trained for fewer steps: by default only the steps
    that it has are scored.
    """
    origin = config.lstm if condition == 'lstm' else config.pretrained
    if not origin:
        return []
    scored = zero_shot_config.get_config(task).lock()
    scored.data.dir = directory(config, task)
    scored.init_from = str(origin)
    with _fits(f'config.zero_shot.{task}', 'configs/zero_shot.py'):
        scored.update(config.zero_shot.get(task, ConfigDict()))
    if not steps:
        steps = config.zero_shot_steps or workdir.load(origin).steps()
        if condition == 'lstm' and (storage.path(origin) / 'config.json').exists():
            saved = workdir.load(origin).steps()
            steps = [step for step in steps if step in saved]
    run = Run(
        f'{task}-zero_shot-{condition}', task, condition, 0, 'zero_shot', scored, tuple(steps)
    )
    return [run] if steps else []


def find_models(config: ConfigDict) -> None:
    """Replaces names in config.pretrained and config.lstm by the directories of runs, in place.

    Names are 'novels' or 'hf:USER/NAME'. Directories stay. UserError as in `from_hub.local_run`.
    """
    for field in ('pretrained', 'lstm'):
        if config[field]:
            config[field] = str(from_hub.local_run(config[field]))


def check(config: ConfigDict, pretrained: bool = True) -> None:
    """Raises UserError for mistakes that would otherwise show after hours.

    They are a bad field, a missing pretrained run or data, and an unknown task. pretrained: whether
    the config must name a pretrained run.
    """
    rules.validate(config, RULES)
    if pretrained:
        if not config.pretrained:
            raise UserError(NO_MODEL)
        for directory in filter(None, (config.pretrained, config.lstm)):
            workdir.load(directory)
    if config.run_minutes and not config.processes:
        raise UserError(
            'config.run_minutes needs config.processes: a run is ended with its process'
        )
    if not config.data:
        raise UserError(
            'give the directory that holds the data sets: --config.data=DIR (of '
            'experiments.reproduce --data=DIR)'
        )
    if not config.data.startswith(SOURCES) and not pathlib.Path(config.data).is_dir():
        raise UserError(f'{config.data}: no such directory (the data sets)')
    rules.require(
        {
            f'config.{name}': (tuple(names), known_tasks(config))
            for name, names in {
                **{
                    name: config[name]
                    for name in ('layer_tasks', 'zero_shot_tasks', 'tasks', 'zero_shot')
                },
                'curves.tasks': config.curves.tasks,
            }.items()
        }
    )
    for name in config.layer_tasks:
        if 'accuracy' not in tasks.get(name).metrics:
            raise UserError(f'config.layer_tasks: {name} has no accuracy')
    for name in config.zero_shot_tasks:
        zero_shot_heuristics.get(name)


def known_tasks(config: ConfigDict) -> rules.Rule:
    """Returns the rule for a tuple of tasks that have a directory."""
    return rules.several(rules.one_of(*sorted(config.directories)))


def seeds_of(config: ConfigDict, task: str) -> tuple[int, ...]:
    return tuple(config.seeds_small if task in experiments.SMALL else config.seeds)


def directory(config: ConfigDict, task: str) -> str:
    """Returns the place of a task's files, config.data/config.directories.TASK. If either begins
    with a name of SOURCES, it is returned as it is."""
    name = config.directories[task]
    source = next((each for each in (name, config.data) if each.startswith(SOURCES)), None)
    return source or str(pathlib.Path(config.data) / name)


def has_train_and_dev(task: str, data_dir: str) -> bool:
    return all(has_data(task, data_dir, split) for split in ('train', 'dev'))


def has_data(task: str, data_dir: str, split: str) -> bool:
    """Returns whether all files of a split exist."""
    try:
        files = tasks.get(task).files(data_dir, split)
    except (UserError, OSError):
        return False
    return bool(files) and all(pathlib.Path(file).exists() for file in files)
