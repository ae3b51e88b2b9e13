"""Learning curves: the search's rows are held out, the best trial is used, and a rerun trains
nothing."""

import dataclasses
import json
import math
import pathlib
import types

import pytest
from gpt1_jax.configs import experiments as experiments_config

from experiments import learning_curves
from experiments.lib import run_list, runner
from gpt1_jax import finetuning, rules
from gpt1_jax.errors import UserError
from gpt1_jax.runs import provenance, results
from tiny import predictions

BEST = {'full': 1e-3, 'no_pretraining': 1e-4, 'no_aux': 1e-4}  # rates with one more right answer


@pytest.fixture
def config(tmp_path, monkeypatch):
    """SST-2 with 1,300 training rows. A run is right for a number of items that its condition, rate
    and rows give."""
    place = tmp_path / 'data' / 'SST-2'
    place.mkdir(parents=True)
    for split, n in (('train', 1300), ('dev', 20)):
        rows = ''.join(f'a {"good" if i % 2 else "bad"} film, {i}\t{i % 2}\n' for i in range(n))
        (place / f'{split}.tsv').write_text('sentence\tlabel\n' + rows)

    def train(config, run):
        condition = run.condition.split('@')[0]
        rate = run.config.optimizer.peak_rate
        right = (
            10
            + run.config.data.train_rows // 20 * (condition == 'full')
            + (rate == BEST[condition])
            + run.seed
        )
        right = min(right + (condition == 'no_aux'), 20)
        path = predictions(tmp_path / 'out' / f'{run.name}.jsonl', right, 20)
        rows = [
            {
                'kind': 'finetune',
                'task': 'sst2',
                'split': 'dev',
                'group': None,
                'n': 20,
                'metric': 'accuracy',
                'value': right / 20,
                'selection': 'final',
                'seed': run.seed,
                'predictions': path,
                'key': run.key,
            }
        ]
        results.append(runner.results_path(config), *rows)
        return dataclasses.replace(run, status='ran', rows=tuple(rows))

    monkeypatch.setattr(runner, '_do', train)
    monkeypatch.setattr(run_list, 'check', lambda config: None)
    monkeypatch.setattr(
        finetuning,
        'run_key',
        lambda config, code=None: provenance.digest(
            [
                config.data.dir,
                config.data.train_rows,
                config.optimizer.peak_rate,
                config.train.epochs,
                config.seed,
                config.n_transfer,
                config.lm_weight,
            ]
        ),
    )
    config = experiments_config.get_config()
    config.pretrained, config.data, config.out = (
        'gpt',
        str(tmp_path / 'data'),
        str(tmp_path / 'out'),
    )
    config.finetune.batch.size = 8
    config.curves.update(
        {
            'tasks': ('sst2',),
            'rows': (40, 80),
            'seeds': (0, 1),
            'trial_rows': 60,
            'trials': ((1e-4, 10), (1e-3, 10)),
        }
    )
    return config


def test_each_condition_is_drawn_at_the_rate_that_its_own_search_chose(config):
    lines = learning_curves.run(config)
    # Right of 20: 10, one more at the best rate, one more of seed 1, and 2 or 4 of the pretrained
    # model's rows.
    assert '| SST-2 | 40 | 67.5 (' in '\n'.join(lines) and '+10.0 (' in '\n'.join(lines)
    assert (pathlib.Path(config.out) / 'learning_curves.png').read_bytes().startswith(b'\x89PNG')
    before = results.read(runner.results_path(config))
    assert len(before) == 2 * 2 + 2 * 2 * 2
    assert (
        learning_curves.run(config) == lines and results.read(runner.results_path(config)) == before
    )


