"""experiments.lib.run_list and run: which runs a list has, which are done, what happens when one
fails."""

import pathlib
import types

import pytest
from gpt1_jax.configs import experiments as experiments_config
from ml_collections import ConfigDict

import outcomes
from experiments.lib import run_list, runner
from experiments.lib.run_list import finetune_runs as specs
from gpt1_jax import finetuning, zero_shot
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import provenance, results
from tiny import cola, python

pytestmark = pytest.mark.full


@pytest.fixture
def config(tmp_path):
    config = experiments_config.get_config()
    cola(tmp_path / 'data' / 'CoLA')
    places = {'pretrained': 'gpt', 'data': 'data', 'out': 'out'}
    config.update({field: str(tmp_path / name) for field, name in places.items()})
    config.seeds_small = (0, 1)
    return config


@pytest.fixture
def trainer(monkeypatch):
    """Stands in for finetune: a key of seed, rate, lambda and code, rows of 1 / (seed + 2), and a
    list of the runs."""
    found = types.SimpleNamespace(code='now', ran=[], broken={})

    def key(config, code=None):
        return provenance.digest(
            [config.seed, config.optimizer.peak_rate, config.lm_weight, code or found.code]
        )

    def run(config, directory):
        if config.seed in found.broken:
            raise found.broken[config.seed]
        found.ran.append(directory.name)
        (directory / 'checkpoints' / '5' / 'params').mkdir(parents=True, exist_ok=True)
        (directory / 'predictions.jsonl').touch()
        of_run = {'task': config.task, 'seed': config.seed, 'run': str(directory), 'n': 8}
        of_run |= {'key': key(config), 'code': found.code, 'value': 1 / (config.seed + 2)}
        rows = [
            outcomes.row(**of_run, split=split, selection=selection, metric=metric)
            | {'predictions': str(directory / 'predictions.jsonl')}
            for split in config.eval.splits
            for selection in config.eval.selections
            for metric in ('matthews', 'accuracy')
        ]
        results.append(config.results, *rows)
        return rows

    monkeypatch.setattr(finetuning, 'run', run)
    monkeypatch.setattr(finetuning, 'run_key', key)
    monkeypatch.setattr(finetuning, 'count_tokens', lambda config: 1000 * config.train.epochs)
    return found


def statuses(runs):
    return [run.status for run in runs]


def carried_out(config, settings=None, **more):
    return statuses(runner.carry_out(config, specs(config, 'cola', 'full', settings, **more)))


def test_a_plan_has_the_seeds_and_settings_of_its_task_its_condition_and_its_own(config):
    assert [one.seed for one in specs(config, 'cola', 'full')] == [0, 1]  # a small set
    assert [one.seed for one in specs(config, 'sst2', 'full')] == [0]
    config.tasks.cola = {'batch': {'size': 4}, 'train': {'epochs': 7}}
    (one, _) = specs(config, 'cola', 'no_aux@x', {'train.epochs': 9})
    tuned = one.config
    assert (tuned.task, tuned.batch.size, tuned.train.epochs, tuned.lm_weight) == ('cola', 4, 9, 0)
    assert tuned.init_from == config.pretrained and tuned.eval.selections == ('final', 'best')
    assert (one.name, one.splits) == ('cola-no_aux@x-0', ('dev',))
    with pytest.raises(UserError, match='settings of full: does not fit.*epoch'):
        specs(config, 'cola', 'full', {'train.epoch': 9})


def test_the_lstm_has_no_plan_unless_its_run_is_given(config):
    assert (
        specs(config, 'cola', 'lstm') == []
        and run_list.zero_shot_runs(config, 'cola', 'lstm') == []
    )
    # A source stands for the data of all sets
    config.lstm = 'runs/lstm'
    config.data = 'tfds:/prepared'
    run_list.check(config, pretrained=False)
    (one,) = specs(config, 'sst2', 'lstm')
    assert (one.config.init_from, one.config.data.dir) == ('runs/lstm', 'tfds:/prepared')


@pytest.mark.quick
def test_a_second_time_nothing_runs_and_the_rows_are_those_found(config, trainer):
    wanted = specs(config, 'cola', 'full')
    first = runner.carry_out(config, wanted)
    assert statuses(first) == ['ran', 'ran'] and len(trainer.ran) == 2
    second = runner.carry_out(config, wanted)
    assert statuses(second) == ['done', 'done'] and len(trainer.ran) == 2
    assert [one.rows for one in second] == [one.rows for one in first]
    carried_out(config, {'optimizer.peak_rate': 1e-3})
    assert len(set(trainer.ran)) == 4  # changed settings: another directory


@pytest.mark.parametrize('lost', ['selection', 'metric', 'predictions'])
def test_a_run_that_lacks_a_row_or_its_predictions_is_not_done(config, trainer, lost):
    row = runner.carry_out(config, specs(config, 'cola', 'full'))[1].rows[0]
    path = runner.results_path(config)
    if lost == 'predictions':
        pathlib.Path(row[lost]).unlink()
    else:
        results.write(
            path, [one for one in results.read(path) if (one['seed'], one[lost]) != (1, row[lost])]
        )
    assert carried_out(config) == ['done', 'ran']


