"""The pages (every Markdown file but reports that a program wrote) and the programs' own pages (their docstrings, which
--help shows): commands can be given as they stand, links lead somewhere, Python compiles, and what they say of the
tree is so."""
import argparse
import ast
import json
import re
import runpy
import shlex
import subprocess
import sys
import tokenize

import pytest
from absl import flags

from gpt1_jax import cli
from gpt1_jax.data import tasks
from gpt1_jax.runs import config_rules as rules
from gpt1_jax.runs import workdir
from tiny import ROOT, load_config

sys.path.insert(0, str(ROOT))


pytestmark = pytest.mark.filterwarnings('ignore:.*found in sys.modules after import', 'ignore:the load_module')


class Parsed(Exception):
    """Raised in place of doing what was asked."""


def docstring(file):
    return ast.get_docstring(ast.parse(file.read_text(encoding='utf-8'))) or ''


PAGES = sorted(str(file.relative_to(ROOT)) for file in (
    *ROOT.glob('*.md'), *(page for folder in ('gpt1_jax', 'configs', 'experiments', 'tests')
                          for page in (ROOT / folder).rglob('*.md')))
    if file.name == 'README.md' or 'results' not in file.relative_to(ROOT).parts)
FILES = sorted(file for folder in ('gpt1_jax', 'experiments', 'configs') for file in (ROOT / folder).rglob('*.py'))
PROGRAMS = {'.'.join(file.relative_to(ROOT).with_suffix('').parts).removesuffix('.__main__'): file for file in FILES
            if re.search(r"^if __name__ == '__main__':", file.read_text(encoding='utf-8'), re.M)}


COMMANDS = runpy.run_path(str(ROOT / 'gpt1_jax' / '__main__.py'))['PROGRAMS']


def commands(text):
    """The commands in a text, each from `python -m` to the end of its line, of its lines where they end with a
    backslash, or of its code span; [in brackets] what may be left out, ... for more of the kind. `gpt1 PROGRAM` is
    `python -m gpt1_jax.PROGRAM`."""
    text = re.sub(r'\\\n\s*', '', text)
    text = re.sub(r'((?:^|&&|`) *)(?:\S*/)?gpt1 ([a-z]\w*)', lambda found: f'{found[1]}python -m gpt1_jax.'
                  f'{COMMANDS.get(found[2], found[2])}', text, flags=re.M)
    spans = re.findall(r'`([^`]*)`', re.sub(r'```.*?```', '', text, flags=re.S))
    lines = [line for line in text.splitlines() if re.match(r'\s*([^`]* && )?(\S*/)?python -m [^`]*$', line)]
    found = [re.split(r'python -m ', part)[1] for one in (*spans, *lines) for part in re.split(' && ', one)
             if 'python -m ' in part]
    words = [[word.strip('[]') for word in shlex.split(one, comments=True)] for one in found]
    return sorted({tuple(word for word in one if word != '...') for one in words if one[0] != 'pytest'})


def parse(name, *arguments):
    """Have a program read its command line, and do nothing. Its complaint is an exception."""
    def absl(main, define_flags, **how):
        before = set(flags.FLAGS)
        try:
            define_flags()
            left = flags.FLAGS(sys.argv)
            config = flags.FLAGS.config if 'config' in flags.FLAGS else None
            if config is not None:
                rules.validate(config, define_flags.__globals__.get('RULES', {}))
            raise Parsed(left[1:], None)
        finally:
            flags.FLAGS.unparse_flags()
            for flag in set(flags.FLAGS) - before:
                delattr(flags.FLAGS, flag)

    def standard(parser, given):
        raise Parsed([], real(parser, given))
    real = argparse.ArgumentParser.parse_args
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, 'run', absl)
        patch.setattr(argparse.ArgumentParser, 'parse_args', standard)
        patch.setattr(sys, 'argv', [name, *arguments])
        patch.chdir(ROOT)
        with pytest.raises(Parsed) as done:
            runpy.run_module(name, run_name='__main__')
    positional, found = done.value.args
    assert not positional, f'{positional} are no options'
    if name == 'experiments.launch.local':
        parse(f'gpt1_jax.{found.module}', *found.options)


@pytest.mark.parametrize('name', PROGRAMS)
def test_a_program_s_page_has_an_example_of_it(name):
    assert [one for one in commands(docstring(PROGRAMS[name])) if one[0] == name]


@pytest.mark.parametrize('name', [*PAGES, *(str(file.relative_to(ROOT)) for file in FILES)])
def test_commands_can_be_given_as_they_stand(name):
    file = ROOT / name
    for module, *arguments in commands(file.read_text() if name.endswith('.md') else docstring(file)):
        assert module in PROGRAMS, module
        if arguments:  # else it may be its name alone
            parse(module, *arguments)


