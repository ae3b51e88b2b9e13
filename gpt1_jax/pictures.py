"""What a notebook shows of a text: where each head looks, and how surprising each token was. Plain values in; a PNG, or
HTML that carries its own colours, out."""
import html
import math
from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

MOST_BITS = 12  # of surprise, from where on colours are the same: 1 in 4,096


def attention(path, pieces: Sequence[str], maps, layers: Sequence[int] | None = None,
              heads: Sequence[int] | None = None):
    """A panel a head, a row of panels a layer: what the token at the left sees of each one below it.

    path: of a PNG. pieces, maps [N, H, L, L]: as of api.Trained.attention. layers, heads: the numbers, from 0, of those
    to show, by default all.
    """
    layers, heads = (range(n) if chosen is None else chosen for n, chosen in zip(maps.shape[:2], (layers, heads)))
    names, L = [label(piece) for piece in pieces], len(pieces)
    side = max(1.35, (0.135 if len(layers) * len(heads) > 1 else 0.26) * L)  # inches of a panel
    figure = Figure(figsize=(side * len(heads) + 1.9, side * len(layers) + 1.3), dpi=150, layout='constrained')
    grid = figure.subplots(len(layers), len(heads), squeeze=False, sharex=True, sharey=True)
    shades = colormaps['Blues'].with_extremes(bad='#F0F0F0')
    for row, layer in zip(grid, layers):
        for axes, head in zip(row, heads):
            hidden = np.triu(np.ones((L, L), bool), 1)  # what comes later is not there to be seen
            image = axes.imshow(np.ma.array(maps[layer, head], mask=hidden), cmap=shades, vmin=0, vmax=1)
            axes.set_title(f'layer {layer}, head {head}', fontsize=9)
            axes.set_xticks(range(L), names, rotation=90, fontsize=7)
            axes.set_yticks(range(L), names, fontsize=7)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
    figure.supylabel('the token that looks', fontsize=10)
    figure.supxlabel('the tokens it sees: itself and those before it', fontsize=10)
    bar = figure.colorbar(image, ax=grid, shrink=min(0.8, 2.5 / side / len(layers)), aspect=16, pad=0.02)
    bar.set_label("share of the head's attention", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    figure.savefig(path)


def surprise(pieces: Sequence[str], log_probabilities) -> str:
    """HTML of a text, each token the darker the less probable the model found it after those before it.

    pieces, log_probabilities: as of api.Trained.score, n and n - 1 of them; the first token is never predicted. The
    figures of a token stand in its tooltip, in bits: -log2 of its probability.
    """
    bits = [None, *(-float(log) / math.log(2) for log in log_probabilities)]
    if len(pieces) != len(bits):
        raise ValueError(f'{len(pieces)} pieces need {len(pieces) - 1} log-probabilities, got {len(bits) - 1}')
    text = ''.join(_token(piece, own) for piece, own in zip(pieces, bits))
    legend = ' '.join(_span(name, at, '') for at, name in (
        (0, 'certain'), (1, '1 in 2'), (4, '1 in 16'), (8, '1 in 256'), (MOST_BITS, '1 in 4,096 or less')))
    mean = sum(bits[1:]) / max(1, len(bits) - 1)
    return ('<div style="background:#fff;color:#1a1a1a;padding:0.8em 1em;max-width:52em;font:15px/1.9 Georgia,serif">'
            f'{text}<div style="font:12px/2.2 sans-serif;margin-top:0.6em">{legend} &nbsp; '
            f'mean {mean:.2f} bits a token, perplexity {2 ** min(mean, 1000):,.1f}</div></div>')


def label(piece: str) -> str:
    """A token beside an axis: 'cat ' -> 'cat', 'ca' -> 'ca-' as its word goes on, a line break '↵'."""
    if piece == '\n':
        return '↵'
    return (piece.strip() or '␣') if piece.endswith(' ') else f'{piece}-'


def _token(piece, bits):
    if piece == '\n':
        return _span('↵', bits, 'line break') + '<br>'
    return _span(html.escape(piece.rstrip(' ')) or '␣', bits, label(piece)) + ' ' * piece.endswith(' ')


def _span(text, bits, name):
    if bits is None:
        return f'<span style="color:#888" title="{html.escape(name)}: the first token is not predicted">{text}</span>'
    shade = round(min(bits / MOST_BITS, 1) * 0.9, 3)
    told = f' title="{html.escape(name)}: {bits:.1f} bits, probability {2 ** -bits:.2%}"' if name else ''
    return (f'<span style="background:rgba(230,97,1,{shade});border-radius:3px;padding:0.1em 0.12em"{told}>{text}'
            '</span>')
