"""The plan of a job: its runs in the order of priority, and how long pretraining lasts."""
import pathlib
import statistics
from collections.abc import Sequence

from ml_collections import ConfigDict

from experiments import table5_ablations
from experiments.lib.run_list import CONDITIONS, RunSpec, finetune_specs, zero_shot_specs
from experiments.reproduce import inputs
from gpt1_jax import storage
from gpt1_jax.data import tokens
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir
from gpt1_jax.runs.console import duration

FILE = 'plan.json'
FIELDS = ('steps', 'saved', 'tokens', 'tokens_per_s', 'step_seconds')
MODELS = {'pretrain': 'pretrained', 'pretrain_lstm': 'lstm'}  # stages that train a model, and its field of the config
GROUPS = ('layers', 'grid', 'zero_shot', 'zero_shot_lstm')    # conditions of config.runs in addition to Table 5's


def runs(config: ConfigDict, stage: str, saved: Sequence[int]) -> list[RunSpec]:
    """The runs of a stage in the order of priority: all tasks with their first seed, then with the next one.

    config: configs/reproduce.py's; without config.lstm there are no runs of the LSTM. saved: the pretraining steps to
    score zero-shot.
    """
    found = []
    if stage not in MODELS:
        for task in config.runs[stage].tasks:
            for condition in config.runs[stage].conditions:
                found += _runs_of(config, task, condition, saved)
    return sorted(found, key=lambda spec: spec.seed)


def _runs_of(config, task, condition, saved):
    """The runs of a task under a condition of config.runs."""
    if condition in CONDITIONS:
        return finetune_specs(config, task, condition)
    if condition in ('zero_shot', 'zero_shot_lstm'):
        return zero_shot_specs(config, task, 'full' if condition == 'zero_shot' else 'lstm', saved)
    found = []
    if condition == 'layers':
        for n in config.layers:
            if 0 <= n < config.pretrain.model.n_layer:  # none and all are 'no_pretraining' and 'full'
                found += finetune_specs(config, task, f'layers_{n}', {'n_transfer': n})
        return found
    for setting, values in table5_ablations.grid(config).items():
        for end in table5_ablations.GRID:
            found += finetune_specs(config, task, f'{end}@{setting}', values, config.grid_seeds)
    return found


def all_runs(config: ConfigDict, saved: Sequence[int] = (1,)) -> dict[str, list[RunSpec]]:
    """{stage: its runs} of a whole job, as if both models existed."""
    config = config.copy_and_resolve_references()
    if 'pretrain_lstm' in config.stages:
        config.lstm = config.lstm or str(pathlib.Path(config.out) / 'pretrain_lstm')
    return {stage: runs(config, stage, saved) for stage in config.stages}


def every_run(config: ConfigDict) -> list[RunSpec]:
    """The runs of all stages of a whole job."""
    return [spec for several in all_runs(config).values() for spec in several]


def measure(config: ConfigDict, lstm: bool = False) -> dict:
    """Time the step of pretraining: {'tokens_per_s', 'step_seconds', 'flops_per_token', 'device', 'mfu'}."""
    from experiments.benchmarks import train_step
    vocab_size = Tokenizer.load(inputs.tokenizer_of(config)).vocab_size
    p = config.pretrain.copy_and_resolve_references()
    if lstm:
        p.update(config.lstm_differs)
    row = train_step.measure(p, vocab_size, warmup=3, windows=3, steps=10)
    return {'tokens_per_s': row['tokens_per_s'], 'step_seconds': statistics.median(row['step_seconds']),
            **{name: row[name] for name in ('flops_per_token', 'device', 'mfu')}}


