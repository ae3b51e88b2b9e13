"""The plan of a job: its runs in the order of priority, and the config of pretraining."""

import pathlib

import numpy as np
from ml_collections import ConfigDict

from experiments.lib.run_list import CONDITIONS, Run, finetune_runs, zero_shot_runs
from experiments.paper import table5
from experiments.paper.scores import BASELINES
from gpt1_jax.data import prepared
from gpt1_jax.runs.console import duration

# Stages that train a model, and its field of the config
MODELS = {'pretrain': 'pretrained', 'pretrain_lstm': 'lstm'}
# Conditions of config.runs in addition to Table 5's. BASELINES are not runs.
GROUPS = ('layers', 'grid', 'zero_shot', 'zero_shot_lstm', *BASELINES)


def runs(config: ConfigDict, stage: str, steps: tuple[int, ...] = ()) -> list[Run]:
    """Return the runs of a stage in the order of priority.

    All tasks run with their first seed, then with the next seed. config: configs/reproduce.py's.
    Without config.lstm there are no runs of the LSTM. steps: the updates to score zero-shot, by
    default all saved updates.
    """
    if stage in MODELS:
        return []
    wanted = config.runs[stage]

    def of(task, condition):
        if condition in CONDITIONS:
            return finetune_runs(config, task, condition)
        if condition == 'grid':
            return table5.grid_specs(config, task)
        if condition == 'layers':  # none and all are 'no_pretraining' and 'full'
            return [
                run
                for n in config.layers
                if 0 <= n < config.pretrain.model.n_layer
                for run in finetune_runs(config, task, f'layers_{n}', {'n_transfer': n})
            ]
        return zero_shot_runs(config, task, 'full' if condition == 'zero_shot' else 'lstm', steps)

    conditions = [condition for condition in wanted.conditions if condition not in BASELINES]
    found = [
        run for task in wanted.tasks for condition in conditions for run in of(task, condition)
    ]
    return sorted(found, key=lambda run: run.seed)


def all_runs(config: ConfigDict) -> dict[str, list[Run]]:
    """Return {stage: its runs} of a whole job, as if both models existed."""
    config = config.copy_and_resolve_references()
    if 'pretrain_lstm' in config.stages:
        config.lstm = config.lstm or str(pathlib.Path(config.out) / 'pretrain_lstm')
    return {stage: runs(config, stage, (1,)) for stage in config.stages}


def baselines_of(config: ConfigDict, stage: str) -> tuple[str, ...]:
    """Return the baselines that a stage computes for each of its tasks, names in
    scores.BASELINES."""
    return (
        ()
        if stage in MODELS
        else tuple(name for name in config.runs[stage].conditions if name in BASELINES)
    )


def given(config: ConfigDict, stage: str = 'pretrain') -> bool:
    """Return whether the config names the model of a stage of MODELS, so that this job does not
    train it."""
    model = config[MODELS[stage]]
    return bool(model) and pathlib.Path(model) != pathlib.Path(config.out) / stage


def tokens_of(config: ConfigDict) -> pathlib.Path:
    return pathlib.Path(config.pretrain.data.tokens or pathlib.Path(config.out) / 'tokens')


def has_text(config: ConfigDict) -> bool:
    return (tokens_of(config) / prepared.MANIFEST).exists()


def pretraining(config: ConfigDict, lstm: bool = False) -> ConfigDict:
    """Return the config of the Transformer's pretraining, or of the LSTM's on the same tokens."""
    p = config.pretrain.copy_and_resolve_references()
    if not p.train.steps:
        windows = prepared.open_split(tokens_of(config), 'train').n_windows(p.model.n_ctx)
        p.train.steps = int(p.train.epochs * windows / p.batch.size)
    # If the config has no steps to keep, they are evenly spaced on a log scale, from a 512th of the
    # last step.
    last = p.train.steps
    saved = p.checkpoint.keep_steps or {
        round(step) for step in np.geomspace(last, max(1, last // 512), config.saved)
    }
    if lstm:
        p.update(config.lstm_differs)
    p.checkpoint.keep_steps = tuple(step for step in sorted(saved) if step <= p.train.steps)
    p.data.corpus = ''
    p.data.tokens = str(tokens_of(config))
    return p


def lines(config: ConfigDict) -> list[str]:
    """Return the plan as text: pretraining's length, then the runs of each stage in their order."""
    text = [f'deadline: {duration(60 * config.minutes) if config.minutes else "none"}']
    for stage, specs in all_runs(config).items():
        there = [run.name for run in specs if not run.lacks_data()]
        no_data = dict.fromkeys(run.task for run in specs if run.lacks_data())
        what = f'{len(there)} runs: {", ".join(there)}' if there else 'no runs'
        if stage in MODELS and given(config, stage):
            what = config[MODELS[stage]]
        elif baselines_of(config, stage):
            what = (
                f'{", ".join(baselines_of(config, stage))} of {", ".join(config.runs[stage].tasks)}'
            )
        elif stage in MODELS:
            p = pretraining(config, lstm=stage == 'pretrain_lstm') if has_text(config) else None
            what = (
                f'{p.train.steps:,} updates of {p.batch.size} x {p.model.n_ctx} tokens'
                if p
                else 'no text'
            )
        if stage in config.limits:
            what += f'; at most {duration(60 * config.limits[stage])}'
        text.append(f'{stage}: {what}' + (f'; no data for {", ".join(no_data)}' if no_data else ''))
    return text
