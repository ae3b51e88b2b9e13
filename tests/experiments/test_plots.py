"""The training curves of several runs, with their command."""

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
            log.append(
                {
                    'step': step,
                    'loss': 9 - step / 20 + shift,
                    'learning_rate': step / 1e4,
                    'tokens_per_s': 1000.0 + step,
                    'grad_norm': 1.0,
                }
            )
            if step % 20 == 0:
                log.append({'step': step, 'valid_loss': 2.0, 'valid_perplexity': 1000.0 / step})
    return tmp_path / 'run'


@pytest.mark.quick
def test_a_run_that_was_continued_is_drawn_once(run):
    assert plots.read_curves(run) == {
        'loss': [(10, 9.0), (20, 8.5), (30, 8.0), (40, 7.0), (50, 6.5), (60, 6.0)],
        'learning_rate': [(step, step / 1e4) for step in range(10, 61, 10)],
        'valid_perplexity': [(20, 50.0), (40, 25.0), (60, 1000 / 60)],
        'tokens_per_s': [(step, 1000.0 + step) for step in range(10, 61, 10)],
    }


def test_each_panel_has_every_run_that_has_its_field(run, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(plots, 'save', lambda figure, path: drawn.append(figure))
    results.write(tmp_path / 'metrics.jsonl', ({'step': 7, 'loss': 1.5, 'tokens_per_s': 60_000},))
    curves = {'one': plots.read_curves(run), 'two': plots.read_curves(tmp_path)}
    plots.training_curves('x.png', curves)
    for axes, field in zip(drawn[0].axes, plots.PANELS, strict=True):
        there = [one[field] for one in curves.values() if one[field]]
        assert [list(map(tuple, line.get_xydata())) for line in axes.lines] == there
    assert [text.get_text() for text in drawn[0].legends[0].texts] == ['one', 'two']
    plots.training_curves('x.png', {'two': curves['two']})


@pytest.mark.parametrize(
    'content, message',
    [
        (None, 'no rows'),
        ('{"step": 1}\nx\n', 'line 2: not JSON'),
        ('{"loss": 1}\n', 'line 1: step is None'),
    ],
)
def test_what_cannot_be_drawn_is_one_line(tmp_path, capsys, content, message):
    if content is not None:
        (tmp_path / 'metrics.jsonl').write_text(content)
    assert plots.main([str(tmp_path), f'--out={tmp_path / "x.png"}']) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f'error: {tmp_path}/metrics.jsonl: {message}')
    assert printed.count('\n') == 1


def test_a_loss_that_is_not_finite_is_not_drawn(tmp_path, capsys):
    losses = ('2', 'NaN', '1e999', '1', 'null')
    rows = [f'{{"step": {step}, "loss": {loss}}}\n' for step, loss in enumerate(losses, 1)]
    (tmp_path / 'metrics.jsonl').write_text(''.join(rows))
    assert plots.read_curves(tmp_path)['loss'] == [(1, 2), (4, 1)]
    assert plots.main([str(tmp_path), '--out=no/x.png']) == 1
    assert 'no/x.png: No such file' in capsys.readouterr().err


# Of tables
