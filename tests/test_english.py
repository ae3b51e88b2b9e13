"""Phrases that the pages, docstrings, comments and messages avoid, each with what to write instead."""
import ast
import re
import tokenize

import pytest

from pages import FILES, PAGES
from tiny import ROOT

INSTEAD = {
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


def texts(file):
    """(line number, text) of a Python file's strings, docstrings included, and comments, or of a page's lines."""
    if file.suffix == '.md':
        yield from enumerate(file.read_text(encoding='utf-8').splitlines(), 1)
        return
    source = file.read_text(encoding='utf-8')
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 2:
            yield node.lineno, ' '.join(node.value.split())
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def offences(file):
    return [f'{file.relative_to(ROOT)}:{number}: {match[0]!r}: write {instead}'
            for number, text in texts(file) for phrase, instead in INSTEAD.items()
            if (match := re.search(phrase, text))]


@pytest.mark.parametrize('file', [*FILES, *(ROOT / page for page in PAGES)], ids=lambda f: str(f.relative_to(ROOT)))
def test_the_text_avoids_the_phrases(file):
    assert not offences(file)


def test_an_offence_is_found_and_named(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), 'ROOT', tmp_path)
    (tmp_path / 'a.py').write_text('"""It goes on."""\nx = 1  # read, too\n')
    assert [line.split(': ')[:2] for line in offences(tmp_path / 'a.py')] == [
        ['a.py:1', "'goes on'"], ['a.py:2', "', too'"]]
