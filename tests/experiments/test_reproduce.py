"""The paper's experiments in stages, in small: tiny models, CoLA alone, jobs that are stopped,
killed and resumed; the plan: which runs in which order."""

import contextlib
import re
import shutil
import time

import pytest

from experiments import tables
from experiments.lib import runner
from experiments.paper import figure2_layers, scores
from experiments.reproduce import __main__ as reproduce
from experiments.reproduce import inputs, plan
from gpt1_jax import storage, zero_shot
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import lock, results
from gpt1_jax.weights import from_hub
from interruptions import Killed, power_cut, sigterm
from tiny import cola, corpus, load_config, override

pytestmark = pytest.mark.full

TINY = dict(
    pretrain__model__n_layer=2,
    pretrain__model__n_embd=16,
    pretrain__model__n_head=4,
    pretrain__model__n_inner=32,
    pretrain__model__n_ctx=32,
    pretrain__model__dtype='float32',
    finetune__model__dtype='float32',
    pretrain__tokenizer__vocab_size=330,
    pretrain__batch__size=8,
    pretrain__optimizer__peak_rate=1e-2,
    pretrain__eval__windows=8,
    pretrain__log_every=2,
    saved=3,
    layers=(-1, 0, 2),
    layer_tasks=('cola',),
    runs__layers__tasks=('cola',),
    zero_shot_tasks=('cola',),
    seeds_small=(0, 1),
    finetune__batch__size=8,
    finetune__batch__eval_size=16,
    finetune__batch__fixed_lengths=(32,),
)


@pytest.fixture(scope='module')
def given(tmp_path_factory):
    """{'books', 'data'}: directories."""
    root = tmp_path_factory.mktemp('given')
    return {'books': str(corpus(root / 'books')), 'data': str(cola(root / 'sets' / 'CoLA').parent)}


@pytest.fixture(scope='module')
def small():
    """configs/small_cpu.py with a tiny model, a dozen updates and one seed."""
    config = override(
        load_config('small_cpu'),
        TINY
        | dict(
            pretrain__train__steps=12,
            pretrain__eval__every=6,
            pretrain__checkpoint__every=4,
            pretrain__checkpoint__keep_steps=(4,),
            seeds_small=(0,),
            runs__small__conditions=('full', 'no_pretraining'),
        ),
    )
    config.lstm_differs.model.n_units = 16
    return config


def changed(config, **fields):
    return override(config.copy_and_resolve_references(), fields)


@pytest.fixture(scope='module')
def straight(small, given, tmp_path_factory):
    out = tmp_path_factory.mktemp('straight') / 'out'
    reproduce.run(small, out, **given)
    return out


def found(out):
    """Returns a job's results, each with its key (of parameters, settings, files and code), and the
    report's tables."""
    rows = {
        tuple(
            str(row.get(name)) for name in ('kind', 'key', 'split', 'selection', 'metric', 'value')
        )
        for row in results.read(out / 'results.jsonl')
    }
    report = (out / 'report.md').read_text().replace(str(out), 'OUT')
    return rows, report[report.index('## Does pretraining help?') :]


def test_a_whole_job_and_the_same_again_without_any_run(
    small, given, straight, monkeypatch, capsys
):
    rows, report = found(straight)
    assert {row[0] for row in rows} == {'finetune', 'zero_shot'}
    (line,) = [line for line in report.splitlines() if line.startswith('| CoLA (matthews)')]
    assert re.fullmatch(r'\| CoLA \(matthews\) \| [-\d.]+ \| [-\d.]+ \| n/a .*\| 13 \|', line)
    for part in ('| QQP | f1 | 70.3 | n/a |', '## Claims of Section 5', '## Table 5: ablations'):
        assert part in report
    assert (
        '| GPT-1: pretraining | 12 updates, 3,072 tokens, ' in (straight / 'report.md').read_text()
    )
    assert len(list(straight.glob('runs/cola-full-*'))) == 1 and not list(
        straight.glob('runs/*/checkpoints')
    )
    monkeypatch.setattr(runner, '_do', None)
    reproduce.run(small, straight, **given)
    assert found(straight) == (rows, report)
    assert 'rte: no data: ' in capsys.readouterr().out


