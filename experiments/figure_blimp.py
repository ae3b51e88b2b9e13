"""BLiMP without fine-tuning at every saved update, of the Transformer and of the LSTM, beside published models.

Not in the paper: drawn in the manner of its Figure 2 (right). What is scored: gpt1_jax/evaluation/minimal_pairs.py.
"""
import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from experiments.lib import blimp_published, figures, figures_blimp, run_list, scores
from experiments.lib.markdown import bullets, table
from experiments.lib.paper import MODELS
from experiments.lib.run_list import Run
from gpt1_jax import metrics
from gpt1_jax.data.tasks.blimp import PHENOMENA
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import minimal_pairs
from gpt1_jax.metrics import bootstrap
from gpt1_jax.runs import workdir

# How each metric differs from the first, for the reader.
METRICS = {'accuracy': 'ties half, mean of the 67 sets', 'accuracy_ties_wrong': 'ties wrong (the BLiMP paper)',
           'accuracy_ties_right': 'ties right (lm-evaluation-harness)',
           'accuracy_phenomena': 'mean of the 12 phenomena', 'accuracy_first_unscored': 'first token not scored',
           'accuracy_filtered': 'filtered pairs (BabyLM)'}
ABOUT = ('Percent of minimal pairs whose good sentence has the higher log-probability: the sum over all tokens of the '
         'sentence, after a line break, in float32; ties count half; mean of the sets. Intervals are 95% percentile '
         'intervals over resamples of the pairs inside each set; they do not cover the spread between runs, about a '
         'point: differences of single runs below two points mean little.')

Rows = Mapping[int, Mapping[tuple, dict]]  # {step: {(group, metric): row of results.jsonl}}


def specs(config: ConfigDict) -> list[Run]:
    """Every saved step of each model."""
    return [run for condition in MODELS for run in run_list.zero_shot_runs(config, 'blimp', condition)]


def points(runs: Sequence[Run]) -> dict[str, Rows]:
    """{condition: the rows of a model, by step, then by group and metric}; steps ascending."""
    found: dict[str, dict] = {condition: {} for condition in MODELS}
    for run in runs:
        for row in sorted(run.rows, key=lambda row: row['step']):
            found[run.condition].setdefault(row['step'], {})[row['group'], row['metric']] = row
    return found


def tokens_per_update(config: ConfigDict) -> dict[str, int | None]:
    """{condition: how many tokens an update of its pretraining reads}; None for imported weights."""
    found = {}
    for condition, path in (('full', config.pretrained), ('lstm', config.lstm)):
        of_run = workdir.load(path).config if path else {}
        size = of_run.get('batch', {}).get('size')
        found[condition] = size * of_run['model']['n_ctx'] if size else None
    return found


def draw(config: ConfigDict, runs: Sequence[Run], path: pathlib.Path) -> None:
    """Draw BLiMP overall and each phenomenon."""
    tokens = tokens_per_update(config)
    drawn = curves(points(runs), tokens)
    if drawn:
        figures_blimp.draw(path, drawn, tokens['full'])


def curves(found: Mapping[str, Rows], tokens: Mapping[str, int | None]) -> list[dict]:
    """The curves of figures_blimp.draw. The LSTM's updates are those of the Transformer that read as many tokens.

    found: {condition: rows}. tokens: {condition: tokens an update}."""
    drawn = []
    for condition, steps in found.items():
        scale = tokens[condition] / tokens['full'] if tokens[condition] and tokens['full'] else 1
        for group in (None, *PHENOMENA):
            there = [{'step': step * scale} | {name: 100 * rows[group, 'accuracy'][name] for name in figures.VALUES}
                     for step, rows in steps.items() if (group, 'accuracy') in rows]
            if there:
                drawn.append({'group': group, 'model': MODELS[condition], 'points': there})
    return drawn


