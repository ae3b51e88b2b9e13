"""The quickstart's report: Markdown, HTML and figures, computed from the predictions that the runs wrote."""
import pathlib
from collections.abc import Mapping, Sequence

from experiments.lib import figures, html_page, scores
from experiments.lib.markdown import table
from gpt1_jax import metrics

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


def accuracy(path: str | pathlib.Path) -> dict:
    """{'value', 'low', 'high'} of a predictions file, as fractions, with the 95% interval by bootstrap."""
    _, gold, found = metrics.read_predictions(path)
    low, high = metrics.bootstrap_interval('accuracy', gold, found)
    return {'value': metrics.compute(['accuracy'], gold, found)['accuracy'], 'low': low, 'high': high}


def difference(a: str | pathlib.Path, b: str | pathlib.Path) -> dict:
    """{'value', 'low', 'high'} of the accuracy of a minus that of b, over the same items in the same order."""
    ids_a, gold, scores_a = metrics.read_predictions(a)
    ids_b, _, scores_b = metrics.read_predictions(b)
    assert ids_a == ids_b, (a, b)
    return dict(zip(figures.VALUES, metrics.paired_bootstrap('accuracy', gold, scores_a, scores_b)))


def shown(score: Mapping[str, float], sign: str = '') -> str:
    """62.3 (59.2 to 65.3): a score and its interval in percent."""
    return f"{scores.percent(score['value'], sign)} ({scores.span(score['low'], score['high'], sign)})"


def write(directory: pathlib.Path, facts: Mapping[str, object], curve: Sequence[dict],
          predictions: Mapping[str, Mapping[str, pathlib.Path]], zero_shot: Mapping[int, str]) -> list[str]:
    """Writes report.md, report.html and the figures; returns and prints the headline results.

    curve: rows of metrics.jsonl of pretraining. predictions: {task: {PRETRAINED | SCRATCH | WORDS: path}}.
    zero_shot: {update: path of the predictions on word_order}.
    """
    valid = [row for row in curve if row.get('valid_loss') is not None][-1]
    headlines = [f'pretraining: validation perplexity {valid["valid_perplexity"]:.1f} after {valid["step"]:,} updates']
    cells, panels = [], []
    for task, paths in predictions.items():
        of_task = {name: accuracy(path) for name, path in paths.items()}
        gain = shown(difference(paths[PRETRAINED], paths[SCRATCH]), '+')
        ours, scratch, words = (shown(of_task[name]) for name in (PRETRAINED, SCRATCH, WORDS))
        cells.append([task, ours, scratch, gain, words, '50'])
        headlines.append(f'{task}: pretrained {ours}, from scratch {scratch}, difference {gain}')
        panels.append({'title': task, 'chance': 0.5, 'scores': [
            {'name': name, 'colour': COLOURS[name], **score} for name, score in of_task.items()]})
    points = [{'step': step, **accuracy(path)} for step, path in sorted(zero_shot.items())]
    cells.append(['word_order, zero-shot', shown(points[-1]), '', '', '', '50'])
    headlines.append(f'word_order, zero-shot: {shown(points[-1])}')
    figures.losses(directory / 'loss.png', curve)
    figures.comparison(directory / 'fine_tuning.png', panels)
    figures.zero_shot(directory / 'zero_shot.png', points, title='Word order, zero-shot')
    lines = [
        '# Quickstart: GPT-1 from text to tasks', '', ABOUT, '', '## Accuracy on the test items (percent)', '',
        *table(['', PRETRAINED, SCRATCH, 'difference', WORDS, 'chance'], cells),
        '![fine-tuning with and without pretraining](fine_tuning.png)', '', '## Zero-shot during pretraining', '',
        *table(['updates', 'accuracy (%)'], [[f'{point["step"]:,}', shown(point)] for point in points]),
        '![zero-shot accuracy over updates](zero_shot.png)', '', '## Pretraining', '', headlines[0], '',
        '![training and validation loss](loss.png)', '', '## Sizes', '', *table(['', 'value'], list(facts.items()))]
    path = directory / 'report.md'
    path.write_text('\n'.join(lines), encoding='utf-8')
    print(f'report: {path}, for a browser {html_page.write(path)}')
    for line in headlines:
        print(f'  {line}')
    return headlines