def test_a_second_job_in_the_same_directory_is_refused(small, given, tmp_path):
    with lock.hold(tmp_path / 'out'), pytest.raises(UserError, match='holds the lock on .*out$'):
        reproduce.run(small, tmp_path / 'out', 'prepare', **given)


@contextlib.contextmanager
def killed(module, name, before=lambda *_: None):
    """Replaces a function, so that its first call is a kill. before: called before the kill."""

    def kill(*arguments, **_):
        before(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, name, kill)
        yield


def test_a_job_killed_in_each_stage_finds_the_same(small, given, straight, tmp_path, capsys):
    score = zero_shot.run
    for stage, kill in {
        'prepare': killed(inputs.prepare_lib, 'prepare'),
        'pretrain': power_cut(5),
        'zero_shot': killed(zero_shot, 'run', lambda config, steps: score(config, steps[:1])),
        'small': power_cut(7),
        'report': killed(tables, 'run'),
    }.items():
        with kill:
            reproduce.run(small, tmp_path / 'out', **given)
        begun = re.findall(r'^=== (\w+)', capsys.readouterr().out, re.M)
        assert stage in ('prepare', 'report') or begun[-1] == stage
        if stage in small.stages:  # to its end; a stage's later runs would meet the same cut
            reproduce.run(small, tmp_path / 'out', stage, **given)
    reproduce.run(small, tmp_path / 'out', **given)
    assert found(tmp_path / 'out') == found(straight)


def test_models_that_are_pretrained_already_are_taken(small, given, straight, tmp_path, capsys):
    """Neither books nor training are needed, and the config's fields of the model are ignored."""
    config = changed(
        small,
        pretrained=str(straight / 'pretrain'),
        lstm=str(straight / 'pretrain_lstm'),
        pretrain__model__n_layer=5,
        stages=('pretrain', 'zero_shot', 'pretrain_lstm', 'zero_shot_lstm'),
    )
    out = tmp_path / 'out'
    reproduce.run(config, out, data=given['data'], dry_run=True)
    assert 'zero_shot_lstm: no runs' not in capsys.readouterr().out
    reproduce.run(config, out, data=given['data'])
    scored = {row['key'] for row in results.read(out / 'results.jsonl')}
    assert len(scored) == 4 and scored < {
        row['key'] for row in results.read(straight / 'results.jsonl')
    }
    assert not (out / 'pretrain').exists() and not (out / 'tokens').exists()


def test_a_report_of_imported_weights_says_so_and_nothing_of_their_pretraining(
    small, given, tmp_path, monkeypatch
):
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    config = changed(small, pretrained=str(from_hub.local_run('novels')), stages=('pretrain',))
    reproduce.run(config, tmp_path / 'out', data=given['data'])
    report = (tmp_path / 'out' / 'report.md').read_text()
    assert '| pretraining | not here. Pretrained: imported/novels-' in report


def test_a_stage_that_fails_is_named_and_the_rest_goes_on(
    small, given, straight, tmp_path, monkeypatch
):
    shutil.copytree(straight, tmp_path / 'out')
    by_hand = dict(results.read(straight / 'results.jsonl')[-1])  # a run evaluated again has no key
    del by_hand['key']
    results.append(tmp_path / 'out' / 'results.jsonl', by_hand)
    do = reproduce.run_stage

    def fail(config, stage, end):
        if stage == 'small':
            raise UserError('no luck')
        return '2 runs failed: a, b' if stage == 'layers' else do(config, stage, end)

    monkeypatch.setattr(reproduce, 'run_stage', fail)
    with pytest.raises(UserError, match='^small: no luck; layers: 2 runs failed: a, b$'):
        reproduce.run(small, tmp_path / 'out', **given)
    assert '**small failed:** no luck' in (tmp_path / 'out' / 'report.md').read_text()