@pytest.mark.parametrize('command, complaint', [
    ('gpt1_jax.pretrain --config=configs/pretrain.py --config.batch.sise=3', 'sise'),
    ('gpt1_jax.pretrain --config=configs/nothing.py', 'nothing.py'), ('gpt1_jax.pretrain --worker=3', 'worker'),
    ('gpt1_jax.pretrain --config.batch.size=many', 'many'),
    ('gpt1_jax.pretrain --config.batch.size=0', 'batch.size is 0'),
    ('gpt1_jax.generate --init_from=a', 'prompt'), ('gpt1_jax.zero_shot runs/gpt1', 'runs/gpt1'),
    ('experiments.plots --to=x.png runs/a', '^2$'), ('experiments.launch.local pretrain --worker=3', 'worker')])
def test_a_command_that_cannot_be_is_found(command, complaint):
    with pytest.raises((Exception, SystemExit), match=complaint):
        parse(*shlex.split(command))


def test_the_commands_of_a_text_are_found():
    assert commands('See `x/python -m a.b --c=1 ...`, or\n```\npython -m a.c [--d] \\\n    --e="f g"  # h\n```\n'
                    'pip install x && x/python -m a.d\n') == [
        ('a.b', '--c=1'), ('a.c', '--d', '--e=f g'), ('a.d',)]
    assert commands('```\nx/gpt1 openai --a=1\n```\nor `gpt1 predict --b`, and gpt1 is a command\n') == [
        ('gpt1_jax.predict', '--b'), ('gpt1_jax.weights.openai', '--a=1')]


