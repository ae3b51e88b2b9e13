"""The plan of experiments.one_gpu: which runs there are, what each will cost, how long pretraining lasts."""
import json
import statistics

from experiments import budget, one_gpu_sets, small_cpu
from experiments import run as runs
from experiments.report import table
from gpt1_jax import storage
from gpt1_jax.data import tokens
from gpt1_jax.errors import UserError

FILE = 'plan.json'


def lists(config, saved) -> dict:
    """{stage: its runs, in the order of priority}. saved: the pretraining updates that are scored zero-shot."""
    found = {
        'zero_shot': [one for task in config.zero_shot_tasks for one in runs.zero_shot_plan(config, task, steps=saved)],
        'small': [one for seed in config.seeds_small for task in config.small for condition in config.conditions
                  for one in runs.plans(config, task, condition, seeds=(seed,))],
        'large': [one for task in config.large for condition in config.conditions
                  for one in runs.plans(config, task, condition)],
        'layers': [one for task in config.layer_tasks for n in config.layers
                   if 0 <= n < config.pretrain.model.n_layer
                   for one in runs.plans(config, task, f'layers_{n}', {'n_transfer': n})],
        'race': [one for condition in ('full', 'no_pretraining') for one in runs.plans(config, 'race', condition)]}
    if config.lstm:
        found['lstm'] = [one for task in config.zero_shot_tasks
                         for one in runs.zero_shot_plan(config, task, 'lstm', steps=saved)]
        found['lstm'] += [one for task in (*config.small, *config.large) for one in runs.plans(config, task, 'lstm')]
    return found


def measure(config, out):
    """{'tokens_per_s', 'step_seconds', 'first_seconds', 'flops_per_token', 'device', 'mfu'} of the pretraining step."""
    from experiments.benchmarks import train_step
    vocab_size = tokens.read_manifest(out / 'tokens')['vocab_size']
    row = train_step.measure(config, vocab_size, warmup=3, windows=3, steps=10)
    return {'tokens_per_s': row['tokens_per_s'], 'step_seconds': statistics.median(row['step_seconds']),
            **{name: row[name] for name in ('first_seconds', 'flops_per_token', 'device', 'mfu')}}


def make(config, measured, seconds) -> dict:
    """What is fixed once: {'steps', 'saved', 'tokens', **measured}. seconds: left for pretraining.

    UserError where they are not enough for the checkpoints that are scored.
    """
    steps = int(seconds * (1 - config.spare) / measured['step_seconds'])
    if steps < 2 * config.saved:
        raise UserError(f'{seconds:.0f} s of pretraining at {measured["tokens_per_s"]:,.0f} tokens/s are {steps} '
                        f'updates, at least {2 * config.saved} are needed: give more --minutes')
    ratio = (steps / max(1, steps // 512)) ** (1 / (config.saved - 1)) if config.saved > 1 else 1
    saved = sorted({round(steps / ratio ** i) for i in range(config.saved)})
    return {'steps': steps, 'saved': saved,
            'tokens': steps * config.pretrain.batch.size * config.pretrain.model.n_ctx, **measured}


def pretraining(config, plan, out, lstm=False):
    """The ConfigDict of the Transformer's pretraining, or of the LSTM's on the same tokens."""
    p = (small_cpu.lstm_config(config, out / 'tokens') if lstm else config.pretrain.copy_and_resolve_references())
    p.data.corpus, p.data.tokens = '', str(out / 'tokens')
    p.train.steps, p.optimizer.warmup_steps = plan['steps'], round(config.warmup * plan['steps'])
    p.checkpoint.keep_steps = tuple(plan['saved'])
    p.checkpoint.every = p.eval.every = max(1, plan['steps'] // 10)
    return p


def assumed(config, tokens_per_s) -> dict:
    """The plan for a speed that nobody measured, less what only a measurement tells."""
    p = config.pretrain
    return make(config, {
        'tokens_per_s': tokens_per_s, 'step_seconds': p.batch.size * p.model.n_ctx / tokens_per_s,
        'first_seconds': config.cost.compile}, config.share * 60 * config.minutes - config.cost.compile)


def read(out) -> dict | None:
    """The plan of a job, or None. UserError where it is damaged, or missing although pretraining was begun with it."""
    file = out / FILE
    if not file.exists():
        if (out / 'pretrain' / 'config.json').exists():
            raise UserError(f'{file}: is missing, but {out / "pretrain"} was begun with it')
        return None
    return one_gpu_sets.read_json(file, ('steps', 'saved', 'tokens', 'tokens_per_s', 'step_seconds', 'first_seconds'))


def write(out, plan):
    storage.write(out / FILE, (json.dumps(plan, indent=1) + '\n').encode())


def lines(config, plan, out) -> list[str]:
    """The budget: a line a run with its tokens, seconds and minutes so far, in the order in which time is spent."""
    costs, total = costs_of(config, plan, out), 60 * config.minutes
    at = plan['first_seconds'] + plan['steps'] * plan['step_seconds'] / (1 - config.spare)
    rows, left_out = [['pretraining', '1', f'{plan["tokens"]:,}', f'{at:,.0f}', f'{at / 60:.1f}']], 0
    for number, (stage, several) in enumerate(lists(config, plan['saved']).items(), 2):
        for one in several:
            if one.kind not in costs.counts.get(one.task, {}):
                rows.append([f'{stage}: {one.name}', str(number), 'n/a (no data)', '', ''])
                continue
            seconds = costs.seconds(one)
            fits = at + seconds <= total
            if fits:
                at += seconds
                costs.taken(one)
            left_out += not fits
            rows.append([f'{stage}: {one.name}', str(number), f'{costs.tokens(one):,}', f'{seconds:,.0f}',
                         f'{at / 60:.1f}' if fits else 'n/a (budget)'])
    seconds = plan['tokens'] / (plan['tokens_per_s'] * config.lstm_speed)
    rows.append(['lstm: pretraining, tokens matched', '7', f'{plan["tokens"]:,}', f'{seconds:,.0f}',
                 f'{(at + seconds) / 60:.1f}' if at + seconds <= total else 'n/a (budget)'])
    about = (f'{plan["tokens_per_s"]:,.0f} tokens/s: {plan["steps"]:,} updates, {plan["tokens"]:,} tokens of '
             f'pretraining; {config.minutes:g} minutes in all; {left_out} runs do not fit')
    return [about, *table(('run', 'priority', 'tokens', 'seconds', 'minutes, added up'), rows)]


def costs_of(config, plan, out) -> budget.Costs:
    """A program takes what pretraining's took to compile."""
    rates = config.cost.to_dict() | {'compile': plan['first_seconds']}
    return budget.Costs(one_gpu_sets.read(out), plan['tokens_per_s'], rates, out / 'costs.jsonl')