def test_stages_resume_and_the_report_says_which_runs_the_deadline_cut_off(
    given, tmp_path, monkeypatch, capsys
):
    """Pretraining is stopped half-way and resumes; then there is time for two runs."""
    gpu = override(
        load_config('reproduce'),
        TINY | dict(pretrain__train__steps=12, pretrain__optimizer__warmup_steps=0),
    )
    prepared = tmp_path / 'out'

    def do(stage, minutes=60.0, dry_run=False):
        reproduce.run(
            changed(gpu, minutes=minutes), prepared, stage, data=given['data'], dry_run=dry_run
        )

    reproduce.run(gpu, prepared, 'prepare', **given)
    capsys.readouterr()
    do('pretrain', 10.0, dry_run=True)
    planned = capsys.readouterr().out
    assert planned.startswith('deadline: 0:10:00\npretrain: 12 updates of 8 x 32 tokens\n')
    assert (
        'small: 6 runs: cola-full-0, cola-no_pretraining-0, cola-no_aux-0, cola-full-1' in planned
    )
    assert not (prepared / 'pretrain').exists()
    with pytest.raises(UserError, match='not a run directory'):
        do('small')
    with sigterm(5):
        do('pretrain')
    with pytest.raises(Interrupted, match='rerun the same command'):
        do('pretrain', 1e-6)
    with pytest.raises(UserError, match=r'pretraining is at step 6 of 12: it must be finished'):
        do('small')
    do('pretrain')
    rows = [row for row in results.read(prepared / 'pretrain' / 'metrics.jsonl') if 'loss' in row]
    assert rows[-1]['step'] == 12 and rows[-1]['learning_rate'] < 1e-3

    do('zero_shot')
    with monkeypatch.context() as patch:
        patch.setattr(runner, '_do_all', two_of(runner._do_all))
        do('small')
    printed = capsys.readouterr().out
    assert 'cola-no_pretraining-0: done' in printed and '\n4 left out\n' in printed
    do('report')
    report = (prepared / 'report.md').read_text()
    assert (
        'n/a (not run): cola-full-1' in report
        and '| no auxiliary LM, ours | n/a | n/a (not run) |' in report
    )


def two_of(do_all):
    """Makes runner._do_all find that the time is over after two runs."""
    left = iter([True, True, *[False] * 100])
    return lambda config, to_do, may_start: do_all(
        config, to_do, lambda: may_start() and next(left)
    )


@pytest.mark.quick
def test_a_deadline_ends_work_that_handles_errors():
    with pytest.raises(Interrupted), reproduce.stopped_at(time.monotonic() + 0.1):
        try:
            time.sleep(60)
        except UserError:
            time.sleep(60)


def test_pretraining_over_its_limit_leaves_its_model_to_the_other_stages(
    small, given, straight, tmp_path, monkeypatch
):
    out = tmp_path / 'out'
    config = changed(small, stages=('pretrain', 'small'))
    shutil.copytree(straight / 'tokens', out / 'tokens')
    with sigterm(5):
        reproduce.run(config, out, **given)
    with pytest.raises(UserError, match='pretraining is at step 6 of 12: it must be finished'):
        reproduce.run(config, out, 'small', **given)
    with pytest.raises(UserError, match='^pretrain: stopped by SIGTERM'):
        reproduce.run(changed(config, limits={'pretrain': 1e-6}), out, **given)
    assert {row['kind'] for row in results.read(out / 'results.jsonl')} == {'finetune'}
    assert '**pretrain failed:** stopped by SIGTERM' in (out / 'report.md').read_text()