@pytest.mark.parametrize('name', ['gpt1_jax.prepare', 'gpt1_jax.metrics', 'experiments.plots'])
def test_help_shows_the_page_and_the_flags(name):
    done = subprocess.run([sys.executable, '-m', name, '--help'], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ''
    assert docstring(PROGRAMS[name]).strip() in '\n'.join(line.rstrip() for line in done.stdout.splitlines())
    assert {'gpt1_jax.prepare': '--corpus', 'gpt1_jax.metrics': 'predictions', 'experiments.plots': '--out'}[
        name] in done.stdout.split(docstring(PROGRAMS[name])[-40:])[-1]


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


def links(text):
    """The targets of the links and images of a text, with their anchors."""
    return re.findall(r'\]\(([^)\s]+)\)|<img [^>]*src="([^"]+)"|<a [^>]*href="([^"]+)"', prose(text))


def targets(text):
    return [next(filter(None, found)) for found in links(text)]


def anchors(text):
    """The anchors that GitHub gives a page's headings."""
    titles = re.findall(r'^#+ (.*)$', prose(text), re.M)
    return {re.sub(r'[^\w\- ]', '', re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', title).lower()).replace(' ', '-')
            for title in titles}


def test_there_is_a_page_for_each_folder_that_needs_one():
    assert {'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'configs/README.md', 'experiments/README.md',
            'experiments/launch/README.md', 'experiments/benchmarks/README.md', 'gpt1_jax/README.md',
            'gpt1_jax/data/README.md', 'gpt1_jax/evaluation/README.md', 'gpt1_jax/weights/README.md'} <= {*PAGES}


def test_the_front_page_fits_150_lines():
    assert len(page('README.md').splitlines()) <= 150


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


def test_links_and_anchors_of_a_text_are_found():
    text = '# A `b` of C, d\n[x](y.md#z) ![p](q.png)\n<img src="r.png" width="5">\n```\n[no](no.md)\n# no\n```\n'
    assert targets(text) == ['y.md#z', 'q.png', 'r.png']
    assert anchors(text) == {'a-b-of-c-d'}


@pytest.mark.parametrize('name', PAGES)
def test_pages_can_be_reached_from_the_front_page(name):
    seen, waiting = set(), ['README.md']
    while waiting:
        seen.add(here := waiting.pop())
        for target in targets(page(here)):
            file = ((ROOT / here).parent / target.partition('#')[0]).resolve()
            if '://' not in target and file.suffix == '.md' and (found := str(file.relative_to(ROOT))) not in seen:
                waiting.append(found)
    assert name in seen


@pytest.mark.parametrize('name', PAGES)
def test_python_on_a_page_compiles(name):
    for block in re.findall(r'^```python\n(.*?)^```', page(name), re.S | re.M):
        compile(block, name, 'exec')


def described(tree):
    """The Python files that a tree in a block of code names, one a line, by its indentation."""
    found, folders = set(), []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        if name.endswith('/'):
            folders[depth:] = [name.strip('/')]
        else:
            found.add('/'.join((*folders[:depth], name)))
    return found


def test_the_tree_of_the_package_is_the_one_that_there_is():
    tree = re.search(r'```\n(gpt1_jax/\n.*?)```', page('gpt1_jax/README.md'), re.S)[1]
    there = {str(file.relative_to(ROOT)) for file in (ROOT / 'gpt1_jax').rglob('*.py') if file.name != '__init__.py'}
    assert described(tree) == there


def test_the_front_page_names_the_folders_of_the_package():
    linked = {target.rstrip('/') for target in targets(page('README.md'))}
    folders = {str(file.parent.relative_to(ROOT)) for file in (ROOT / 'gpt1_jax').glob('*/__init__.py')}
    assert not {folder for folder in folders if not {folder, f'{folder}/README.md'} & linked}


def test_the_changes_name_modules_that_there_are():
    moved = re.findall(r'^\| `[\w.]+` \| `([\w.]+)` \|$', page('CHANGELOG.md'), re.M)
    assert len(moved) > 60
    for module in moved:
        file = ROOT.joinpath(*module.split('.'))
        assert file.with_suffix('.py').exists() or (file / '__main__.py').exists(), module


def test_files_that_contributing_names_are_there():
    named = re.findall(r'`((?:gpt1_jax|configs|experiments|tests)/[\w./]+)`', page('CONTRIBUTING.md'))
    new = [name for name in named if 'NAME' in name or name == 'configs/mine.py']
    assert len(named) > 15 and new
    assert not [name for name in named if name not in new and not (ROOT / name).exists()]


@pytest.mark.parametrize('row', rows('gpt1_jax/README.md', 'Section by section'), ids=lambda row: row[0])
def test_a_section_s_files_are_about_it_and_its_tests_about_them(row):
    files = [(ROOT / 'gpt1_jax' / link).resolve() for link in targets(row[1])]
    tests = [(ROOT / 'gpt1_jax' / link).resolve() for link in targets(row[2])]
    section, *more = re.split(', | and ', row[0].partition(':')[0].replace('Eqs.', 'Eq.'))  # '3.1', 'Eq. 1'
    tested = [re.findall(r'\w+', test.read_text(encoding='utf-8')) for test in tests]
    for file in files:
        about = docstring(file).replace('Eqs.', 'Eq.')
        assert section in about or any(one in about for one in more), file
        assert any(not words_for(file).isdisjoint(words) for words in tested), file
    for test, words in zip(tests, tested):
        assert any(not words_for(file).isdisjoint(words) for file in files), test


def words_for(file):
    """What a test of a file mentions: its name, or that of a task that it defines."""
    content = file.read_text(encoding='utf-8') if file.parent.name == 'tasks' else ''
    name = file.parent.name if file.stem == '__init__' else file.stem
    return {name} | {task for task in tasks.TASKS if f"'{task}'" in content}


def texts():
    """Every text in the package's source, with … for what is put in."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield ''.join(part.value if isinstance(part, ast.Constant) else '…' for part in node.values)


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
    there = {field for name in ('pretrain', 'finetune', 'custom', 'zero_shot', 'experiments')
             for field in workdir.flatten(load_config(name).to_dict())}
    assert len(named) > 20
    assert not [name for name in named if not any(f'{field}.'.startswith(f'{name}.') for field in there)]


RELEASED = {'train.py', 'opt.py', 'text_utils.py', 'utils.py', 'datasets.py'}  # of openai/finetune-transformer-lm


def notes(file):
    """The docstrings and comments of a Python file."""
    with tokenize.open(file) as lines:
        tokens = list(tokenize.generate_tokens(lines.readline))
    yield from (token.string for token in tokens if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ''


@pytest.mark.parametrize('folder', ['gpt1_jax', 'experiments', 'configs', 'tests'])
def test_files_that_docstrings_and_comments_name_are_there(folder):
    missing = []
    for file in sorted((ROOT / folder).rglob('*.py')):
        bases = (file.parent, ROOT, ROOT / 'gpt1_jax', ROOT / 'experiments', ROOT / 'tests' / 'helpers')
        named = {name for note in notes(file) for name in re.findall(r'(?<![\w/.*])((?:\w+/)*[a-z]\w*\.py)\b', note)}
        missing += [(str(file.relative_to(ROOT)), name) for name in sorted(named - RELEASED)
                    if not any((base / name).exists() for base in bases)]
    assert missing == []


def test_what_notebooks_import_is_there():
    for notebook in sorted((ROOT / 'experiments' / 'notebooks').glob('*.ipynb')):
        cells = json.loads(notebook.read_text(encoding='utf-8'))['cells']
        code = '\n'.join(''.join(cell['source']) for cell in cells if cell['cell_type'] == 'code')
        found = re.findall(r'^\s*from ((?:gpt1_jax|experiments|configs)[\w.]*) import (.*)$', code, re.M)
        for package, names in found:
            folder = ROOT.joinpath(*package.split('.'))
            for name in names.split(', '):
                folder = ROOT / 'configs' if package == 'gpt1_jax.configs' else folder
                there = (folder / f'{name}.py').exists() or (folder / name).is_dir()
                assert there, f'{notebook.name}: {package}.{name}'
