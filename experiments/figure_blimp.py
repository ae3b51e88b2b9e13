"""BLiMP without fine-tuning at every saved update, of the Transformer and of the LSTM, beside published models.

python -m experiments.figure_blimp --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm --config.data=DATA --config.out=runs/paper [--dry_run]

Not in the paper: drawn in the manner of its Figure 2 (right). gpt1_jax/evaluation/minimal_pairs.py says what is scored.
"""
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from ml_collections import ConfigDict

from experiments.lib import blimp_published, run_list, runner, tables
from experiments.lib.markdown import bullets, table
from experiments.lib.paper import MODELS
from experiments.lib.run_list import RunSpec
from experiments.lib.runner import Outcome
from gpt1_jax import metrics
from gpt1_jax.data.tasks.blimp import PHENOMENA
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import minimal_pairs
from gpt1_jax.metrics import bootstrap
from gpt1_jax.runs import workdir

PNG = 'figure_blimp.png'
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


def run(config: ConfigDict, dry_run: bool = False) -> list[str]:
    """Score every saved step; write OUT/figure_blimp.png and .md; returns its lines, none in a dry run."""
    outcomes = runner.of_script(config, specs, dry_run)
    if dry_run:
        return []
    found = {condition: points(outcomes, condition) for condition in MODELS}
    tokens = {condition: tokens_per_update(path) for condition, path in
              (('full', config.pretrained), ('lstm', config.lstm)) if path}
    drawn = curves(found, tokens)
    text = runner.write(config, 'figure_blimp.md', lines(config, outcomes, found, tokens, bool(drawn)))
    if drawn:
        from experiments.lib import figures  # matplotlib, which the runs themselves do without
        figures.blimp(pathlib.Path(config.out) / PNG, drawn, tokens['full'])
    runner.raise_failures(outcomes)
    return text


def specs(config: ConfigDict) -> list[RunSpec]:
    """Every saved step of each model."""
    found = []
    for condition in MODELS:
        found += run_list.zero_shot_specs(config, 'blimp', condition)
    return found


def points(outcomes: Sequence[Outcome], condition: str) -> Rows:
    """The rows of a model, by step, then by group and metric; steps ascending."""
    found = {}
    for outcome in outcomes:
        if outcome.spec.condition == condition:
            for row in outcome.rows:
                found.setdefault(row['step'], {})[row['group'], row['metric']] = row
    return dict(sorted(found.items()))


def tokens_per_update(path: str) -> int | None:
    """How many tokens an update of a pretrained run reads; None for imported weights."""
    config = workdir.load(path).config
    size = config.get('batch', {}).get('size')
    return size * config['model']['n_ctx'] if size else None


def curves(found: Mapping[str, Rows], tokens: Mapping[str, int | None]) -> list[dict]:
    """What figures.blimp draws: overall and each phenomenon. The LSTM stands at the Transformer's updates of
    as many tokens. found: {condition: points}. tokens: {condition: tokens an update}."""
    drawn = []
    for condition, steps in found.items():
        scale = 1
        if steps and tokens[condition] and tokens['full']:
            scale = tokens[condition] / tokens['full']
        for group in (None, *PHENOMENA):
            there = []
            for step, rows in steps.items():
                if (group, 'accuracy') in rows:
                    row = rows[group, 'accuracy']
                    percent = {name: 100 * row[name] for name in ('value', 'low', 'high')}
                    there.append({'step': step * scale} | percent)
            if there:
                drawn.append({'group': group, 'model': MODELS[condition], 'points': there})
    return drawn


def lines(config: ConfigDict, outcomes: Sequence[Outcome], found: Mapping[str, Rows],
          tokens: Mapping[str, int | None], drawn: bool) -> list[str]:
    """The Markdown: overall at each step, each convention and phenomenon at the last one, what others published."""
    text = ['# BLiMP, zero-shot', '', ABOUT, '']
    if drawn:
        text += [f'![BLiMP accuracy against updates]({PNG})', '']
    text += ['## Overall', '', *_overall(found, tokens), *bullets(contrasts(found, tokens))]
    last = {condition: max(steps) for condition, steps in found.items() if steps}
    if last:
        text += ['## Conventions, at the last update', '', *_conventions(found, last)]
        text += ['## Phenomena, at the last update', '', *_phenomena(found, last)]
    return [*text, '## Published', '', *_published(),
            *bullets([*tables.no_lstm(config), *tables.state(outcomes), tables.pretrained(config)])]


