"""GPT-1 at the paper's size on one GPU in half an hour: pretraining, zero-shot, fine-tuning, ablations, a report.

python -m experiments.one_gpu --books=DIR_OR_GLOB --data=DATA --out=runs/one_gpu --minutes=30

--stage=NAME does one stage, in this order: prepare (on a CPU: tokens, and all of the data sets that is read, into OUT,
which is then everything that the GPU's machine needs: spaCy, ftfy and SentencePiece are for this stage alone),
pretrain, zero_shot, small, large, layers, race, lstm, report. Stopped or killed, the same command goes on. A stage is
stopped after --stage_minutes, saved, with exit status 75.

Pretraining first measures its speed and fixes the number of updates for good (OUT/plan.json, and the checkpoints'
config). What each run costs is printed before; one that no longer fits in --minutes is `n/a (budget)`, none is made
smaller. --tokens_per_s=500000 --stage=plan prints the plan for an assumed speed and keeps nothing.
"""
import json
import pathlib

from absl import flags
from ml_collections import config_flags

from experiments import budget, one_gpu_plan, one_gpu_sets, planned, small_cpu
from experiments import run as runs
from gpt1_jax import cli, distributed, prepare, pretrain, results, rules, storage, workdir
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.progress import duration

RULES = {
    'minutes': rules.positive(), 'share': rules.between(0, 1), 'spare': rules.between(0, 0.9),
    'warmup': rules.between(0, 1), 'saved': rules.whole(1, 1000), 'lstm_speed': rules.positive(),
    'small': rules.several(rules.text()), 'large': rules.several(rules.text()),
    'conditions': rules.several(rules.text()), 'race_passages': rules.whole(1), 'cost.step': rules.positive(),
    'cost.run': rules.positive(), 'cost.compile': rules.positive(), 'dollars_an_hour': rules.positive()}
STAGES = ('prepare', 'pretrain', 'zero_shot', 'small', 'large', 'layers', 'race', 'lstm', 'report')


def run_prepare(config, books, data, out):
    """Shards of the books, and what runs read of the data sets."""
    if not books or not data:
        raise UserError('give --books=DIR and --data=DIR')
    p = config.pretrain
    corpus, valid = small_cpu.corpus(books, 10**9, 10**9)
    t = p.tokenizer
    prepare.prepare(out / 'tokens', corpus.split(','), valid if valid == small_cpu.HELD_OUT else valid.split(','),
                    t.source, t.encoder or None, t.bpe or None,
                    t.merges if t.source == 'train' and t.vocab_size is None else None, t.vocab_size)
    there = config.copy_and_resolve_references()
    there.data = str(data)
    planned.check(there, pretrained=False)
    one_gpu_sets.copy(there, _all(one_gpu_plan.lists(there, (1,))), out / 'data')
    one_gpu_sets.count(config, _all(one_gpu_plan.lists(config, (1,))), out)


def _all(found):
    return [one for several in found.values() for one in several]


def run_pretrain(config, clock, out):
    """Measure and plan, once; then train to the end of the plan."""
    plan = one_gpu_plan.read(out)
    if plan is None:
        measured = one_gpu_plan.measure(config.pretrain, out)
        plan = one_gpu_plan.make(config, measured, config.share * clock.total - clock.used)
        one_gpu_plan.write(out, plan)
    print('\n'.join(one_gpu_plan.lines(config, plan, out)), flush=True)
    pretrain.run(one_gpu_plan.pretraining(config, plan, out), out / 'pretrain')


def _placed(config, out, minutes):
    """The config with the places of a job in OUT, and its minutes."""
    config = config.copy_and_resolve_references()
    config.minutes = config.minutes if minutes is None else minutes
    rules.validate(config, RULES)
    config.out, config.data, config.pretrained = str(out), str(out / 'data'), str(out / 'pretrain')
    lstm, plan = out / 'pretrain_lstm', one_gpu_plan.read(out)
    if (lstm / 'config.json').exists() and plan and plan['steps'] in workdir.load(lstm).steps():  # it is finished
        config.lstm = str(lstm)
    return config


def run_list(config, stage, clock, out):
    """The runs of a stage, as far as they fit; returns the names of those that failed."""
    plan = _finished(config, out)
    costs, began = one_gpu_plan.costs_of(config, plan, out), {}

    def note():
        for name, (estimated, at) in list(began.items()):
            results.append(costs.done, {'run': name, 'estimated': round(estimated, 1),
                                        'seconds': round(clock.used - at, 1)})
            del began[name]

    def fits(one):
        note()  # of the run before this one
        estimated = costs.seconds(one)
        if clock.left < estimated * costs.factor():
            return False
        costs.taken(one)
        began[one.name] = estimated, clock.used
        return True
    outcomes = runs.execute(one_gpu_plan.lists(config, plan['saved'])[stage], runs.results_path(config), out=config.out,
                            fits=fits)
    note()
    return [one.planned.name for one in outcomes if one.status == 'failed']