def test_a_third_condition_has_a_search_and_a_difference_of_its_own(config, tmp_path):
    config.curves.conditions = 'full', 'no_pretraining', 'no_aux'
    config.curves.rows = (40,)
    lines = learning_curves.run(config)
    header = next(line for line in lines if line.startswith('| task'))
    assert (
        header == '| task | training rows | pretrained | from scratch | difference | without the '
        'auxiliary LM | difference | n-grams |'
    )
    row = next(line for line in lines if line.startswith('| SST-2')).split(' | ')
    assert [cell.split(' ')[0] for cell in row[2:7]] == ['67.5', '57.5', '+10.0', '62.5', '+5.0']
    assert sum('| without the auxiliary LM |' in line and '60 |' in line for line in lines) == 2
    runs = [
        each
        for each in results.read(runner.results_path(config))
        if 'no_aux@rows' in each['predictions']
    ]
    assert len(runs) == 2 and all('0.0001' in each['predictions'] for each in runs)
    drawn = json.loads((tmp_path / 'out' / 'learning_curves.json').read_text())['points']
    assert [len(each.get('difference', ())) for each in drawn] == [0, 3, 3, 0]


@pytest.mark.parametrize(
    'name, value',
    [
        ('conditions', ()),
        ('conditions', ('no_aux',)),
        ('rows', ()),
        ('seeds', ()),
        ('conditions', ('full', 'lstm')),
    ],
)
def test_what_cannot_be_drawn_is_refused(config, name, value):
    config.curves[name] = value
    with pytest.raises(UserError, match=rf'^config.curves.{name} is \(.*\), must be a tuple of '):
        rules.validate(config, run_list.RULES)


def test_trials_are_scored_on_rows_of_the_training_file_that_they_do_not_read(config):
    learning_curves.trial_runs(config)
    part = pathlib.Path(config.out) / 'parts' / 'sst2'
    train, dev = ((part / f'{split}.tsv').read_text().splitlines() for split in ('train', 'dev'))
    assert train[0] == dev[0] == 'sentence\tlabel' and len(dev) == 1 + learning_curves.HELD_OUT
    whole = (pathlib.Path(config.data) / 'SST-2' / 'train.tsv').read_text().splitlines()
    assert sorted(train[1:] + dev[1:]) == sorted(whole[1:])


@pytest.mark.parametrize(
    'task, name, row',
    [
        ('cola', '{}.tsv', 'gj04\t1\t\tsentence\u2028{} .\n'),
        ('scitail', 'scitail_1.0_{}.tsv', 'a\rb\tc {}\tneutral\n'),
        (
            'snli',
            'snli_1.0_{}.jsonl',
            '{{"gold_label": "neutral", "sentence1": "a", "sentence2": "b {}"}}\n',
        ),
    ],
)
def test_a_file_without_a_header_loses_no_row(tmp_path, task, name, row):
    rows = [row.format(i) for i in range(learning_curves.HELD_OUT + 5)]
    train, dev = (name.format(split) for split in ('train', 'dev'))
    (tmp_path / train).write_text(''.join(rows), encoding='utf-8', newline='')
    (tmp_path / dev).write_text(rows[0], encoding='utf-8')
    learning_curves.divide(task, str(tmp_path), tmp_path / 'part')
    train, dev = (
        (tmp_path / 'part' / file).open(encoding='utf-8', newline='\n').readlines()
        for file in (train, dev)
    )
    assert (
        len(train) == 5
        and len(dev) == learning_curves.HELD_OUT
        and sorted(train + dev) == sorted(rows)
    )


def test_a_single_trial_is_used_without_a_search(config):
    config.curves.trials = ((1e-3, 10),)
    assert '## Trials' not in learning_curves.run(config)
    rates = {row['key'] for row in results.read(runner.results_path(config))}
    assert len(rates) == 2 * 2 * 2 and not (pathlib.Path(config.out) / 'parts').exists()


def test_a_set_whose_training_rows_are_not_a_file_of_their_own_has_no_trials(tmp_path):
    (tmp_path / 'cloze_test_val__spring2016 - cloze_test_ALL_val.csv').write_text(
        'one file for train and dev'
    )
    with pytest.raises(UserError, match='story_cloze: .* give a single one'):
        learning_curves.divide('story_cloze', str(tmp_path), tmp_path / 'part')


def test_a_point_with_more_rows_than_the_set_has_is_of_all_of_them_once(config):
    config.curves.update({'rows': (40, 2000, 5000), 'trials': ((1e-3, 10),)})
    lines = learning_curves.run(config)
    curve = lines[: lines.index('## Each set with its most rows')]
    assert [line.split(' | ')[1] for line in curve if line.startswith('| SST-2')] == ['40', '1,300']


