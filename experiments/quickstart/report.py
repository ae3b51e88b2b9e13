"""The quickstart's report: Markdown and figures, computed from the predictions that the runs wrote."""
import pathlib
from collections.abc import Mapping

from experiments import plots
from experiments.lib import figures, scores
from experiments.lib.markdown import table
from gpt1_jax import metrics
from gpt1_jax.metrics.bootstrap import Estimate

PRETRAINED, SCRATCH, WORDS = 'pretrained', 'from scratch', 'words alone'
COLOURS = {PRETRAINED: 'pretrained', SCRATCH: 'scratch', WORDS: 'baseline'}
ABOUT = """A vocabulary, pretraining, fine-tuning with and without pretraining, and zero-shot scoring on the novels of
the package, by `python -m experiments.quickstart`. The test items are from three novels that no training reads.

* **pronoun**: does *he* or *him* come next in a sentence? Chosen so that naive Bayes of the other half of the
  sentences is right for half. *Words alone*: naive Bayes.
* **continuation**: the second half of a sentence, or that of another sentence of the novel, which is as long and shares
  the same words with the context? *Words alone*: the cosine of the words of context and ending, weighted by rarity.
* **word_order**: the second half of a sentence, or the same with two neighbouring words exchanged? Without fine-tuning:
  the ending with the higher mean token log-probability.

Brackets are 95% intervals by bootstrap over test items; those of differences are paired. They do not include the spread
between seeds of training."""


def accuracy(path: str | pathlib.Path) -> Estimate:
    """That of a predictions file; of files of the same items in the same order the resamples are the same."""
    ids, gold, found = metrics.read_predictions(path)
    (draws,) = metrics.draws('accuracy', gold, [found])
    return Estimate(metrics.compute(['accuracy'], gold, found)['accuracy'], draws, len(ids))


def shown(score: Estimate) -> str:
    """62.3 (59.2 to 65.3): a score and its interval in percent."""
    return f'{scores.percent(score.value)} ({scores.interval(score)})'


def write(directory: pathlib.Path, facts: Mapping[str, object], pretrained: pathlib.Path,
          predictions: Mapping[str, Mapping[str, pathlib.Path]], zero_shot: Mapping[int, str]) -> list[str]:
    """Writes report.md and the figures; returns and prints the headline results.

    pretrained: the run. predictions: {task: {PRETRAINED | SCRATCH | WORDS: path}}. zero_shot: {update: path of the
    predictions on word_order}.
    """
    curves = plots.read_curves(pretrained)
    step, perplexity = curves['valid_perplexity'][-1]
    headlines = [f'pretraining: validation perplexity {perplexity:.1f} after {step:,} updates']
    cells, panels = [], {}
    for task, paths in predictions.items():
        of_task = {name: accuracy(paths[name]) for name in COLOURS}
        a, b = of_task[PRETRAINED], of_task[SCRATCH]
        gain = scores.signed(Estimate(a.value - b.value, a.draws - b.draws, a.n))
        ours, scratch, words = map(shown, of_task.values())
        cells.append([task, ours, scratch, gain, words, '50'])
        headlines.append(f'{task}: pretrained {ours}, from scratch {scratch}, difference {gain}')
        panels[task] = [(name, COLOURS[name], figures.point(score)) for name, score in of_task.items()]
    points = {step: accuracy(path) for step, path in sorted(zero_shot.items())}
    last = shown(points[max(points)])
    cells.append(['word_order, zero-shot', last, '', '', '', '50'])
    headlines.append(f'word_order, zero-shot: {last}')
    plots.training_curves(directory / 'pretraining.png', {'GPT-1': curves})
    figures.comparison(directory / 'fine_tuning.png', panels)
    figures.zero_shot(directory / 'zero_shot.png', 'Word order, zero-shot', points)
    lines = [
        '# Quickstart: GPT-1 from text to tasks', '', ABOUT, '', '## Accuracy on the test items (percent)', '',
        *table(['', PRETRAINED, SCRATCH, 'difference', WORDS, 'chance'], cells),
        '![fine-tuning with and without pretraining](fine_tuning.png)', '', '## Zero-shot during pretraining', '',
        *table(['updates', 'accuracy (%)'], [[f'{step:,}', shown(found)] for step, found in points.items()]),
        '![zero-shot accuracy over updates](zero_shot.png)', '', '## Pretraining', '', headlines[0], '',
        '![loss, rate, perplexity, throughput](pretraining.png)', '', '## Sizes', '',
        *table(['', 'value'], list(facts.items()))]
    path = directory / 'report.md'
    path.write_text('\n'.join(lines), encoding='utf-8')
    print(f'report: {path}')
    for line in headlines:
        print(f'  {line}')
    return headlines
