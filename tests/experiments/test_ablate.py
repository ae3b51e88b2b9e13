"""experiments.ablate: statistics against scipy and by hand, plan, reuse, kills, reports."""

import json
import random
import shutil

import numpy as np
import pytest
from gpt1_jax.configs import ablate
from scipy import stats

import experiments.ablate.__main__ as program
from experiments.ablate import report, runs, statistics
from gpt1_jax import pretraining
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results
from interruptions import power_cut
from tiny import ROOT, corpus, predictions, pretrain_config, sst2

RELU = f"squared ReLU: 'model.ops.gelu={ROOT}/experiments/ideas/relu.py:relu_squared'"


# Statistics


def test_paired_differences_are_scipys_and_the_table_of_students_t():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 5))
    found = statistics.paired(a, b)
    expected = stats.ttest_rel(a, b)
    np.testing.assert_allclose((found.low, found.high), expected.confidence_interval(), rtol=1e-9)
    assert found.p == pytest.approx(expected.pvalue) and found.mean == pytest.approx(np.mean(a - b))
    assert found.sd == pytest.approx(np.std(a - b, ddof=1))
    assert found.unpaired_sd == pytest.approx(np.sqrt(np.var(a, ddof=1) + np.var(b, ddof=1)))
    # Of any table, with n - 1 degrees of freedom
    for n, value in ((2, 12.706), (3, 4.303), (5, 2.776), (31, 2.042)):
        assert statistics.quantile(n) == pytest.approx(value, abs=5e-4)


def test_intervals_of_a_search_that_stops_early_hold_together():
    """Seeds are added until the interval is narrow, at most 7 times: under no difference at most 5%
    exclude zero."""
    generator = np.random.default_rng(1)
    wrong = 0
    for _ in range(1000):
        differences = generator.normal(size=10)
        for n in range(3, 11):
            found = statistics.paired(differences[:n], np.zeros(n), looks=8)
            if found.high - found.low < 4:
                break
        wrong += found.excludes_zero
    assert 0 < wrong <= 50


def test_holm_by_hand():
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.parametrize(
    'values, said',
    [
        ([-0.1, -0.11, -0.1], 'better'),
        ([0.1, 0.11, 0.1], 'worse'),
        ([0.0] * 3, 'no effect: equal in each seed'),
        ([0.1, -0.05, 0.13], 'cannot tell; 13 seeds would'),
        ([1.0, -1.0001], 'nor would 1,000 seeds'),
        ([0.1], 'cannot tell from one seed'),
    ],
)
def test_the_report_says_when_there_is_no_answer(values, said):
    assert said in report.verdict(statistics.paired(values, [0.0] * len(values)))


# Ideas


@pytest.mark.parametrize(
    'idea, message',
    [
        ('2 heads model.n_head=2', "idea '2 heads model.n_head=2': must be 'NAME: FIELD=VALUE"),
        ("a: model.n_head='2", "must be 'NAME: FIELD=VALUE"),
        ('a: train.steps=x', '^a: train.steps=x: '),
        ('a: model.n_heads=2', "^a: unknown field model.n_heads, did you mean 'n_head"),
        ('a: model.n_head=3', '^a: model.n_embd = 16 is not a multiple'),
        ('baseline: seed=1', 'duplicate idea'),
        ('a: model.ops.gelu=nowhere.py:f', '^a: .*nowhere.py: No such file'),
    ],
)
def test_a_mistake_in_an_idea_is_one_line_before_any_text_is_prepared(tmp_path, idea, message):
    with pytest.raises(UserError, match=message):
        program.run(small('no such corpus', (idea,)), tmp_path / 'out')
    assert not (tmp_path / 'out' / 'runs').exists()


def test_what_is_written_in_an_object_store_is_refused_before_any_text_is_prepared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match="^--out is 's3://bucket/ablate', must be a local directory"
    ):
        program.run(small('no such corpus', ()), 's3://bucket/ablate')
    assert not list(tmp_path.iterdir())


def test_a_comparison_names_two_ideas(tmp_path):
    with pytest.raises(
        UserError, match="^config.compare: 'a - b' must be 'NAME - NAME' of two ideas"
    ):
        program.run(
            small('no such corpus', ('a: model.n_head=2',), compare=('a - b',)), tmp_path / 'out'
        )


@pytest.mark.parametrize('given', [(), ('less - more',)])
def test_ideas_of_the_command_line_take_the_place_of_the_configs_and_of_its_comparisons(
    monkeypatch, given
):
    config = small('text', ('a: seed=1', 'b: seed=2'), compare=given or ('a - b',))
    values = {
        'config': config,
        'idea': ['less: seed=3', 'more: seed=4'],
        'out': 'out',
        'until': None,
        'dry_run': True,
    }
    flags = type('Flags', (dict,), {'__getattr__': dict.__getitem__})
    monkeypatch.setattr(
        program.flags, 'FLAGS', flags(values | ({'config.compare': given} if given else {}))
    )
    monkeypatch.setattr(program, 'run', lambda config, *_: None)
    program.main()
    assert config.ideas == ('less: seed=3', 'more: seed=4') and config.compare == given


