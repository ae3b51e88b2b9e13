"""The pages (all Markdown but reports that a program wrote): links lead somewhere, Python compiles,
and what they say of the tree is so, as is what docstrings and comments say; the phrases that all
avoid. test_page_commands.py has the commands."""

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


@pytest.mark.parametrize('row', rows('gpt1_jax/README.md', 'Reading list'), ids=lambda row: row[0])
def test_the_files_of_the_reading_list_name_their_section(row):
    # '3.1', 'Eq. 1'
    section, *more = re.split(', | and ', row[0].partition(':')[0].replace('Eqs.', 'Eq.'))
    for target in targets(row[1]):
        about = docstring((ROOT / 'gpt1_jax' / target).resolve()).replace('Eqs.', 'Eq.')
        assert section in about or any(part in about for part in more), target


def texts():
    """Every text in the package's source, with … for what is put in."""
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
    table = rows('configs/README.md', 'When something goes wrong')
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


INSTEAD = {  # phrase: what to write
    r', too[.,;:)]|, too$': 'also, or nothing',
    r'\b(is|are|be) told\b|\btold (from|apart)\b': 'printed, reported, distinguished',
    r'\bstands? (twice|for good)\b': 'is duplicated, is kept',
    r'\b(goes|go|went|going) on\b': 'resumes, continues',
    r'\bat hand\b': 'available',
    r'\b(is|are) (none of|no field|no run\b|neither of)': 'is not a ..., unknown ...',
    r'\bas of\b': 'as in, like',
    r'\bby heart\b': 'memorised',
    r'\bwithout a word\b': 'silently',
    r'\bof its own accord\b': 'by default',
    r'\b[Ww]hat .{1,40} (says|comes to|boils down to)\b': 'a noun: the contents, the resolved ...',
    r'\b[Ll]ikewise\b': 'also, the same for',
    r'\bwhat is left\b': 'the rest',
    r'\bexactness is to tolerance\b': 'results match up to rounding',
    r'\b(a|the) name that can be none\b': 'an invalid path',
}


def lines(file):
    """(line number, text) of a Python file's strings, docstrings included, and comments, or of a
    page's lines."""
    source = file.read_text(encoding='utf-8')
    if file.suffix == '.md':
        return enumerate(source.splitlines(), 1)
    return [
        *(
            (node.lineno, ' '.join(node.value.split()))
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and len(node.value.split()) > 2
        ),
        *comments(file),
    ]


def offences(file):
    return [
        f'{file.name}:{number}: {match[0]!r}: write {instead}'
        for number, text in lines(file)
        for phrase, instead in INSTEAD.items()
        if (match := re.search(phrase, text))
    ]


@pytest.mark.parametrize(
    'file', [*FILES, *(ROOT / page for page in PAGES)], ids=lambda f: str(f.relative_to(ROOT))
)
def test_the_text_avoids_the_phrases(file):
    assert not offences(file)


def test_an_offence_is_found_and_named(tmp_path):
    (tmp_path / 'a.py').write_text('"""It goes on."""\nx = 1  # read, too\n')
    assert [line.split(': ')[:2] for line in offences(tmp_path / 'a.py')] == [
        ['a.py:1', "'goes on'"],
        ['a.py:2', "', too'"],
    ]
