"""The notebooks: they keep short outputs, need the package alone, and every cell runs, on models of
a few steps."""

import ast
import os
import re
import sys

import nbclient
import nbformat
import pytest

from tiny import ROOT, WORDS, corpus

pytestmark = pytest.mark.full

FOLDER = ROOT / 'experiments' / 'notebooks'
NAMES = ('finetune_your_task', 'look_inside', 'pretrain_and_sample')
SHOWS = re.compile(
    r'print\(|display\(|plt\.show|^(HTML|Image)\(|gpt1_jax\.(finetune|pretrain)\(', re.M
)


def read(name):
    return nbformat.read(FOLDER / f'{name}.ipynb', as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == 'code']


def check_outputs(notebook):
    for cell in code(notebook):
        for output in cell.outputs:
            assert output.output_type != 'error' and output.get('name') != 'stderr', output
            assert output.output_type != 'stream' or output.text.count('\n') <= 60, cell.id


def executed(name, directory, monkeypatch, parameters=''):
    """Runs a notebook in a directory. Returns {cell id: its text and its kinds of data}.

    parameters: code that runs after the cell of the user's settings.
    """
    monkeypatch.setenv('PYTHONPATH', f'{ROOT}{os.pathsep}{os.environ.get("PYTHONPATH", "")}')
    notebook = read(name)
    for cell in code(notebook):
        cell.outputs = []
    place = next(
        i for i, cell in enumerate(notebook.cells) if 'parameters' in cell.metadata.get('tags', ())
    )
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(parameters))
    nbclient.NotebookClient(
        notebook,
        timeout=900,
        kernel_name='python3',
        coalesce_streams=True,
        resources={'metadata': {'path': str(directory)}},
    ).execute()
    check_outputs(notebook)
    return {
        cell.id: ''.join(
            output.text if output.output_type == 'stream' else f'<{" ".join(output.data)}>'
            for output in cell.outputs
        )
        for cell in code(notebook)
    }


@pytest.mark.quick
@pytest.mark.parametrize('name', NAMES)
def test_outputs_are_kept_and_short_and_the_package_is_all_that_is_needed(name):
    notebook = read(name)
    nbformat.validate(notebook)
    check_outputs(notebook)
    assert all(bool(cell.outputs) is bool(SHOWS.search(cell.source)) for cell in code(notebook))
    assert (FOLDER / f'{name}.ipynb').stat().st_size < 1e6

    sources = [cell.source for cell in code(notebook) if cell.id != 'install']
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    libraries = {module.partition('.')[0] for module in modules} - set(sys.stdlib_module_names)
    assert libraries <= {'gpt1_jax', 'matplotlib', 'numpy', 'IPython'}


def test_pretraining_on_a_text_of_one_s_own(tmp_path, monkeypatch):
    text = corpus(tmp_path / 'text', documents=40)
    shown = executed(
        'pretrain_and_sample', tmp_path, monkeypatch, f"CORPUS, SIZE = {str(text)!r}, 'tiny'"
    )
    assert (
        'step 20/20' in shown['run']
        and 'image/png' in shown['curve']
        and shown['generate'].count(' ... ') == 3
    )
    assert len(re.findall(r'perplexity +\d+\.\d', shown['score'])) == 2
    assert (tmp_path / 'runs' / 'pretrain_and_sample' / 'config.json').exists()


@pytest.mark.slow
def test_fine_tuning(tmp_path, monkeypatch, pretrained):
    """On the rows that the notebook makes, then on a file of the user's own, without a test set."""
    origin = f'INIT_FROM = {str(pretrained)!r}'
    shown = executed('finetune_your_task', tmp_path, monkeypatch, origin)
    for cell in ('tune', 'scratch'):
        assert 'authors test: accuracy' in shown[cell]
    assert re.search(r'difference +[+-]\d+\.\d% +\([+-]', shown['compare'])
    assert 'image/png' in shown['states']
    rows = [
        f'{WORDS[i % 30]} {WORDS[i % 7]}, {i}\t{"very good" if i % 2 else "bad"}'
        for i in range(400)
    ]
    (tmp_path / 'mine.tsv').write_text('\n'.join(['note\tkind', *rows]))
    mine = f"DATA, TEXT, LABEL, RUNS = 'mine.tsv', 'note', 'kind', 'runs/mine'\n{origin}"
    own = executed('finetune_your_task', tmp_path, monkeypatch, mine)
    assert 'mine dev: accuracy' in own['tune'] and 'image/png' in own['states']


def test_looking_inside(tmp_path, monkeypatch):
    shown = executed('look_inside', tmp_path, monkeypatch)
    assert 'image/png' in shown['attention'] and shown['habits'].count('image/png') == 2
    assert (
        'text/html' in shown['surprise']
        and len(re.findall('^ *[+-].* bits', shown['grammar'], re.M)) == 4
    )
