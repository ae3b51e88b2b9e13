"""experiments.figure_blimp: BLiMP against updates, from two tiny models on made-up pairs."""
import json
import pathlib
import re

import numpy as np
import pytest

import official
from experiments import figure_blimp
from experiments.lib import blimp_published, figures
from gpt1_jax import metrics, pretrain
from gpt1_jax.data.tasks.blimp import PHENOMENA
from tiny import corpus, load_config, override, pretrain_config

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:.*the published set has')]
STEPS = (5, 10)  # saved updates


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    root = tmp_path_factory.mktemp('figure')
    books = corpus(root / 'books')
    official.blimp(root / 'data' / 'blimp')
    (root / 'filter.json').write_text(json.dumps({'hills': [0, 1, 2]}))
    small = dict(model__n_ctx=48, optimizer__peak_rate=5e-2, train__steps=STEPS[-1], eval__every=10,
                 checkpoint__keep_steps=STEPS, checkpoint__every=5, tokenizer__merges=200)
    gpt = pretrain.run(pretrain_config(books, **small), root / 'gpt')
    lstm = pretrain.run(pretrain_config('', data__tokens=str(root / 'gpt' / 'tokens'), model__kind='lstm',
                                        model__n_units=16, **small), root / 'lstm')
    found = override(load_config('experiments'), dict(
        pretrained=str(gpt.path), lstm=str(lstm.path), data=str(root / 'data'), out=str(root / 'out')))
    found.zero_shot.blimp = {'data': {'filter': str(root / 'filter.json')}}
    return found


@pytest.fixture(scope='module')
def text(config):
    return figure_blimp.run(config)


def cells(text, first, heading):
    """The cells after the first of the line that begins with it, under a heading."""
    section = '\n'.join(text).partition(heading)[2]
    return [cell.strip() for cell in re.search(rf'^\| {re.escape(first)} \|(.*)\|$', section, re.M)[1].split('|')]


def rows(config):
    lines = (pathlib.Path(config.out) / 'results.jsonl').read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_saved_update_of_both_models_has_its_accuracy_and_tokens(config, text):
    for step in STEPS:
        row = cells(text, str(step), '## Overall')
        assert row[0] == row[3] == f'{step * 8 * 48:,}'
        expected = [one['value'] for one in rows(config) if (one['step'], one['group'], one['metric']) == (
            step, None, 'accuracy')]
        assert [row[1], row[4]] == [f'{100 * value:.1f}' for value in expected]
        assert all(re.fullmatch(r'[\d.]+ to [\d.]+', row[i]) for i in (2, 5))


def test_conventions_and_phenomena_stand_beside_what_is_published(text):
    for about in figure_blimp.METRICS.values():
        assert len(cells(text, about, '## Conventions')) == 4
    assert cells(text, 'binding', '## Phenomena')[4:] == ['73.5', '74.7']
    assert len(cells(text, 'argument structure', '## Phenomena')) == 6 and '| ellipsis |' not in '\n'.join(text)
    assert cells(text, 'Transformer-XL', '## Published') == ['103M words', '69.6', '72.2']


def test_a_difference_is_that_of_the_accuracies_and_paired(config, text):
    found = {one['step']: one for one in rows(config) if one['run'] == config.pretrained
             and one['group'] is None and one['metric'] == 'accuracy'}
    gain = 100 * (found[10]['value'] - found[5]['value'])
    assert f'* Transformer, from update 5 to 10: {gain:+.1f} (' in '\n'.join(text)
    assert '* Transformer − LSTM at update 10: ' in '\n'.join(text)
    same = {(None, 'accuracy'): found[10]}
    assert figure_blimp.difference(same, same).startswith('+0.0 (+0.0 to +0.0')  # the same pairs in each resample
    ids, _, _ = metrics.read_predictions(found[10]['predictions'])
    assert len(ids) == 32


def test_there_is_a_picture_and_nothing_is_scored_twice(config, text, capsys):
    out = pathlib.Path(config.out)
    assert (out / figure_blimp.PNG).read_bytes().startswith(b'\x89PNG')
    assert (out / 'figure_blimp.md').read_text().rstrip() == '\n'.join(text).rstrip()
    assert figure_blimp.run(config) == text
    assert '2 runs: 0 to do, 2 done' in capsys.readouterr().out


def test_the_lstm_stands_where_the_transformer_has_read_as_many_tokens():
    row = {'value': 0.6, 'low': 0.5, 'high': 0.7}
    found = {condition: {10: {(None, 'accuracy'): row}} for condition in ('full', 'lstm')}
    drawn = figure_blimp.curves(found, {'full': 100, 'lstm': 50})
    assert [(curve['model'], curve['points'][0]['step']) for curve in drawn] == [('Transformer', 10), ('LSTM', 5)]
    assert drawn[0]['points'][0]['value'] == 60
    assert not [line for line in figure_blimp.contrasts(found, {'full': 100, 'lstm': 50}) if '−' in line]


def test_the_published_lines_and_a_panel_for_each_phenomenon_are_drawn(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: drawn.extend(figure.axes))
    points = {group: [{'step': step, 'value': 55, 'low': 54, 'high': 56} for step in (1000, 50_000)]
              for group in (None, *PHENOMENA)}
    points['binding'][0] |= {'value': 12, 'low': 11}
    figures.blimp(tmp_path / 'x.png', [
        {'group': group, 'model': 'Transformer', 'points': points[group]} for group in points], 2048)
    overall, *panels = drawn
    assert [panel.get_title() for panel in panels] == list(PHENOMENA.values())
    assert {panel.get_ylim() for panel in panels} == {(11, 100)}  # one scale, and nothing is cut off
    heights = {line.get_ydata()[0] for line in overall.get_lines()}
    assert {one.sets for one in blimp_published.PAPER} <= heights
    for group, panel in zip(PHENOMENA, panels):
        assert set(blimp_published.BY_PHENOMENON[group]) <= {line.get_ydata()[0] for line in panel.get_lines()}
    decoder, = [line for line in overall.get_lines() if line.get_marker() == 'D']
    np.testing.assert_allclose(decoder.get_xdata() * 2048, [25e6, 50e6, 100e6])  # as far as our curve goes


@pytest.mark.parametrize('last, shown', [(10_000, False), (13_000, True)])
def test_the_published_decoder_is_in_the_legend_where_it_is_in_the_figure(tmp_path, monkeypatch, last, shown):
    saved = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: saved.append(figure))
    points = [{'step': step, 'value': 55, 'low': 54, 'high': 56} for step in (1000, last)]
    figures.blimp(tmp_path / 'x.png', [{'group': None, 'model': 'Transformer', 'points': points}], 2048)
    labels = [text.get_text() for text in saved[0].legends[0].get_texts()]
    assert (blimp_published.DECODER in labels) == shown
    assert any(line.get_marker() == 'D' for line in saved[0].axes[0].get_lines()) == shown
