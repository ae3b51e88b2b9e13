"""Section 4.1: text to words: "the ftfy library to clean the raw text, standardize some punctuation
and whitespace, and use the spaCy tokenizer".

    text -> ftfy.fix_text -> standardize -> spaCy's blank English tokenizer -> lower-case, word by
    word

The order and all regular expressions are those of the released code (text_utils.py). ftfy and spaCy
are imported for
the first text that needs them: a plain prompt does not.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpt1_jax.data.long_words import linear

# Released code: text is a non-raw string there, so its `\\+` is a second `\+`: backslashes are
# *not* separated.
_RUNS = re.compile(r'(-+|~+|!+|"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|}+|{+|\|+|_+)')
_LINE_BREAKS = re.compile(r'\s*\n\s*')
_SPACES = re.compile(r'[^\S\n]+')
_REPLACED = str.maketrans({'—': '-', '–': '-', '―': '-', '…': '...', '´': "'"})

# Where a very long line may be cut, best places first: between two plain words, between any two
# words, inside a word. What follows a cut begins with a letter or digit, so it is never blank.
_CUTS = (
    re.compile(r'(?<=[a-z]{2} )(?=[a-z]{2})'),
    re.compile(r'(?<=[\w.,;:!?][ \t])(?=[^\W_])'),
    re.compile(r'(?<=[^\W_])(?=[^\W_])'),
)

# Text of these characters is no work for ftfy; if it has none of SPECIAL, spaCy only splits off
# full stops.
_PLAIN = re.compile('[A-Za-z ,;!?.\n]+')
_PLAIN_WORD = re.compile('[A-Za-z]+|[A-Za-z]*[a-z][.]|[,;!?]')
# The words of letters, with or without a full stop, for which spaCy's English tokenizer has a rule,
# in lower case.
SPECIAL = frozenset(
    """
