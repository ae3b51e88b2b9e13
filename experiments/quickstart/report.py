"""The quickstart's report: Markdown and figures, computed from the runs' predictions."""

import pathlib
from collections.abc import Mapping

from experiments import plots
from experiments.lib import figures
from experiments.paper import scores
from gpt1_jax import metrics
from gpt1_jax.metrics.bootstrap import Estimate, interval
from gpt1_jax.runs.markdown import bullets, table

PRETRAINED = 'pretrained'
SCRATCH = 'from scratch'
TRIGRAM = 'trigram'
PACKAGED = 'packaged model'
WORD_ORDER = 'word_order'  # the task without fine-tuning
PAIRS = ((PRETRAINED, SCRATCH), (PRETRAINED, TRIGRAM), (PACKAGED, TRIGRAM))  # pairs to compare
COLOURS = {PRETRAINED: 'pretrained', SCRATCH: 'scratch', TRIGRAM: 'baseline', PACKAGED: 'packaged'}
ABOUT = """A vocabulary, pretraining, fine-tuning with and without pretraining, and zero-shot
scoring on the novels of the package, by `python -m experiments.quickstart`. The test items are
from three novels that no training reads. Chance is 50% in each task.

* **pronoun**: does *he* or *him* come next in a sentence? The items are chosen so that naive
  Bayes of the other half of the sentences is right for half of them.
* **continuation**: the second half of a sentence, or the second half of another sentence of the
  novel, which is as long and shares the same words with the context?
* **word_order**: the second half of a sentence, or the same with two neighbouring words
  exchanged? A model is not fine-tuned: it takes the ending with the higher mean token
  log-probability.

*Trigram*: a word trigram with absolute discounting, counted on the training novels, not
fine-tuned. It takes the ending with the higher mean log-probability of a word. *Packaged model*:
`novels`, 6.9M parameters, pretrained on 557M tokens of other novels, then fine-tuned and scored
in the same way.

Brackets are 95% intervals by bootstrap over test items, paired for differences. They do not
include the spread between seeds of training. Rounding acts like another seed: another order of
sums has moved a fine-tuned score by three points."""


def accuracy(path: str | pathlib.Path) -> Estimate:
    """Returns the accuracy of a predictions file. Files with the same items in the same order have
    the same resamples."""
    ids, gold, found = metrics.read_predictions(path)
    (draws,) = metrics.draws('accuracy', gold, [found])
    return Estimate(metrics.compute(['accuracy'], gold, found)['accuracy'], draws, len(ids))


def shown(score: Estimate) -> str:
    """Returns '62.3 (59.2 to 65.3)', a score and its interval in percent."""
    return f'{scores.percent(score.value)} ({scores.interval(score)})'


def less(a: Estimate, b: Estimate) -> Estimate:
    """Returns the paired difference a - b of two accuracies on the same items."""
    return Estimate(a.value - b.value, a.draws - b.draws, a.n)


def verdict(differences: Mapping[str, Estimate]) -> str:
    """Names the tasks on which a difference's interval is above zero, below zero or undecided."""
    tasks = {'better': [], 'worse': [], 'undecided': []}
    for task, difference in differences.items():
        low, high = interval(difference.draws)
        if low > 0:
            tasks['better'].append(task)
        elif high < 0:
            tasks['worse'].append(task)
        else:
            tasks['undecided'].append(task)
    return '; '.join(f'{word} on {" and ".join(names)}' for word, names in tasks.items() if names)


def write(
    directory: pathlib.Path,
    facts: Mapping[str, object],
    pretrained: pathlib.Path,
    predictions: Mapping[str, Mapping[str, pathlib.Path]],
    zero_shot: Mapping[int, str],
) -> list[str]:
    """Writes report.md and the figures, and returns and prints the headline results.

    pretrained: the run. predictions: {task: {a name of COLOURS: path}}. word_order has no
    fine-tuning, so it lacks SCRATCH. zero_shot: {update: path of the predictions on word_order}.
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
    for name in (PRETRAINED, PACKAGED):
        differences = {}
        for task, of_task in found.items():
            differences[task] = less(of_task[name], of_task[TRIGRAM])
        headlines.append(f'{name} against the trigram: {verdict(differences)}')
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
        *table(['', *COLOURS], _accuracies(found)),
        '![accuracy of the models and the trigram](accuracy.png)',
        '',
        '## Differences (points)',
        '',
        *table(['', *map(' - '.join, PAIRS)], _differences(found)),
        *bullets(headlines[-2:]),
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
    ]
    path = directory / 'report.md'
    path.write_text('\n'.join(lines), encoding='utf-8')
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
