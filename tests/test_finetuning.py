"""Fine-tuning: from pretrained weights or not, best parameters, files that recompute, one
compilation for a sweep."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from gpt1_jax import finetuning
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned, task_metrics
from gpt1_jax.runs import results, workdir
from interruptions import power_cut
from short_runs import arrays
from tiny import cola, finetune_config, override

pytestmark = pytest.mark.full


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return cola(tmp_path_factory.mktemp('data') / 'cola')


@pytest.fixture(scope='module')
def tuned(pretrained, data, tmp_path_factory):
    directory = tmp_path_factory.mktemp('tuned') / 'run'
    return directory, finetuning.run(
        finetune_config('cola', data, init_from=str(pretrained), train__epochs=6), directory
    )


def test_the_rows_of_many_updates_are_padded_to_more_lengths(pretrained, tmp_path):
    for split in ('train', 'dev'):
        rows = ''.join(f'x\t{n % 2}\t\t{" ".join(["cat"] * n)}\n' for n in range(1, 61))
        (tmp_path / f'{split}.tsv').write_text(rows)

    def lengths(**overrides):
        config = finetune_config('cola', tmp_path, init_from=str(pretrained), **overrides)
        job = finetuning.build(finetuning.plan(finetuning.resolve(config)))
        shapes = {job.batches.read(step, slice(None))['tokens'].shape[2] for step in range(7)}
        assert shapes <= {*job.config['lengths']}
        return len(job.config['lengths'])

    assert lengths(train__epochs=42) == 6  # of 7 updates
    assert lengths(train__epochs=43) == 12
    assert lengths(train__epochs=43, batch__lengths=3) == 3


def test_results_carry_what_identifies_a_figure(tuned, pretrained):
    directory, rows = tuned
    assert [row['metric'] for row in rows] == ['matthews', 'accuracy']
    row = rows[0]
    assert results.read(directory / 'results.jsonl')[0] == json.loads(json.dumps(row))
    expected = dict(n=13, split='dev', seed=0, selection='best', group=None)
    assert row | expected == row and list(row['files']) == ['dev.tsv']
    assert row['config']['init_from'] == str(pretrained)
    assert row.keys() >= {*'key code digest versions device commit seconds tokens'.split()}


def test_the_parameters_of_the_best_epoch_are_the_ones_scored(tuned):
    directory, (row, _) = tuned
    logged = results.read(directory / 'metrics.jsonl')
    history = {r['step']: r['dev_matthews'] for r in logged if 'dev_matthews' in r}
    assert [*history] == [5, 10, 15, 20, 25, 30]
    assert row['value'] == max(history.values()) and row['step'] == max(history, key=history.get)


def test_a_finished_run_evaluates_again_from_its_directory_alone(tuned, tmp_path):
    directory, rows = tuned
    moved = shutil.copytree(directory, tmp_path / 'moved')
    config = json.loads((moved / 'config.json').read_text())
    # A foreign run's config names no file to write
    config['results'] = str(tmp_path / 'elsewhere.jsonl')
    (moved / 'config.json').write_text(json.dumps(config))
    again = fine_tuned.evaluate_run(workdir.load(moved), 'dev')
    assert [row['value'] for row in again] == [row['value'] for row in rows]
    assert [*tmp_path.iterdir()] == [moved]


@pytest.mark.parametrize(
    'change, message',
    [
        (
            {'optimizer__peak_rate': 1e-6},
            'finished, nothing is left to train .* .optimizer.peak_rate: 0.01 -> 1e-06.: use a new',
        ),
        (
            {'train__epochs': 7, 'n_transfer': 0},
            'holds another run .n_transfer: 3 -> 0.: use a new',
        ),
    ],
)
def test_settings_with_which_nothing_would_be_trained_are_refused_and_recorded_nowhere(
    tuned, pretrained, data, tmp_path, change, message
):
    directory = shutil.copytree(tuned[0], tmp_path / 'run')
    before = [(directory / name).read_bytes() for name in ('config.json', 'results.jsonl')]
    config = finetune_config(
        'cola', data, **{'init_from': str(pretrained), 'train__epochs': 6} | change
    )
    with pytest.raises(UserError, match=message):
        finetuning.run(config, directory, allow_change=True)
    assert [(directory / name).read_bytes() for name in ('config.json', 'results.jsonl')] == before


def test_rows_of_a_run_whose_rate_changed_on_its_way_have_no_key(pretrained, data, tmp_path):
    first, other = (
        finetune_config('cola', data, init_from=str(pretrained), optimizer__peak_rate=rate)
        for rate in (1e-2, 1e-3)
    )
    with power_cut(6):
        finetuning.run(first, tmp_path / 'run')
    for _ in range(2):
        rows = finetuning.run(other, tmp_path / 'run', allow_change=True)
        assert len(rows) == 2 and not any('key' in row for row in rows)
    shutil.rmtree(tmp_path / 'run' / 'checkpoints')  # it starts again at step 0
    keys = {row['key'] for row in finetuning.run(other, tmp_path / 'run')}
    assert keys == {finetuning.run_key(other)}


def test_layers_transferred_and_seed_decide_what_training_starts_from(pretrained, data, tmp_path):
    def start(number, **overrides):
        """The digests of the parameters that training begins with, as no update changes them."""
        still = dict(optimizer__peak_rate=1e-30, optimizer__weight_decay=0.0, train__epochs=1)
        config = finetune_config('cola', data, init_from=str(pretrained), **still, **overrides)
        finetuning.run(config, tmp_path / str(number))
        return arrays(workdir.load(tmp_path / str(number)), 5)['params']

    given = {}, {'n_transfer': -1}, {'n_transfer': 0}, {'seed': 1}
    whole, nothing, embeddings, seed = (start(number, **one) for number, one in enumerate(given))
    source = arrays(workdir.load(pretrained), 4)['params']
    assert all(whole[f'backbone/{name}'] == digest for name, digest in source.items())
    for name, digest in source.items():
        if name.endswith(('kernel', 'embed/tokens', 'embed/positions')):
            assert nothing[f'backbone/{name}'] != digest
    tokens = 'backbone/embed/tokens'
    block = 'backbone/blocks/mlp/fc/kernel'
    assert embeddings[tokens] == whole[tokens] and embeddings[block] == nothing[block]
    head = 'classifier/kernel'
    assert whole[head] == nothing[head] != seed[head]


def test_a_sweep_over_seed_lambda_rate_and_layers_compiles_once(tuned, pretrained, data, tmp_path):
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if 'backend_compile' in event else None
    )
    other = dict(seed=5, lm_weight=0.2, n_transfer=1, optimizer__peak_rate=1e-3)
    finetuning.run(
        finetune_config('cola', data, init_from=str(pretrained), **other), tmp_path / 'second'
    )
    assert compiled == []
    jax.jit(lambda x: x * 3.25)(np.ones(3))  # the listener does hear of a compilation
    assert len(compiled) == 1


@pytest.mark.parametrize(
    'overrides, message',
    [
        ({'data__n_ctx': 128}, 'config.data.n_ctx is 128, must be a whole number from 16 to 64'),
        ({'model__n_layer': 12}, 'config.model.n_layer = 12, but the checkpoint of .* has 3'),
        ({'n_transfer': 4}, 'config.n_transfer is 4, must be a whole number from -1 to 3'),
        ({'init_step': 3}, 'no checkpoint of step 3; there are 2, 4'),
        ({'batch__size': 64}, '40 training rows are less'),
        ({'data__dir': 'no/such/dir'}, 'no/such/dir/train.tsv: no such file'),
        ({'task': 'custom'}, 'config.task = custom goes with --data=FILE'),
        ({'results': 'no/such/dir/results.jsonl'}, 'there is no directory no/such/dir'),
    ],
)
def test_a_mistake_is_named(pretrained, data, tmp_path, overrides, message):
    with pytest.raises(UserError, match=message):
        finetuning.run(
            override(finetune_config('cola', data, init_from=str(pretrained)), overrides),
            tmp_path / 'run',
        )


def test_a_run_continues_where_a_crash_left_metrics_of_no_bytes_and_says_so(
    tuned, pretrained, data, tmp_path, capsys
):
    directory = shutil.copytree(tuned[0], tmp_path / 'run')
    (directory / 'metrics.jsonl').write_bytes(b'')
    config = finetune_config('cola', data, init_from=str(pretrained), train__epochs=6)
    finetuning.run(config, directory)
    said = f'notice: {directory}/metrics.jsonl has no rows for steps 1 to 30'
    assert said in capsys.readouterr().out


def test_an_evaluation_on_a_file_that_has_changed_says_so(tuned, data, tmp_path, capsys):
    run = workdir.load(shutil.copytree(tuned[0], tmp_path / 'run'))
    place = shutil.copytree(data, tmp_path / 'data')
    notice = 'notice: cola dev: not the file that the run was trained with'
    fine_tuned.evaluate_run(run, 'dev', str(place))
    assert notice not in capsys.readouterr().out
    with (place / 'dev.tsv').open('a') as file:
        file.write('x\t1\t\tThe cat sat.\n')
    fine_tuned.evaluate_run(run, 'dev', str(place))
    assert notice in capsys.readouterr().out


def test_an_evaluation_of_some_rows_or_of_an_unfinished_run_says_so(
    pretrained, data, tmp_path, capsys
):
    rows = dict(data__eval_rows=9, data__train_rows=32)
    config = finetune_config('cola', data, init_from=str(pretrained), **rows)
    with power_cut(6):
        finetuning.run(config, tmp_path / 'run')
    run = workdir.load(tmp_path / 'run')
    for split, said in (
        ('dev', ['only 9 rows of dev are scored', 'its last saved step is 4 of 8']),
        ('train', ['only 32 rows of train are scored']),
    ):
        capsys.readouterr()
        fine_tuned.evaluate_run(run, split, selection='final')
        shown = capsys.readouterr().out
        assert all(one in shown for one in said)


def test_labels_are_printed_on_one_line_without_control_characters():
    task = dataclasses.replace(tasks.get('cola'), labels=('a\x1b[31m', '<b>\n# x'))
    lines = task_metrics.summary(task, [0, 1], np.eye(2))
    assert [' '.join(line.split()) for line in lines[1:]] == [
        r'true \ predicted a\x1b[31m <b>\n# x',
        r'a\x1b[31m 1 0',
        r'<b>\n# x 0 1',
    ]
    assert lines[0].isprintable()


def test_a_classifier_is_held_against_its_most_frequent_label_and_shows_its_confusions():
    gold = [0, 1, 1, 1, 0, 1]
    predicted = np.eye(2)[[0, 1, 0, 1, 1, 1]]
    first, _, *confusions = task_metrics.summary(tasks.get('cola'), gold, predicted)
    assert first == "always '1': matthews 0.0000, accuracy 0.6667"
    assert [line.split() for line in confusions] == [['0', '1', '1'], ['1', '1', '3']]
    assert task_metrics.summary(tasks.get('stsb'), [1.0, 2.0], np.ones((2, 1))) == []