def test_zero_shot_scores_only_the_updates_that_are_missing(config, monkeypatch):
    scored = []

    def run(one, steps):
        scored.append(steps)
        rows = [
            outcomes.row(kind='zero_shot', task='cola', step=step, key=f'k{step}', metric=metric)
            | {'predictions': __file__}
            for step in steps
            for metric in ('matthews', 'accuracy')
        ]
        results.append(one.results, *rows)
        return rows

    monkeypatch.setattr(zero_shot, 'run', run)
    monkeypatch.setattr(zero_shot, 'run_key', lambda one, step, code=None: f'k{step}')
    for steps in ((10, 20), (10, 20, 30)):
        (found,) = runner.carry_out(config, run_list.zero_shot_runs(config, 'cola', steps=steps))
    assert scored == [[10, 20], [30]]
    assert [row['step'] for row in found.rows] == [10, 10, 20, 20, 30, 30]


def test_the_same_run_under_two_names_is_done_once(config, trainer):
    wanted = specs(config, 'cola', 'full') + specs(config, 'cola', 'full@3', {'train.epochs': 3})
    assert statuses(runner.carry_out(config, wanted)) == ['ran', 'ran', 'done', 'done']
    assert runner.carry_out(config, wanted)[3].rows[0]['seed'] == 1


def test_a_run_of_other_code_is_done_again_unless_any_version_will_do(config, trainer, capsys):
    carried_out(config)
    trainer.code = 'later'
    config.any_version = True
    assert carried_out(config) == ['done', 'done'] and len(trainer.ran) == 2
    assert (
        'cola-full-0: rows of another version of the code are taken (now)'
        in capsys.readouterr().out
    )
    config.any_version = False
    assert carried_out(config) == ['ran', 'ran']


@pytest.mark.parametrize('error', [UserError('the loss is nan'), ValueError('the loss is nan')])
def test_a_failing_run_is_one_line_and_the_rest_goes_on(config, trainer, error, capsys):
    trainer.broken = {0: error}
    done = runner.carry_out(config, specs(config, 'cola', 'full'))
    assert statuses(done) == ['failed', 'ran'] and 'the loss is nan' in done[0].error
    assert capsys.readouterr().out.count('cola-full-0: failed: ') == 1
    assert len(list(pathlib.Path(config.out).glob('runs/*.error.txt'))) == (
        not isinstance(error, UserError)
    )
    trainer.broken = {}
    assert carried_out(config) == ['ran', 'done']


@pytest.mark.parametrize('error', [KeyboardInterrupt(), Interrupted('stopped')])
def test_an_interrupt_stops_all(config, trainer, error):
    trainer.broken = {0: error}
    with pytest.raises(type(error)):
        carried_out(config)
    assert trainer.ran == []


@pytest.mark.parametrize(
    'field, value, message',
    [
        ('layer_tasks', ('colaa',), "config.layer_tasks is .'colaa',., must be .*'cola',"),
        ('layer_tasks', ('stsb',), 'config.layer_tasks: stsb has no accuracy'),
        ('zero_shot_tasks', ('mnli',), 'mnli'),
        ('data', 'nowhere', 'nowhere: no such directory'),
        ('pretrained', '', 'give --config.pretrained'),
        ('pretrained', 'nowhere', 'nowhere: not a run directory'),
        ('seeds', (), r'config.seeds is \(\), must be a tuple'),
        ('grid', {'train': {'epochs': 3}}, 'config.grid'),
        ('tasks', {'cola': 3}, 'config.tasks is'),
    ],
)
def test_what_is_wrong_with_a_list_is_said_before_it_runs(config, field, value, message):
    with config.ignore_type():
        config[field] = ConfigDict(value) if isinstance(value, dict) else value
    with pytest.raises(UserError, match=message):
        run_list.check(config, pretrained=field == 'pretrained')


def test_checkpoints_of_finished_runs_go_unless_they_are_wanted(config, trainer):
    def kept():
        return len(list(pathlib.Path(config.out).glob('runs/*/checkpoints')))

    carried_out(config)
    assert kept() == 0
    assert carried_out(config, seeds=[0], keep=True) == ['ran'] and kept() == 1
    assert carried_out(config, seeds=[0], keep=True) == ['done']


def test_a_model_may_be_named(config, tmp_path):
    """The model of the package: imported into the cache, then a run like any other."""
    done = python(
        '-m',
        'experiments.tables',
        '--config.pretrained=novels',
        f'--config.data={config.data}',
        f'--config.out={config.out}',
        '--only=table4',
        '--dry_run',
        check=0,
        env={'GPT1_JAX_CACHE': str(tmp_path / 'cache')},
    )
    assert 'cola-full-0: ' in done.stdout