# Runs


def small(text, ideas, **fields):
    config = ablate.get_config()
    config.pretrain = pretrain_config(
        text, train__steps=6, eval__every=3, checkpoint__every=2, log_every=2
    )
    config.ideas = ideas
    config.seeds = 2
    config.update(fields)
    return config


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('ablate') / 'text')


@pytest.fixture(scope='module')
def undisturbed(text, tmp_path_factory):
    """(directory, what was found, the config): with an idea that changes nothing, and a task."""
    out = tmp_path_factory.mktemp('undisturbed')
    config = small(text, (RELU, 'same: log_every=1'))
    sst2(out / 'SST-2', n=12)
    config.tasks.sst2 = str(out / 'SST-2')
    return out, program.run(config, out), config


def measured(out):
    return {
        (row['idea'], row['seed']): (row['key'], row['loss'], row['curve'])
        for row in results.read(out / 'results.jsonl')
    }


def test_a_report_has_the_differences_of_the_runs_own_losses(text, undisturbed, tmp_path):
    out, (relu, same), _ = undisturbed
    by_hand = []
    for seed in (0, 1):
        config = pretrain_config(
            text, train__steps=6, eval__every=3, checkpoint__every=2, log_every=2, seed=seed
        )
        losses = []
        for name in (None, f'{ROOT}/experiments/ideas/relu.py:relu_squared'):
            config.model.ops.gelu = name
            run = pretraining.run(config, tmp_path / f'{seed}{name is None}')
            losses.append(
                [row['valid_loss'] for row in results.read(run.metrics) if 'valid_loss' in row][-1]
            )
        by_hand.append(losses[1] - losses[0])
    assert relu.found.mean == pytest.approx(np.mean(by_hand), abs=1e-9) and relu.found.n == 2
    assert relu.bits.mean * relu.found.mean > 0
    assert same.found.identical
    page = (out / 'report.md').read_text()
    assert f'| squared ReLU | {relu.found.mean:+.4f} (' in page and '## sst2, zero-shot' in page
    assert '| 2 | 12 |' in page  # seeds and items
    assert (out / 'ideas.png').read_bytes()[:4] == b'\x89PNG'


def test_equal_settings_are_one_run_and_runs_of_other_invocations_are_found(
    undisturbed, monkeypatch
):
    out, _, config = undisturbed
    # The idea that changes nothing is the baseline's
    assert len(results.read(out / 'results.jsonl')) == 4
    monkeypatch.setattr(pretraining, 'run', None)
    config = config.copy_and_resolve_references()
    config.ideas = ('other name: ' + RELU.partition(': ')[2],)
    found = program.run(config, out)
    assert [each.name for each in found] == ['other name'] and found[0].found.n == 2
    assert len(results.read(out / 'results.jsonl')) == 4


def test_with_another_directory_of_a_task_all_is_trained_and_scored_again(
    undisturbed, tmp_path, monkeypatch
):
    """The weights of finished runs are not kept. Without the task the rows of either directory
    do."""
    out, _, config = undisturbed
    shutil.copytree(out, tmp_path / 'out')
    config = config.copy_and_resolve_references()
    scored = []
    sst2(tmp_path / 'SST-2', n=14)
    config.tasks.sst2 = str(tmp_path / 'SST-2')
    monkeypatch.setattr(
        runs,
        '_scored',
        lambda task, directory, run, seed: (
            scored.append(directory)
            or {
                'metric': 'accuracy',
                'value': 0.5,
                'n': 14,
                'group': None,
                'seed': seed,
                'predictions': predictions(tmp_path / f'{len(scored)}.jsonl', 7, 14),
                'files': runs.files_of(config.tasks)[task],
            }
        ),
    )
    program.run(config, tmp_path / 'out')
    assert len(scored) == 4 and '| 2 | 14 |' in (tmp_path / 'out' / 'report.md').read_text()
    monkeypatch.setattr(pretraining, 'run', None)
    config.tasks = {}
    program.run(config, tmp_path / 'out')
    assert 'zero-shot' not in (tmp_path / 'out' / 'report.md').read_text()
    config.tasks = {'sst2': str(tmp_path / 'nowhere')}
    with pytest.raises(UserError, match='nowhere'):
        program.run(config, tmp_path / 'out')


def test_a_difference_on_blimp_is_one_of_means_over_sets_where_a_tie_counts_half(tmp_path):
    """Sets of 3 and 1 pairs; the metric of a row of predictions would weigh pairs alike, and take a
    tie for right."""
    # Outcomes of two seeds each
    sides = [[[1, 1, 0.5, 0], [1, 0, 1, 1]], [[0, 1, 0, 0.5], [1, 1, 0, 0]]]
    for side in sides:
        for i, outcomes in enumerate(side):
            rows = [
                {
                    'id': f'syntax/{"a" if j < 3 else "b"}/{j}',
                    'gold': 0,
                    'scores': [outcome, 1 - outcome],
                }
                for j, outcome in enumerate(outcomes)
            ]
            path = tmp_path / f'{len(list(tmp_path.iterdir()))}.jsonl'
            path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
            side[i] = {'predictions': str(path)}
    found = report._over_items('blimp', *sides)
    of_a = ((2.5 + 2) / 6 + (0 + 1) / 2) / 2
    of_b = ((1 + 2) / 6 + (0.5 + 0) / 2) / 2
    assert found.value == pytest.approx(of_a - of_b) and found.n == 4
    path.write_text(path.read_text().replace('/3', '/4'))
    with pytest.raises(UserError, match='not about the same items'):
        report._over_items('blimp', *sides)


