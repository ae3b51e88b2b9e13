"""Figure 2 and BLiMP: pictures and tables of two tiny models on tiny sets, end to end."""

import json
import pathlib
import re

import pytest

import official
import sets
from experiments import tables
from experiments.lib import run_list, runner
from experiments.paper import blimp
from gpt1_jax import pretraining
from gpt1_jax.errors import UserError
from gpt1_jax.metrics import bootstrap
from gpt1_jax.runs import results
from tiny import cola, corpus, load_config, override, pretrain_config, sst2

pytestmark = pytest.mark.full
STEPS = (5, 10, 20)  # saved updates
PARTS = ('figure2_layers', 'figure2_zero_shot', 'figure_blimp')


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    """configs/experiments.py with two tiny pretrained models and all of the data but MultiNLI."""
    root = tmp_path_factory.mktemp('figures')
    books = corpus(root / 'books')
    data = root / 'data'
    for split in ('train', 'dev'):
        official.race(data / 'RACE', split)
    (data / 'DPR').mkdir()
    (
        cola(data / 'CoLA'),
        sst2(data / 'SST-2'),
        sets.dpr_official(data / 'DPR'),
        official.blimp(data / 'blimp'),
    )
    (root / 'filter.json').write_text(json.dumps({'hills': [0, 1, 2]}))
    # A rate so high that the LSTM's answers are no ties.
    small = dict(
        model__n_ctx=48,
        optimizer__peak_rate=5e-2,
        train__steps=STEPS[-1],
        eval__every=20,
        checkpoint__keep_steps=STEPS,
        checkpoint__every=5,
    )
    gpt = pretraining.run(pretrain_config(books, **small), root / 'gpt')
    lstm = pretraining.run(
        pretrain_config(
            '',
            data__tokens=str(root / 'gpt' / 'tokens'),
            model__kind='lstm',
            model__n_units=16,
            **small,
        ),
        root / 'lstm',
    )
    found = override(
        load_config('experiments'),
        dict(
            pretrained=str(gpt.path),
            lstm=str(lstm.path),
            data=str(data),
            out=str(root / 'out'),
            seeds=(0,),
            finetune__batch__size=8,
            finetune__batch__eval_size=8,
            finetune__train__epochs=1,
            finetune__batch__lengths=1,
        ),
    )
    found.zero_shot.blimp = {'data': {'filter': str(root / 'filter.json')}}
    return found


@pytest.fixture(scope='module')
def text(config):
    """{part: its lines}."""
    return tables.run(config, PARTS)


def cells(lines, first, heading):
    """The cells after the first of the line that begins with it, under a heading."""
    section = '\n'.join(lines).partition(f'\n{heading}')[2].splitlines()
    (line, *_) = [line for line in section if line.startswith(f'| {first} |')]
    return [cell.strip() for cell in line.split('|')[2:-1]]


def test_a_dry_run_lists_a_run_for_each_number_of_layers_of_the_pretrained_model(config, capsys):
    assert tables.run(config, ['figure2_layers'], dry_run=True) == {}
    out = capsys.readouterr().out
    listed = re.findall(r'^race-(\w+)-0: ([\d,]+) tokens$', out, re.M)
    # It has two layers
    assert [name for name, _ in listed] == ['no_pretraining', 'layers_0', 'layers_1', 'full']
    in_all = sum(int(tokens.replace(',', '')) for _, tokens in listed)
    assert (
        in_all > 0 and f'in all: {in_all:,} tokens' in out and not pathlib.Path(config.out).exists()
    )
    assert '8 runs: 4 to do, 0 done, 4 no data' in out and out.count('mnli: no data: ') == 1


