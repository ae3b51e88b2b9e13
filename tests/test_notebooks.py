"""The notebooks: they keep short outputs, need the package alone, and every cell runs, on models of
a few steps."""

import ast
import collections
import csv
import os
import pathlib
import re
import sys
import types

import nbclient
import nbformat
import numpy as np
import pytest

from gpt1_jax.data.tasks import own
from gpt1_jax.runs import workdir
from own_sets import lines
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


@pytest.mark.quick
@pytest.mark.parametrize('name', NAMES)
def test_what_a_cell_reads_from_others_one_cell_alone_assigns(name):
    """So cells that are run again, in any order, read the same variables."""
    assigned = collections.Counter()
    read_from_others = set()
    for cell in code(read(name))[1:]:  # without `install`, which is no plain Python
        nodes = list(ast.walk(ast.parse(cell.source)))
        own = {
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        own |= {
            alias.name
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assigned.update(own)
        read_from_others |= {node.id for node in nodes if isinstance(node, ast.Name)} - own
    assert {word for word in read_from_others if assigned[word] > 1} == set()


@pytest.mark.quick
def test_the_losses_of_a_run_are_drawn_in_another_process_than_its_training(monkeypatch, tmp_path):
    monkeypatch.setenv('MPLBACKEND', 'agg')
    run = workdir.Run(tmp_path, {})
    monkeypatch.setattr(workdir, 'load', {'my run': run}.get)
    run.metrics.write_text(
        lines([{'step': 1, 'loss': 5.0}, {'step': 2, 'loss': 4.0, 'valid_loss': 4.5}])
    )
    source = next(cell.source for cell in code(read('pretrain_and_sample')) if cell.id == 'curve')
    exec(source.replace('plt.show()', ''), names := {'RUN': 'my run'})
    assert [line.get_xydata().tolist() for line in names['axes'].lines] == [
        [[1, 5], [2, 4]],
        [[2, 4.5]],
    ]


@pytest.mark.quick
def test_an_interrupt_before_the_example_is_written_leaves_no_directory(monkeypatch, tmp_path):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('gpt1_jax.data.corpus.documents', interrupted)
    source = next(cell.source for cell in code(read('finetune_your_task')) if cell.id == 'example')
    with pytest.raises(KeyboardInterrupt):
        exec(source, {'DATA': 'authors'})
    assert not (tmp_path / 'authors').exists()


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
    assert (
        'authors test: accuracy' in shown['tune'] and 'authors test: accuracy' in shown['scratch']
    )
    assert (
        re.search(r'difference +[+-]\d+\.\d% +\([+-]', shown['compare'])
        and 'image/png' in shown['states']
    )
    with open(tmp_path / 'mine.tsv', 'w', newline='') as stream:
        csv.writer(stream, delimiter='\t').writerows(
            [
                ('note', 'kind'),
                *(
                    (f'{WORDS[i % 30]} {WORDS[i % 7]}, {i}', 'very good' if i % 2 else 'bad')
                    for i in range(400)
                ),
            ]
        )
    own = executed(
        'finetune_your_task',
        tmp_path,
        monkeypatch,
        f"DATA, TEXT, LABEL, RUNS = 'mine.tsv', 'note', 'kind', 'runs/mine'\n{origin}",
    )
    assert 'mine dev: accuracy' in own['tune'] and 'image/png' in own['states']


@pytest.mark.quick
def test_the_states_of_json_lines_are_plotted(tmp_path, monkeypatch):
    monkeypatch.setenv('MPLBACKEND', 'agg')
    (tmp_path / 'dev.jsonl').write_text(lines([{'t': f'x{i}', 'y': 'ab'[i % 2]} for i in range(8)]))
    (tmp_path / 'dev.jsonl').rename(tmp_path / 'train.jsonl')
    task = own.whole(own.task(str(tmp_path), 't', 'y'))
    tuned = types.SimpleNamespace(
        config={'data': {'dir': str(tmp_path / 'train.jsonl')}},
        fitted=types.SimpleNamespace(task=task),
        embed=lambda texts: np.random.rand(8, 3),
    )
    source = next(cell.source for cell in code(read('finetune_your_task')) if cell.id == 'states')
    names = dict(tuned=tuned, SPLIT='dev', TEXT='t', LABEL='y', csv=csv, pathlib=pathlib)
    exec(source.replace('plt.show()', ''), names)
    assert [len(label.get_offsets()) for label in names['axes'].collections] == [4, 4]


def test_looking_inside(tmp_path, monkeypatch):
    shown = executed('look_inside', tmp_path, monkeypatch)
    assert 'image/png' in shown['attention'] and shown['habits'].count('image/png') == 2
    assert (
        'text/html' in shown['surprise']
        and len(re.findall('^ *[+-].* bits', shown['grammar'], re.M)) == 4
    )