def test_a_set_without_data_is_named_and_left_out(config, capsys):
    config.curves.tasks = 'mnli', 'sst2'
    learning_curves.run(config, dry_run=True)
    printed = capsys.readouterr().out
    assert (
        'mnli: no data in ' in printed
        and '4 runs: 4 to do' in printed
        and '8 runs: 8 to do' in printed
    )
    config.curves.tasks = ('mnli',)
    with pytest.raises(UserError, match='^mnli: no data in '):
        learning_curves.run(config)


def test_a_trial_without_a_result_chooses_nothing_and_one_that_is_undefined_loses(config):
    config.start = False
    with pytest.raises(
        UserError,
        match=r'^sst2, pretrained: a trial without a result \(left '
        r'out\): none can be',
    ):
        learning_curves.run(config)
    config.start = True
    trials = runner.carry_out(config, learning_curves.trial_runs(config))
    assert learning_curves.best_trial(config, trials, 'sst2', 'no_pretraining') == (1e-4, 10)
    trials[2].rows[0]['value'] = math.nan
    assert learning_curves.best_trial(config, trials, 'sst2', 'no_pretraining') == (1e-3, 10)


def test_runs_that_fail_are_named_after_the_curves_are_written(config, monkeypatch):
    """Where the conditions have no seed in common there is no difference."""
    config.curves.trials = ((1e-3, 10),)
    train = runner._do
    monkeypatch.setattr(
        runner,
        '_do',
        lambda config, run: (
            dataclasses.replace(run, status='failed')
            if (run.seed == 0) == ('full' in run.name)
            else train(config, run)
        ),
    )
    with pytest.raises(UserError, match='^4 runs failed: sst2-full@rows=40,'):
        learning_curves.run(config)
    page = (pathlib.Path(config.out) / 'learning_curves.md').read_text().partition('## Each set')[0]
    rows = [line for line in page.splitlines() if line.startswith('| SST-2')]
    assert len(rows) == 2 and all(line.split(' | ')[4] == '' for line in rows)


def test_a_set_too_small_to_hold_rows_out_is_a_line(config):
    place = pathlib.Path(config.data) / 'SST-2' / 'train.tsv'
    lines = place.read_text().splitlines(keepends=True)
    for n, message in (
        (1004, '^sst2: 4 training rows are fewer than a batch, 8$'),
        (900, '900 rows leave none to '),
    ):
        place.write_text(''.join(lines[: n + 1]))
        with pytest.raises(UserError, match=message):
            learning_curves.run(config)


@pytest.mark.parametrize(
    'rows, data, message',
    [
        ((4,), None, '^sst2: 4 training rows are fewer than a batch, 8$'),
        ((40,), 'parquet:nowhere', 'not one text file of their own'),
    ],
)
def test_mistakes_are_a_line_before_anything_is_trained(config, monkeypatch, rows, data, message):
    config.curves.rows = rows
    if data:
        config.data = data
        monkeypatch.setattr(run_list, 'has_data', lambda *_: True)
        monkeypatch.setattr(
            learning_curves.tasks,
            'get',
            lambda task: types.SimpleNamespace(files=lambda directory, split: [f'{split}.parquet']),
        )
    else:
        config.curves.trials = ((1e-3, 10),)
    with pytest.raises(UserError, match=message):
        learning_curves.run(config)


def test_a_set_of_an_absolute_path_keeps_its_files(config, tmp_path):
    place = tmp_path / 'data' / 'SST-2'
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    config.directories.sst2 = str(place)
    learning_curves.run(config)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before
    assert {
        file.name for file in (pathlib.Path(config.out) / 'parts' / 'sst2').iterdir()
    } == before.keys()


def test_a_dry_run_of_a_finished_job_has_nothing_to_do(config, capsys):
    learning_curves.run(config)
    capsys.readouterr()
    learning_curves.run(config, dry_run=True)
    printed = capsys.readouterr().out
    assert (
        '4 runs: 0 to do' in printed and '8 runs: 0 to do' in printed and 'the first' not in printed
    )
