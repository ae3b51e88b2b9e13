"""The pages of experiments/results have the figures of the result files beside them."""

import json

import numpy as np
import pytest
from scipy import stats

from experiments import baselines, learning_curves, simulated_searches
from experiments.paper import scores
from gpt1_jax.runs import results
from tiny import ROOT

RESULTS = ROOT / 'experiments' / 'results'
NOVELS = RESULTS / 'novels'
TEN_MINUTES = RESULTS / 'ten_minutes_gpu'


def text(file):
    return file.read_text(encoding='utf-8')


def cells(line):
    return [cell.strip() for cell in line.strip('|').split('|')]


def table_rows(page):
    return [cells(line) for line in page.splitlines() if line.startswith('| ')]


def page():
    return text(RESULTS / 'README.md')


@pytest.mark.parametrize('place', [NOVELS, TEN_MINUTES], ids=lambda place: place.name)
def test_the_last_loss_is_that_of_the_file(place):
    last = results.read(place / 'losses.jsonl')[-1]['valid_loss']
    assert f'{last:.3f}' in page()


def test_the_front_page_has_the_quickstart_s_figures():
    lines = table_rows(text(RESULTS / 'quickstart' / 'report.md'))
    accuracies = {row[0]: row[1:] for row in lines if len(row) == 5}
    front = {row[0]: row[1:] for row in table_rows(text(ROOT / 'README.md')) if len(row) == 5}
    names = {
        'pronoun': '*he* or *him*?',
        'word_order, zero-shot': 'word order, without fine-tuning',
    }
    for theirs, ours in names.items():
        values = [cell.partition(' ')[0] for cell in accuracies[theirs]]
        pretrained, scratch, trigram, packaged = values
        assert front[ours] == [scratch, pretrained, trigram, packaged]


def test_the_trigram_of_the_same_books_is_that_of_its_file():
    found = json.loads(text(RESULTS / 'quickstart' / 'more_books.json'))
    for task, name in (('pronoun', '*he* or *him*?'), ('word_order', 'word order')):
        row = [found[task][key] for key in ('novels', 'trigram', 'novels - trigram')]
        assert f'| {name} | {" | ".join(row)} |' in page()
    front = text(ROOT / 'README.md')
    assert ' and '.join(found[task]['trigram'][:4] for task in ('pronoun', 'word_order')) in front
    assert found['commit'] and not found['commit'].endswith('+dirty')


@pytest.mark.parametrize('place', [NOVELS, TEN_MINUTES], ids=lambda place: place.name)
def test_the_page_of_the_baselines_is_that_of_their_file(place):
    rows = scores.baselines(place / 'baselines.json')
    assert text(place / 'baselines.md').rstrip() == '\n'.join(baselines.lines(rows)).rstrip()


def test_grammar_over_tokens_is_that_of_the_files():
    (ours,) = [row for row in table_rows(page()) if row[0].startswith('`novels`, 6.9M')]
    row = next(
        row
        for row in results.read(NOVELS / 'blimp.jsonl')
        if row['group'] is None and row['metric'] == 'accuracy'
    )
    assert ours[2] == f'{scores.percent(row["value"])} ({scores.span(row["low"], row["high"])})'
    models = json.loads(text(NOVELS / 'blimp_over_tokens.json'))
    for name in ('Transformer', 'LSTM'):
        tokens, value, low, high = models[name][7]
        assert f'| {tokens / 1e6:.1f}M | {value} ({low} to {high}) |' in page()
        assert f'{value} | {low} to {high}' in text(NOVELS / 'figure_blimp.md')


@pytest.mark.parametrize('where', ['.', 'longer'])
def test_the_differences_of_ideas_are_students_t_of_their_runs(where):
    ideas = RESULTS / 'ideas'
    report = text(ideas / where / 'report.md')
    listed = {row[0]: row[1:] for row in table_rows(page()) if len(row) == 3}
    losses = {}
    other_text = set()
    for row in results.read(ideas / where / 'results.jsonl'):
        losses.setdefault(row['idea'], []).append(row['loss'])  # in the order of seeds
        if row['changes'].keys() & {'tokenizer.vocab_size', 'data.valid'}:
            other_text.add(row['idea'])
    baseline = losses.pop('baseline')
    found = 0
    for idea, values in losses.items():
        if idea in other_text:
            assert f'| {idea} | n/a | ' in report
            continue
        low, high = stats.ttest_rel(values, baseline).confidence_interval()
        mean = np.mean(np.subtract(values, baseline))
        assert f'| {idea} | {mean:+.4f} ({low:+.4f} to {high:+.4f}) | ' in report
        if idea in listed:
            found += 1
            assert listed[idea][where == 'longer'] == f'{mean:+.3f} ({low:+.3f} to {high:+.3f})'
    assert found == 8