def lines(config: ConfigDict, runs: Sequence[Run]) -> list[str]:
    """The Markdown: overall at each step, each convention and phenomenon at the last one, published accuracies."""
    found, tokens = points(runs), tokens_per_update(config)
    models = {condition: steps for condition, steps in found.items() if steps}
    text = ['# BLiMP, zero-shot', '', ABOUT, '']
    if models:
        text += ['![BLiMP accuracy against updates](figure_blimp.png)', '', '## Overall', '',
                 *_overall(models, tokens), *bullets(contrasts(models, tokens))]
        last = [steps[max(steps)] for steps in models.values()]
        columns = ['', *(f'{MODELS[each]}{column}' for each in models for column in ('', ': 95% interval'))]
        conventions = _at_last(last, {(None, metric): [about] for metric, about in METRICS.items()})
        text += ['## Conventions, at the last update', '', *table(columns, conventions)]
        phenomena = _at_last(last, {(group, 'accuracy'): [name, *(
            f'{value:.1f}' for value in blimp_published.BY_PHENOMENON[group])] for group, name in PHENOMENA.items()})
        text += ['## Phenomena, at the last update', '', *table(
            [*columns, 'LSTM, 83M words (published)', 'Transformer-XL, 103M words (published)'], phenomena)]
    else:
        text += ['## Overall', '', scores.NA, '']
    return [*text, '## Published', '', *_published(),
            *bullets([*scores.no_lstm(config), *scores.state(runs), scores.pretrained(config)])]


def _overall(models, tokens):
    header = ['updates', *(f'{MODELS[each]}{column}' for each in models
                           for column in (': tokens', '', ': 95% interval'))]
    body = []
    for step in sorted(set().union(*models.values())):
        body.append([f'{step:,}'])
        for condition, steps in models.items():
            read = f'{step * tokens[condition]:,}' if tokens[condition] else ''
            body[-1] += [read, *_measured(steps.get(step, {}).get((None, 'accuracy')))]
    return table(header, body)


def _at_last(last, wanted):
    """Rows of a table: the first cell, each model's at its last step, the other cells. wanted: {(group, metric): cells
    that are given}."""
    rows = []
    for key, (name, *others) in wanted.items():
        if any(key in row for row in last):
            rows.append([name, *(cell for row in last for cell in _measured(row.get(key))), *others])
    return rows


def _measured(row):
    if row is None:
        return [scores.NA, '']
    return [scores.percent(row['value']), scores.span(row['low'], row['high'])]


def _published():
    rows = [[each.name, each.text, f'{each.sets:.1f}', scores.number(each.phenomena)]
            for each in (*blimp_published.CONTROLS, *blimp_published.PAPER)]
    rows += [[blimp_published.DECODER, f'{tokens / 1e6:,.0f}M tokens read', f'{value:.1f}', '']
             for tokens, value in blimp_published.DECODER_POINTS]
    return table(('', 'text', 'mean of the sets', 'mean of the phenomena'), rows)


def contrasts(models: Mapping[str, Rows], tokens: Mapping[str, int | None]) -> list[str]:
    """Differences over the updates and, where an update reads as many tokens in both, between the models."""
    text = scores.contrasts(models, difference, 'sentences')
    return text if len(set(tokens.values())) == 1 else [each for each in text if '−' not in each]


def difference(a: Mapping[tuple, dict], b: Mapping[tuple, dict]) -> bootstrap.Estimate:
    """The overall accuracy of a minus that of b, by resampling pairs that both have scored."""
    ids, _, ours = metrics.read_predictions(a[None, 'accuracy']['predictions'])
    others, _, theirs = metrics.read_predictions(b[None, 'accuracy']['predictions'])
    if ids != others:
        raise UserError('a difference of BLiMP scores that are not of the same pairs')
    apart = minimal_pairs.outcomes(ours) - minimal_pairs.outcomes(theirs)
    return bootstrap.mean(minimal_pairs.set_means(ids, apart).values())
