"""The pages (all Markdown but reports that a program wrote): links lead somewhere, Python compiles,
and their statements about the tree are true, as are those in docstrings and comments; the prose has
few habits that make a reader stumble. test_page_commands.py has the commands."""

import ast
import re

import pytest

from gpt1_jax.runs import workdir
from pages import FILES, PAGES, comments, docstring
from tiny import ROOT, load_config


def page(name):
    return (ROOT / name).read_text(encoding='utf-8')


def rows(name, title):
    """The rows of the first table under a heading of a page, each a list of its cells."""
    section = page(name).split(f'\n## {title}\n')[1].split('\n## ')[0]
    table = [line for line in section.splitlines() if line.startswith('| ')]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in table[1:]]


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r'^```.*?^```', '', text, flags=re.S | re.M)


def targets(text):
    """Those of the links and images of a text, with their anchors."""
    found = re.findall(
        r'\]\(([^)\s]+)\)|<img [^>]*src="([^"]+)"|<a '
        r'[^>]*href="([^"]+)"',
        prose(text),
    )
    return list(map(''.join, found))


def anchors(text):
    """The anchors that GitHub gives a page's headings."""
    titles = re.findall(r'^#+ (.*)$', prose(text), re.M)
    return {
        re.sub(r'[^\w\- ]', '', re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', title).lower()).replace(
            ' ', '-'
        )
        for title in titles
    }


@pytest.mark.parametrize('name', PAGES)
def test_links_and_images_lead_to_what_is_there(name):
    for target in targets(page(name)):
        if '://' in target:
            continue
        path, _, anchor = target.partition('#')
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.resolve().is_relative_to(ROOT) and file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding='utf-8')), target


@pytest.mark.parametrize('name', PAGES)
def test_python_on_a_page_compiles(name):
    for block in re.findall(r'^```python\n(.*?)^```', page(name), re.S | re.M):
        compile(block, name, 'exec')


def test_the_tree_of_the_package_has_all_of_its_folders():
    tree = re.search(r'```\n(gpt1_jax/\n.*?)```', page('gpt1_jax/README.md'), re.S)[1]
    assert set(re.findall(r'^  (\w+)/ ', tree, re.M)) == {
        file.parent.name for file in (ROOT / 'gpt1_jax').glob('*/__init__.py')
    }


@pytest.mark.parametrize('row', rows('README.md', 'Read it'), ids=lambda row: row[1])
def test_the_files_of_the_reading_list_name_their_section(row):
    # '3.1', 'Eq. 1'
    section, *more = re.split(', | and ', row[1].partition(':')[0].replace('Eqs.', 'Eq.'))
    (target,) = targets(row[2])
    about = docstring(ROOT / target).replace('Eqs.', 'Eq.')
    assert section in about or any(part in about for part in more)


def texts():
    """Yields every string in the package's source, with … for each inserted value."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield ''.join(
                    part.value if isinstance(part, ast.Constant) else '…' for part in node.values
                )


def test_what_goes_wrong_is_what_the_programs_print():
    source = '\n'.join(texts())
    table = rows('docs/when_it_fails.md', 'Messages')
    found = [quoted for row in table for quoted in re.findall('`([^`]+)`', row[0])]
    assert len(found) > 9
    for quoted in found:
        for piece in filter(None, (piece.strip() for piece in quoted.split('…'))):
            assert piece in source, piece


def test_the_fields_that_pages_name_are_a_config_s():
    named = {field for name in PAGES for field in re.findall(r'--config\.([a-z_.]+)', page(name))}
    there = {
        field
        for name in (
            'pretrain',
            'finetune',
            'custom',
            'zero_shot',
            'experiments',
            'reproduce',
            'ablate',
        )
        for field in workdir.flatten(load_config(name).to_dict())
    }
    assert len(named) > 20
    assert not [
        name for name in named if not any(f'{field}.'.startswith(f'{name}.') for field in there)
    ]


# Of openai/finetune-transformer-lm
RELEASED = {'train.py', 'opt.py', 'text_utils.py', 'utils.py', 'datasets.py'}


def notes(file):
    """The docstrings and comments of a Python file."""
    yield from (comment for _, comment in comments(file))
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ''


@pytest.mark.parametrize('folder', ['gpt1_jax', 'experiments', 'configs', 'tests'])
def test_files_that_docstrings_and_comments_name_are_there(folder):
    missing = []
    for file in sorted((ROOT / folder).rglob('*.py')):
        bases = (
            file.parent,
            ROOT,
            ROOT / 'gpt1_jax',
            ROOT / 'experiments',
            ROOT / 'tests' / 'helpers',
        )
        named = {
            name
            for note in notes(file)
            for name in re.findall(r'(?<![\w/.*])((?:\w+/)*[a-z]\w*\.py)\b', note)
        }
        missing += [
            (str(file.relative_to(ROOT)), name)
            for name in sorted(named - RELEASED)
            if not any((base / name).exists() for base in bases)
        ]
    assert missing == []


# How often a habit may occur in 1,000 words of docstrings, comments and pages, reports left out.
HABITS = {
    r'\b(that|those) of\b': 0.3,
    r'\b[Ww]hat (is|was|it|they|a|the|of|are|one)\b': 1.1,
    # "where" for "if"
    r'\bwhere (it|there|they|none|one|the|a|some|no|all|that|several)\b': 0.5,
    r"\bof (its|their|one's|your) own\b|\bof yours\b": 0.1,
    r'\b(the|an?|another|each|every|this|that|newest|last|first|sound|best) one\b|\bones\b': 0.5,
    r'\balone\b': 0.3,
    ';': 5.0,
}


def said():
    """All docstrings, comments and pages; code and tables of pages left out."""
    for file in FILES:
        yield from notes(file)
    for name in PAGES:
        if 'results' not in name:
            lines = prose(page(name)).splitlines()
            yield re.sub('`[^`]*`', 'X', '\n'.join(x for x in lines if not x.startswith('|')))


def test_the_prose_keeps_its_habits():
    text = '\n'.join(said())
    words = len(re.findall(r"[A-Za-z']+", text))
    found = {habit: 1000 * len(re.findall(habit, text)) / words for habit in HABITS}
    assert words > 50_000
    assert {habit: n for habit, n in found.items() if n > HABITS[habit]} == {}