def test_runs_side_by_side_have_the_results_of_those_in_turn(
    small, given, straight, tmp_path, capsys
):
    """Rows of all processes are in one file, and the same command again adds none."""
    out = tmp_path / 'out'
    config = changed(
        small,
        stages=('small', 'zero_shot', 'baselines'),
        processes=2,
        run_minutes=9.0,
        pretrained=str(straight / 'pretrain'),
        runs__baselines__tasks=('cola', 'sst2'),
        runs__baselines__conditions=('constant', 'words', 'probe'),
    )
    reproduce.run(config, out, data=given['data'])
    wanted = {row['key'] for row in results.read(straight / 'results.jsonl')}
    rows = results.read(out / 'results.jsonl')
    assert len({row['key'] for row in rows}) == 4 and {row['key'] for row in rows} < wanted
    rows_of = {
        place: [
            (row['baseline'], row['inputs'])
            for row in storage.read_json(place / 'baselines.json')['rows']
        ]
        for place in (straight, out)
    }
    asked = 'constant', 'words', 'probe'
    assert rows_of[out] == [row for row in rows_of[straight] if row[0] in asked]
    assert 'cola-full-0: done; ' in capsys.readouterr().out
    assert '15 steps of 8 rows' in next(out.glob('runs/cola-full-0-*.log')).read_text()
    reproduce.run(config, out, data=given['data'])
    assert results.read(out / 'results.jsonl') == rows


# The plan


@pytest.mark.quick
def test_time_is_spent_in_the_order_of_priority():
    stages = plan.all_runs(reproduce.checked(load_config('reproduce'), 'out'))
    assert [one.name for one in stages['small'][:4]] == [
        'cola-full-0',
        'cola-no_pretraining-0',
        'cola-no_aux-0',
        'mrpc-full-0',
    ]
    assert [one.seed for one in stages['small']] == sorted(one.seed for one in stages['small'])
    assert [one.config.n_transfer for one in stages['layers']][:6] == [0, 1, 2, 3, 4, 5]


def test_the_baselines_of_a_plan_are_those_of_the_program():
    assert load_config('reproduce').runs.baselines.conditions == tuple(scores.BASELINES)


@pytest.mark.parametrize('name', ['reproduce', 'small_cpu', 'overnight_cpu'])
def test_the_stages_have_every_run_of_the_tables_and_figures(name, monkeypatch):
    config = reproduce.checked(load_config(name), 'out')
    planned = {one.name for runs in plan.all_runs(config).values() for one in runs}
    config.lstm = 'lstm'
    config.zero_shot_steps = (1,)
    depth = config.pretrain.model.n_layer
    monkeypatch.setattr(
        figure2_layers, 'conditions', lambda _: {n: f'layers_{n}' for n in range(depth)}
    )
    wanted = {
        one.name
        for name, part in tables.PARTS.items()
        for one in part.specs(config)
        if one.task != 'wnli' and name not in ('figure_blimp', 'gains')
    }
    assert wanted <= planned


@pytest.mark.parametrize(
    'change, stage, message',
    [
        ({'limits': {'smal': 1.0}}, None, "config.limits is .*'smal'.*one of 'pretrain',"),
        ({'limits': {'small': 0}}, None, 'config.limits .* a number of minutes for each stage'),
        ({'processes': 0}, None, 'config.run_minutes needs config.processes'),
        ({'stages': ('pretrain', 'smal')}, None, "config.stages is .*'smal'.*one of 'pretrain',"),
        ({'runs__small__conditions': ('fulll',)}, None, "small.conditions is .'fulll'.*one of"),
        ({'pretrained': 'nowhere'}, None, 'nowhere: not a run directory'),
        ({}, 'pretrain', 'prepare comes first'),
        ({}, 'prepare', 'experiments.reproduce --data=DIR'),
        ({}, 'prepair', 'there are prepare,'),
    ],
)
def test_what_is_wrong_with_a_plan_or_a_stage_is_said_before_it_starts(
    tmp_path, change, stage, message
):
    with pytest.raises(UserError, match=message):
        reproduce.run(override(load_config('one_gpu'), change), tmp_path, stage)
