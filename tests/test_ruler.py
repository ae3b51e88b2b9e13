"""The size and the density of the code may not grow unnoticed: each folder has ceilings for its
tokens and its habits.

Tokens are counted, not lines, so that a packed line gains nothing.
"""

import ast
import collections
import io
import sys
import tokenize

import pytest

from tiny import ROOT

# A ceiling may only be lowered, and the least share of comments only raised. A ceiling of tokens is
# raised only in a commit that lowers another by as much: a feature pays with another's tokens.
# long: lines of more than 100 characters, in percent. ternary: `a if b else c`, and packed:
# `a, b = c, d`, per 1,000 lines of code. comments: lines that are a comment, at least, in percent of
# the lines of code.
CEILINGS = {
    'gpt1_jax': {'tokens': 140_800, 'long': 0.1, 'ternary': 23.5, 'packed': 0.4, 'comments': 2.9},
    'experiments': {'tokens': 49_850, 'long': 0.1, 'ternary': 29, 'packed': 0.9, 'comments': 1.4},
    'configs': {'tokens': 6_100, 'long': 0.1, 'ternary': 1.2, 'packed': 0.0, 'comments': 15.9},
    'tests': {'tokens': 186_700, 'long': 0.4, 'ternary': 7.1, 'packed': 0.9, 'comments': 1.3},
}
# Last raised: the package by 300, for certificates that are scored on unseen text, which experiments
# paid with 5,400.

# Of these, formatting and comments make as many as they like.
UNCOUNTED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
LONGEST = 100
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def counts(source):
    """Counts a source file's lines, code (lines of code), tokens, long, comments, ternary and
    packed."""
    tree = ast.parse(source)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    docstrings = docstring_lines(tree)
    comments = {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith('#')
    }
    found = collections.Counter(comments=len(comments))
    for number, line in enumerate(source.splitlines(), 1):
        found['lines'] += 1
        found['long'] += len(line) > LONGEST
        found['code'] += bool(line.strip()) and number not in docstrings | comments
    for token in tokens:
        found['tokens'] += token.type not in UNCOUNTED and token.start[0] not in docstrings
    for node in ast.walk(tree):
        found['ternary'] += isinstance(node, ast.IfExp)
        found['packed'] += is_packed(node)
    return found


def docstring_lines(tree):
    """The numbers of the lines that belong to docstrings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            found |= {*range(text.lineno, text.end_lineno + 1)}
    return found


def is_packed(node):
    """Whether a node is an assignment of a written tuple to a written tuple: a, b = c, d."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
    )


def measured(folder):
    """The figures of a folder, with the names of CEILINGS."""
    total = collections.Counter()
    for file in (ROOT / folder).rglob('*.py'):
        total += counts(file.read_text(encoding='utf-8'))
    return {
        'tokens': total['tokens'],
        'long': 100 * total['long'] / total['lines'],
        'ternary': 1000 * total['ternary'] / total['code'],
        'packed': 1000 * total['packed'] / total['code'],
        'comments': 100 * total['comments'] / total['code'],
    }


@pytest.mark.skipif(sys.version_info >= (3, 12), reason='divides f-strings into several tokens')
@pytest.mark.parametrize('folder', CEILINGS)
def test_the_code_of_a_folder_does_not_grow_denser(folder):
    found = measured(folder)
    limits = CEILINGS[folder]
    assert found['comments'] >= limits['comments'], (
        f'{folder}: fewer comments than there were, see CEILINGS'
    )
    for name in limits.keys() - {'comments'}:
        assert found[name] <= limits[name], f'{folder}: more {name} than there were, see CEILINGS'


def test_what_is_counted():
    source = (
        '"""A docstring\n'
        'of two lines."""\n'
        '# A comment.\n'
        '\n'
        'a, b = 1, 2  # seven tokens\n'
        f'c = "{"x" * LONGEST}"\n'
        'a, b = (c if b\n'
        '        else d)\n'
    )
    assert counts(source) == {
        'lines': 8,
        'code': 4,
        'tokens': 7 + 3 + 11,
        'long': 1,
        'comments': 1,
        'ternary': 1,
        'packed': 1,
    }
