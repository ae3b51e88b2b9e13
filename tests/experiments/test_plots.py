"""What is drawn: training curves of several runs, with their command, and the figures of tables."""
import itertools

import numpy as np
import pytest
from gpt1_jax.configs import experiments

from experiments import figure2_layers, figure2_zero_shot, plots
from experiments.lib import blimp_published, figures, figures_blimp
from gpt1_jax.data.tasks.blimp import PHENOMENA
from gpt1_jax.runs import results
from outcomes import Made

pytestmark = pytest.mark.full


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would be saved."""
    kept = []
    for module in (figures, figures_blimp, plots):
        monkeypatch.setattr(module, 'save', lambda figure, path: kept.append(figure))
    yield kept
    for figure in kept:
        plots.plt.close(figure)


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


# Of tables

@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


@pytest.mark.quick
def test_dev_is_solid_train_dashed_and_a_task_has_one_colour(drawn, made, monkeypatch):
    layers = {-1: 'no_pretraining', 0: 'layers_0', 2: 'full'}
    monkeypatch.setattr(figure2_layers, 'conditions', lambda config: layers)
    for task, split, condition in itertools.product(('mnli', 'race'), ('dev', 'train'), layers.values()):
        made.add(task, condition, 0, 5, split=split)
    figure2_layers.draw(experiments.get_config(), made.outcomes, 'x.png')
    lines = drawn[0].axes[0].get_lines()
    assert [(line.get_label(), line.get_linestyle()) for line in lines] == [
        ('MultiNLI Dev', '-'), ('MultiNLI Train', '--'), ('RACE Dev', '-'), ('RACE Train', '--')]
    colours = [line.get_color() for line in lines]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert list(lines[0].get_xdata()) == [-1, 0, 2]


def test_the_transformer_is_solid_the_lstm_dashed_and_update_0_has_a_place(drawn, made):
    for condition in ('full', 'lstm'):
        made.zero_shot('sst2', condition, {0: 0, 10: 500, 1000: 1000})
    figure2_zero_shot.draw(experiments.get_config(), made.outcomes, 'x.png')
    axes, = drawn[0].axes
    assert [line.get_linestyle() for line in axes.get_lines()[:2]] == ['-', '--']
    assert [line.get_text() for line in axes.get_legend().get_texts()] == ['sentiment analysis', 'Transformer', 'LSTM']
    # The state of the art is 93.2, a random guess 50: nothing is clipped.
    assert axes.get_xscale() == 'symlog' and axes.get_ylim()[0] < -50 / 43.2 and axes.get_ylim()[1] > 50 / 43.2
    places = [axes.transData.transform((step, 0))[0] for step in (0, 10, 1000)]
    assert places[0] + 20 < places[1] < places[2] - 20


def points(places, value, low, high):
    return [{'step': place, 'value': value, 'low': low, 'high': high} for place in places]


def test_the_published_lines_and_a_panel_for_each_phenomenon_are_drawn(drawn):
    curves = {group: points((1000, 50_000), 55, 54, 56) for group in (None, *PHENOMENA)}
    curves['binding'][0] |= {'value': 12, 'low': 11}
    figures_blimp.draw('x.png', [{'group': group, 'model': 'Transformer', 'points': curve}
                            for group, curve in curves.items()], 2048)
    overall, *panels = drawn[0].axes
    assert [panel.get_title() for panel in panels] == list(PHENOMENA.values())
    assert {panel.get_ylim() for panel in panels} == {(11, 100)}  # one scale, and nothing is cut off
    heights = {line.get_ydata()[0] for line in overall.get_lines()}
    assert {one.sets for one in blimp_published.PAPER} <= heights
    for group, panel in zip(PHENOMENA, panels):
        assert set(blimp_published.BY_PHENOMENON[group]) <= {line.get_ydata()[0] for line in panel.get_lines()}
    decoder, = [line for line in overall.get_lines() if line.get_marker() == 'D']
    np.testing.assert_allclose(decoder.get_xdata() * 2048, [25e6, 50e6, 100e6])  # as far as our curve goes


def test_the_published_decoder_is_in_the_legend_where_it_is_in_the_figure(drawn):
    for last in (10_000, 13_000):
        curve = {'group': None, 'model': 'Transformer', 'points': points((1000, last), 55, 54, 56)}
        figures_blimp.draw('x.png', [curve], 2048)
    in_legend = [blimp_published.DECODER in [text.get_text() for text in one.legends[0].get_texts()] for one in drawn]
    in_figure = [any(line.get_marker() == 'D' for line in one.axes[0].get_lines()) for one in drawn]
    assert in_legend == in_figure == [False, True]


def test_labels_on_a_log_scale_keep_their_distance():
    assert figures.labelled_steps([0, 25, 50, 100, 200, 400]) == [0, 25, 50, 100, 200, 400]
    every = figures.labelled_steps(list(range(0, 200001, 2000)))
    assert every[0] == 0 and every[-1] == 200000 and len(every) <= 14
