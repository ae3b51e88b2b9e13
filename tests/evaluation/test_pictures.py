"""Attention maps as a picture, surprise as HTML: what is drawn is what was given."""
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from gpt1_jax.evaluation import pictures

pytestmark = pytest.mark.full

PIECES = ['the ', 'ca', 't ', '<b> ', '\n']


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """A function: the arguments of pictures.attention but the path -> its figure, once it is written."""
    figures = []

    def keep(self, path):
        figures.append(self)
        save(self, path)
    save = Figure.savefig
    monkeypatch.setattr(Figure, 'savefig', keep)

    def draw(*arguments):
        pictures.attention(tmp_path / 'maps.png', *arguments)
        assert (tmp_path / 'maps.png').read_bytes()[:4] == b'\x89PNG'
        return figures[-1]
    return draw


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_each_head_has_its_panel_and_what_comes_later_is_left_out(drawn):
    maps = np.random.default_rng(0).random((2, 3, 5, 5))
    found = panels(drawn(PIECES, maps))
    assert list(found) == [f'layer {n}, head {h}' for n in range(2) for h in range(3)]
    for (n, h), axes in zip(np.ndindex(2, 3), found.values()):
        (image,) = axes.get_images()
        np.testing.assert_array_equal(np.tril(image.get_array().filled(0)), np.tril(maps[n, h]))
        np.testing.assert_array_equal(image.get_array().mask, np.triu(np.ones((5, 5), bool), 1))
        assert image.get_clim() == (0, 1)
    names = ['the', 'ca-', 't', '<b>', '↵']
    assert [t.get_text() for t in found['layer 1, head 0'].get_yticklabels()] == names
    assert [t.get_text() for t in found['layer 1, head 0'].get_xticklabels()] == names


def test_layers_and_heads_are_chosen_by_their_numbers(drawn):
    maps = np.random.default_rng(1).random((3, 4, 5, 5))
    ((title, axes),) = panels(drawn(PIECES, maps, [2], [1])).items()
    assert title == 'layer 2, head 1'
    np.testing.assert_array_equal(np.tril(axes.get_images()[0].get_array().filled(0)), np.tril(maps[2, 1]))


@pytest.mark.quick
def test_surprise_is_in_bits_and_the_darker_the_rarer():
    found = pictures.surprise(PIECES, np.log([0.5, 0.25, 2 ** -12, 2 ** -40]))
    assert 'title="the: the first token is not predicted"' in found
    told = re.findall(r'rgba\(230,97,1,([0-9.]+)\);[^>]*title="([^"]*)">([^<]*)<', found)
    assert [(name, text) for _, name, text in told] == [
        ('ca-: 1.0 bits, probability 50.00%', 'ca'), ('t: 2.0 bits, probability 25.00%', 't'),
        ('&lt;b&gt;: 12.0 bits, probability 0.02%', '&lt;b&gt;'), ('line break: 40.0 bits, probability 0.00%', '↵')]
    assert [float(shade) for shade, *_ in told] == [0.075, 0.15, 0.9, 0.9]
    assert 'mean 13.75 bits a token, perplexity 13,777.2' in found
    text = re.sub('<[^>]*>', '', found.partition('<div style="font')[0].replace('<br>', '\n'))
    assert text == 'the cat &lt;b&gt; ↵\n'
