"""Splits a long word as spaCy's tokenizer does, in time proportional to its length.

spaCy takes one prefix and one suffix at a time from a word, and each time searches all of the rest:
20,000 quotation marks take half a minute. Apart from runs of full stops, every prefix and every
suffix is short, so a few characters at each end are enough to find it:

    ''word''_  ->  '  'word''  _  ->  '  '  word'  '  _  ->  '  '  word  '  '  _
"""

import re

LONG = 64  # the most characters of a short word. No rule of spaCy is as long
_WINDOW = 16
_EMPTY = re.compile('')


def linear(tokenizer, in_lines=True):
    """Returns a tokenizer that splits text as spaCy's `tokenizer` does.

    `tokenizer` must be unchanged and have no token_match. In a long word the new tokenizer's
    functions find no prefix, no suffix and no URL, and an empty infix at each place at which a
    token begins. So spaCy still looks for its rules among the tokens of a whole line, unless
    in_lines is False.
    """
    from spacy.tokenizer import Tokenizer

    # "Any characters, perhaps : and any characters, @" matches the same as "any characters, @",
    # which is found sooner.
    url = tokenizer.url_match.__self__.pattern.replace(r'(?::\S*)?@', '@')
    url_match = re.compile(url).match

    # spaCy looks in lines for the rules in which it found an affix when the tokenizer was made
    searches = in_lines

    def if_short(function):
        return lambda word: function(word) if len(word) <= LONG and searches else None

    def infixes(word):
        if not searches:
            return []
        if len(word) <= LONG:
            return tokenizer.infix_finditer(word)
        return [_EMPTY.match(word, place) for place in places(tokenizer, url_match, word)]

    made = Tokenizer(
        tokenizer.vocab,
        tokenizer.rules,
        if_short(tokenizer.prefix_search),
        if_short(tokenizer.suffix_search),
        infixes,
        url_match=if_short(url_match),
    )
    searches = True
    return made


def places(tokenizer, url_match, word: str) -> list[int]:
    """The places inside `word`, which has no white space, at which spaCy begins a token."""
    from spacy.attrs import ORTH

    found = {0}
    start = 0
    end = len(word)

    def rule(start, end):
        return end - start <= LONG and tokenizer.rules.get(word[start:end])

    # As in spaCy, the search ends if the rest has a rule, also after only a prefix or a suffix.
    while not rule(start, end):
        prefix = _affix(tokenizer.prefix_search, word, start, end, at_end=False)
        suffix = _affix(tokenizer.suffix_search, word, start + prefix, end, at_end=True)
        if rule(start + prefix, end):
            suffix = 0
        elif rule(start, end - suffix):
            prefix = 0
        if not prefix and not suffix:
            break
        start += prefix
        end -= suffix
        found |= {start, end}
    rest = word[start:end]
    if rule(start, end):
        for token in rule(start, end):
            found.add(start)
            start += len(token[ORTH])
    elif not url_match(rest):
        for infix in tokenizer.infix_finditer(rest):
            # spaCy leaves an infix at the beginning of the rest in its word.
            if infix.start():
                found |= {start + infix.start(), start + infix.end()}
    return sorted(found - {0, len(word)})


def _affix(search, word, start, end, at_end):
    """The length of the prefix or suffix that `search` finds in word[start:end], or 0."""
    size = _WINDOW
    while True:
        if at_end:
            window = word[max(start, end - size) : end]
        else:
            window = word[start : min(end, start + size)]
        found = search(window)
        length = len(found[0]) if found else 0
        # A run of full stops that fills the window may be longer.
        if length < len(window) or size >= end - start:
            return length
        size *= 2
