"""The quickstart's report: Markdown and figures, computed from the runs' predictions."""

import os
import pathlib
import platform
import re
from collections.abc import Mapping, Sequence

import numpy as np

from experiments import plots
from experiments.benchmarks import record
from experiments.lib import figures
from experiments.paper import scores
from gpt1_jax import metrics, storage
from gpt1_jax.metrics.bootstrap import Estimate, interval
from gpt1_jax.runs import results
from gpt1_jax.runs.markdown import bullets, table

PRETRAINED = 'pretrained'
SCRATCH = 'from scratch'
TRIGRAM = 'trigram'
PACKAGED = 'novels'
WORD_ORDER = 'word_order'  # the task without fine-tuning
PAIRS = ((PRETRAINED, SCRATCH), (PRETRAINED, TRIGRAM), (PACKAGED, TRIGRAM))  # pairs to compare
COLOURS = {PRETRAINED: 'pretrained', SCRATCH: 'scratch', TRIGRAM: 'baseline', PACKAGED: 'packaged'}
ABOUT = """A vocabulary, pretraining, fine-tuning with and without pretraining, and zero-shot
scoring on the novels of the package, by `python -m experiments.quickstart`. The test items are
from three novels that no training reads. Chance is 50% in each task.

* **pronoun**: does *he* or *him* come next in a sentence? The items are chosen so that naive
  Bayes of the other half of the sentences is right for half of them.
* **word_order**: the second half of a sentence, or the same with two neighbouring words
  exchanged? A model is not fine-tuned: it takes the ending with the higher mean token
  log-probability.

*Trigram*: a word trigram with absolute discounting, not fine-tuned. It takes the ending with the
higher mean log-probability of a word. *Novels*: the packaged model `novels`, 6.9M parameters,
fine-tuned and scored in the same way. It has read far more than the others: the heads of the
columns say how much.

Brackets are 95% intervals by bootstrap over test items, paired for differences. They do not
include the spread between seeds of training. Rounding acts like another seed, and another processor
rounds otherwise: so a verdict counts only if all machines agree on it."""
# The verdicts of this report on other machines: lines of verdicts.json
RUNS = pathlib.Path(__file__).parents[1] / 'results' / 'quickstart' / 'runs.jsonl'


def accuracy(path: str | pathlib.Path) -> Estimate:
    """Returns the accuracy of a predictions file."""
    _, gold, found = metrics.read_predictions(path)
    return estimate(gold, found)


def estimate(gold: np.ndarray, found: np.ndarray) -> Estimate:
    """Returns the accuracy of scores. The same items in the same order have the same resamples.

    gold: the label of each item, [items]. found: [items, labels].
    """
    (draws,) = metrics.draws('accuracy', gold, [found])
    return Estimate(metrics.compute(['accuracy'], gold, found)['accuracy'], draws, len(gold))


def shown(score: Estimate) -> str:
    """Returns '62.3 (59.2 to 65.3)', a score and its interval in percent."""
    return f'{scores.percent(score.value)} ({scores.interval(score)})'


def less(a: Estimate, b: Estimate) -> Estimate:
    """Returns the paired difference a - b of two accuracies on the same items."""
    return Estimate(a.value - b.value, a.draws - b.draws, a.n)


def verdict(difference: Estimate) -> str:
    """Says whether a difference's interval is above zero, below zero or neither."""
    low, high = interval(difference.draws)
    if low > 0:
        return 'better'
    if high < 0:
        return 'worse'
    return 'undecided'


def agreement(runs: Sequence[Mapping]) -> list[str]:
    """Returns a line for each verdict: what all runs say, or that they do not agree.

    runs: of several machines, as `write` writes verdicts.json. The last is the present one.
    """
    lines = []
    for name, here in runs[-1]['verdicts'].items():
        others = [run['verdicts'].get(name) for run in runs]
        if others.count(here) == len(runs):
            lines.append(f'{name}: {here} in {len(runs)} of {len(runs)} runs')
        else:
            lines.append(f'{name}: no verdict, because the runs say {", ".join(map(str, others))}')
    return lines


def processor() -> str:
    """Returns the name of this machine's processor, and the instruction set that XLA was given."""
    flag = re.search(r'--xla_cpu_max_isa=(\w+)', os.environ.get('XLA_FLAGS', ''))
    limit = f', {flag[1]} only' if flag else ''
    facts = record.cpuinfo()
    name = facts.get('model name') or platform.processor() or platform.machine()
    numbers = [f'{what} {facts[what]}' for what in ('cpu family', 'model') if what in facts]
    return ', '.join([name, *numbers]) + limit