def _overall(found, tokens):
    models = [condition for condition, steps in found.items() if steps]
    if not models:
        return [tables.NA, '']
    header = ['updates', *(f'{MODELS[one]}{column}' for one in models for column in (': tokens', '', ': 95% interval'))]
    body = []
    for step in sorted({step for condition in models for step in found[condition]}):
        cells = [f'{step:,}']
        for condition in models:
            read = f'{step * tokens[condition]:,}' if tokens[condition] else ''
            cells += [read, *_measured(found[condition].get(step, {}).get((None, 'accuracy')))]
        body.append(cells)
    return table(header, body)


def _conventions(found, last):
    body = []
    for metric, about in METRICS.items():
        rows = [found[condition][step].get((None, metric)) for condition, step in last.items()]
        if any(rows):
            body.append([about, *(cell for row in rows for cell in _measured(row))])
    return table(['', *_columns(last)], body)


def _phenomena(found, last):
    body = []
    for group, name in PHENOMENA.items():
        rows = [found[condition][step].get((group, 'accuracy')) for condition, step in last.items()]
        if any(rows):
            theirs = [f'{value:.1f}' for value in blimp_published.BY_PHENOMENON[group]]
            body.append([name, *(cell for row in rows for cell in _measured(row)), *theirs])
    return table(['', *_columns(last), 'LSTM, 83M words (published)', 'Transformer-XL, 103M words (published)'], body)


def _columns(last):
    return [f'{MODELS[one]}{column}' for one in last for column in ('', ': 95% interval')]


def _measured(row):
    if row is None:
        return [tables.NA, '']
    return [tables.percent(row['value']), f'{tables.percent(row["low"])} to {tables.percent(row["high"])}']


def _published():
    rows = [[one.name, one.text, f'{one.sets:.1f}', '' if one.phenomena is None else f'{one.phenomena:.1f}']
            for one in (*blimp_published.CONTROLS, *blimp_published.PAPER)]
    rows += [[blimp_published.DECODER, f'{tokens / 1e6:,.0f}M tokens read', f'{value:.1f}', '']
             for tokens, value in blimp_published.DECODER_POINTS]
    return table(('', 'text', 'mean of the sets', 'mean of the phenomena'), rows)


def contrasts(found: Mapping[str, Rows], tokens: Mapping[str, int | None]) -> list[str]:
    """The last step against the first of each model; and, where an update reads as many tokens in both, the models at
    the last step that both have. Paired. found, tokens: as in `curves`."""
    text = []
    for condition, steps in found.items():
        if len(steps) > 1:
            first, last = min(steps), max(steps)
            gain = difference(steps[last], steps[first])
            text.append(f'{MODELS[condition]}, from update {first:,} to {last:,}: {gain}.')
    shared = set.intersection(*map(set, found.values()))
    if shared and len(set(tokens.values())) == 1:
        step = max(shared)
        both = ' − '.join(MODELS[condition] for condition in found)
        text.append(f'{both} at update {step:,}: {difference(*(steps[step] for steps in found.values()))}.')
    return text


def difference(a: Mapping[tuple, dict], b: Mapping[tuple, dict]) -> str:
    """The overall accuracy of a minus that of b with its interval, by resampling pairs that both have scored."""
    ids, _, scores = metrics.read_predictions(a[None, 'accuracy']['predictions'])
    others, _, other_scores = metrics.read_predictions(b[None, 'accuracy']['predictions'])
    if ids != others:
        raise UserError('a difference of BLiMP scores that are not of the same pairs')
    apart = minimal_pairs.outcomes(scores) - minimal_pairs.outcomes(other_scores)
    found = bootstrap.mean(minimal_pairs.set_means(ids, apart).values())
    low, high = bootstrap.interval(np.asarray(found.draws))
    return (f'{tables.percent(found.value, "+")} ({tables.percent(low, "+")} to {tables.percent(high, "+")}, paired '
            'over the same sentences)')


if __name__ == '__main__':
    runner.command(run)
