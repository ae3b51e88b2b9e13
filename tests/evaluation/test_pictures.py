"""Attention maps as a picture and surprise as HTML show the given numbers."""

import itertools
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from gpt1_jax.evaluation import pictures

pytestmark = pytest.mark.full

PIECES = ['the ', 'ca', 't ', '<b> ', '\n']


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """A function: the arguments of pictures.attention but the path -> its figure, once it is
    written."""
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, 'savefig', lambda self, path: figures.append(self) or save(self, path)
    )

    def draw(*arguments):
        pictures.attention(tmp_path / 'maps.png', *arguments)
        assert (tmp_path / 'maps.png').read_bytes()[:4] == b'\x89PNG'
        return figures[-1]

    return draw


def test_each_chosen_head_has_its_panel_without_later_tokens(drawn):
    maps = np.random.default_rng(0).random((3, 4, 5, 5))
    for chosen in ((range(3), range(4)), ([2], [1])):
        figure = drawn(PIECES, maps, *(() if len(chosen[0]) == 3 else chosen))
        panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
        assert list(panels) == [f'layer {n}, head {h}' for n in chosen[0] for h in chosen[1]]
        for (n, h), axes in zip(itertools.product(*chosen), panels.values()):
            (image,) = axes.get_images()
            np.testing.assert_array_equal(np.tril(image.get_array().filled(0)), np.tril(maps[n, h]))
            np.testing.assert_array_equal(image.get_array().mask, np.triu(np.ones((5, 5), bool), 1))
            assert image.get_clim() == (0, 1)
    for labels in (axes.get_yticklabels(), axes.get_xticklabels()):  # of a single panel
        assert [label.get_text() for label in labels] == ['the', 'ca-', 't', '<b>', '↵']


@pytest.mark.parametrize(
    'tokens, layers, heads', [(2, [11], [11]), (21, [0, 5, 11], [0, 5, 10, 11])]
)
def test_no_text_of_a_picture_is_cut_off(drawn, tokens, layers, heads):
    figure = drawn(['wondering '] * tokens, np.full((12, 12, tokens, tokens), 0.5), layers, heads)
    width, height = figure.canvas.get_width_height()
    texts = [text for text in figure.findobj(Text) if text.get_text()]
    assert {'layer 11, head 11', 'query token', 'key token', 'attention probability'} <= {
        text.get_text() for text in texts
    }
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text


def test_a_long_text_has_panels_without_labels_and_a_picture_that_can_be_shown(drawn):
    figure = drawn(['it '] * 168, np.full((2, 4, 168, 168), 0.5))
    assert max(figure.canvas.get_width_height()) <= 3000
    assert not any(
        len(axes.get_xticks()) or len(axes.get_yticks()) for axes in figure.axes if axes.get_title()
    )
    figure = drawn(['it '] * 45, np.full((1, 1, 45, 45), 0.5))
    assert len(figure.axes[0].get_xticklabels()) == len(figure.axes[0].get_yticklabels()) == 45


@pytest.mark.quick
def test_surprise_is_in_bits_and_the_darker_the_rarer():
    found = pictures.surprise(PIECES, np.log([0.5, 0.25, 2**-12, 2**-40]))
    assert 'title="the: the first token is not predicted"' in found
    told = re.findall(r'rgba\(230,97,1,([0-9.]+)\);[^>]*title="([^"]*)">([^<]*)<', found)
    assert [(name, text) for _, name, text in told] == [
        ('ca-: 1.0 bits, probability 50.00%', 'ca'),
        ('t: 2.0 bits, probability 25.00%', 't'),
        ('&lt;b&gt;: 12.0 bits, probability 0.02%', '&lt;b&gt;'),
        ('line break: 40.0 bits, probability 0.00%', '↵'),
    ]
    assert [float(shade) for shade, *_ in told] == [0.075, 0.15, 0.9, 0.9]
    assert 'mean 13.75 bits a token, perplexity 13,777.2' in found
    text = re.sub('<[^>]*>', '', found.partition('<div style="font')[0].replace('<br>', '\n'))
    assert text == 'the cat &lt;b&gt; ↵\n'
