"""The Markdown pages (but reports that a program wrote), and the Python files with their
docstrings."""

import ast
import tokenize

from tiny import ROOT


def docstring(file):
    return ast.get_docstring(ast.parse(file.read_text(encoding='utf-8'))) or ''


def comments(file):
    """[(line number, comment)]."""
    with tokenize.open(file) as lines:
        return [
            (token.start[0], token.string)
            for token in tokenize.generate_tokens(lines.readline)
            if token.type == tokenize.COMMENT
        ]


PAGES = sorted(
    str(file.relative_to(ROOT))
    for file in (
        *ROOT.glob('*.md'),
        *(
            page
            for folder in ('gpt1_jax', 'configs', 'docs', 'experiments', 'tests')
            for page in (ROOT / folder).rglob('*.md')
        ),
    )
    if file.name == 'README.md' or not {'results', 'fixtures'} & set(file.relative_to(ROOT).parts)
)
FILES = sorted(
    file
    for folder in ('gpt1_jax', 'experiments', 'configs')
    for file in (ROOT / folder).rglob('*.py')
)
