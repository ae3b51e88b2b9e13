"""The plan of a job: which runs in which order, what each costs, how long pretraining lasts."""
import pathlib
import statistics
from collections.abc import Sequence

from ml_collections import ConfigDict

from experiments import table5_ablations
from experiments.lib.report import table
from experiments.lib.run_list import CONDITIONS, RunSpec, finetune_specs, zero_shot_specs
from experiments.reproduce import budget, inputs
from gpt1_jax.data import tokens
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir

FILE = 'plan.json'
MODELS = {'pretrain': 'pretrained', 'pretrain_lstm': 'lstm'}  # stages that train a model, and its field of the config
GROUPS = ('layers', 'grid', 'zero_shot', 'zero_shot_lstm')    # conditions of config.runs beside those of Table 5


def runs(config: ConfigDict, stage: str, saved: Sequence[int]) -> list[RunSpec]:
    """The runs of a stage in the order of priority: all tasks with their first seed, then with the next one.

    config: configs/reproduce.py's; one without an LSTM has no runs of it. saved: the pretraining steps that are scored
    zero-shot.
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
    """{stage: its runs} of a whole job, as if both models were there."""
    config = config.copy_and_resolve_references()
    if 'pretrain_lstm' in config.stages:
        config.lstm = config.lstm or str(pathlib.Path(config.out) / 'pretrain_lstm')
    return {stage: runs(config, stage, saved) for stage in config.stages}


def every_run(config: ConfigDict) -> list[RunSpec]:
    """The runs of all stages of a whole job."""
    return [spec for several in all_runs(config).values() for spec in several]


def measure(config: ConfigDict, lstm: bool = False) -> dict:
    """Time the step of pretraining: {'tokens_per_s', 'step_seconds', 'first_seconds', 'flops_per_token', 'device',
    'mfu'}."""
    from experiments.benchmarks import train_step
    p = config.pretrain.copy_and_resolve_references()
    if lstm:
        p.update(config.lstm_differs)
    vocab_size = Tokenizer.load(inputs.tokenizer_of(config)).vocab_size
    row = train_step.measure(p, vocab_size, warmup=3, windows=3, steps=10)
    return {'tokens_per_s': row['tokens_per_s'], 'step_seconds': statistics.median(row['step_seconds']),
            **{name: row[name] for name in ('first_seconds', 'flops_per_token', 'device', 'mfu')}}


def assumed(config: ConfigDict, tokens_per_s: float) -> dict:
    """The plan for an assumed speed, without what only a measurement tells."""
    p = config.pretrain
    measured = {'tokens_per_s': tokens_per_s, 'step_seconds': p.batch.size * p.model.n_ctx / tokens_per_s,
                'first_seconds': config.cost.compile}
    return make(config, measured, config.cost.compile)


def make(config: ConfigDict, measured: dict, used: float) -> dict:
    """The plan, fixed once: {'steps', 'saved', 'tokens', **measured}. 'saved': the updates that are scored zero-shot,
    up to the last.

    used: seconds of config.minutes used so far. UserError where config.share leaves too little for pretraining.
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
    ratio = 1.0
    if n > 1:
        ratio = (last / max(1, last // 512)) ** (1 / (n - 1))
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
    """The plan of a job, or None. UserError where it is damaged, or missing although pretraining was begun with it."""
    file = pathlib.Path(config.out) / FILE
    begun = file.parent / 'pretrain'
    if file.exists():
        return inputs.read_json(file, ('steps', 'saved', 'tokens', 'tokens_per_s', 'step_seconds', 'first_seconds'))
    if (begun / 'config.json').exists():
        raise UserError(f'{file}: is missing, but {begun} was begun with it')


def write(config: ConfigDict, plan: dict) -> None:
    """Write OUT/plan.json."""
    inputs.write_json(pathlib.Path(config.out) / FILE, plan)


def lines(config: ConfigDict, plan: dict) -> list[str]:
    """The budget as a table: a run's tokens, seconds and minutes so far, in the order in which time is spent."""
    costs = costs_of(config, plan)
    total = 60 * config.minutes if config.minutes else float('inf')
    at = 0.0
    rows = []
    no_data, left_out = {}, 0
    for stage, specs in all_runs(config, plan['saved']).items():
        for spec in [None] if stage in MODELS else specs:
            name = 'the model' if spec is None else spec.name
            if spec is None:
                n_tokens, seconds = model_cost(config, plan, stage)
            elif costs.known(spec):
                n_tokens, seconds = costs.tokens(spec), costs.seconds(spec)
            else:
                no_data[spec.task] = None
                continue
            row = [f'{stage}: {name}', f'{n_tokens:,}', f'{seconds:,.0f}']
            if at + seconds > total:
                left_out += 1
                rows.append([*row, 'n/a (budget)'])
                continue
            at += seconds
            rows.append([*row, f'{at / 60:.1f}'])
            if spec is not None:
                costs.taken(spec)
    limit = f'{config.minutes:g} minutes in all' if config.minutes else 'no limit'
    about = (f'{plan["tokens_per_s"]:,.0f} tokens/s: {plan["steps"]:,} updates, {plan["tokens"]:,} tokens of '
             f'pretraining; {limit}; {left_out} runs do not fit')
    missing = [f'left out, no data: {", ".join(no_data)}'] if no_data else []
    return [about, *missing, *table(('run', 'tokens', 'seconds', 'minutes, added up'), rows)]


def model_cost(config: ConfigDict, plan: dict, stage: str) -> tuple[int, float]:
    """(tokens, seconds) of pretraining a model from its start; (0, 0) for one that was given."""
    if inputs.given(config, MODELS[stage]):
        return 0, 0.0
    p = pretraining(config, plan, lstm=stage == 'pretrain_lstm')
    step_seconds, first = plan['step_seconds'], plan['first_seconds']
    if stage == 'pretrain_lstm':
        step_seconds, first = plan.get('lstm_step_seconds', step_seconds / config.lstm_speed), 0.0
    n_tokens = p.train.steps * p.batch.size * p.model.n_ctx
    return n_tokens, first + p.train.steps * step_seconds / (1 - config.spare)


def costs_of(config: ConfigDict, plan: dict) -> budget.Costs:
    """What runs cost. Compiling a program is taken to last as long as pretraining's did."""
    rates = config.cost.to_dict() | {'compile': plan['first_seconds'], 'lstm': config.lstm_speed}
    return budget.Costs(inputs.read(config), plan['tokens_per_s'], rates, pathlib.Path(config.out) / 'costs.jsonl')
