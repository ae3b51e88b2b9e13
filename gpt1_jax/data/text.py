"""Section 4.1: the text clean-up: "the ftfy library to clean the raw text, standardize some punctuation and
whitespace, and use the spaCy tokenizer".

    text -> ftfy.fix_text -> standardize -> spaCy's blank English tokenizer -> lower-case, word by word

The order and every regular expression are those of the released code (text_utils.py). Importing this file is cheap:
ftfy and spaCy are imported on first use.
"""
import functools
import re
from collections.abc import Iterator

# The word that spaCy makes of a line break after `standardize`; the only word that holds white space.
NEWLINE = '\n '

# Released code: text is a non-raw string there, so its `\\+` is a second `\+`: backslashes are *not* split off.
_RUNS = re.compile(r'(-+|~+|!+|"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|}+|{+|\|+|_+)')
_LINE_BREAKS = re.compile(r'\s*\n\s*')
_SPACES = re.compile(r'[^\S\n]+')
_REPLACED = str.maketrans({'—': '-', '–': '-', '―': '-', '…': '...', '´': "'"})

# spaCy remembers every word it ever saw; past this many a process starts again with an empty memory.
_LEXEMES_KEPT = 500_000


def standardize(text: str) -> str:
    """Unifies dashes, ellipses and white space, and sets punctuation off by spaces.

    'Yes—no,  maybe' -> 'Yes - no , maybe'; 'a\\n\\n b' -> 'a \\n b'. Any Unicode white space but a line break becomes
    one space, and no white space is left at either end.
    """
    text = text.translate(_REPLACED)
    text = _RUNS.sub(r' \1 ', text)
    text = _LINE_BREAKS.sub(' \n ', text)
    text = _SPACES.sub(' ', text)
    return text.strip()


def lines(text: str, unescape_html: str | bool = 'auto') -> Iterator[list[str]]:
    """The words of `text`, lower-cased, one non-empty list per non-blank line.

    Tokenising line by line gives the words that tokenising the whole text would give: after `standardize` a line break
    is ' \\n ', spaCy makes the one word '\\n ' of it, and no rule of its English tokenizer spans such a word. It is
    faster, and spaCy's limit of 1,000,000 characters (a limit of its pipeline, which is not used) never applies.

    `unescape_html` is ftfy's; False carries its decision over from an earlier part of the same text (see `parts`).
    """
    import ftfy
    fixed = ftfy.fix_text(text, unescape_html=unescape_html)
    tokenize = _english().tokenizer
    for line in standardize(fixed).split(' \n '):
        if line:
            yield [word.text.lower() for word in tokenize(line)]


def words(text: str) -> list[str]:
    """The words of `text` with `NEWLINE` between its lines: what the released code feeds to its BPE. [] for blank text.

    'Hello, world!\\nBye' -> ['hello', ',', 'world', '!', '\\n ', 'bye']
    """
    result = []
    for line in lines(text):
        if result:
            result.append(NEWLINE)
        result.extend(line)
    return result


def parts(text: str, size: int) -> Iterator[tuple[str, str | bool]]:
    """Cuts a long text after line breaks into parts of about `size` characters: (part, unescape_html for `lines`).

    The lines of the parts, one after the other, are the lines of the text. ftfy works line by line but for one thing:
    once it has seen a '<' it takes the rest for HTML and leaves entities alone, so that decision is handed on.
    """
    start, unescape = 0, 'auto'
    while start < len(text):
        end = len(text)
        if end - start > size:
            end = (text.rfind('\n', start, start + size) + 1) or (text.find('\n', start + size) + 1) or end
        part = text[start:end]
        yield part, unescape
        if '<' in part:
            unescape = False
        start = end


def _english():
    """spaCy's blank English pipeline: its tokenizer, nothing else."""
    nlp = _new_english()
    if len(nlp.vocab) > _LEXEMES_KEPT:
        _new_english.cache_clear()
        nlp = _new_english()
    return nlp


@functools.cache
def _new_english():
    import spacy
    nlp = spacy.blank('en')
    # Only the split is wanted, not what a word looks like (shape, stop word, url...): a new word then costs less.
    nlp.vocab.lex_attr_getters = {}
    return nlp
