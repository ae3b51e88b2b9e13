"""gpt1 ablate: ideas, trials, the ledger, confirmations, adoption, kills and the report."""

import random
import shutil
from unittest import mock

import numpy as np
import pytest
from gpt1_jax.configs import ablate

from gpt1_jax import pretraining, user_code
from gpt1_jax.ablation import ablate as program
from gpt1_jax.ablation import ideas, ledger, report, trials
from gpt1_jax.cli import config_file
from gpt1_jax.data import counts
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results
from interruptions import power_cut
from tiny import ROOT, corpus, pretrain_config

RELU = f"squared ReLU: 'model.ops.gelu={ROOT}/experiments/ideas/relu.py:relu_squared'"


# Ideas


@pytest.mark.parametrize(
    'idea, message',
    [
        ('2 heads model.n_head=2', "idea '2 heads model.n_head=2': must be 'NAME: FIELD=VALUE"),
        ("a: model.n_head='2", "must be 'NAME: FIELD=VALUE"),
        ('a: batch.size=x', '^a: batch.size=x: must be of type int$'),
        ('a: eval.windows=3', '^a: eval.windows is not an idea: all ideas have the same updates'),
        ('a: train.steps=9', '^a: train.steps is not an idea'),
        ('a: model.n_head=2 seed=5', '^a: seed is not an idea'),
        ('a: data.valid=mine.txt', '^a: data.valid is not an idea'),
        ('a: model.n_heads=2', "^a: unknown field model.n_heads, did you mean 'n_head"),
        ('a: model.n_head=3', '^a: model.n_embd = 16 is not a multiple'),
        ('baseline: model.n_head=1', 'duplicate idea'),
        ('a: model.ops.gelu=nowhere.py:f', '^a: .*nowhere.py: No such file'),
    ],
)
def test_a_mistake_in_an_idea_is_one_line_before_any_text_is_prepared(tmp_path, idea, message):
    with pytest.raises(UserError, match=message):
        program.run(small('no such corpus', (idea,)), tmp_path / 'out')
    assert not (tmp_path / 'out' / 'runs').exists()


def test_the_mistakes_of_all_ideas_are_named_together(tmp_path):
    bad = ('a: model.n_head=3', 'good: model.n_head=1', 'b: model.n_head=5')
    with pytest.raises(UserError, match='^a: model.n_embd = 16 is .*; b: model.n_embd = 16 is '):
        program.run(small('no such corpus', bad), tmp_path / 'out')


def test_what_is_written_in_an_object_store_is_refused_before_any_text_is_prepared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match="^--out is 's3://bucket/ablate', must be a local directory"
    ):
        program.run(small('no such corpus', ()), 's3://bucket/ablate')
    assert not list(tmp_path.iterdir())


def test_ideas_of_the_command_line_take_the_place_of_the_configs(monkeypatch):
    config = small('text', ('a: model.n_head=1',))
    given = ['less: model.n_head=2', 'more: model.n_layer=3']
    flags = mock.MagicMock(config=config, idea=given, out='out')
    monkeypatch.setattr(program.flags, 'FLAGS', flags)
    monkeypatch.setattr(program, 'run', lambda config, *_: None)
    program.main()
    assert config.ideas == tuple(given)


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


