"""Fine-tuning: from pretrained weights or not, best parameters, files that recompute, one
compilation for a sweep."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from gpt1_jax import finetuning, metrics
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned, task_metrics
from gpt1_jax.runs import results, workdir
from interruptions import power_cut
from refusal import refusal
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
    directory = tmp_path / 'set'
    directory.mkdir()
    for split in ('train', 'dev'):
        texts = [' '.join(['cat'] * n) for n in range(1, 61)]
        (directory / f'{split}.tsv').write_text(
            ''.join(f'x\t{n % 2}\t\t{text}\n' for n, text in enumerate(texts))
        )

    def build(**overrides):
        config = finetune_config('cola', directory, init_from=str(pretrained), **overrides)
        return finetuning.build(finetuning.plan(finetuning.resolve(config)))

    few = build(train__epochs=42)  # of 7 updates
    many = build(train__epochs=43)
    chosen = build(train__epochs=43, batch__lengths=3)
    assert [len(job.config['lengths']) for job in (few, many, chosen)] == [6, 12, 3]
    for job in (few, many):
        shapes = {job.batches.read(step, slice(None))['tokens'].shape[2] for step in range(7)}
        assert shapes <= {*job.config['lengths']}


def test_results_carry_what_identifies_a_figure(tuned, pretrained):
    directory, rows = tuned
    assert [row['metric'] for row in rows] == ['matthews', 'accuracy']
    row = rows[0]
    assert results.read(directory / 'results.jsonl')[0] == json.loads(json.dumps(row))
    assert (row['n'], row['split'], row['seed'], row['selection'], row['group']) == (
        13,
        'dev',
        0,
        'best',
        None,
    )
    assert (
        row['config']['init_from'] == str(pretrained)
        and row['step'] in range(5, 31, 5)
        and set(row['files']) == {'dev.tsv'}
    )
    assert row.keys() >= {
        'key',
        'code',
        'digest',
        'versions',
        'device',
        'commit',
        'seconds',
        'tokens',
    }


def test_the_parameters_of_the_best_epoch_are_the_ones_scored(tuned):
    directory, rows = tuned
    history = {
        r['step']: r['dev_matthews']
        for r in results.read(directory / 'metrics.jsonl')
        if 'dev_matthews' in r
    }
    assert len(history) == 6
    best = max(history.values())
    assert rows[0]['value'] == best and rows[0]['step'] == min(
        s for s, v in history.items() if v == best
    )


def test_a_finished_run_evaluates_again_from_its_directory_alone(tuned, pretrained, tmp_path):
    directory, rows = tuned
    shutil.copytree(directory, tmp_path / 'moved')
    config = json.loads((tmp_path / 'moved' / 'config.json').read_text())
    # A foreign run's config names no file to write
    config['results'] = str(tmp_path / 'elsewhere.jsonl')
    (tmp_path / 'moved' / 'config.json').write_text(json.dumps(config))
    again = fine_tuned.evaluate_run(workdir.load(tmp_path / 'moved'), 'dev')
    assert [row['value'] for row in again] == [row['value'] for row in rows]
    assert [path.name for path in tmp_path.iterdir()] == ['moved']
    assert (
        config['labels'] == ['0', '1']
        and config['task'] == 'cola'
        and (tmp_path / 'moved' / 'tokenizer').is_dir()
    )


@pytest.mark.parametrize(
    'change, message',
    [
        (
            {'optimizer__peak_rate': 1e-6},
            'run: the run is finished, nothing is left to train with the new settings '
            '.optimizer.peak_rate: 0.01 -> 1e-06.: use a new --workdir',
        ),
        (
            {'train__epochs': 3},
            'step 30 is there already: the new settings .train.epochs: 6 -> 3. must give at least '
            '30 steps, not 15',
        ),
        (
            {'train__epochs': 7, 'n_transfer': 0},
            'holds another run .n_transfer: 3 -> 0.: use a new --workdir',
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
    for rows in (
        finetuning.run(other, tmp_path / 'run', allow_change=True),
        finetuning.run(other, tmp_path / 'run'),
    ):
        assert len(rows) == 2 and not any('key' in row for row in rows)
    shutil.rmtree(tmp_path / 'run' / 'checkpoints')  # it starts again at step 0
    assert {row['key'] for row in finetuning.run(other, tmp_path / 'run')} == {
        finetuning.run_key(other)
    }


def test_layers_transferred_and_seed_decide_what_training_starts_from(pretrained, data, tmp_path):
    def start(directory, **overrides):
        """The digests of the parameters that training begins with, as no update changes them."""
        finetuning.run(
            finetune_config(
                'cola',
                data,
                init_from=str(pretrained),
                train__epochs=1,
                optimizer__peak_rate=1e-30,
                optimizer__weight_decay=0.0,
                **overrides,
            ),
            tmp_path / directory,
        )
        return arrays(workdir.load(tmp_path / directory), 5)['params']

    whole = start('whole')
    nothing = start('none', n_transfer=-1)
    embeddings = start('embeddings', n_transfer=0)
    source = {
        f'backbone/{name}': digest
        for name, digest in arrays(workdir.load(pretrained), 4)['params'].items()
    }
    assert all(whole[name] == digest for name, digest in source.items())
    kernels = [
        name for name in source if name.endswith(('kernel', 'embed/tokens', 'embed/positions'))
    ]
    assert len(kernels) == 6 and all(nothing[name] != source[name] for name in kernels)
    assert embeddings['backbone/embed/tokens'] == source['backbone/embed/tokens']
    assert embeddings['backbone/blocks/mlp/fc/kernel'] == nothing['backbone/blocks/mlp/fc/kernel']
    assert (
        whole['classifier/kernel']
        == nothing['classifier/kernel']
        != start('seed', seed=1)['classifier/kernel']
    )


def test_a_sweep_over_seed_lambda_rate_and_layers_compiles_once(pretrained, data, tmp_path):
    compiled = []
    finetuning.run(finetune_config('cola', data, init_from=str(pretrained)), tmp_path / 'first')
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if 'backend_compile' in event else None
    )
    finetuning.run(
        finetune_config(
            'cola',
            data,
            init_from=str(pretrained),
            seed=5,
            lm_weight=0.2,
            n_transfer=1,
            optimizer__peak_rate=1e-3,
        ),
        tmp_path / 'second',
    )
    assert compiled == []
    jax.jit(lambda x: x * 3.25)(np.ones(3))  # the listener does hear of a compilation
    assert len(compiled) == 1


@pytest.mark.parametrize(
    'overrides, message',
    [
        ({'data__n_ctx': 128}, "config.data.n_ctx = 128 is longer than the model's context, 64"),
        ({'model__n_layer': 12}, 'config.model.n_layer = 12, but the checkpoint of .* has 3'),
        ({'n_transfer': 4}, 'n_transfer = 4 must be from -1'),
        ({'init_step': 3}, 'no checkpoint of step 3; there are 2, 4'),
        ({'batch__size': 64}, '40 training rows are less'),
        ({'data__dir': 'no/such/dir'}, 'no/such/dir/train.tsv: no such file'),
        ({'lm_weight': -1.0}, 'config.lm_weight is -1.0'),
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


def test_tokens_of_fewer_rows_than_a_batch_cannot_be_counted(pretrained, data):
    config = finetune_config(
        'cola', data, init_from=str(pretrained), batch__size=64, train__epochs=None
    )
    with pytest.raises(UserError, match='40 training rows are less than config.batch.size = 64'):
        finetuning.count_tokens(config)


def test_figures_are_printed_even_where_nothing_can_be_written(tuned, tmp_path, capsys):
    directory, rows = tuned
    shutil.copytree(directory, tmp_path / 'run')
    (tmp_path / 'run' / 'predictions_dev.jsonl').unlink()
    (tmp_path / 'run' / 'predictions_dev.jsonl').mkdir()
    with pytest.raises(IsADirectoryError, match='predictions_dev'):
        fine_tuned.evaluate_run(workdir.load(tmp_path / 'run'), 'dev')
    assert f'cola dev: matthews {rows[0]["value"]:.4f} (n = 13' in capsys.readouterr().out


def test_an_evaluation_writes_through_no_link_that_came_with_the_run(tuned, tmp_path):
    directory = shutil.copytree(tuned[0], tmp_path / 'run')
    (tmp_path / 'victim').write_text('kept')
    (directory / 'predictions_dev.jsonl').unlink()
    (directory / 'predictions_dev.jsonl').symlink_to('../victim')
    fine_tuned.evaluate_run(workdir.load(directory), 'dev')
    assert (tmp_path / 'victim').read_text() == 'kept'
    assert len(metrics.read_predictions(directory / 'predictions_dev.jsonl')[0]) == 13


def test_a_run_continues_where_a_crash_left_metrics_of_no_bytes_and_says_so(
    tuned, pretrained, data, tmp_path, capsys
):
    directory = shutil.copytree(tuned[0], tmp_path / 'run')
    (directory / 'metrics.jsonl').write_bytes(b'')
    run = workdir.load(directory)
    assert 'metrics.jsonl: is empty, 0 bytes' in refusal(results.read, run.metrics)
    config = finetune_config('cola', data, init_from=str(pretrained), train__epochs=6)
    finetuning.run(config, directory)
    assert (
        f'notice: {directory}/metrics.jsonl has no rows for steps 1 to 30'
        in capsys.readouterr().out
    )


def test_an_evaluation_on_a_file_that_has_changed_says_so(tuned, data, tmp_path, capsys):
    directory = shutil.copytree(tuned[0], tmp_path / 'run')
    place = shutil.copytree(data, tmp_path / 'data')
    for change in ('', 'x\t1\t\tThe cat sat.\n'):
        with (place / 'dev.tsv').open('a') as file:
            file.write(change)
        fine_tuned.evaluate_run(workdir.load(directory), 'dev', str(place))
        shown = capsys.readouterr().out
        assert ('notice: cola dev: not the file that the run was trained with' in shown) == bool(
            change
        )


def test_an_evaluation_of_some_rows_or_of_an_unfinished_run_says_so(
    pretrained, data, tmp_path, capsys
):
    config = finetune_config(
        'cola', data, init_from=str(pretrained), data__eval_rows=9, data__train_rows=32
    )
    with power_cut(6):
        finetuning.run(config, tmp_path / 'run')
    capsys.readouterr()
    fine_tuned.evaluate_run(workdir.load(tmp_path / 'run'), 'dev', selection='final')
    rows, unfinished = capsys.readouterr().out.splitlines()[:2]
    assert 'only 9 rows of dev are scored' in rows and 'its last saved step is 4 of 8' in unfinished
    finetuning.run(config, tmp_path / 'run')
    fine_tuned.evaluate_run(workdir.load(tmp_path / 'run'), 'train', selection='final')
    shown = capsys.readouterr().out
    assert 'only 32 rows of train are scored' in shown and 'unfinished' not in shown


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
    from sklearn.metrics import confusion_matrix, matthews_corrcoef

    gold = [0, 1, 1, 1, 0, 1]
    predicted = [0, 1, 0, 1, 1, 1]
    lines = task_metrics.summary(tasks.get('cola'), gold, np.eye(2)[predicted])
    assert (
        lines[0] == f"always '1': matthews {matthews_corrcoef(gold, [1] * 6):.4f}, accuracy 0.6667"
    )
    assert [list(map(int, line.split()[1:])) for line in lines[2:]] == confusion_matrix(
        gold, predicted
    ).tolist()
    assert task_metrics.summary(tasks.get('stsb'), [1.0, 2.0], np.ones((2, 1))) == []
