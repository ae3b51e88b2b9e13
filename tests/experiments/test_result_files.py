"""The pages of experiments/results have the figures of the result files beside them."""
import json
import math
import re

import numpy as np
import pytest
from scipy import stats

from experiments import baselines, learning_curves
from experiments.lib import scores
from gpt1_jax.runs import results
from tiny import ROOT

OVERNIGHT, TEN_MINUTES = (ROOT / 'experiments' / 'results' / name for name in ('overnight_cpu', 'ten_minutes_gpu'))


def text(file):
    return file.read_text(encoding='utf-8')


def cells(line):
    return [cell.strip() for cell in line.strip('|').split('|')]


def table_rows(page):
    return [cells(line) for line in page.splitlines() if line.startswith('| ')]


@pytest.mark.parametrize('place, an_update', [(OVERNIGHT, 8 * 256), (TEN_MINUTES, 64 * 512)], ids=str)
def test_the_losses_over_updates_are_those_of_the_file(place, an_update):
    page, rows = text(place / 'README.md'), results.read(place / 'losses.jsonl')
    before = {'second': 10_000, 'third': 30_000}  # updates of the runs that these continue
    for row in rows:
        run, step, loss = row.get('run'), row['step'], row['valid_loss']
        read = (before.get(run, 0) + step) * (64 * 256 if run == 'package' else an_update)
        found = re.search(rf'{step:,} \| {read / 1e6:.1f}M \| {loss:.3f} \| ([\d.]+) \|', page)
        assert run == 'lstm' or float(found[1]) == pytest.approx(math.exp(loss), rel=2e-3)  # both are rounded
    for run in {'first', 'lstm'} & {row.get('run') for row in rows}:
        assert ' | '.join(f'{row["valid_loss"]:.3f}' for row in rows if row['run'] == run) in page


@pytest.mark.parametrize('name', ['full', 'LSTM', 'full − LSTM'])
def test_the_comparison_at_equal_tokens_is_that_of_its_file(name):
    (line,) = re.findall(rf'^\| {name}, ours \|(.*)\|$', text(OVERNIGHT / 'tables_equal_10M.md'), re.M)
    assert line in text(OVERNIGHT / 'README.md')


def test_the_page_s_further_seed_is_that_of_its_file_beside_the_table_s_differences():
    page = text(OVERNIGHT / 'README.md').partition('### A further seed')[2].partition('###')[0]

    def differences(name):
        return {row[0]: (*row[1:3], f'{row[6]} ({row[7]})') for row in table_rows(text(OVERNIGHT / name))
                if len(row) == 9 and re.match(r'[+-]\d', row[6])}
    further, before = differences('tables_further_seed.md'), differences('tables.md')
    assert len(further) > 8
    for task, (pretrained, scratch, difference) in further.items():
        line = f'| {task} | {pretrained} | {scratch} | {difference} |'
        assert line in page if task.startswith('mean') else f'{line} {before[task][2]} |' in page


def test_the_front_page_has_the_quickstart_s_figures():
    lines = table_rows(text(ROOT / 'experiments' / 'results' / 'quickstart' / 'report.md'))
    accuracies = {row[0]: row[1:] for row in lines if len(row) == 5}
    value, interval = accuracies['pronoun'][0].split(' ', 1)
    _, scratch, trigram, packaged = (cell.split()[0] for cell in accuracies['pronoun'])
    ours, _, by_trigram, by_packaged = accuracies['word_order, zero-shot']
    page = ' '.join(text(ROOT / 'README.md').split())
    assert (f'accuracy: {value}% {interval} pretrained, {scratch}% from scratch, {trigram}% by a '
            f'word trigram of the same novels, {packaged}% with the packaged model.') in page
    assert (f'Word order, zero-shot: {ours.split()[0]}%, {by_trigram.split()[0]}% by the trigram, '
            f'{by_packaged.split()[0]}% with the packaged model,') in page


@pytest.mark.parametrize('place', [OVERNIGHT, TEN_MINUTES], ids=['overnight_cpu', 'ten_minutes_gpu'])
def test_the_page_of_the_baselines_is_that_of_their_file(place):
    rows = scores.baselines(place / 'baselines.json')
    assert text(place / 'baselines.md').rstrip() == '\n'.join(baselines.lines(rows)).rstrip()