@pytest.fixture(scope='module', autouse=True)
def short():
    """Six updates pass a unigram model, and trained models are not examined, but in
    test_certificate.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, 'SLACK', -100.0)
        patch.setattr(trials, 'examine', lambda *_: 0.0)
        yield


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('ablate') / 'text')


@pytest.fixture(scope='module')
def undisturbed(text, tmp_path_factory):
    """(directory, results, config) of a search with an idea that changes nothing."""
    out = tmp_path_factory.mktemp('undisturbed')
    config = small(text, (RELU, 'same: model.n_head=4'))
    return out, program.run(config, out), config


def measured(out):
    return {
        (row['idea'], row['seed']): (row['key'], row['loss'], row['curve'])
        for row in results.read(out / 'results.jsonl')
    }


def timeless(rows):
    """The rows of a ledger without times and speeds."""
    return [
        {
            name: x
            for name, x in row.items()
            if name not in ('when', 'speed', 'equal_time', 'before')
        }
        for row in rows
    ]


def of(rows, name):
    (found,) = [row for row in rows if row['idea'] == name]
    return found


@pytest.mark.full
def test_a_report_has_the_differences_of_the_trials_own_losses(text, undisturbed, tmp_path):
    out, rows, _ = undisturbed
    relu = of(rows, 'squared ReLU')
    config = small(text, ()).pretrain
    by_hand = []
    for name in (None, RELU.partition('=')[2].strip("'")):
        config.model.ops.gelu = name
        run = pretraining.run(config, tmp_path / str(name is None))
        by_hand += [row['valid_loss'] for row in results.read(run.metrics) if 'valid_loss' in row][
            -1:
        ]
    assert relu['differences'][0] == pytest.approx(by_hand[1] - by_hand[0], abs=1e-9)
    assert relu['nats'][0] == pytest.approx(np.mean(relu['differences']))
    assert relu['seeds'] == [0, 1] and relu['updates'] == 6
    assert relu['bits'][0] * relu['nats'][0] > 0
    assert of(rows, 'same')['verdict'] == 'no difference that matters: equal in each seed'
    page = (out / 'report.md').read_text()
    assert f'| squared ReLU | {relu["nats"][0]:+.4f} (' in page
    assert (out / 'ideas.png').read_bytes()[:4] == b'\x89PNG'


@pytest.mark.full
def test_equal_settings_are_one_trial_and_trials_of_other_invocations_are_found(
    undisturbed, tmp_path, monkeypatch
):
    undisturbed_out, _, config = undisturbed
    out = tmp_path / 'out'
    shutil.copytree(undisturbed_out, out)
    # The idea that changes nothing is the baseline's
    assert len(results.read(out / 'results.jsonl')) == 4
    monkeypatch.setattr(pretraining, 'run', None)
    config = config.copy_and_resolve_references()
    config.ideas = ('other name: ' + RELU.partition(': ')[2],)
    rows = program.run(config, out)
    assert [row['idea'] for row in rows] == ['squared ReLU', 'same', 'other name']
    assert rows[0]['differences'] == rows[2]['differences']
    assert program.run(config, out) == rows  # nothing is written twice


def screened(idea, middle, **more):
    """A row of the ledger, as the report reads it."""
    found = [middle, middle - 0.1, middle + 0.1]
    row = dict(key=idea, stage='screen', idea=idea, changes={}, code={}, baseline='new', seeds=[0])
    row |= dict(updates=6, runs=[[idea, 'base']], differences=[middle], nats=found, bits=found)
    row |= dict(p=0.5, least=0.005, speed=1.2, equal_time=None, warning=None, verdict='cannot tell')
    return row | more


def test_an_idea_counts_again_with_other_code_and_not_with_more_seeds():
    first = screened('a', 0.1, code={'mine.py:f': '1'})
    rows = [
        first,
        first | {'seeds': [0, 1]},
        first | {'code': {'mine.py:f': '2'}},
        {'stage': 'planned', 'key': 'plan', 'ideas': {'a': {}, 'b': {}}},
        screened('a', -0.1, stage='confirm', planned='plan'),
    ]
    lines = report.summary(rows, 'new')
    assert lines[:2] == ['Comparisons that were screened: 2.', 'Confirmations, on fresh seeds: 2.']


@pytest.mark.parametrize('loss, warned', [(9.0, True), (0.1, False)])
def test_trials_that_are_too_short_are_named(text, tmp_path, monkeypatch, capsys, loss, warned):
    monkeypatch.setattr(counts, 'SLACK', 0.01)
    monkeypatch.setattr(trials, 'train', simulated({'baseline': loss}))
    rows = program.run(small(text, ('a: model.n_head=1',)), tmp_path / 'out')
    assert (rows[-1]['verdict'] == 'cannot tell: the trials are too short') == warned
    assert (rows[-1]['warning'] is not None) == warned
    warning = 'Warning: 2 of 2 trials of the baseline hardly pass the loss of a unigram model ('
    assert (warning in capsys.readouterr().out) == warned
    assert (warning in (tmp_path / 'out' / 'report.md').read_text()) == warned


def build(text, several, out, length=1):
    base = small(text, ()).pretrain
    return ideas.build(base, {ideas.BASELINE: {}, **several}, out, length)


def test_an_idea_about_rounding_or_speed_alone_is_trained(text, tmp_path):
    found = build(
        text,
        {
            'a': {'model.precision': 'high'},
            'b': {'batch.loss_chunks': '2'},
            'c': {'mesh.fsdp': '2'},
            'same': {'log_every': '1'},
        },
        tmp_path,
    )
    baseline, *others = found.values()
    assert [each.key(0) == baseline.key(0) for each in others] == [False, False, False, True]


def test_a_changed_file_or_text_is_another_trial(text, tmp_path, monkeypatch):
    """Not a file in another place."""
    monkeypatch.setattr(user_code, '_everything_trusted', True)
    monkeypatch.setattr(pretraining.causality, 'check', lambda *_: None)
    found = []
    for place, contents in (('a', 'x'), ('b', '2 * x'), ('c', 'x')):
        (tmp_path / place).mkdir()
        (tmp_path / place / 'idea.py').write_text(f'def f(x):\n    return {contents}\n')
        several = {'a': {'model.ops.gelu': f'{tmp_path}/{place}/idea.py:f'}}
        found.append(build(text, several, tmp_path / 'out')['a'])
    a, b, c = (idea.key(0) for idea in found)
    assert a == c != b and c != found[2].key(1)
    other_text = found[2].manifest | {'fingerprint': 'x'}
    assert found[2]._replace(manifest=other_text).key(0) != c


def test_a_longer_trial_has_all_that_counts_updates_in_proportion(text, tmp_path):
    changes = {'optimizer.decay_steps': '2', 'optimizer.schedule': 'stable_decay'}
    idea = build(text, {'a': changes}, tmp_path, length=2)['a']
    config = idea.config
    assert config.train.steps == 12 and idea.tokens == 12 * config.batch.size * config.model.n_ctx
    assert config.optimizer.decay_steps == 4 and config.eval.every == 6
    assert config.checkpoint.every == 4 and config.log_every == 4


@pytest.mark.full
def test_minutes_become_a_number_of_updates_that_stays(text, tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(pretraining, '_steps_in', lambda minutes, *_: asked.append(minutes) or 4)
    monkeypatch.setattr(trials, 'train', simulated({}))
    config = small(text, ('2 heads: model.n_head=2',))
    out = tmp_path / 'out'
    for _ in range(2):
        rows = program.run(config, out, minutes=5)
    assert [row['stage'] for row in rows] == ['timed', 'screen'] and rows[1]['updates'] == 4
    config.pretrain.model.n_embd = 32  # another baseline has its own number
    program.run(config, out, minutes=5, dry_run=True)
    assert asked == [5, 5]
    shutil.rmtree(out)
    for confirm, said in (
        (False, 'in all 4 trials, 2,048 tokens to train on: about 0:20:00'),
        (True, 'in all 14 trials, 14,336 tokens to train on: about 2:20:00'),
    ):
        program.run(config, out, confirm=confirm, minutes=5, dry_run=True)
        assert said in capsys.readouterr().out


@pytest.mark.full
def test_a_dry_run_trains_nothing_and_estimates_from_trials_that_are_done(
    text, undisturbed, capsys, tmp_path
):
    config = small(text, (RELU, '2 heads: model.n_head=2'))
    program.run(config, tmp_path / 'new', dry_run=True)
    assert 'squared ReLU: 0 trials done, 2 to do, 768 tokens each' in capsys.readouterr().out
    program.run(config, undisturbed[0], dry_run=True)
    said = capsys.readouterr().out
    assert (
        '2 heads: 0 trials done, 2 to do' in said
        and 'in all 2 trials, 1,536 tokens to train on: about 0:00:' in said
    )


# Confirm and adopt


@pytest.fixture(scope='module')
def searched(text, tmp_path_factory):
    """(directory, config) of a search with an idea that helps, one that harms, and code, whose file
    is edited while it is trained."""
    out = tmp_path_factory.mktemp('searched')
    ideas_file = out / 'mine.py'
    ideas_file.write_text('def gelu(x):\n    return 1.7 * x\n')
    config = small(
        text,
        (
            'faster: optimizer.peak_rate=3e-3',
            'slower: optimizer.peak_rate=1e-6',
            f'code: model.ops.gelu={ideas_file}:gelu optimizer.peak_rate=3e-3',
        ),
        confirm_seeds=3,
    )
    config.pretrain.optimizer.peak_rate = 1e-5
    train = trials.train

    def edit(*given):
        ideas_file.write_text('# the next idea')
        return train(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, 'train', edit)
        program.run(config, out / 'out')
    return out / 'out', config


@pytest.fixture
def search(searched, tmp_path, monkeypatch):
    """The search, moved, in a process that has trusted nothing, and a config without ideas."""
    monkeypatch.setattr(user_code, '_trusted', set())
    out = tmp_path / 'out'
    shutil.copytree(searched[0], out)
    config = searched[1].copy_and_resolve_references()
    config.ideas = ()
    return out, config


@pytest.mark.full
def test_only_what_looks_better_is_confirmed_on_fresh_seeds_at_twice_the_length(
    search, monkeypatch, capsys
):
    out, config = search
    with pytest.raises(
        UserError, match=r'^code: .*mine-\w+.py:gelu: is code, .* give --trust_code'
    ):
        program.run(config, out, confirm=True)
    with pytest.raises(UserError, match='^--adopt=code: is not confirmed .*; believed: none'):
        program.run(config, out, adopt='code')
    monkeypatch.setattr(user_code, '_everything_trusted', True)
    rows = program.run(config, out, confirm=True)
    confirmed = [row for row in rows if row['stage'] == 'confirm']
    assert [row['idea'] for row in confirmed] == ['code', 'faster']  # the best first
    for row in confirmed:
        assert row['updates'] == 12 and row['seeds'] == [1000, 1001, 1002]
        assert row['verdict'] == 'better' and row['key'] in ledger.believed(rows)
    trained = [row['seed'] for row in results.read(out / 'results.jsonl') if row['updates'] == 12]
    assert sorted(trained) == sorted([1000, 1001, 1002] * 3)
    page = (out / 'report.md').read_text()
    assert 'Believed to be better: code, faster.' in page and 'to confirm: none.' in page
    assert program.run(config, out, confirm=True) == rows  # nothing is left to confirm

    # What is adopted is part of the baseline of what follows
    adopted = program.run(config, out, adopt='code')[-1]
    assert adopted['stage'] == 'adopt' and adopted['changes'] == of(confirmed, 'code')['changes']
    config.ideas = ('2 heads: model.n_head=2',)
    last = program.run(config, out)[-1]
    trained = {row['key']: row for row in results.read(out / 'results.jsonl')}
    baseline = trained[last['runs'][0][1]]
    assert last['idea'] == '2 heads' and baseline['seed'] == 0
    written = config_file.load(str(out / 'baseline.py'))
    assert written.optimizer.peak_rate == 3e-3 and written.train.steps == 6
    assert written.model.ops.gelu.startswith(f'{out}/code/mine-')
    run = pretraining.run(written, out / 'for_real')
    curve = [row['valid_loss'] for row in results.read(run.metrics) if 'valid_loss' in row]
    assert curve[-1] == pytest.approx(baseline['loss'], abs=1e-6)
    assert '(earlier baseline)' in (out / 'report.md').read_text()
    with pytest.raises(UserError, match='^--adopt=code: was confirmed against another baseline: '):
        program.run(config, out, adopt='code')
    capsys.readouterr()
    config.ideas = ()
    program.run(config, out, confirm=True)
    nothing = 'nothing to confirm: no screened idea looks better. Of the screens 3 had another base'
    assert nothing in capsys.readouterr().out
    (code,) = (out / 'code').iterdir()
    assert code.read_text() == 'def gelu(x):\n    return 1.7 * x\n'
    code.write_text('# edited')
    with pytest.raises(UserError, match="^idea 'code': .*mine-.*py:gelu, which has changed since"):
        program.run(config, out)


def test_nothing_is_written_through_links(tmp_path):
    """OUT may come from elsewhere, with links in it that lead to files of the user's."""
    out = tmp_path / 'out'
    out.mkdir()
    mine = tmp_path / 'mine'
    mine.write_text('mine')
    for name in ('report.md', 'ideas.png', 'baseline.py', 'ideas.jsonl', 'runs.log'):
        (out / name).symlink_to(mine)
    report.write(out, [screened('a', 0.1)], 'base', {}, 'About.')
    ledger.write_baseline(out, [], {}, {})
    with pytest.raises(UserError, match='ideas.jsonl: is a link'):
        ledger.append(out, screened('b', 0.2))
    with pytest.raises(UserError, match='runs.log: is a link'):
        with trials.logged(out / 'runs'):
            pass
    assert mine.read_text() == 'mine'
    assert not (out / 'report.md').is_symlink() and '# Ideas' in (out / 'report.md').read_text()