a. adm. aint ak. ala. apr. arent ariz. ark. aug. b. bros. c. calif. cannot cant cantve co. colo.
conn. corp. couldnt couldntve couldve d. darent dec. del. didnt didntve doesnt doesntve doin dont
dontve dr. e. em f. feb. fla. g. ga. gen. goin gonna gotta gov. h. hadnt hadntve hasnt havent
havin hed hedve hellve hes howd howdve howll howllve howre hows howve i. ia. id id. idve ill.
illve im ima inc. ind. isnt itd itdve itll itllve ive j. jan. jr. jul. jun. k. kan. kans. ky. l.
la. ll lovin ltd. m. mar. mass. maynt mayntve md. messrs. mich. mightnt mightntve mightve minn.
miss. mo. mont. mr. mrs. ms. mt. mustnt mustntve mustve n. neb. nebr. neednt needntve nev. nothin
notve nov. nuff nuthin o. oct. okla. ol ore. oughtnt oughtntve p. pa. prof. q. r. rep. rev. s.
sen. sep. sept. shant shantve shedve shellve shes shouldnt shouldntve shouldve somethin st. t.
tenn. thatd thatdve thatll thatllve thats thered theredve therell therellve therere theres thereve
thesed thesedve thesell thesellve thesere theseve theyd theydve theyll theyllve theyre theyve
thisd thisdve thisll thisllve thiss thosed thosedve thosell thosellve thosere thoseve u. v. va.
vs. w. wash. wasnt wed wedve wellve werent weve whatd whatdve whatll whatllve whatre whats whatve
whend whendve whenll whenllve whenre whens whenve whered wheredve wherell wherellve wherere wheres
whereve whod whodve wholl whollve whos whove whyd whydve whyll whyllve whyre whys whyve wis. wont
wontve wouldnt wouldntve wouldve x. xd xdd y. yall youd youdve youll youllve youre youve z.
""".split()
)

# spaCy's vocabulary keeps every word it has seen; past this many it is replaced by an empty one.
_LEXEMES_KEPT = 500_000


def standardize(text: str) -> str:
    """Unifies dashes, ellipses and white space, and puts spaces around punctuation.

    'Yes—no,  maybe' -> 'Yes - no , maybe'; 'a\\n\\n b' -> 'a \\n b'. Any Unicode white space but
    a line break becomes one space; white space at both ends is stripped.
    """
    text = text.translate(_REPLACED)
    text = _RUNS.sub(r' \1 ', text)
    # The released code mends line breaks first, and then scans each run of spaces many times.
    text = _SPACES.sub(' ', text)
    text = _LINE_BREAKS.sub(' \n ', text)
    return text.strip()


def lines(text: str, unescape_html: str | bool = 'auto') -> Iterator[list[str]]:
    """The words of `text`, lower-cased, one list per non-blank line: 'Hello!\\nBye' -> ['hello',
    '!'], ['bye'].

    Line by line gives the words of the whole text: no rule of spaCy's English tokenizer spans the
    one word that it makes of a line break. `unescape_html` is ftfy's; False: as an earlier part
    decided (see `parts`).
    """
    plain = _plain_lines(text)
    if plain is not None:
        yield from plain
        return
    import ftfy

    fixed = ftfy.fix_text(text, unescape_html=unescape_html)
    tokenize = _english().tokenizer
    for line in standardize(fixed).split(' \n '):
        if line:
            yield [word.text.lower() for word in tokenize(line)]


def _plain_lines(text):
    """`lines` without ftfy and spaCy, which take seconds to import; None for a text that may need
    them."""
    if not _PLAIN.fullmatch(text):
        return None
    found = []
    for line in standardize(text).split(' \n '):
        if not all(map(_PLAIN_WORD.fullmatch, line.split(' '))):
            return None
        words = line.lower().replace('.', ' .').split(' ')
        if not SPECIAL.isdisjoint(words) or not SPECIAL.isdisjoint(line.lower().split(' ')):
            return None
        found.append(words)
    return found


class Part(NamedTuple):
    """A part of a text. unescape_html: for `lines`. goes_on: whether its last line continues in the
    next part."""

    text: str
    unescape_html: str | bool = 'auto'
    goes_on: bool = False


def parts(text: str, size: int) -> Iterator[Part]:
    """Cuts a long text into parts of about `size` characters: after line breaks, and lines of more
    than 4 * size characters also between words, so that memory does not grow with a line.

    The lines of the parts, one after the other, are the lines of the text. ftfy works line by line,
    but after a '<' it takes the line and the rest for HTML and leaves entities alone, so that
    decision is passed on. A cut changes words only where ftfy mends a wrong encoding across it, and
    where a word is longer than half a part.
    """
    start = 0
    unescape: str | bool = 'auto'
    while start < len(text):
        end = len(text)
        if end - start > size:
            end = (
                (text.rfind('\n', start, start + size) + 1)
                or (text.find('\n', start + size) + 1)
                or end
            )
        markup = text.find('<', start, end) >= 0
        long = end - start > 4 * size
        if markup and long:  # its later parts come after the '<'
            unescape = False
        while start < end:
            cut = _cut(text, start + max(1, size // 2), end, size) if long else end
            yield Part(text[start:cut], unescape, goes_on=cut < end)
            start = cut
        if markup:
            unescape = False


def _cut(text, start, end, size):
    """Where the line that ends at `end` is best cut after `start`: in the next size // 2
    characters, if it can be."""
    while end - start > size:
        # All kinds of places are looked for in these characters before the next ones are tried, so
        # a part stays short.
        limit = start + max(1, size // 2)
        for pattern in _CUTS:
            # The patterns also look at the two characters after a place.
            found = pattern.search(text, start, min(limit + 2, end))
            if found:
                return found.start()
        start = limit
    return end


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
    # Only the split is wanted, not what a word looks like (shape, stop word, url...): a new word
    # then costs less.
    nlp.vocab.lex_attr_getters = {}
    nlp.tokenizer = linear(nlp.tokenizer)
    return nlp
