"""The pages of experiments/results say what the result files beside them say."""
import json
import math

import numpy as np
import pytest
from scipy import stats

from experiments import baselines, learning_curves
from experiments.lib import scores
from gpt1_jax.runs import results
from tiny import ROOT

OVERNIGHT, TEN_MINUTES = (ROOT / 'experiments' / 'results' / name for name in ('overnight_cpu', 'ten_minutes_gpu'))
BEFORE = {'first': 0, 'second': 10_000, 'third': 30_000}  # updates of the runs before


def cells(line):
    return [cell.strip() for cell in line.strip('|').split('|')]


def lines_of(page):
    return page.read_text(encoding='utf-8').rstrip().splitlines()


def test_the_losses_over_updates_are_those_of_the_file():
    lines = lines_of(OVERNIGHT / 'README.md')
    rows = results.read(OVERNIGHT / 'losses.jsonl')
    start = lines.index('| updates | tokens in all | validation loss | perplexity a token |') + 2
    ours = [row for row in rows if row['run'] in BEFORE]
    for line, row in zip(lines[start:], ours):
        name, *figures, perplexity = cells(line)
        read = (BEFORE[row['run']] + row['step']) * 8 * 256
        assert name.endswith(f'{row["step"]:,}') and figures == [f'{read / 1e6:.1f}M', f'{row["valid_loss"]:.3f}']
        exact = math.exp(row['valid_loss'])
        assert abs(float(perplexity) - exact) <= 0.05 + 0.0005 * exact  # both are rounded
    assert not lines[start + len(ours)]  # the table ends with the file
    package = [row for row in rows if row['run'] == 'package']
    start = lines.index('| updates | tokens | validation loss | perplexity a token |') + 2
    assert [cells(line) for line in lines[start:start + len(package)]] == [
        [f'{row["step"]:,}', f'{row["step"] * 64 * 256 / 1e6:.1f}M', f'{row["valid_loss"]:.3f}',
         f'{math.exp(row["valid_loss"]):.1f}'] for row in package]
    header = '| validation loss after updates | 400 |'
    table = next(place for place, line in enumerate(lines) if line.startswith(header))
    for model, run in (('Transformer', 'first'), ('LSTM', 'lstm')):
        line = next(line for line in lines[table:] if line.startswith(f'| {model} | '))
        assert cells(line)[1:6] == [f'{row["valid_loss"]:.3f}' for row in rows if row['run'] == run]


def test_the_comparison_at_equal_tokens_is_that_of_its_file():
    page, file = (lines_of(OVERNIGHT / name) for name in ('README.md', 'tables_equal_10M.md'))
    start = next(i for i, line in enumerate(page) if line.endswith('| SNLI | Story Cloze |'))
    columns = {name.split(' ')[0].replace('-', ''): i for i, name in enumerate(cells(page[start]))}
    header = next(cells(line) for line in file if line.startswith('|  | Avg |'))
    for line, name in zip(page[start + 2:], ('full', 'LSTM', 'full − LSTM')):
        ours = next(cells(row) for row in file if row.startswith(f'| {name}, ours |'))
        found = {column.split(' ')[0]: value for column, value in zip(header, ours)}
        assert {column: cells(line)[columns['mean' if column == 'Avg' else column]] for column in found if column} == {
            column: value for column, value in found.items() if column}


def test_the_front_page_has_the_quickstart_s_figures():
    lines = lines_of(ROOT / 'experiments' / 'results' / 'quickstart' / 'report.md')
    pronoun, order = (next(cells(line) for line in lines if line.startswith(f'| {name} |'))
                      for name in ('pronoun', 'word_order, zero-shot'))
    scratch, words, zero_shot = (cell.split()[0] for cell in (pronoun[2], pronoun[4], order[1]))
    page = ' '.join((ROOT / 'README.md').read_text(encoding='utf-8').split())
    value, interval = pronoun[1].split(' ', 1)
    assert (f'accuracy: {value}% {interval} pretrained, {scratch}% from scratch, {words}% by word counts. Word order, '
            f'zero-shot: {zero_shot}%,' in page)


@pytest.mark.parametrize('place', [OVERNIGHT, TEN_MINUTES], ids=['overnight_cpu', 'ten_minutes_gpu'])
def test_the_page_of_the_baselines_is_that_of_their_file(place):
    rows = scores.baselines(place / 'baselines.json')
    assert lines_of(place / 'baselines.md') == '\n'.join(baselines.lines(rows)).rstrip().splitlines()


def test_the_front_page_s_figure_is_of_the_figures_on_the_pages():
    """The LSTM and the first run's updates from figure_blimp.md, the later points from the page's table of BLiMP."""
    points = json.loads((OVERNIGHT / 'blimp_over_tokens.json').read_text(encoding='utf-8'))
    lines = (OVERNIGHT / 'figure_blimp.md').read_text(encoding='utf-8').split('## Overall')[1].splitlines()
    table = [[cell.replace(',', '') for cell in cells(line)] for line in lines if line.startswith('| ')][2:10]
    for model, column in (('Transformer', 1), ('LSTM', 4)):
        for point, row in zip(points[model], table):
            low, high = row[column + 2].split(' to ')
            assert point == [int(row[column]), float(row[column + 1]), float(low), float(high)]
    page = (OVERNIGHT / 'README.md').read_text(encoding='utf-8')
    (mean,) = [line for line in page.splitlines() if line.startswith('| mean of the 67 sets, ties half')]
    later = [*points['package'], *points['Transformer'][len(table):][::-1]]
    for (tokens, value, low, high), cell in zip(later, cells(mean)[1:]):
        assert cell == f'{value} ({low} to {high})' and tokens in (61_440_000, 100_352_000, 34_000 * 64 * 256)
    assert len(points['Transformer']) == len(table) + 2 and len(points['LSTM']) == len(table)