def test_a_strangers_ledger_is_data(tmp_path):
    """Names with quotes and line breaks are no code in the config of a baseline."""
    name = 'a"""\nimport os; os_abort() | x'
    ledger.write_baseline(tmp_path, [name], {f'model.{name}': name}, {})
    written = config_file.load(str(tmp_path / 'baseline.py'))
    assert written.model[name] == name


# Interruptions and failures


def simulated(losses):
    """A function in place of trials.train, with a loss or an error of each idea."""

    def train(idea, seed, out, head, keep=False):
        loss = losses.get(idea.name, 3.0)
        if isinstance(loss, Exception):
            raise loss
        loss += seed / 100
        bits = loss / 2
        row = dict(key=idea.key(seed), idea=idea.name, changes=idea.changes, seed=seed, ledger=head)
        row |= dict(loss=loss, bits_per_byte=bits, curve=[(6, loss, bits)], tokens=idea.tokens)
        row |= dict(updates=idea.config.train.steps, text={'digest': 't', 'tokenizer': 'a'})
        row |= dict(parameters=1, tokens_per_s=1000.0)
        results.append(out / 'results.jsonl', row)
        return row

    return train


def test_an_idea_that_fails_is_tried_with_one_seed_and_has_one_line(text, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, 'train', simulated({'bad': ValueError('no'), 'good': 2.9}))
    config = small(text, ('bad: model.n_head=1', 'good: model.n_head=2', 'other: model.n_layer=3'))
    for _ in range(2):
        with pytest.raises(UserError, match='^trials failed: bad: ValueError: no$'):
            program.run(config, tmp_path / 'out')
    rows = ledger.read(tmp_path / 'out')
    assert [row['idea'] for row in rows] == ['bad', 'good', 'other']
    assert rows[0]['verdict'] == 'failed: ValueError: no'


