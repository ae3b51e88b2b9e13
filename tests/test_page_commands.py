"""Commands on the pages and in the programs' docstrings (which --help shows) can be given as they
stand."""

import argparse
import re
import runpy
import shlex
import sys

import pytest
from absl import flags

from gpt1_jax import __main__ as gpt1
from gpt1_jax import cli, rules, startup
from pages import FILES, PAGES, docstring
from tiny import ROOT, python

pytestmark = pytest.mark.filterwarnings(
    'ignore:.*found in sys.modules after import', 'ignore:the load_module'
)


class Parsed(Exception):
    """Raised after parsing, in place of the work."""


PROGRAMS = {
    '.'.join(file.relative_to(ROOT).with_suffix('').parts).removesuffix('.__main__'): file
    for file in FILES
    if re.search(r"^if __name__ == '__main__':", file.read_text(encoding='utf-8'), re.M)
}
FOREIGN = 'pytest', 'tarfile', 'venv'  # modules of others
COMMANDS = runpy.run_path(str(ROOT / 'gpt1_jax' / '__main__.py'))['PROGRAMS']


def commands(text):
    """Finds the commands in a text, each from `python -m` to the end of its line or code span.

    A backslash at the end continues a line, and ` >` ends a command. [Words in brackets] are
    optional, ... stands for more of the kind. `gpt1 PROGRAM` is `python -m gpt1_jax.PROGRAM`.
    """
    text = re.sub(r'\\\n\s*', '', text)
    text = re.sub(
        r'((?:^|&&|`) *)(?:\S*/)?gpt1 ([a-z]\w*)',
        lambda found: f'{found[1]}python -m gpt1_jax.{COMMANDS.get(found[2], found[2])}',
        text,
        flags=re.M,
    )
    spans = re.findall(r'`([^`]*)`', re.sub(r'```.*?```', '', text, flags=re.S))
    lines = [
        line
        for line in text.splitlines()
        if re.match(
            r'\s*([^`]* && )?(timeout \d+ )?(\S*/)?python3? -m '
            r'[^`]*$',
            line,
        )
    ]
    found = [
        re.split(r'python3? -m | >', part)[1]
        for one in (*spans, *lines)
        for part in re.split(' && ', one)
        if re.search('python3? -m ', part)
    ]
    words = [[word.strip('[]') for word in shlex.split(one, comments=True)] for one in found]
    return sorted(
        {tuple(word for word in one if word != '...') for one in words if one[0] not in FOREIGN}
    )


def parse(name, *arguments):
    """Have a program read its command line, and do nothing. Its complaint is an exception."""

    def absl(main, define_flags, **how):
        before = set(flags.FLAGS)
        try:
            flags.DEFINE_bool('trust_code', False, '')
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
        # Signals stay this process's
        patch.setattr(startup, 'before_imports', lambda program: None)
        patch.setattr(argparse.ArgumentParser, 'parse_args', standard)
        patch.setattr(sys, 'argv', [name, *arguments])
        patch.chdir(ROOT)
        with pytest.raises(Parsed) as done:
            runpy.run_module(name, run_name='__main__')
    positional, found = done.value.args
    assert not positional, f'{positional} are no options'
    if name == 'experiments.launch.local':
        parse(f'gpt1_jax.{gpt1.PROGRAMS[found.module]}', *found.options)


@pytest.mark.parametrize('name', PROGRAMS)
def test_a_program_s_page_has_an_example_of_it(name):
    assert [one for one in commands(docstring(PROGRAMS[name])) if one[0] == name]


@pytest.mark.parametrize('name', [*PAGES, *(str(file.relative_to(ROOT)) for file in FILES)])
def test_commands_can_be_given_as_they_stand(name):
    file = ROOT / name
    for module, *arguments in commands(
        file.read_text() if name.endswith('.md') else docstring(file)
    ):
        if module == 'gpt1_jax.help':
            assert {*arguments} <= {*gpt1.PAGES}
            continue
        assert module in PROGRAMS, module
        if arguments not in ([], ['--help']):  # its name alone
            parse(module, *arguments)


@pytest.mark.parametrize(
    'name, flag',
    [('gpt1_jax.pretraining', '--config: A config by its name'), ('experiments.plots', '--out')],
)
def test_help_shows_the_page_and_the_flags(name, flag):
    done = python('-m', name, '--help', check=0)
    shown = '\n'.join(line.rstrip() for line in done.stdout.splitlines())
    page = docstring(PROGRAMS[name]).strip()
    assert page in shown and flag in shown.split(page)[1]
    assert 'configs/pretrain.py' not in shown  # a path that users of the wheel do not have
