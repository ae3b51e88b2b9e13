"""Section 5, Figure 2 (left): fine-tuning from the embeddings alone, the first layer, the first two, ... all of them.

python -m experiments.figure2_layers --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.data=DATA \\
    --config.out=runs/paper [--dry_run]

Beside the paper's 0 to 12 layers stands 'none': a fresh model, embeddings included. The runs with all layers and with
none are those of Tables 2, 3 and 5 with the training rows scored, too: run first, this script leaves them for those.
"""
import pathlib

from experiments import estimates, tables
from experiments import run as runs
from experiments.report import table
from gpt1_jax import backbone, transfer, workdir

PNG = 'figure2_layers.png'
NAMES = {'mnli': 'MultiNLI', 'race': 'RACE'}  # as in the paper's legend
ABOUT = ('Accuracy in percent after fine-tuning with the first layers of the pretrained model, the rest drawn afresh: '
         '"none" transfers nothing, 0 the embeddings alone. Parameters "final": the last step of the fixed schedule. '
         'Dev of MultiNLI is the matched set. "gain" is dev against the row above, by a paired bootstrap.')


def run(config, dry_run=False):
    """Fine-tune with each number of layers; write OUT/figure2_layers.png and .md; returns its lines."""
    runs.check(config)
    outcomes = runs.carry_out(config, plans(config), dry_run)
    if dry_run:
        runs.raise_failures(outcomes)
        return []
    found = {(task, split): points(outcomes, task, split, conditions(config)) for task in config.layer_tasks
             for split in ('dev', 'train')}
    curves = [{'task': task, 'name': name_of(task), 'split': split, 'points': [
        {'layers': n, 'value': one.value, **dict(zip(('low', 'high'), one.interval()))} for n, one in several.items()]}
        for (task, split), several in found.items() if several]
    text = runs.write(config, 'figure2_layers.md', lines(config, outcomes, found))
    if curves:
        from experiments import plots  # matplotlib, which the runs themselves do without
        plots.layers_transferred(pathlib.Path(config.out) / PNG, curves)
    runs.raise_failures(outcomes)
    return text


def plans(config):
    """A run a task, number of layers and seed; dev and train are scored."""
    found = []
    for task in config.layer_tasks:
        for n, condition in conditions(config).items():
            settings = None if condition in ('full', 'no_pretraining') else {'n_transfer': n}
            found += runs.plans(config, task, condition, settings)
    return found


def conditions(config):
    """{n: condition} of those numbers in config.layers that the pretrained model has: the two ends are called as in
    the tables, whose runs they are."""
    depth = backbone.backbone(workdir.load(config.pretrained).config['model']).config.n_layer
    ends = {transfer.NOTHING: 'no_pretraining', depth: 'full'}
    return {n: ends.get(n, f'layers_{n}') for n in sorted(set(config.layers)) if n <= depth}


def points(outcomes, task, split, conditions):
    """{layers: Estimate of accuracy} of what is there."""
    found = {n: tables.find(outcomes, task, name, 'accuracy', split, 'final') for n, name in conditions.items()}
    return {n: one for n, one in found.items() if one is not None}


def lines(config, outcomes, found):
    """The Markdown: a table a task. found: {(task, split): {layers: Estimate}}."""
    text = ['# Figure 2 (left): layers transferred', '', ABOUT, '']
    text += [f'![accuracy against layers transferred]({PNG})', ''] if any(found.values()) else []
    for task in config.layer_tasks:
        dev, train = found[task, 'dev'], found[task, 'train']
        text += [f'## {name_of(task)}', '', *table(
            ('layers', 'dev', '95% interval', 'gain', '95% interval', 'seeds', 'n', 'train', '95% interval', 'n'),
            [row(n, dev, train, tables.absent(outcomes, task, name)) for n, name in conditions(config).items()])]
    return [*text, tables.READING, '', *tables.bullets([*tables.state(outcomes), *tables.settings(config, outcomes)])]


def row(n, dev, train, absent):
    """The cells of n layers; gain: over the last number of layers below that has a figure. absent: what stands for
    none."""
    cells = ['none' if n == transfer.NOTHING else str(n)]
    below = max((other for other in dev if other < n), default=None)
    if n in dev:
        gain = estimates.minus(dev[n], dev[below]) if below is not None else None
        cells += [tables.percent(dev[n].value), tables.interval(dev[n]),
                  tables.percent(gain.value, '+') if gain else '', tables.interval(gain, '+') if gain else '',
                  str(len(dev[n].seeds)), f'{dev[n].n:,}']
    else:
        cells += [absent, *[''] * 5]
    return cells + ([tables.percent(train[n].value), tables.interval(train[n]), f'{train[n].n:,}'] if n in train else
                    [absent, '', ''])


def name_of(task):
    return NAMES.get(task, task)


if __name__ == '__main__':
    runs.command(run)