def test_without_its_baseline_a_search_stops(text, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, 'train', simulated({'baseline': ValueError('no')}))
    with pytest.raises(UserError, match='^trials failed: baseline: ValueError: no$'):
        program.run(small(text, ('a: model.n_head=1',)), tmp_path / 'out')
    assert not (tmp_path / 'out' / 'results.jsonl').exists()


@pytest.mark.full
def test_a_search_that_is_killed_five_times_equals_one_undisturbed(undisturbed, tmp_path):
    out, rows, config = undisturbed
    rng = random.Random(0)
    for _ in range(5):
        # After this many steps of the next trial that is not done
        with power_cut(rng.randrange(1, 6)):
            program.run(config, tmp_path)
    resumed = program.run(config, tmp_path)
    assert measured(tmp_path) == measured(out)
    assert timeless(resumed) == timeless(rows)


# The chain


@pytest.fixture
def ledger_of_three(tmp_path, monkeypatch, text):
    """The directory of a search with three lines."""
    monkeypatch.setattr(trials, 'train', simulated({'a': 2.8, 'b': 2.9, 'c': 3.1}))
    names = {'a': 'model.n_head=1', 'b': 'model.n_head=2', 'c': 'model.n_layer=3'}
    config = small(text, tuple(f'{name}: {field}' for name, field in names.items()))
    program.run(config, tmp_path / 'out')
    return tmp_path / 'out', config


