"""The notebooks: nothing of a run is left in them, and every cell runs, in small (GPT1_JAX_NOTEBOOK)."""
import csv
import os
import re

import nbclient
import nbformat
import pytest

from tiny import ROOT, WORDS, corpus

pytestmark = pytest.mark.full

FOLDER = ROOT / 'experiments' / 'notebooks'
NAMES = ('finetune_your_task', 'look_inside', 'pretrain_and_sample')


def read(name):
    return nbformat.read(FOLDER / f'{name}.ipynb', as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == 'code']


def executed(name, directory, parameters='', monkeypatch=None):
    """{cell id: what it shows, text and kinds of data} of a notebook run in a directory; `parameters` is code that runs
    after the cell that says what is the user's own."""
    monkeypatch.setenv('GPT1_JAX_NOTEBOOK', 'tiny')
    monkeypatch.setenv('PYTHONPATH', f'{ROOT}{os.pathsep}{os.environ.get("PYTHONPATH", "")}')
    notebook = read(name)
    place = next(i for i, cell in enumerate(notebook.cells) if 'parameters' in cell.metadata.get('tags', ()))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(parameters))
    nbclient.NotebookClient(notebook, timeout=900, kernel_name='python3',
                            resources={'metadata': {'path': str(directory)}}).execute()
    return {cell.id: ''.join(output.text if output.output_type == 'stream' else f'<{" ".join(output.data)}>'
                             for output in cell.outputs) for cell in code(notebook)}


@pytest.mark.parametrize('name', NAMES)
def test_nothing_of_a_run_is_left(name):
    notebook = read(name)
    nbformat.validate(notebook)
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code(notebook))
    assert all(cell.metadata.keys() <= {'tags'} for cell in notebook.cells)
    assert notebook.metadata.keys() == {'accelerator', 'colab', 'kernelspec', 'language_info'}
    assert notebook.metadata.kernelspec.name == 'python3' and 'widgets' not in notebook.metadata


def test_pretraining_on_a_text_of_one_s_own(tmp_path, monkeypatch):
    text = corpus(tmp_path / 'text', documents=40)
    shown = executed('pretrain_and_sample', tmp_path, f'CORPUS = {str(text)!r}', monkeypatch)
    assert shown['install'] == '' and re.match(r'No accelerator, \d+ CPU cores', shown['device'])
    assert '40 documents' not in shown['run'] and 'step 20/20' in shown['run']
    assert shown['run'].count('\n') < 60
    assert 'image/png' in shown['curve'] and shown['generate'].count('This function returns ... ') == 3
    assert re.findall(r'^ *(\d+): ', shown['steps'], re.M) == ['5', '10', '20']
    assert len(re.findall(r'perplexity +\d+\.\d', shown['score'])) == 2
    assert (tmp_path / 'runs' / 'pretrain_and_sample_tiny' / 'config.json').exists()


@pytest.mark.slow
def test_fine_tuning(tmp_path, monkeypatch):
    """On the table that the notebook makes, then, from the run it has left, on one of the user's own."""
    shown = executed('finetune_your_task', tmp_path, '', monkeypatch)
    assert shown['example'].startswith('passage,library\n') and 'pooled at position' in shown['inspect']
    assert 'own test: accuracy' in shown['tune'] and 'own test: accuracy' in shown['scratch']
    assert re.search(r'difference +[+-]\d+\.\d% +\([+-]', shown['compare'])
    assert len(shown['classify'].splitlines()) == 3 and 'image/png' in shown['states']
    (tmp_path / 'mine').mkdir()
    for file, n in (('all.tsv', 60), ('held.tsv', 20)):
        with open(tmp_path / 'mine' / file, 'w', newline='') as stream:
            csv.writer(stream, delimiter='\t').writerows([('note', 'kind'), *(
                (f'{WORDS[i % 30]} {WORDS[i % 7]}, {i}', 'good' if i % 2 else 'bad') for i in range(n))])
    own = executed('finetune_your_task', tmp_path, "DATA, TRAIN, TEST, TEXT, LABEL, LABELS = 'mine', 'all.tsv', "
                   "'held.tsv', 'note', 'kind', ('good', 'bad')\nPRETRAINED, RUNS = f'{RUNS}/pretrained', 'runs/mine'",
                   monkeypatch)
    assert own['example'].startswith('note\tkind\n') and own['pretrain'] == '' and 'chance is 50%' in own['compare']


@pytest.mark.slow
def test_looking_inside(tmp_path, monkeypatch):
    shown = executed('look_inside', tmp_path, '', monkeypatch)
    assert 'image/png' in shown['attention'] and shown['habits'].count('image/png') == 2
    assert 'text/html' in shown['surprise'] and shown['young'].count('text/html') == 2
    assert [line.split(':')[0] for line in shown['transfer'].splitlines()] == ['-1 layers', ' 0 layers', ' 1 layers']
    assert 'image/png' in shown['curve']
