"""Decoded text as people write it: 'he did n't say " well - known . "' -> 'he didn't say
"well-known."'.

Not in the paper. Undoes the spaces of text.standardize and of spaCy where punctuation shows on
which side they were added. Words stay lower-case. A hyphen and a dash are the same token; between
words it is read as a hyphen, which is three times as frequent in novels.
"""

import re

LEFT = {*'.,;:!?%)]}', '...', "n't", "'s", "'m", "'d", "'ll", "'re", "'ve"}  # no space before these
RIGHT = {*'([{$£#'}  # nor after these
QUOTES = {'"', "'"}
CONTROL = re.compile(r'[\x00-\x08\x0b-\x1f\x7f]')  # bytes that a model hardly trained yet may write
THOUSANDS = re.compile(r'(?<![\d,])\d{1,3}(,\d{3})*,$')


def readable(text: str) -> str:
    """Text of Tokenizer.decode as people write it. Where `text` is cut after a word, the result is
    a prefix of that of the whole text, so words can be shown as they are generated. Control
    characters become U+FFFD."""
    text = CONTROL.sub('\ufffd', text)
    return '\n'.join(_line(line.split(' ')) for line in text.split('\n'))


def continued(prompt: str, text: str) -> str:
    """A prompt and the text generated after it, both of Tokenizer.decode, as people write them."""
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
