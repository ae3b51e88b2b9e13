"""Training curves of several runs: what is drawn, and the command."""
import itertools

import pytest

from experiments import plots
from gpt1_jax.runs import results

pytestmark = pytest.mark.full


@pytest.fixture
def run(tmp_path):
    """Stopped after 50 steps, continued from 30 to 60."""
    (tmp_path / 'run').mkdir()
    for first, last, shift in ((0, 50, 0.5), (30, 60, 0.0)):
        log = results.Log(tmp_path / 'run' / 'metrics.jsonl', first)
        for step in range(first + 10, last + 1, 10):
            log.append({'step': step, 'loss': 9 - step / 20 + shift, 'learning_rate': step / 1e4,
                        'tokens_per_s': 1000.0 + step, 'grad_norm': 1.0})
            if step % 20 == 0:
                log.append({'step': step, 'valid_loss': 2.0, 'valid_perplexity': 1000.0 / step})
    return tmp_path / 'run'


@pytest.mark.quick
def test_a_run_that_was_continued_is_drawn_once(run):
    assert plots.read_curves(run) == {
        'loss': [(10, 9.0), (20, 8.5), (30, 8.0), (40, 7.0), (50, 6.5), (60, 6.0)],
        'learning_rate': [(step, step / 1e4) for step in range(10, 61, 10)],
        'valid_perplexity': [(20, 50.0), (40, 25.0), (60, 1000 / 60)],
        'tokens_per_s': [(step, 1000.0 + step) for step in range(10, 61, 10)]}


def test_each_panel_has_every_run_in_its_colour_and_says_if_no_run_has_the_field(run, drawn, tmp_path):
    results.write(tmp_path / 'metrics.jsonl', ({'step': 7, 'loss': 1.5, 'tokens_per_s': 60_000},))
    curves = {'one': plots.read_curves(run), 'two': plots.read_curves(tmp_path)}
    plots.training_curves('x.png', curves)
    plots.training_curves('x.png', {'two': curves['two']})
    for axes, (field, title) in zip(drawn[0].axes, plots.PANELS.items()):
        assert axes.get_title() == title
        there = [one[field] for one in curves.values() if one[field]]
        assert [list(map(tuple, line.get_xydata())) for line in axes.lines] == there
        assert len({line.get_color() for line in axes.lines}) == len(there)
    assert [axes.get_yscale() for axes in drawn[0].axes] == ['linear', 'linear', 'log', 'log']  # 1,000, 60,000 a second
    assert [text.get_text() for text in drawn[0].legends[0].texts] == ['one', 'two']
    none = ['none in these runs']
    assert [[text.get_text() for text in axes.texts] for axes in drawn[1].axes] == [[], none, none, []]


@pytest.mark.parametrize('content, message', [
    (None, 'no rows: not a run, or one that has logged nothing yet'), ('{"step": 1}\nx\n', 'line 2: not JSON'),
    ('{"loss": 1}\n', 'line 1: step is None, must be a number'),
    ('{"step": 1}\n{"step": 2, "loss": "low"}\n', "line 2: loss is 'low', must be a number")])
def test_what_cannot_be_drawn_is_one_line(tmp_path, capsys, content, message):
    if content is not None:
        (tmp_path / 'metrics.jsonl').write_text(content)
    assert plots.main([str(tmp_path), f'--out={tmp_path / "x.png"}']) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f'error: {tmp_path}/metrics.jsonl: {message}') and printed.count('\n') == 1
    assert not (tmp_path / 'x.png').exists()


def test_labels_are_as_long_as_it_takes_and_many_runs_have_a_colour_or_a_line_of_their_own(drawn, tmp_path):
    assert plots.labels(['/x/runs/gpt', '/x/runs/lstm']) == ['gpt', 'lstm']
    assert plots.labels(['/x/a/run', '/x/b/run', '/x/b/other']) == ['a/run', 'b/run', 'b/other']
    plots.training_curves('x.png', {str(i): dict.fromkeys(plots.PANELS, [(1, 1.0)]) for i in range(21)})
    assert all((a.get_color(), a.get_linestyle()) != (b.get_color(), b.get_linestyle())
               for a, b in itertools.combinations(drawn[0].axes[0].lines, 2))


def test_the_command_draws_a_run_given_twice_once_and_no_loss_that_is_not_finite(tmp_path, monkeypatch, capsys):
    (tmp_path / 'metrics.jsonl').write_text('{"step": 1, "loss": 2}\n{"step": 2, "loss": NaN}\n'
                                            '{"step": 3, "loss": 1e999}\n{"step": 4, "loss": 1}\n')
    monkeypatch.chdir(tmp_path)
    seen, real = [], plots.training_curves
    monkeypatch.setattr(plots, 'training_curves', lambda path, curves: (seen.append(curves), real(path, curves)))
    assert plots.main(['.', str(tmp_path)]) == 0 and capsys.readouterr().out == f'{tmp_path}/runs.png\n'
    assert [one['loss'] for one in seen[0].values()] == [[(1, 2), (4, 1)]]
    assert (tmp_path / 'runs.png').read_bytes().startswith(b'\x89PNG')
    assert plots.main(['.', '--out=no/x.png']) == 1 and 'no/x.png: No such file' in capsys.readouterr().err
