"""Pictures for a notebook.

They are attention maps as a PNG, and a text coloured by the surprisal of its tokens as HTML.
"""

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

LARGEST = 3000  # pixels a side of a PNG, about
MOST_BITS = 12  # the darkest colour: a surprisal of 12 bits, a probability of 1 in 4,096, or more


def attention(
    path: Any,
    pieces: Sequence[str],
    maps: np.ndarray,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> None:
    """Writes a PNG that shows how much each token attends to earlier tokens.

    There is a row for each layer and a panel for each head. Panels are smaller if there are many,
    or if the text is long. Tokens have no labels if these would be unreadable.

    pieces, maps [N, H, L, L]: of api.Trained.attention. layers, heads: the numbers of the layers
    and heads to show, counted from 0, by default all.
    """
    layers = range(maps.shape[0]) if layers is None else layers
    heads = range(maps.shape[1]) if heads is None else heads
    names = [label(piece) for piece in pieces]
    L = len(pieces)
    # The side of a panel in inches, wide enough for its title.
    side = max(
        1.35,
        min(
            (0.135 if len(layers) * len(heads) > 1 else 0.26) * L, 18 / max(len(layers), len(heads))
        ),
    )
    size = side * len(heads) + 1.9, side * len(layers) + 1.3
    figure = Figure(figsize=size, dpi=min(150, LARGEST / max(size)), layout='compressed')
    points = 72 * side / L  # of a token
    places = range(L) if points >= 5 else ()
    grid = figure.subplots(len(layers), len(heads), squeeze=False, sharex=True, sharey=True)
    shades = colormaps['Blues'].with_extremes(bad='#F0F0F0')
    for row, layer in zip(grid, layers):
        for axes, head in zip(row, heads):
            later = np.triu(np.ones((L, L), bool), 1)
            image = axes.imshow(
                np.ma.array(maps[layer, head], mask=later), cmap=shades, vmin=0, vmax=1
            )
            axes.set_title(f'layer {layer}, head {head}', fontsize=9)
            axes.set_xticks(places, names[: len(places)], rotation=90, fontsize=min(7, points))
            axes.set_yticks(places, names[: len(places)], fontsize=min(7, points))
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
    figure.supylabel('query token', fontsize=10)
    figure.supxlabel('key token', fontsize=10)
    bar = figure.colorbar(
        image, ax=grid, shrink=min(0.8, 2.5 / side / len(layers)), aspect=16, pad=0.02
    )
    bar.set_label('attention probability', fontsize=9)
    bar.ax.tick_params(labelsize=8)
    figure.savefig(path)


def surprise(pieces: Sequence[str], log_probabilities: Sequence[float]) -> str:
    """HTML of a text in which less probable tokens are darker.

    The probability is given all earlier tokens. pieces, log_probabilities: of api.Trained.score, n
    and n - 1 of them. A token's tooltip gives its surprisal in bits, -log2 of its probability.
    """
    predicted = [-float(log) / math.log(2) for log in log_probabilities]
    tokens = [_token(piece, bits) for piece, bits in zip(pieces, [None, *predicted], strict=True)]
    legend = [
        _span(name, bits, '')
        for bits, name in (
            (0, 'certain'),
            (1, '1 in 2'),
            (4, '1 in 16'),
            (8, '1 in 256'),
            (MOST_BITS, '1 in 4,096 or less'),
        )
    ]
    mean = sum(predicted) / max(1, len(predicted))
    return (
        '<div style="background:#fff;color:#1a1a1a;padding:0.8em 1em;max-width:52em;font:15px/1.9 '
        'Georgia,serif">'
        f'{"".join(tokens)}<div style="font:12px/2.2 '
        f'sans-serif;margin-top:0.6em">{" ".join(legend)} &nbsp; mean {mean:.2f} bits a token, '
        f'perplexity {2 ** min(mean, 1000):,.1f}</div></div>'
    )


def label(piece: str) -> str:
    """A token as an axis label.

    'cat ' -> 'cat'. 'ca', which does not end its word, -> 'ca-'. A line break -> '↵'.
    """
    if piece == '\n':
        return '↵'
    return (piece.strip() or '␣') if piece.endswith(' ') else f'{piece}-'


def _token(piece, bits):
    if piece == '\n':
        return _span('↵', bits, 'line break') + '<br>'
    return _span(html.escape(piece.rstrip(' ')) or '␣', bits, label(piece)) + ' ' * piece.endswith(
        ' '
    )


def _span(text, bits, name):
    if bits is None:
        return (
            f'<span style="color:#888" title="{html.escape(name)}: the first token is not '
            'predicted">'
            f'{text}</span>'
        )
    shade = round(min(bits / MOST_BITS, 1) * 0.9, 3)
    tooltip = (
        f' title="{html.escape(name)}: {bits:.1f} bits, probability {2**-bits:.2%}"' if name else ''
    )
    return (
        f'<span style="background:rgba(230,97,1,{shade});border-radius:3px;padding:0.1em '
        f'0.12em"{tooltip}>{text}'
        '</span>'
    )