def test_curves_are_compared_at_the_updates_that_all_have(undisturbed):
    """As of runs with another eval.every, of an earlier invocation."""
    _, (relu, same), _ = undisturbed
    (a, b), other = relu.rows
    header, *_ = report._by_step([relu._replace(rows=[(a, b | {'curve': b['curve'][-1:]}), other])])
    assert header.split() == ['|', 'updates', '|', '6', '|']


def test_an_idea_about_rounding_or_speed_alone_is_run(text, tmp_path):
    baseline, *others = runs.ideas(
        small(
            text,
            (
                'a: model.precision=high',
                'b: batch.loss_chunks=2',
                'c: mesh.fsdp=2',
                'same: log_every=1',
            ),
        ),
        tmp_path,
    )
    assert [each.key(0) == baseline.key(0) for each in others] == [False, False, False, True]


def test_a_changed_file_or_text_is_another_run(text, tmp_path):
    idea = tmp_path / 'idea.py'
    idea.write_text('import jax\n\n\ndef f(x):\n    return jax.nn.relu(x)\n')
    config = small(text, (f'a: model.ops.gelu={idea}:f',))
    _, of_file = runs.ideas(config, tmp_path / 'out')
    key = of_file.key(0)
    idea.write_text(idea.read_text() + '# edited\n')
    assert of_file.key(0) != key and of_file.key(1) != of_file.key(0)
    assert of_file._replace(manifest=of_file.manifest | {'fingerprint': 'x'}).key(0) != of_file.key(
        0
    )


def test_a_dry_run_trains_nothing_and_estimates_from_runs_that_are_done(
    text, undisturbed, capsys, tmp_path
):
    config = small(text, (RELU, '2 heads: model.n_head=2'))
    program.run(config, tmp_path / 'new', dry_run=True)
    assert 'squared ReLU: 0 runs done, 2 to do, 768 tokens each' in capsys.readouterr().out
    program.run(config, undisturbed[0], dry_run=True)
    said = capsys.readouterr().out
    assert (
        '2 heads: 0 runs done, 2 to do' in said
        and 'in all 1,536 tokens to train on: about 0:00:' in said
    )


@pytest.mark.full
def test_a_failed_run_is_named_and_what_can_be_compared_of_the_others_is(text, tmp_path):
    """Another vocabulary in bits a byte, another validation text not at all, but with a second idea
    on it."""
    ideas = (
        'diverges: optimizer.peak_rate=1e30 optimizer.clip=0.0',
        '80 merges: tokenizer.merges=80',
        'less text: data.valid=0.4',
        'less, 2 heads: data.valid=0.4 model.n_head=2',
    )
    with pytest.raises(
        UserError, match='^runs failed: diverges, seed 0: loss .*; diverges, seed 1: '
    ):
        program.run(small(text, ideas, compare=('less, 2 heads - less text',)), tmp_path / 'out')
    lines = (tmp_path / 'out' / 'report.md').read_text().splitlines()
    rows = [
        [cell.strip() for cell in line.strip('|').split('|')]
        for line in lines
        if line.count('|') == 7
    ][2:]
    assert {
        name: (nats != 'n/a', bits != 'n/a', seeds) for name, nats, bits, _, seeds, _ in rows
    } == {
        'diverges': (False, False, '0'),
        '80 merges': (False, True, '2'),
        'less text': (False, False, '0'),
        'less, 2 heads': (False, False, '0'),
        'less, 2 heads - less text': (True, True, '2'),
    }


@pytest.mark.full
def test_seeds_are_added_until_the_intervals_are_narrow(text, tmp_path):
    config = small(text, ('2 heads: model.n_head=2',), max_seeds=4)
    for until, seeds in ((100.0, 2), (1e-9, 4)):
        (found,) = program.run(config, tmp_path / 'out', until=until)
        assert found.found.n == seeds
    assert (
        'whichever of the 3 possible reports is read'
        in (tmp_path / 'out' / 'report.md').read_text()
    )
    once = statistics.paired(*zip(*((x['loss'], y['loss']) for x, y in found.rows)))
    assert found.found.high - found.found.low > once.high - once.low


@pytest.mark.full
def test_an_ablation_that_is_killed_five_times_equals_one_undisturbed(undisturbed, tmp_path):
    out, found, config = undisturbed
    rng = random.Random(0)
    for _ in range(5):
        # After this many steps of the next run that is not done
        with power_cut(rng.randrange(1, 6)):
            program.run(config, tmp_path)
    resumed = program.run(config, tmp_path)
    assert measured(tmp_path) == measured(out)
    assert [each[3:] for each in resumed] == [each[3:] for each in found]  # the differences