def make(config: ConfigDict, measured: dict, used: float) -> dict:
    """The plan, made once: {'steps', 'saved', 'tokens', **measured}. 'saved': the updates to score zero-shot, the last
    one among them.

    used: seconds of config.minutes used so far. UserError if config.share leaves too little time for pretraining.
    """
    p = config.pretrain
    saved = p.checkpoint.keep_steps
    if inputs.given(config):
        saved = workdir.load(config.pretrained).steps()
        steps = saved[-1]
    elif config.share is not None:
        seconds = config.share * 60 * config.minutes - used
        steps = int(seconds * (1 - config.spare) / measured['step_seconds'])
        if steps < 2 * config.saved:
            raise UserError(f'{seconds:.0f} s of pretraining at {measured["tokens_per_s"]:,.0f} tokens/s are {steps} '
                            f'updates, at least {2 * config.saved} are needed: give more --minutes')
    elif p.train.steps:
        steps = p.train.steps
    else:
        windows = tokens.open_split(inputs.tokens_of(config), 'train').n_windows(p.model.n_ctx)
        steps = int(p.train.epochs * windows / p.batch.size)
    saved = sorted({step for step in saved or log_spaced(steps, config.saved) if step < steps} | {steps})
    return {'steps': steps, 'saved': saved, 'tokens': steps * p.batch.size * p.model.n_ctx, **measured}


def log_spaced(last: int, n: int) -> set[int]:
    """At most n updates up to the last one, evenly spaced on a log scale from a 512th of it."""
    ratio = (last / max(1, last // 512)) ** (1 / (n - 1)) if n > 1 else 1.0
    return {round(last / ratio ** i) for i in range(n)}


def pretraining(config: ConfigDict, plan: dict, lstm: bool = False) -> ConfigDict:
    """The config of the Transformer's pretraining, or of the LSTM's on the same tokens."""
    p = config.pretrain.copy_and_resolve_references()
    if config.share is not None:
        p.optimizer.warmup_steps = round(config.warmup * plan['steps'])
        p.checkpoint.every = p.eval.every = max(1, plan['steps'] // 10)
    p.train.steps = plan['steps']
    if lstm:
        p.update(config.lstm_differs)
    p.checkpoint.keep_steps = tuple(step for step in plan['saved'] if step <= p.train.steps)
    p.data.corpus = ''
    p.data.tokens = str(inputs.tokens_of(config))
    return p


def read(config: ConfigDict) -> dict | None:
    """The plan of a job, or None. UserError if it is damaged, or missing although pretraining has begun."""
    file = pathlib.Path(config.out) / FILE
    begun = file.parent / 'pretrain'
    if not file.exists():
        if (begun / 'config.json').exists():
            raise UserError(f'{file}: is missing, but {begun} was begun with it')
        return None
    plan = storage.read_json(file)
    missing = [name for name in FIELDS if not isinstance(plan, dict) or name not in plan]
    if missing:
        raise UserError(f'{file}: {missing[0]} is missing')
    return plan


def write(config: ConfigDict, plan: dict) -> None:
    """Write OUT/plan.json."""
    storage.write_json(pathlib.Path(config.out) / FILE, plan)


def lines(config: ConfigDict, plan: dict) -> list[str]:
    """The plan as text: pretraining's length, then the runs of each stage in the order in which time is spent."""
    limit = f'{config.minutes:g} minutes in all' if config.minutes else 'no limit'
    text = [f'{plan["steps"]:,} updates, {plan["tokens"]:,} tokens of pretraining: '
            f'{duration(pretraining_seconds(config, plan))} at {plan["tokens_per_s"]:,.0f} tokens/s; {limit}']
    for stage, specs in all_runs(config, plan['saved']).items():
        there = [spec.name for spec in specs if not inputs.lacks_data(spec)]
        no_data = dict.fromkeys(spec.task for spec in specs if inputs.lacks_data(spec))
        what = 'the model' if stage in MODELS else f'{len(there)} runs: {", ".join(there)}' if there else 'no runs'
        text.append(f'{stage}: {what}' + (f'; no data for {", ".join(no_data)}' if no_data else ''))
    return text


def pretraining_seconds(config: ConfigDict, plan: dict, lstm: bool = False) -> float:
    """Seconds that pretraining a model takes from its start, at the measured speed; 0 for a given one."""
    if inputs.given(config, 'lstm' if lstm else 'pretrained'):
        return 0.0
    steps = pretraining(config, plan, lstm).train.steps
    return steps * plan['lstm_step_seconds' if lstm else 'step_seconds'] / (1 - config.spare)