@pytest.mark.parametrize('where', ['.', 'longer'])
def test_the_differences_of_ideas_are_students_t_of_their_runs(where):
    ideas = ROOT / 'experiments' / 'results' / 'ideas'
    page, report = ((ideas / name).read_text(encoding='utf-8') for name in ('README.md', f'{where}/report.md'))
    losses, other_text = {}, set()
    for row in results.read(ideas / where / 'results.jsonl'):
        losses.setdefault(row['idea'], []).append(row['loss'])  # in the order of seeds
        if row['changes'].keys() & {'tokenizer.vocab_size', 'data.valid'}:
            other_text.add(row['idea'])
    baseline = losses.pop('baseline')
    assert losses
    for idea, values in losses.items():
        if idea in other_text:
            assert f'| {idea} | n/a | ' in report
            continue
        interval = stats.ttest_rel(values, baseline).confidence_interval()
        mean, low, high = np.mean(np.subtract(values, baseline)), interval.low, interval.high
        assert f'| {idea} | {mean:+.4f} ({low:+.4f} to {high:+.4f}) | ' in report
        assert f'| {idea} | {mean:+.3f} | {low:+.3f} to {high:+.3f} | ' in page


def test_the_page_of_ten_minutes_of_a_gpu_has_the_figures_of_its_files():
    table = [cells(line) for line in lines_of(TEN_MINUTES / 'README.md') if line.startswith('| ')]
    losses = [[f'{row["step"]:,}', f'{row["step"] * 64 * 512 / 1e6:.1f}M', f'{row["valid_loss"]:.3f}',
               f'{row["valid_perplexity"]:.1f}'] for row in results.read(TEN_MINUTES / 'losses.jsonl')]
    assert [row for row in table if len(row) == 4][1:] == losses
    found = json.loads((TEN_MINUTES / 'learning_curves.json').read_text(encoding='utf-8'))
    assert lines_of(TEN_MINUTES / 'learning_curves.md') == '\n'.join(learning_curves.lines(found)).rstrip().splitlines()
    known = scores.baselines(TEN_MINUTES / 'baselines.json')
    sets = [row for row in table if len(row) == 9][1:]
    assert len(sets) == 10
    curves = [cells(line) for line in learning_curves.lines(found) if line.startswith('| ')]
    beside = [cells(line) for line in baselines.lines(known) if line.startswith('| ')]
    for name, rows, _, pretrained, scratch, difference, *simple in sets:
        label = name.split(' (')[0]
        assert any((row[:3], row[3].split(' ')[0], row[4]) == ([label, rows, pretrained], scratch, difference)
                   for row in curves if len(row) == 6), name
        assert any((row[0], row[2:5]) == (label, simple) for row in beside), name


def test_the_page_s_scores_of_race_are_those_of_its_rows_and_baselines():
    section = (OVERNIGHT / 'README.md').read_text(encoding='utf-8').split('### RACE')[1].split('###')[0]
    page = dict(cells(line) for line in section.splitlines() if line.startswith('| '))
    for row in results.read(OVERNIGHT / 'other_rates.jsonl'):
        if row['task'] == 'race' and row['group'] is None:
            name = {'full': 'pretrained', 'no_pretraining': 'from scratch'}[row['condition']]
            rate = f'{row["peak_rate"]:g}'.replace('0.000125', '1.25e-4').replace('0.0005', '5e-4')
            assert page.pop(f'{name}, {rate}') == (
                f'{scores.percent(row["value"])} ({scores.span(row["low"], row["high"])})')
    values = {row['baseline']: scores.percent(row['value']) for row in scores.baselines(OVERNIGHT / 'baselines.json')
              if row['task'] == 'race' and row['group'] is None}
    assert page['constant answer, shared words, n-grams'] == ', '.join(
        values[name] for name in ('constant', 'overlap', 'words'))
    assert page['linear probe, frozen; of the joined texts; random weights'] == ', '.join(
        values[name] for name in ('probe', 'joined', 'random'))
    assert len(page) == 3  # with the header


def test_the_page_s_scores_without_the_auxiliary_objective_and_of_layers_are_those_of_the_tables():
    page = (OVERNIGHT / 'README.md').read_text(encoding='utf-8')
    section = page.split('### Without the auxiliary objective')[1]
    ours = [cells(line) for line in section.splitlines() if line.startswith('| ')]
    tables = [cells(line) for line in lines_of(OVERNIGHT / 'tables.md') if line.startswith('| ')]
    of_set = {row[0].split(' (')[0]: row[1:4:2] for row in tables if len(row) == 9}
    assert [row[1:3] for row in ours[1:11]] == [of_set[row[0].split(' (')[0]] for row in ours[1:11]]
    found = {(row['task'], row['peak_rate'], row['lm_weight']): scores.percent(row['value'])
             for row in results.read(OVERNIGHT / 'other_rates.jsonl') if row['task'] != 'race'}
    rates = {name: values for name, *values in ours[12:17]}
    for name, rate, lm_weight in (('2.5e-4, without', 2.5e-4, 0), ('1.25e-4, without', 1.25e-4, 0),
                                  ('1.25e-4, with it', 1.25e-4, 0.5)):
        tasks = ('mnli', 'snli', 'story_cloze')
        assert rates[name] == [found.get((task, rate, lm_weight), '') for task in tasks]
    layers = [row[1] for row in tables if len(row) == 10 and row[0] in ('none', *map(str, range(7)))]
    nothing, embeddings, *others = layers
    listed = f'{", ".join(others[:-1])} and {others[-1]}'
    assert f'nothing {nothing}, the embeddings alone {embeddings}, then {listed}' in page