def edited(out, change):
    file = out / 'ideas.jsonl'
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(''.join(change(lines)))


@pytest.mark.parametrize(
    'change, message',
    [
        (lambda lines: lines[1:], 'line 1: does not follow the line before'),
        (lambda lines: lines[:2], 'lines are missing at its end'),
        (
            lambda lines: [lines[0].replace('0.005', '0.006', 1), *lines[1:]],
            'line 2: does not follow the line before',
        ),
        (
            lambda lines: [lines[0].replace('"equal_time"', '"equal_tima"'), *lines[1:]],
            "line 1: its field 'equal_time' is missing or damaged",
        ),
        (lambda lines: [lines[0].replace('"screen"', '"scream"'), *lines[1:]], 'line 1: stage is '),
    ],
)
def test_a_damaged_or_shortened_ledger_is_named(ledger_of_three, change, message):
    out, config = ledger_of_three
    config.ideas = ('d: model.n_embd=32',)
    program.run(config, out)  # whose trials were trained after three lines
    edited(out, change)
    with pytest.raises(UserError, match=f'ideas.jsonl: {message}'):
        program.run(config, out)


def test_each_confirmation_has_fresh_seeds_and_counts_if_it_is_given_up(
    ledger_of_three, monkeypatch
):
    out, config = ledger_of_three
    config.confirm_seeds = 3
    config.ideas = ('a: model.n_head=1',)
    monkeypatch.setattr(trials, 'train', simulated({'baseline': ValueError('no power')}))
    with pytest.raises(UserError, match='no power'):
        program.run(config, out, confirm=True)
    rows = ledger.read(out)
    assert rows[-1]['stage'] == 'planned' and rows[-1]['seeds'] == [1000, 1001, 1002]
    assert len(ledger.tests(rows)) == 1
    # The same command goes on with the seeds of the confirmation that it has begun
    monkeypatch.setattr(trials, 'train', simulated({'a': 2.8, 'z': 2.8}))
    rows = program.run(config, out, confirm=True)  # goes on with the seeds
    assert rows[-1]['seeds'] == [1000, 1001, 1002] and len(ledger.tests(rows)) == 1
    for ideas_of_command in (('a: model.n_head=1',), ('z: model.n_head=1',)):  # again, renamed
        config.ideas = ideas_of_command
        rows = program.run(config, out, confirm=True)
    assert rows[-1]['seeds'] == [1006, 1007, 1008] and len(ledger.tests(rows)) == 3


