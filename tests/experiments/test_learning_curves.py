"""Learning curves: each condition has its rate, and a rerun trains nothing."""

import dataclasses
import pathlib

import pytest
from gpt1_jax.configs import experiments as experiments_config

import outcomes
from experiments import learning_curves
from experiments.lib import run_list, runner
from gpt1_jax import finetuning, rules
from gpt1_jax.errors import UserError
from gpt1_jax.runs import provenance, results
from tiny import predictions

RATES = {'full': 1e-3, 'no_pretraining': 1e-4, 'no_aux': 1e-4}  # with one more right answer


@pytest.fixture
def config(tmp_path, monkeypatch):
    """SST-2 with 130 training rows. A run is right for a number of items that its condition, rate
    and rows give."""
    place = tmp_path / 'data' / 'SST-2'
    place.mkdir(parents=True)
    for split, n in (('train', 130), ('dev', 20)):
        rows = ''.join(f'a {"good" if i % 2 else "bad"} film, {i}\t{i % 2}\n' for i in range(n))
        (place / f'{split}.tsv').write_text('sentence\tlabel\n' + rows)

    def train(config, run):
        condition = run.condition.split('@')[0]
        rate = run.config.optimizer.peak_rate
        right = 10 + (rate == RATES[condition]) + run.seed + (condition == 'no_aux')
        right = min(right + run.config.data.train_rows // 20 * (condition == 'full'), 20)
        path = predictions(tmp_path / 'out' / f'{run.name}.jsonl', right, 20)
        of_run = {'task': 'sst2', 'n': 20, 'value': right / 20, 'seed': run.seed}
        rows = [outcomes.row(**of_run, predictions=path, key=run.key)]
        results.append(runner.results_path(config), *rows)
        return dataclasses.replace(run, status='ran', rows=tuple(rows))

    monkeypatch.setattr(runner, '_do', train)
    monkeypatch.setattr(run_list, 'check', lambda config: None)

    def key(config, code=None):
        fields = config.data.train_rows, config.optimizer.peak_rate, config.n_transfer
        return provenance.digest([*fields, config.seed, config.lm_weight])

    monkeypatch.setattr(finetuning, 'run_key', key)
    config = experiments_config.get_config()
    config.pretrained = 'gpt'
    config.data, config.out = (str(tmp_path / name) for name in ('data', 'out'))
    config.finetune.batch.size = 8
    config.curves.update(
        {'tasks': ('sst2',), 'rows': (40, 80), 'seeds': (0, 1), 'rates': RATES, 'updates': 10}
    )
    return config


def test_each_condition_is_drawn_at_its_rate(config):
    lines = learning_curves.run(config)
    # Right of 20: 10, one more at the best rate, one more of seed 1, and 2 or 4 of the pretrained
    # model's rows.
    assert '| SST-2 | 40 | 67.5 (' in '\n'.join(lines) and '+10.0 (' in '\n'.join(lines)
    assert (pathlib.Path(config.out) / 'learning_curves.png').read_bytes().startswith(b'\x89PNG')
    before = results.read(runner.results_path(config))
    assert len(before) == 2 * 2 * 2
    assert (
        learning_curves.run(config) == lines and results.read(runner.results_path(config)) == before
    )


def test_a_third_condition_has_a_rate_and_a_difference_of_its_own(config):
    config.curves.conditions = 'full', 'no_pretraining', 'no_aux'
    config.curves.rows = (40,)
    lines = learning_curves.run(config)
    header = next(line for line in lines if line.startswith('| task'))
    assert header.endswith('| difference | without the auxiliary LM | difference | n-grams |')
    row = next(line for line in lines if line.startswith('| SST-2')).split(' | ')
    assert [cell.split(' ')[0] for cell in row[2:7]] == ['67.5', '57.5', '+10.0', '62.5', '+5.0']


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


def test_a_point_with_more_rows_than_the_set_has_is_of_all_of_them_once(config):
    config.curves.rows = (40, 2000, 5000)
    lines = learning_curves.run(config)
    curve = lines[: lines.index('## Each set with its most rows')]
    assert [line.split(' | ')[1] for line in curve if line.startswith('| SST-2')] == ['40', '130']


def test_a_set_without_data_is_named_and_left_out(config, capsys):
    config.curves.tasks = 'mnli', 'sst2'
    learning_curves.run(config, dry_run=True)
    printed = capsys.readouterr().out
    assert 'mnli: no data in ' in printed and '8 runs: 8 to do' in printed
    config.curves.tasks = ('mnli',)
    with pytest.raises(UserError, match='^mnli: no data in '):
        learning_curves.run(config)


def test_fewer_rows_than_a_batch_are_a_line_before_anything_is_trained(config):
    config.curves.rows = (4,)
    with pytest.raises(UserError, match='^sst2: 4 training rows are fewer than a batch, 8$'):
        learning_curves.run(config)
