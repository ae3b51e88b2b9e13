"""The front page's figure: BLiMP, zero-shot, against tokens read, beside published models.

python -m experiments.front_page --out=experiments/results/front_page.png
"""
import json
import pathlib

from absl import flags

from experiments.lib import blimp_published
from gpt1_jax import cli

POINTS = pathlib.Path(__file__).parent / 'results' / 'overnight_cpu' / 'blimp_over_tokens.json'
STYLES = {'Transformer': ('#0072b2', 'o', '-', 6.9), 'LSTM': ('#d55e00', 's', '--', 6.8)}


def draw(points: dict, out: str) -> None:
    """Write the PNG. points: {'Transformer': [(tokens, accuracy, low, high)], 'LSTM': ..., 'package': one}, in
    percent."""
    from matplotlib.figure import Figure
    figure = Figure(figsize=(10, 3.6), layout='constrained')
    axes = figure.subplots()
    for name, (color, marker, line, parameters) in STYLES.items():
        tokens, value, low, high = zip(*points[name])
        axes.fill_between(tokens, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(tokens, value, line, color=color, marker=marker, linewidth=2, markersize=6,
                  label=f'{name}, {parameters}M parameters')
    (tokens, value, *_), = points['package']
    axes.plot(tokens, value, '*', color=STYLES['Transformer'][0], markersize=14, zorder=3,
              label='Transformer of the package, 7.5 epochs')
    tokens, value = zip(*blimp_published.DECODER_POINTS[:3])
    axes.plot(tokens, value, ':', color='#555555', marker='^', label='published decoder, 21M parameters')
    left = 1.6e5
    for each in (each for each in blimp_published.PAPER if each.sets <= 75):
        axes.axhline(each.sets, color='#999999', linewidth=1, linestyle=(0, (4, 3)))
        above = each.name != 'Transformer-XL'
        axes.text(left, each.sets, f' {each.name}, {each.text}', va='bottom' if above else 'top', fontsize=10,
                  color='#555555')
    axes.axhline(50, color='#999999', linewidth=1)
    axes.text(left, 50, ' chance', va='top', fontsize=10, color='#555555')
    axes.set(xscale='log', xlim=(left, 7.5e8), ylim=(48, 73))
    axes.set_xlabel('tokens read (log scale)', size=12)
    axes.set_ylabel('BLiMP, zero-shot (%)', size=12)
    axes.legend(loc='lower right', bbox_to_anchor=(1, 0.05), frameon=False, fontsize=11)
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(labelsize=11)
    figure.savefig(out, dpi=160)


def main() -> None:
    draw(json.loads(POINTS.read_text()), flags.FLAGS.out)


if __name__ == '__main__':
    cli.run(main, lambda: flags.DEFINE_string('out', None, 'The PNG to write.', required=True))
