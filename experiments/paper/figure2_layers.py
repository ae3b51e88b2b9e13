"""Figure 2, left (Section 5): fine-tuning from the embeddings and the first 0, 1, 2, ... layers.

In addition to the paper's 0 to 12 layers there is 'none', a fresh model with fresh embeddings. The
runs with all layers and with none are shared with Tables 2, 3 and 5. They also score the training
rows of these tasks.
"""

import pathlib
from collections.abc import Sequence

from ml_collections import ConfigDict

from experiments.lib import bootstrap, figures, run_list
from experiments.lib.run_list import Run
from experiments.paper import scores
from experiments.paper.numbers import Score
from gpt1_jax.metrics.bootstrap import Estimate
from gpt1_jax.models import build
from gpt1_jax.runs import workdir
from gpt1_jax.runs.markdown import bullets, table
from gpt1_jax.training import transfer

NAMES = {'mnli': 'MultiNLI', 'race': 'RACE'}  # as in the paper's legend
HEADER = (
    'layers',
    'dev',
    '95% interval',
    'gain',
    '95% interval',
    'seeds',
    'n',
    'train',
    '95% interval',
    'n',
)
ABOUT = (
    'Accuracy in percent after fine-tuning with the first layers of the pretrained model, the rest '
    'drawn afresh: "none" transfers nothing, 0 the embeddings alone. Parameters "final": the last '
    'step of the fixed schedule. Dev of MultiNLI is the matched set. "gain" is dev against the row '
    'above, by a paired bootstrap.'
)


def specs(config: ConfigDict) -> list[Run]:
    """Returns a run for each task, number of layers and seed. Dev and train are scored."""
    return [
        run
        for task in config.layer_tasks
        for n, condition in conditions(config).items()
        for run in run_list.finetune_runs(
            config, task, condition, {'n_transfer': n} if condition.startswith('layers_') else None
        )
    ]


def conditions(config: ConfigDict) -> dict[int, str]:
    """Returns {n: condition} of the numbers in config.layers that the pretrained model has. Nothing
    and all layers have the tables' names, so that their runs are shared."""
    all_layers = depth(config)
    ends = {transfer.NOTHING: 'no_pretraining', all_layers: 'full'}
    return {n: ends.get(n, f'layers_{n}') for n in sorted(set(config.layers)) if n <= all_layers}


def depth(config: ConfigDict) -> int:
    return build.backbone(workdir.load(config.pretrained).config['model']).config.n_layer


def points(
    config: ConfigDict, runs: Sequence[Run], task: str, split: str = 'dev'
) -> dict[int, Estimate]:
    """Returns {layers: accuracy} of the results that exist."""
    score = Score(task, task, 'accuracy', None, split)
    found = {n: scores.find(runs, score, condition) for n, condition in conditions(config).items()}
    return {n: each for n, each in found.items() if each}


def draw(config: ConfigDict, runs: Sequence[Run], path: pathlib.Path) -> None:
    """Draws accuracy against the transferred layers. Train is dashed, without a band."""
    curves = {
        (task, split): there
        for task in config.layer_tasks
        for split in ('dev', 'train')
        if (there := points(config, runs, task, split))
    }
    if not curves:
        return
    about = '# of layers transferred (none: no weights at all, 0: the embeddings alone)'
    with figures.panel(
        path,
        (6.4, 4.2),
        title='Figure 2 (left): layers transferred',
        xlabel=about,
        ylabel='accuracy (%)',
    ) as axes:
        for (task, split), there in curves.items():
            colour, marker = figures.of_task(task)
            train = split == 'train'
            figures.draw_curve(
                axes,
                [{'layers': n, **figures.point(each)} for n, each in there.items()],
                'layers',
                band=0 if train else 0.15,
                color=colour,
                marker=marker,
                markersize=5,
                linewidth=1.6,
                linestyle='--' if train else '-',
                markerfacecolor='white' if train else colour,
                label=f'{NAMES.get(task, task)} {split.capitalize()}',
            )
        ticks = sorted(set().union(*curves.values()))
        axes.set_xticks(
            ticks, ['none' if tick == transfer.NOTHING else str(tick) for tick in ticks]
        )
        axes.yaxis.set_major_formatter(figures.PERCENT)
        axes.legend(ncols=2, loc='upper center', bbox_to_anchor=(0.5, -0.16))


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    text = []
    picture = []
    for task in config.layer_tasks:
        name = NAMES.get(task, task)
        dev, train = (points(config, runs, task, split) for split in ('dev', 'train'))
        rows = [
            row(n, dev, train, scores.absent(runs, task, condition))
            for n, condition in conditions(config).items()
        ]
        text += [f'## {name}', '', *table(HEADER, rows)]
        highest = max(dev.values(), key=lambda each: each.value, default=None)
        baseline = scores.best_baseline(config, Score(name, task, 'accuracy', None), highest)
        text += [f'Best baseline on dev: {baseline}.', ''] if baseline else []
        if dev or train:
            picture = ['![accuracy against layers transferred](figure2_layers.png)', '']
    return [
        '# Figure 2 (left): layers transferred',
        '',
        ABOUT,
        '',
        *picture,
        *text,
        scores.READING,
        '',
        *bullets([*scores.state(runs), *scores.settings(config, runs)]),
    ]


def row(n: int, dev: dict[int, Estimate], train: dict[int, Estimate], absent: str) -> list[str]:
    """Returns the cells of n layers. The gain is over the next smaller number of layers that has a
    result. absent: the cell of a missing result."""
    cells = ['none' if n == transfer.NOTHING else str(n)]
    if n in dev:
        below = max((other for other in dev if other < n), default=None)
        gain = ['', ''] if below is None else scores.pair(bootstrap.minus(dev[n], dev[below]), '+')
        cells += [*scores.pair(dev[n]), *gain, str(len(dev[n].by_seed)), f'{dev[n].n:,}']
    else:
        cells += [absent, *[''] * 5]
    return cells + ([*scores.pair(train[n]), f'{train[n].n:,}'] if n in train else [absent, '', ''])
