"""Markdown tables, lists and sections, as lists of lines."""

import pathlib
from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence]) -> list[str]:
    """Returns the lines of a Markdown table. Every column but the first is right-aligned."""
    rule = ['---', *['---:'] * (len(columns) - 1)]
    cells = [[str(cell).replace('|', '\\|') for cell in row] for row in (columns, rule, *rows)]
    return [*('| ' + ' | '.join(row) + ' |' for row in cells), '']


def bullets(lines: Sequence[str]) -> list[str]:
    return [f'* {line}' for line in lines] + ([''] if lines else [])


def included(path: pathlib.Path) -> list[str]:
    """Returns another Markdown report as a section, with its headings one level down. [] without a
    file."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding='utf-8').splitlines():
        if line.startswith(('# ', '## ')):
            line = line.replace('# ', '## ', 1)
        lines.append(line)
    return [*lines, '']
