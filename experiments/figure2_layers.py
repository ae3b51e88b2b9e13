"""Section 5, Figure 2 (left): fine-tuning from the embeddings alone, the first layer, the first two, ... all of them.

python -m experiments.figure2_layers --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.data=DATA \\
    --config.out=runs/paper [--dry_run]

Beside the paper's 0 to 12 layers stands 'none': a fresh model, embeddings included. The runs with all layers and with
none are those of Tables 2, 3 and 5 with the training rows also scored: run first, this script leaves them for those.
"""
import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from experiments.lib import bootstrap, run_list, runner, tables
from experiments.lib.bootstrap import Estimate
from experiments.lib.markdown import bullets, table
from experiments.lib.paper import Score
from experiments.lib.run_list import RunSpec
from experiments.lib.runner import Outcome
from gpt1_jax.models import build
from gpt1_jax.runs import workdir
from gpt1_jax.training import transfer

PNG = 'figure2_layers.png'
NAMES = {'mnli': 'MultiNLI', 'race': 'RACE'}  # as in the paper's legend
ABOUT = ('Accuracy in percent after fine-tuning with the first layers of the pretrained model, the rest drawn afresh: '
         '"none" transfers nothing, 0 the embeddings alone. Parameters "final": the last step of the fixed schedule. '
         'Dev of MultiNLI is the matched set. "gain" is dev against the row above, by a paired bootstrap.')


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Fine-tune with each number of layers; write OUT/figure2_layers.png and .md; returns its lines."""
    outcomes = runner.of_script(config, specs, dry_run)
    if dry_run:
        return []
    found = {}
    for task in config.layer_tasks:
        for split in ('dev', 'train'):
            found[task, split] = points(outcomes, task, split, conditions(config))
    text = runner.write(config, 'figure2_layers.md', lines(config, outcomes, found))
    if any(found.values()):
        from experiments.lib import figures  # matplotlib, which the runs themselves do without
        figures.layers_transferred(pathlib.Path(config.out) / PNG, curves(found))
    runner.raise_failures(outcomes)
    return text


def specs(config: ConfigDict) -> list[RunSpec]:
    """A run for each task, number of layers and seed; dev and train are scored."""
    found = []
    for task in config.layer_tasks:
        for n, condition in conditions(config).items():
            settings = None if condition in ('full', 'no_pretraining') else {'n_transfer': n}
            found += run_list.finetune_specs(config, task, condition, settings)
    return found


def conditions(config: ConfigDict) -> dict[int, str]:
    """{n: condition} of those numbers in config.layers that the pretrained model has. Nothing and all layers are called
    as in the tables, so that their runs are shared."""
    depth = build.backbone(workdir.load(config.pretrained).config['model']).config.n_layer
    ends = {transfer.NOTHING: 'no_pretraining', depth: 'full'}
    return {n: ends.get(n, f'layers_{n}') for n in sorted(set(config.layers)) if n <= depth}


def points(outcomes: Sequence[Outcome], task: str, split: str, conditions: Mapping[int, str]) -> dict[int, Estimate]:
    """{layers: accuracy} of what is there."""
    found = {n: tables.find(outcomes, task, name, 'accuracy', split, 'final') for n, name in conditions.items()}
    return {n: one for n, one in found.items() if one is not None}


def curves(found: Mapping[tuple[str, str], Mapping[int, Estimate]]) -> list[dict]:
    """What figures.layers_transferred draws. found: {(task, split): points}."""
    drawn = []
    for (task, split), accuracy in found.items():
        points = []
        for n, one in accuracy.items():
            low, high = one.interval()
            points.append({'layers': n, 'value': one.value, 'low': low, 'high': high})
        if points:
            drawn.append({'task': task, 'name': name_of(task), 'split': split, 'points': points})
    return drawn


def lines(config: ConfigDict, outcomes: Sequence[Outcome],
          found: Mapping[tuple[str, str], Mapping[int, Estimate]]) -> list[str]:
    """The Markdown: a table for each task. found: {(task, split): points}."""
    text = ['# Figure 2 (left): layers transferred', '', ABOUT, '']
    if any(found.values()):
        text += [f'![accuracy against layers transferred]({PNG})', '']
    header = ('layers', 'dev', '95% interval', 'gain', '95% interval', 'seeds', 'n', 'train', '95% interval', 'n')
    for task in config.layer_tasks:
        rows = []
        for n, name in conditions(config).items():
            absent = tables.absent(outcomes, task, name)
            rows.append(row(n, found[task, 'dev'], found[task, 'train'], absent))
        text += [f'## {name_of(task)}', '', *table(header, rows)]
        score = Score(name_of(task), task, 'accuracy', None)
        highest = max(found[task, 'dev'].values(), key=lambda one: one.value, default=None)
        baseline = tables.best_baseline(tables.baselines_of(config), score, highest)
        text += [f'Best baseline on dev: {baseline}.', ''] if baseline else []
    return [*text, tables.READING, '', *bullets([*tables.state(outcomes), *tables.settings(config, outcomes)])]


def row(n: int, dev: Mapping[int, Estimate], train: Mapping[int, Estimate], absent: str) -> list[str]:
    """The cells of n layers. The gain is over the next smaller number of layers that has a result. absent: what is
    shown where there is none."""
    cells = ['none' if n == transfer.NOTHING else str(n)]
    if n in dev:
        gain = ['', '']
        below = max((other for other in dev if other < n), default=None)
        if below is not None:
            difference = bootstrap.minus(dev[n], dev[below])
            gain = [tables.percent(difference.value, '+'), tables.interval(difference, '+')]
        cells += [tables.percent(dev[n].value), tables.interval(dev[n]), *gain, str(len(dev[n].seeds)), f'{dev[n].n:,}']
    else:
        cells += [absent, *[''] * 5]
    if n in train:
        cells += [tables.percent(train[n].value), tables.interval(train[n]), f'{train[n].n:,}']
    else:
        cells += [absent, '', '']
    return cells


def name_of(task: str) -> str:
    """A task's name in the figure."""
    return NAMES.get(task, task)


if __name__ == '__main__':
    runner.command(run)
