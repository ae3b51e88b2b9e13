"""The plan of a job: its runs in the order of priority, and the config of pretraining."""
import pathlib
import statistics
import time

from ml_collections import ConfigDict

from experiments import table5_ablations
from experiments.lib.run_list import CONDITIONS, Run, finetune_runs, lacks_data, zero_shot_runs
from experiments.reproduce import inputs
from gpt1_jax.data import tokens
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir
from gpt1_jax.runs.console import duration

MODELS = {'pretrain': 'pretrained', 'pretrain_lstm': 'lstm'}  # stages that train a model, and its field of the config
GROUPS = ('layers', 'grid', 'zero_shot', 'zero_shot_lstm')    # conditions of config.runs in addition to Table 5's


def runs(config: ConfigDict, stage: str, steps: tuple[int, ...] = ()) -> list[Run]:
    """The runs of a stage in the order of priority: all tasks with their first seed, then with the next one.

    config: configs/reproduce.py's; without config.lstm there are no runs of the LSTM. steps: the updates to score
    zero-shot; by default all saved ones.
    """
    if stage in MODELS:
        return []
    wanted = config.runs[stage]
    found = [run for task in wanted.tasks for condition in wanted.conditions
             for run in _runs_of(config, task, condition, steps)]
    return sorted(found, key=lambda run: run.seed)


def _runs_of(config, task, condition, steps):
    """The runs of a task under a condition of config.runs."""
    if condition in CONDITIONS:
        return finetune_runs(config, task, condition)
    if condition == 'grid':
        return table5_ablations.grid_specs(config, task)
    if condition == 'layers':  # none and all are 'no_pretraining' and 'full'
        return [run for n in config.layers if 0 <= n < config.pretrain.model.n_layer
                for run in finetune_runs(config, task, f'layers_{n}', {'n_transfer': n})]
    return zero_shot_runs(config, task, 'full' if condition == 'zero_shot' else 'lstm', steps)


def all_runs(config: ConfigDict) -> dict[str, list[Run]]:
    """{stage: its runs} of a whole job, as if both models existed."""
    config = config.copy_and_resolve_references()
    if 'pretrain_lstm' in config.stages:
        config.lstm = config.lstm or str(pathlib.Path(config.out) / 'pretrain_lstm')
    return {stage: runs(config, stage, (1,)) for stage in config.stages}


def every_run(config: ConfigDict) -> list[Run]:
    """The runs of all stages of a whole job."""
    return [run for several in all_runs(config).values() for run in several]


def pretraining(config: ConfigDict, used: float = 0, lstm: bool = False) -> ConfigDict:
    """The config of the Transformer's pretraining, or of the LSTM's on the same tokens. used: seconds of config.minutes
    used so far."""
    p = config.pretrain.copy_and_resolve_references()
    if config.share is not None:
        p.train.steps = _begun(config) or _affordable(config, p, used)
        p.optimizer.warmup_steps = round(config.warmup * p.train.steps)
        p.checkpoint.every = p.eval.every = max(1, p.train.steps // 10)
    elif not p.train.steps:
        windows = tokens.open_split(inputs.tokens_of(config), 'train').n_windows(p.model.n_ctx)
        p.train.steps = int(p.train.epochs * windows / p.batch.size)
    saved = p.checkpoint.keep_steps or log_spaced(p.train.steps, config.saved)
    if lstm:
        p.update(config.lstm_differs)
    p.checkpoint.keep_steps = tuple(step for step in sorted(saved) if step <= p.train.steps)
    p.data.corpus = ''
    p.data.tokens = str(inputs.tokens_of(config))
    return p


def _begun(config):
    """The length of this job's pretraining if it has begun."""
    directory = pathlib.Path(config.out) / 'pretrain'
    return workdir.load(directory).config['train']['steps'] if (directory / 'config.json').exists() else None


def _affordable(config, p, used):
    """The updates that take config.share of config.minutes at the measured speed, validation and checkpoints included.
    UserError where they are too few."""
    began = time.perf_counter()
    row = measure(config, p)
    seconds = config.share * 60 * config.minutes - used - (time.perf_counter() - began)
    steps = int(seconds * (1 - config.spare) / row['step_seconds'])
    if steps < 2 * config.saved:
        raise UserError(f'{seconds:.0f} s of pretraining at {row["tokens_per_s"]:,.0f} tokens/s are {steps} updates, '
                        f'at least {2 * config.saved} are needed: give more --minutes')
    return steps


def measure(config: ConfigDict, p: ConfigDict) -> dict:
    """Time the step of pretraining: {'tokens_per_s', 'step_seconds': the median}."""
    from experiments.benchmarks import train_step
    vocab_size = Tokenizer.load(inputs.tokenizer_of(config)).vocab_size
    row = train_step.measure(p, vocab_size, warmup=3, windows=3, steps=10)
    return {'tokens_per_s': row['tokens_per_s'], 'step_seconds': statistics.median(row['step_seconds'])}


def log_spaced(last: int, n: int) -> set[int]:
    """At most n updates up to the last one, evenly spaced on a log scale from a 512th of it."""
    ratio = (last / max(1, last // 512)) ** (1 / (n - 1)) if n > 1 else 1.0
    return {round(last / ratio ** i) for i in range(n)}


def lines(config: ConfigDict) -> list[str]:
    """The plan as text: pretraining's length, then the runs of each stage in the order in which time is spent."""
    text = [f'deadline: {duration(60 * config.minutes) if config.minutes else "none"}']
    config = config.copy_and_resolve_references()
    if inputs.has_text(config):  # the step is timed once for both models
        config.pretrain.train.steps, config.share = pretraining(config).train.steps, None
    for stage, specs in all_runs(config).items():
        there = [run.name for run in specs if not lacks_data(run)]
        no_data = dict.fromkeys(run.task for run in specs if lacks_data(run))
        what = f'{len(there)} runs: {", ".join(there)}' if there else 'no runs'
        if stage in MODELS and inputs.given(config, MODELS[stage]):
            what = config[MODELS[stage]]
        elif stage in MODELS:
            p = pretraining(config, lstm=stage == 'pretrain_lstm') if inputs.has_text(config) else None
            what = f'{p.train.steps:,} updates of {p.batch.size} x {p.model.n_ctx} tokens' if p else 'no text'
        text.append(f'{stage}: {what}' + (f'; no data for {", ".join(no_data)}' if no_data else ''))
    return text