def test_every_part_leaves_a_picture_and_a_table_and_no_run_is_done_again(config, text, capsys):
    for name in PARTS:
        out = pathlib.Path(config.out)
        assert (out / f'{name}.png').read_bytes().startswith(b'\x89PNG')
        assert f']({name}.png)' in (out / f'{name}.md').read_text()
    assert tables.run(config, PARTS) == text
    assert '18 runs: 0 to do, 14 done, 4 no data' in capsys.readouterr().out
    ends = [
        one
        for condition in ('full', 'no_pretraining')
        for one in run_list.finetune_runs(config, 'race', condition)
    ]  # as in the tables
    assert [one.status for one in runner.carry_out(config, ends, dry_run=True)] == ['done', 'done']


def test_each_number_of_layers_and_saved_update_of_both_models_is_scored(text):
    for layers in ('none', '0', '1', '2'):
        row = cells(text['figure2_layers'], layers, '## RACE')
        assert (row[4:6], row[8]) == (['1', '21'], '21') and 'n/a' not in row
    assert cells(text['figure2_layers'], 'none', '## MultiNLI')[0] == 'n/a'
    lines = text['figure2_zero_shot']
    for heading, n in {'## SST-2': '10', '## DPRD': '12', '## CoLA': '13', '## RACE': '21'}.items():
        for step in STEPS:
            row = cells(lines, str(step), heading)
            assert row[0] == n and len(row) == (9 if n == '13' else 7) and 'n/a' not in row


def test_without_an_lstm_or_data_what_is_there_is_shown(config, tmp_path):
    alone = config.copy_and_resolve_references()
    alone.lstm, alone.out, alone.data = None, str(tmp_path / 'out'), str(tmp_path / 'nothing')
    pathlib.Path(alone.data).mkdir()
    with pytest.raises(UserError, match='none of the .* has its data'):
        tables.run(alone, PARTS)
    assert (tmp_path / 'out' / 'figure2_zero_shot.md').read_text().count('n/a, no data') == 4
    alone.pretrained = ''
    with pytest.raises(UserError, match='--config.pretrained'):
        tables.run(alone, dry_run=True)


def test_blimp_has_accuracy_tokens_and_paired_differences_beside_what_is_published(config, text):
    found = [
        {
            row['step']: row
            for row in results.read(pathlib.Path(config.out) / 'results.jsonl')
            if (row['task'], row['run'], row['group'], row['metric'])
            == ('blimp', run, None, 'accuracy')
        }
        for run in (config.pretrained, config.lstm)
    ]
    lines = text['figure_blimp']
    for step in STEPS:
        row = cells(lines, str(step), '## Overall')
        assert row[0] == row[3] == f'{step * 8 * 48:,}'
        assert [row[1], row[4]] == [f'{100 * of_model[step]["value"]:.1f}' for of_model in found]
        assert all(re.fullmatch(r'[\d.]+ to [\d.]+', row[i]) for i in (2, 5))
    assert cells(lines, 'binding', '## Phenomena')[4:] == ['73.5', '74.7']
    assert '; Transformer-XL (103M words) 69.6; GPT-2 large (40 GB) 83.0; ' in '\n'.join(lines)
    gain = 100 * (found[0][20]['value'] - found[0][5]['value'])
    assert f'* Transformer, from update 5 to 20: {gain:+.1f} (' in '\n'.join(lines)
    same = {(None, 'accuracy'): found[0][20]}
    nothing = blimp.difference(same, same)  # the same pairs in each resample
    assert (nothing.value, *bootstrap.interval(nothing.draws), nothing.n) == (0, 0, 0, 32)


@pytest.mark.quick
def test_the_lstm_is_drawn_where_the_transformer_has_read_as_many_tokens():
    row = {'value': 0.6, 'low': 0.5, 'high': 0.7}
    found = {condition: {10: {(None, 'accuracy'): row}} for condition in ('full', 'lstm')}
    drawn = blimp.curves(found, {'full': 100, 'lstm': 50})
    assert [(curve['model'], curve['points'][0]['step']) for curve in drawn] == [
        ('Transformer', 10),
        ('LSTM', 5),
    ]
    assert drawn[0]['points'][0]['value'] == 60