def write(
    directory: pathlib.Path,
    facts: Mapping[str, object],
    read: Mapping[str, str],
    pretrained: pathlib.Path,
    predictions: Mapping[str, Mapping[str, pathlib.Path]],
    zero_shot: Mapping[int, str],
) -> list[str]:
    """Writes report.md, verdicts.json and the figures, and returns and prints the headline results.

    read: {a name of COLOURS: the text that it has read}. pretrained: the run. predictions: {task:
    {a name of COLOURS: path}}. word_order has no fine-tuning, so it lacks SCRATCH. zero_shot:
    {update: path of the predictions on word_order}.
    """
    curves = plots.read_curves(pretrained)
    step, perplexity = curves['valid_perplexity'][-1]
    found = {
        task: {name: accuracy(paths[name]) for name in COLOURS if name in paths}
        for task, paths in predictions.items()
    }
    headlines = [f'pretraining: validation perplexity {perplexity:.1f} after {step:,} updates']
    for task, of_task in found.items():
        values = ', '.join(f'{name} {shown(score)}' for name, score in of_task.items())
        headlines.append(f'{_label(task)}: {values}')
    here = {'processor': processor(), 'scores': {}, 'verdicts': {}}
    for task, of_task in found.items():
        for name, score in of_task.items():
            here['scores'][f'{name}, {task}'] = scores.percent(score.value)
        for name in (PRETRAINED, PACKAGED):
            difference = less(of_task[name], of_task[TRIGRAM])
            here['verdicts'][f'{name} against the trigram, {task}'] = verdict(difference)
    storage.write_json(directory / 'verdicts.json', here)
    runs = [run for run in results.read(RUNS) if run['processor'] != here['processor']]
    headlines += agreement([*runs, here])
    points = {step: accuracy(path) for step, path in sorted(zero_shot.items())}
    beside = {name: (COLOURS[name], found[WORD_ORDER][name].value) for name in (TRIGRAM, PACKAGED)}
    plots.training_curves(directory / 'pretraining.png', {'GPT-1': curves})
    figures.comparison(
        directory / 'accuracy.png',
        {
            task: [(name, COLOURS[name], figures.point(score)) for name, score in of_task.items()]
            for task, of_task in found.items()
        },
    )
    figures.zero_shot(directory / 'zero_shot.png', 'Word order, zero-shot', points, beside)
    lines = [
        '# Quickstart: GPT-1 from text to tasks',
        '',
        ABOUT,
        '',
        '## Accuracy on the test items (percent)',
        '',
        *table(['', *(f'{name} ({read[name]})' for name in COLOURS)], _accuracies(found)),
        '![accuracy of the models and the trigram](accuracy.png)',
        '',
        '## Differences (points)',
        '',
        *table(['', *map(' - '.join, PAIRS)], _differences(found)),
        '## Zero-shot during pretraining',
        '',
        *table(
            ['updates', 'accuracy (%)'],
            [[f'{step:,}', shown(score)] for step, score in points.items()],
        ),
        '![zero-shot accuracy over updates](zero_shot.png)',
        '',
        '## Pretraining',
        '',
        headlines[0],
        '',
        '![loss, rate, perplexity, throughput](pretraining.png)',
        '',
        '## Sizes',
        '',
        *table(['', 'value'], list(facts.items())),
        '## What runs on several machines agree on',
        '',
        f'This machine: {here["processor"]}. The others: '
        f'{"; ".join(run["processor"] for run in runs) or "none"}.',
        '',
        *bullets(headlines[-len(here['verdicts']) :]),
    ]
    path = directory / 'report.md'
    storage.write(path, '\n'.join(lines).encode())
    print(f'report: {path}')
    for line in headlines:
        print(f'  {line}')
    return headlines


def _accuracies(found):
    """Returns the rows of the table of accuracies. found: {task: {name: Estimate}}."""
    return [
        [_label(task), *(shown(of_task[name]) if name in of_task else '' for name in COLOURS)]
        for task, of_task in found.items()
    ]


def _differences(found):
    """Returns the rows of the table of PAIRS."""
    rows = []
    for task, of_task in found.items():
        row = [_label(task)]
        for a, b in PAIRS:
            row.append(scores.signed(less(of_task[a], of_task[b])) if b in of_task else '')
        rows.append(row)
    return rows


def _label(task):
    return f'{task}, zero-shot' if task == WORD_ORDER else task