def test_the_front_page_s_figure_is_of_the_figures_on_the_pages():
    pages = text(OVERNIGHT / 'figure_blimp.md') + text(OVERNIGHT / 'README.md')
    models = json.loads(text(OVERNIGHT / 'blimp_over_tokens.json'))
    for model in ('Transformer', 'LSTM', 'package'):
        for tokens, value, low, high in models[model]:
            assert f'| {tokens:,} | {value} | {low} to {high} |' in pages or (
                f'| {value} ({low} to {high}) |' in pages and f'{tokens / 1e6:.1f}M' in pages)


@pytest.mark.parametrize('where', ['.', 'longer'])
def test_the_differences_of_ideas_are_students_t_of_their_runs(where):
    ideas = ROOT / 'experiments' / 'results' / 'ideas'
    page, report = (text(ideas / name) for name in ('README.md', f'{where}/report.md'))
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


def test_the_sets_of_ten_minutes_of_a_gpu_are_those_of_the_learning_curves_and_baselines():
    found = json.loads(text(TEN_MINUTES / 'learning_curves.json'))
    assert text(TEN_MINUTES / 'learning_curves.md').rstrip() == '\n'.join(learning_curves.lines(found)).rstrip()
    curves, simple = (table_rows(text(TEN_MINUTES / f'{name}.md')) for name in ('learning_curves', 'baselines'))
    curves = [[*row[:3], row[3].split(' ')[0], row[4]] for row in curves if len(row) == 6]
    sets = [row for row in table_rows(text(TEN_MINUTES / 'README.md')) if len(row) == 9][1:]
    assert len(sets) == 10
    for name, rows, _, *others in sets:
        label = name.split(' (')[0]
        assert [label, rows, *others[:3]] in curves and [label, *others[3:]] in [[row[0], *row[2:5]] for row in simple]


def test_the_page_s_scores_of_race_are_those_of_its_rows_and_baselines():
    page = text(OVERNIGHT / 'README.md')
    names = {'full': 'pretrained', 'no_pretraining': 'from scratch',
             'no_aux': 'pretrained, without the auxiliary objective'}
    rates = {5e-4: '5e-4', 1.25e-4: '1.25e-4'}
    rows = [row for row in results.read(OVERNIGHT / 'other_rates.jsonl') if row['task'] == 'race' and not row['group']]
    for row in rows:
        assert (f'| {names[row["condition"]]}, {rates[row["peak_rate"]]} | {scores.percent(row["value"])} '
                f'({scores.span(row["low"], row["high"])}) |') in page
    values = {row['baseline']: scores.percent(row['value']) for row in scores.baselines(OVERNIGHT / 'baselines.json')
              if row['task'] == 'race' and row['group'] is None}
    for kinds in (('constant', 'overlap', 'words'), ('probe', 'joined', 'random'), ('likelihood', 'likelihood_random')):
        assert f'| {", ".join(values[kind] for kind in kinds)} |' in page
    assert len(rows) == 4


def test_the_page_s_scores_without_the_auxiliary_objective_and_of_layers_are_those_of_the_tables():
    page = text(OVERNIGHT / 'README.md')
    ours = table_rows(page.split('### Without the auxiliary objective')[1])
    tables = table_rows(text(OVERNIGHT / 'tables.md'))
    of_set = {row[0].split(' (')[0]: row[1:4:2] for row in tables if len(row) == 9}
    assert [row[1:3] for row in ours[1:11]] == [of_set[row[0].split(' (')[0]] for row in ours[1:11]]
    found = {(row['task'], row['peak_rate'], row['lm_weight']): scores.percent(row['value'])
             for row in results.read(OVERNIGHT / 'other_rates.jsonl') if row['task'] != 'race'}
    for name, rate, lm_weight in (('2.5e-4, without', 2.5e-4, 0), ('1.25e-4, without', 1.25e-4, 0),
                                  ('1.25e-4, with it', 1.25e-4, 0.5)):
        assert [name, *(found.get((task, rate, lm_weight), '') for task in ('mnli', 'snli', 'story_cloze'))] in ours
    names = ('story_cloze', 'snli', 'mnli', 'stsb', 'qnli', 'cola', 'sst2', 'qqp', 'rte', 'mrpc')
    assert [row[4] for row in ours[1:11]] == [found[task, 2.5e-4 if task == 'sst2' else 1.25e-4, 0] for task in names]
    nothing, embeddings, *others = [
        row[1] for row in tables if len(row) == 10 and row[0] in ('none', *map(str, range(7)))]
    listed = f'{", ".join(others[:-1])} and {others[-1]}'
    assert f'nothing {nothing}, the embeddings alone {embeddings}, then {listed}' in page
