"""Every command in the README and on a program's own page (its docstring, which --help shows) can be given as it
stands: the program, the config, its fields, the flags and their values are there."""
import argparse
import ast
import re
import runpy
import shlex
import subprocess
import sys

import pytest
from absl import flags
from tiny import ROOT, load_config

from gpt1_jax import cli, rules, workdir
from gpt1_jax.data import tasks

sys.path.insert(0, str(ROOT))


pytestmark = pytest.mark.filterwarnings('ignore:.*found in sys.modules after import', 'ignore:the load_module')


class Parsed(Exception):
    """Raised in place of doing what was asked."""


def docstring(file):
    return ast.get_docstring(ast.parse(file.read_text(encoding='utf-8'))) or ''


FILES = sorted(file for folder in ('gpt1_jax', 'experiments', 'configs') for file in (ROOT / folder).rglob('*.py'))
PROGRAMS = {'.'.join(file.relative_to(ROOT).with_suffix('').parts): file for file in FILES
            if re.search(r"^if __name__ == '__main__':", file.read_text(encoding='utf-8'), re.M)}


def commands(text):
    """The commands in a text, each from `python -m` to the end of its line, of its lines where they end with a
    backslash, or of its code span; [in brackets] what may be left out, ... for more of the kind."""
    text = re.sub(r'\\\n\s*', '', text)
    spans = re.findall(r'`([^`]*)`', re.sub(r'```.*?```', '', text, flags=re.S))
    lines = [line for line in text.splitlines() if re.match(r'\s*([^`]* && )?(\S*/)?python -m [^`]*$', line)]
    found = [re.split(r'python -m ', part)[1] for one in (*spans, *lines) for part in re.split(' && ', one)
             if 'python -m ' in part]
    words = [[word.strip('[]') for word in shlex.split(one, comments=True)] for one in found]
    return sorted({tuple(word for word in one if word != '...') for one in words} - {('pytest',)})


def parse(name, *arguments):
    """Have a program read its command line, and do nothing. Its complaint is an exception."""
    def absl(main, define_flags):
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


@pytest.mark.parametrize('name', ['README.md', *(str(file.relative_to(ROOT)) for file in FILES)])
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


@pytest.mark.parametrize('name', ['gpt1_jax.prepare', 'gpt1_jax.metrics', 'experiments.plots'])
def test_help_shows_the_page_and_the_flags(name):
    done = subprocess.run([sys.executable, '-m', name, '--help'], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ''
    assert docstring(PROGRAMS[name]).strip() in '\n'.join(line.rstrip() for line in done.stdout.splitlines())
    assert {'gpt1_jax.prepare': '--corpus', 'gpt1_jax.metrics': 'predictions', 'experiments.plots': '--out'}[
        name] in done.stdout.split(docstring(PROGRAMS[name])[-40:])[-1]


README = (ROOT / 'README.md').read_text(encoding='utf-8')


def rows(title):
    """The rows of the table under a heading of the README, each a list of its cells."""
    section = README.split(f'\n## {title}\n')[1].split('\n## ')[0]
    table = [line for line in section.splitlines() if line.startswith('| ')]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in table[1:]]


def links(text):
    return re.findall(r'\]\(([^)#]+)\)', text)


def test_what_the_readme_links_to_is_there():
    here = [link for link in links(README) if '://' not in link]
    assert len(here) > 60
    assert not [link for link in here if not (ROOT / link).exists()]


@pytest.mark.parametrize('row', rows('Section by section'), ids=lambda row: row[0])
def test_a_section_s_files_are_about_it_and_its_tests_about_them(row):
    files, tests = ([ROOT / link for link in links(cell)] for cell in row[1:])
    section, *more = re.split(', | and ', row[0].partition(':')[0].replace('Eqs.', 'Eq.'))  # '3.1', 'Eq. 1'
    tested = [re.findall(r'\w+', test.read_text(encoding='utf-8')) for test in tests]
    for file in files:
        page = docstring(file).replace('Eqs.', 'Eq.')
        assert section in page or any(one in page for one in more), file
        assert any(not words_for(file).isdisjoint(words) for words in tested), file
    for test, words in zip(tests, tested):
        assert any(not words_for(file).isdisjoint(words) for file in files), test


def words_for(file):
    """What a test of a file mentions: its name, or that of a task that it defines."""
    content = file.read_text(encoding='utf-8') if file.parent.name == 'tasks' else ''
    return {file.stem} | {name for name in tasks.TASKS if f"'{name}'" in content}


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
    found = [quoted for row in rows('When something goes wrong') for quoted in re.findall('`([^`]+)`', row[0])]
    assert len(found) > 9
    for quoted in found:
        for piece in filter(None, (piece.strip() for piece in quoted.split('…'))):
            assert piece in source, piece


def test_the_fields_that_the_readme_names_are_a_config_s():
    named = set(re.findall(r'--config\.([a-z_.]+)', README))
    there = {field for name in ('pretrain', 'finetune', 'custom', 'zero_shot', 'experiments')
             for field in workdir.flatten(load_config(name).to_dict())}
    assert len(named) > 20
    assert not [name for name in named if not any(f'{field}.'.startswith(f'{name}.') for field in there)]
