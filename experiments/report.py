"""A run's report: Markdown and plots from the files that the run left, every figure recomputed from its predictions."""
import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from gpt1_jax import metrics
from gpt1_jax.errors import UserError

KINDS = ('pretrained', 'scratch', 'baseline')


@dataclasses.dataclass(frozen=True)
class Run:
    """One row of a task's table.

    name: as shown, unique in its task. kind: 'pretrained', 'scratch' or 'baseline' (its colour).
    predictions: path of its predictions.jsonl on the test split.
    """
    name: str
    kind: str
    predictions: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One task: its runs over the same test items, in the order of the table.

    title: as shown. about: a sentence or two on the task. metric: a name in gpt1_jax.metrics.
    differences: (a, b) names of runs; metric(a) - metric(b) is reported by a paired bootstrap.
    chance: a guess's expected figure, or None.
    """
    title: str
    about: str
    runs: tuple[Run, ...]
    differences: tuple[tuple[str, str], ...] = ()
    metric: str = 'accuracy'
    chance: float | None = 0.5


def load(path) -> dict[str, tuple]:
    """predictions.jsonl -> {id: (gold, scores)}. UserError naming the file where an id stands twice."""
    ids, gold, scores = metrics.read_predictions(path)
    rows = dict(zip(ids, zip(gold, scores)))
    if len(rows) != len(ids):
        raise UserError(f'{path}: an id stands twice')
    return rows


def figure(path, metric: str = 'accuracy') -> dict:
    """{'n', 'value', 'low', 'high'} of a predictions file: fractions, the interval of 95% by bootstrap over items."""
    rows = list(load(path).values())
    gold, scores = [row[0] for row in rows], np.array([row[1] for row in rows])
    low, high = metrics.bootstrap_interval(metric, gold, scores)
    return {'n': len(rows), 'value': metrics.compute([metric], gold, scores)[metric], 'low': low, 'high': high}


def difference(path_a, path_b, metric: str = 'accuracy') -> dict:
    """{'n', 'value', 'low', 'high'} of metric(a) - metric(b), paired. UserError where the items are not the same."""
    a, b = load(path_a), load(path_b)
    if a.keys() != b.keys() or any(a[name][0] != b[name][0] for name in a):
        raise UserError(f'{path_a} and {path_b} are not about the same items')
    value, low, high = metrics.paired_bootstrap(metric, [row[0] for row in a.values()],
                                                np.array([row[1] for row in a.values()]),
                                                np.array([b[name][1] for name in a]))
    return {'n': len(a), 'value': value, 'low': low, 'high': high}


def percent(one: Mapping, sign: str = '') -> str:
    return f'{100 * one["value"]:{sign}.1f}'


def interval(one: Mapping, sign: str = '') -> str:
    return f'{100 * one["low"]:{sign}.1f} to {100 * one["high"]:{sign}.1f}'


def table(columns: Sequence[str], rows: Sequence[Sequence]) -> list[str]:
    """Markdown lines; every column but the first is right-aligned."""
    rule = ['---', *['---:'] * (len(columns) - 1)]
    cells = [[str(cell).replace('|', '\\|') for cell in row] for row in (columns, rule, *rows)]
    return [*('| ' + ' | '.join(row) + ' |' for row in cells), '']


def pretraining(rows: Sequence[dict], plot_name: str) -> tuple[list[str], list[str]]:
    """(section, main figures) from metrics.jsonl rows."""
    trained = [row for row in rows if row.get('loss') is not None]
    valid = [row for row in rows if row.get('valid_loss') is not None]
    cells, main = [], []
    if trained:
        cells.append(['last logged training loss', f'{trained[-1]["loss"]:.3f}', f'{trained[-1]["step"]:,}'])
    if valid:
        last = valid[-1]
        perplexity = last.get('valid_perplexity', math.exp(last['valid_loss']))
        cells += [['validation loss', f'{last["valid_loss"]:.3f}', f'{last["step"]:,}'],
                  ['validation perplexity', f'{perplexity:.1f}', f'{last["step"]:,}']]
        main.append(f'pretraining: validation perplexity {perplexity:.1f} after {last["step"]:,} updates')
    about = ('Loss in nats per token; the validation text is whole documents that training never reads, '
             'less the sentences that stand in training too.')
    return ['## Pretraining', '', about, '', *table(['', 'value', 'at update'], cells),
            f'![training and validation loss]({plot_name})', ''], main


def fine_tuning(comparisons: Sequence[Comparison], plot_name: str) -> tuple[list[str], list[str], list[dict]]:
    """(section, main figures, panels for plots.comparison)."""
    lines, main, panels = ['## Fine-tuning', ''], [], []
    for one in comparisons:
        paths = {run.name: run.predictions for run in one.runs}
        figures = {name: figure(path, one.metric) for name, path in paths.items()}
        lines += [f'### {one.title}', '', one.about, '', *table(
            ['', 'test items', f'{one.metric} (%)', '95% interval'],
            [[name, f'{f["n"]:,}', percent(f), interval(f)] for name, f in figures.items()])]
        rows = []
        for a, b in one.differences:
            d = difference(paths[a], paths[b], one.metric)
            rows.append([f'{a} − {b}', f'{d["n"]:,}', percent(d, '+'), interval(d, '+')])
            main.append(f'{one.title}: {a} {percent(figures[a])}, {b} {percent(figures[b])}, difference '
                        f'{percent(d, "+")} ({interval(d, "+")}), n {d["n"]:,}')
        if rows:
            lines += table(['difference over the same items', 'test items', 'points', '95% interval'], rows)
        panels.append({'title': one.title, 'chance': one.chance, 'figures': [
            {'name': run.name, 'kind': run.kind, **figures[run.name]} for run in one.runs]})
    return [*lines, f'![fine-tuning with and without pretraining]({plot_name})', ''], main, panels


def acceptability(paths: Mapping[int, str], plot_name: str, chance: float) -> tuple[list[str], list[str], list[dict]]:
    """(section, main figures, points for plots.zero_shot) from {pretraining step: predictions path}."""
    points = [{'step': step, **figure(paths[step])} for step in sorted(paths)]
    first, last = points[0], points[-1]
    lines = ['## Zero-shot acceptability', '',
             'A sentence against itself with two neighbouring words swapped: right where the model gives the original '
             'the higher mean token log-probability, without any fine-tuning. '
             f'A guess is right in {100 * chance:.0f}%.', '',
             *table(['updates', 'pairs', 'accuracy (%)', '95% interval'],
                    [[f'{point["step"]:,}', f'{point["n"]:,}', percent(point), interval(point)] for point in points])]
    main = [f'zero-shot acceptability: {percent(last)} ({interval(last)}) after {last["step"]:,} updates, '
            f'n {last["n"]:,}']
    if len(points) > 1:
        gain = difference(paths[last['step']], paths[first['step']])
        lines += [f'From update {first["step"]:,} to {last["step"]:,}: {percent(gain, "+")} points '
                  f'({interval(gain, "+")}, paired over the same pairs).', '']
    return [*lines, f'![zero-shot accuracy over updates]({plot_name})', ''], main, points


def overlap_section(counts: Mapping[str, int]) -> list[str]:
    """Section from what gpt1_jax.data.tasks.derived.overlap_check returns."""
    def row(name, what):
        long, seen = counts[f'{name}_long'], counts[f'{name}_seen']
        return [what, f'{long:,}', f'{seen:,}', f'{100 * seen / long if long else 0:.1f}']

    verdict = ('No sentence of an evaluation item stands in the training text.' if counts['item_seen'] == 0 else
               f'**{counts["item_seen"]:,} sentences of evaluation items stand in the training text: '
               'the figures are not clean.**')
    return ['## Overlap check', '', 'Distinct sentences of eight words or more that stand verbatim in the text of '
            'pretraining and fine-tuning. ' + verdict, '',
            *table(['', 'sentences', 'in training', '%'],
                   [row('random', 'had single documents been held out'), row('held', 'whole groups held out'),
                    row('item', 'evaluation items')])]


def write(directory, title: str, about: str, facts: Mapping[str, object], curve: Sequence[dict],
          comparisons: Sequence[Comparison], zero_shot: Mapping[int, str], overlap: Mapping[str, int],
          chance: float = 0.5) -> list[str]:
    """Write report.md and its PNG files into a directory (made if missing), print its path and the main figures.

    about:       a paragraph for the reader: what was run, on what, with which command.
    facts:       {name: value} for the table of sizes and settings; numbers get thousands separators.
    curve:       metrics.jsonl rows of pretraining, {'step', 'loss'} and {'step', 'valid_loss', 'valid_perplexity'}.
    comparisons: the fine-tuned tasks.  zero_shot: {pretraining step: path of predictions.jsonl}; may be empty.
    overlap:     what derived.overlap_check returns.
    Returns the main figures, a line each. UserError for predictions that can't be read or aren't about the same items.
    """
    from experiments import plots  # matplotlib: a table does without
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    sections, main = pretraining(curve, 'loss.png')
    plots.losses(directory / 'loss.png', curve)
    if comparisons:
        lines, figures, panels = fine_tuning(comparisons, 'fine_tuning.png')
        plots.comparison(directory / 'fine_tuning.png', panels)
        sections, main = sections + lines, main + figures
    if zero_shot:
        lines, figures, points = acceptability(zero_shot, 'zero_shot.png', chance)
        plots.zero_shot(directory / 'zero_shot.png', points, chance)
        sections, main = sections + lines, main + figures
    shown = [[name, f'{value:,}' if isinstance(value, (int, float)) and not isinstance(value, bool) else value]
             for name, value in facts.items()]
    reading = ('Intervals are 95% percentile intervals over resampled test items (2,000 resamples); a difference '
               'resamples the items once for both runs. They do not cover the spread between seeds of training.')
    text = [f'# {title}', '', about, '', '## In short', '', *[f'* {line}' for line in main], '', reading, '',
            '## What was run', '', *table(['', 'value'], shown), *sections, *overlap_section(overlap)]
    path = directory / 'report.md'
    path.write_text('\n'.join(text).rstrip() + '\n', encoding='utf-8')
    print(f'report: {path}')
    for line in main:
        print(f'  {line}')
    return main