def _finished(config, out):
    """The plan. UserError where pretraining has not come to its end."""
    plan = one_gpu_plan.read(out)
    if plan is None:
        raise UserError(f'{out / one_gpu_plan.FILE}: is missing: --stage=pretrain comes first')
    found = workdir.load(out / 'pretrain').steps()
    if plan['steps'] not in found:
        raise UserError(f'{out / "pretrain"}: pretraining is at step {found[-1] if found else 0:,} of '
                        f'{plan["steps"]:,}: --stage=pretrain goes on')
    return plan


def run_lstm(config, clock, out):
    """An LSTM on as many tokens; measured first, and left out if it does not fit."""
    plan, file = _finished(config, out), out / 'plan_lstm.json'
    settings = one_gpu_plan.pretraining(config, plan, out, lstm=True)
    if not file.exists():
        if clock.left < plan['tokens'] / (plan['tokens_per_s'] * config.lstm_speed) * 0.5:
            print('the LSTM: n/a (budget)', flush=True)  # not even at twice the speed that is taken for granted
            return
        storage.write(file, (json.dumps(one_gpu_plan.measure(settings, out)) + '\n').encode())
    seconds = plan['steps'] * one_gpu_sets.read_json(file, ('step_seconds',))['step_seconds']
    begun = (out / 'pretrain_lstm' / 'config.json').exists()
    if not begun and clock.left < seconds / (1 - config.spare):
        print(f'the LSTM: n/a (budget): {duration(seconds)}, {duration(max(0, clock.left))} left', flush=True)
        return
    pretrain.run(settings, out / 'pretrain_lstm')
    config.lstm = str(out / 'pretrain_lstm')
    return run_list(config, 'lstm', clock, out)


def run(config, out, stage=None, books=None, data=None, minutes=None, stage_minutes=None):
    """One stage, or all; see the module. UserError and Interrupted as of the stages."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    config = _placed(config, out, minutes)
    if stage not in (None, 'prepare'):
        _prepared(out)
    elif stage == 'prepare' or one_gpu_sets.read(out) is None:
        run_prepare(config, books, data, out)
    clock = budget.Clock(out / 'clock.json', 60 * config.minutes, stage_minutes and 60 * stage_minutes)
    failed = []
    for name in STAGES[1:-1] if stage is None else (stage,):
        if name not in ('prepare', 'report'):
            failed += _timed(config, name, clock, out) or []
    if stage in (None, 'report'):
        from experiments import one_gpu_report  # draws: needs matplotlib
        one_gpu_report.write(config, _finished(config, out), clock.used, out)
    if failed:
        raise UserError(f'{len(failed)} runs failed: {", ".join(failed)}')


def show_plan(config, out, tokens_per_s, minutes=None):
    """Print the plan for an assumed speed; nothing is kept."""
    if not tokens_per_s:
        raise UserError('--stage=plan wants --tokens_per_s=N')
    _prepared(out)
    config = _placed(config, out, minutes)
    print('assumed:', '\n'.join(one_gpu_plan.lines(config, one_gpu_plan.assumed(config, tokens_per_s), out)))


def _prepared(out):
    if one_gpu_sets.read(out) is None:
        raise UserError(f'{out}: nothing is prepared there: --stage=prepare comes first')


def _timed(config, stage, clock, out):
    """A stage under the clock; returns the names of runs that failed.

    Past the total the runs that are left are n/a, which the report says; it is no error.
    """
    print(f'\n=== {stage} ({duration(clock.used)} of {duration(clock.total)})', flush=True)
    try:
        with budget.stoppable(), clock:
            if stage == 'pretrain':
                return run_pretrain(config, clock, out)
            return run_lstm(config, clock, out) if stage == 'lstm' else run_list(config, stage, clock, out)
    except Interrupted:
        if clock.left > 0 or stage == 'pretrain':
            raise
        print(f'{stage}: stopped at the end of the {duration(clock.total)}; what is left is n/a (budget)', flush=True)


def _define_flags():
    cli.define_process_flags()
    config_flags.DEFINE_config_file('config', 'configs/one_gpu.py', 'Sizes; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('books', None, 'Directory with train/ and valid/ or .txt files, or a pattern.')
    flags.DEFINE_string('data', None, 'Directory that holds the data sets.')
    flags.DEFINE_string('out', 'runs/one_gpu', 'Directory of everything written; an unfinished job there goes on.')
    flags.DEFINE_float('minutes', None, 'Of the device, in all; default config.minutes.', lower_bound=0)
    flags.DEFINE_float('stage_minutes', None, 'Stop a stage after so many minutes of this start.', lower_bound=0)
    flags.DEFINE_enum('stage', None, [*STAGES, 'plan'], 'One stage; default all of them.')
    flags.DEFINE_float('tokens_per_s', None, 'For --stage=plan: the speed to assume.', lower_bound=1)


def main():
    f = flags.FLAGS
    distributed.start(f.coordinator, f.processes, f.process, f.deterministic)
    if f.stage == 'plan':
        show_plan(f.config, pathlib.Path(f.out), f.tokens_per_s, f.minutes)
        return
    run(f.config, f.out, f.stage, f.books, f.data, f.minutes, f.stage_minutes)


if __name__ == '__main__':
    cli.run(main, _define_flags)