def test_an_idea_may_be_another_training_text_but_not_the_validation_text(
    text, tmp_path, monkeypatch
):
    monkeypatch.setattr(trials, 'train', simulated({'more': 2.9}))
    own = corpus(tmp_path / 'own', 30)
    held_out = tmp_path / 'held_out'
    held_out.mkdir()
    for number, file in enumerate(sorted(own.iterdir())):
        if number >= 27:
            file.rename(held_out / file.name)
        elif number < 16:
            file.unlink()  # the baseline has these
    config = small(text, (f'more: data.corpus={own}',))
    with pytest.raises(UserError, match='^more: data.corpus: the baseline holds out 0.2 of its'):
        program.run(config, tmp_path / 'out')
    config.pretrain.data.valid = str(held_out)
    rows = program.run(config, tmp_path / 'out')
    assert rows[-1]['idea'] == 'more' and rows[-1]['nats'][0] == pytest.approx(-0.1)
    whole = ''.join(file.read_text() for file in held_out.iterdir())
    # The validation text inside a longer document, which no comparison of whole texts finds
    leak = tmp_path / 'leak'
    own.rename(leak)
    (leak / 'leak.txt').write_text(f'A longer document. {whole} And its end.')
    config.ideas = (f'leak: data.corpus={leak}',)
    with pytest.raises(UserError, match='^leak: data.corpus: its text has .*% of the validation'):
        program.run(config, tmp_path / 'out')