def test_the_ideas_of_the_front_page_are_those_of_their_report():
    lines = text(RESULTS / 'ideas' / 'longer' / 'report.md').splitlines()
    front = [row for row in table_rows(text(ROOT / 'README.md')) if len(row) == 3][1:3]
    for idea, nats, verdict in front:
        (line,) = [line for line in lines if line.startswith(f'| {idea} | {nats} |')]
        assert f'| {verdict}' in line


def test_the_sets_of_ten_minutes_of_a_gpu_are_those_of_the_learning_curves_and_baselines():
    points = json.loads(text(TEN_MINUTES / 'learning_curves.json'))['points']
    known = scores.baselines(TEN_MINUTES / 'baselines.json')
    assert (
        text(TEN_MINUTES / 'learning_curves.md').rstrip()
        == '\n'.join(learning_curves.lines(points, known)).rstrip()
    )
    table = learning_curves.set_table(learning_curves.best_rows(points, known))
    assert len(table) == 2 + 10 + 1
    for line in table[:-1]:
        assert line in page().splitlines()


def test_the_packaged_model_s_sets_are_those_of_its_tables_and_baselines():
    of_tables = table_rows(text(NOVELS / 'tables.md'))
    tables = {row[0].split(' (')[0]: row for row in of_tables if len(row) == 9}
    known = scores.baselines(NOVELS / 'baselines.json')
    section = page().partition('## The packaged model')[2].partition('\n## ')[0]
    labels = {score.label: score for score in learning_curves.SCORES.values()}
    _, *sets = [row for row in table_rows(section) if len(row) == 9]
    assert len(sets) == 10
    beaten = 0
    for name, _, *shown in sets:
        of_set = tables[name]
        rows = scores.baseline_rows(known, labels[name])
        values = {kind: row['value'] for kind, row in rows.items()}
        best = max(values[kind] for kind in scores.WITHOUT_MODEL if kind in values)
        constant = scores.percent(values['constant']) if 'constant' in values else ''
        counted = [scores.percent(value) for value in (best, values['probe'], values['random'])]
        assert shown == [*of_set[1:3], f'{of_set[6]} ({of_set[7]})', constant, *counted]
        beaten += float(counted[1]) > float(shown[0])
    assert beaten == 7
    assert 'On seven of ten sets a linear probe of the frozen states beats fine-tuning' in section


def test_the_rates_are_those_of_their_rows():
    found = {}
    for row in results.read(NOVELS / 'rates.jsonl'):
        cells = found.setdefault(row['task'], {}).setdefault(row['peak_rate'], {})
        cells[row['seed']] = scores.percent(row['value'])
    names = {'sst2': 'SST-2', 'qnli': 'QNLI', 'qqp': 'QQP (F1)', 'stsb': 'STS-B (Pearson)'}
    for task, by_rate in found.items():
        assert sorted(by_rate) == [1.4e-4, 2.8e-4, 5.6e-4]
        cells = []
        for _, by_seed in sorted(by_rate.items()):
            cells.append(', '.join(by_seed[seed] for seed in sorted(by_seed)))
        line = f'| {names.get(task, "three topics")} | {" | ".join(cells)} |'
        assert line in text(NOVELS / 'rates.md')
    assert {value for seeds in found['topics'].values() for value in seeds.values()} == {'100.0'}


def test_simulated_searches_are_those_of_their_file():
    rows = json.loads(text(RESULTS / 'ideas' / 'simulated.json'))['rows']
    assert '\n'.join(simulated_searches.lines(rows)).rstrip() in page()


def test_what_a_search_believes_is_counted_from_its_ideas():
    found = json.loads(text(RESULTS / 'ideas' / 'nothing' / 'false_winners.json'))
    shown = {row[0]: row[1:] for row in table_rows(page()) if len(row) == 6}
    rules = {
        'one run': 'lower in one run',
        'mean': 'lower in the mean of 4 runs',
        'confirmed': 'screened with two runs, then confirmed on fresh seeds',
    }
    for rule, counted in found['rules'].items():
        kept = [idea for idea in counted['ideas'] if idea['kept']]
        false = [idea['nats'] for idea in kept if idea['kind'] != 'better']
        large = [nats for nats in false if nats <= -found['least']]
        numbers = [counted['trials'], len(kept), f'{len(kept) - len(false)} of 6']
        assert shown[rules[rule]] == [*map(str, numbers), str(len(false)), str(len(large))]
        assert rule == 'confirmed' or len(counted['ideas']) == 69
