"""Writes decoded text as people do: 'he did n't say " well - known . "' -> 'he didn't say
"well-known."'.

Not in the paper. Removes the spaces that text.standardize and spaCy added, if the punctuation shows
on which side. Words stay lower-case. A hyphen and a dash are the same token. Between words this
token becomes a hyphen, which is three times as frequent in novels.
"""

import re

LEFT = {*'.,;:!?%)]}', '...', "n't", "'s", "'m", "'d", "'ll", "'re", "'ve"}  # no space before these
RIGHT = {*'([{$£#'}  # nor after these
QUOTES = {'"', "'"}
CONTROL = re.compile(r'[\x00-\x08\x0b-\x1f\x7f]')  # a model that is hardly trained may write these
THOUSANDS = re.compile(r'(?<![\d,])\d{1,3}(,\d{3})*,$')


def readable(text: str) -> str:
    """Writes text from Tokenizer.decode as people do.

    If `text` is the beginning of a text, cut after a word, the result is the beginning of the whole
    result. So words can be shown as they are generated. Control characters become U+FFFD.
    """
    text = CONTROL.sub('\ufffd', text)
    return '\n'.join(_line(line.split(' ')) for line in text.split('\n'))


def continued(prompt: str, text: str) -> str:
    """Writes a prompt and the text generated after it, both from Tokenizer.decode, as people do."""
    return readable(prompt + ('' if text.startswith('\n') or not text else ' ') + text)


def _line(words):
    # Glued: no space before the next word
    line = ''
    glued = True
    open_quotes = set()
    for word in words:
        closes = word in open_quotes
        thousands = re.fullmatch(r'\d{3}', word) and THOUSANDS.search(line)
        between = word == '/' or word == '-' and line[-1:].isalnum()
        left = glued or word in LEFT or closes or between or thousands
        line += word if left else f' {word}'
        glued = word in RIGHT or between or word in QUOTES and not closes
        if word in QUOTES:
            open_quotes ^= {word}
    return line
