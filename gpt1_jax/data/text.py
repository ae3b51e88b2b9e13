"""Section 4.1: splits text into words: "the ftfy library to clean the raw text, standardize some
punctuation and whitespace, and use the spaCy tokenizer".

    text -> ftfy.fix_text -> standardize -> spaCy's blank English tokenizer -> lower-case, word by
    word

The order and all regular expressions come from the released code (text_utils.py). ftfy and spaCy
are imported for the first text that needs them. A plain prompt does not.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpt1_jax.data.long_words import linear

# The released code has this pattern in a non-raw string, so its `\\+` is a second `\+`: backslashes
# are *not* separated.
_RUNS = re.compile(r'(-+|~+|!+|"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|}+|{+|\|+|_+)')
_LINE_BREAKS = re.compile(r'\s*\n\s*')
_SPACES = re.compile(r'[^\S\n]+')
_REPLACED = str.maketrans({'—': '-', '–': '-', '―': '-', '…': '...', '´': "'"})

# The places at which a very long line may be cut, best first: between two plain words, between any
# two words, inside a word. The text after a cut begins with a letter or digit, so it is not blank.
_CUTS = (
    re.compile(r'(?<=[a-z]{2} )(?=[a-z]{2})'),
    re.compile(r'(?<=[\w.,;:!?][ \t])(?=[^\W_])'),
    re.compile(r'(?<=[^\W_])(?=[^\W_])'),
)

# ftfy does not change text of these characters. If the text has none of SPECIAL, spaCy only splits
# off full stops.
_PLAIN = re.compile('[A-Za-z ,;!?.\n]+')
_PLAIN_WORD = re.compile('[A-Za-z]+|[A-Za-z]*[a-z][.]|[,;!?]')
# The words of letters, with or without a full stop, for which spaCy's English tokenizer has a
# rule, in lower case.
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

# spaCy's vocabulary keeps every word it has seen. Above this size it is replaced by an empty one.
_LEXEMES_KEPT = 500_000


def standardize(text: str) -> str:
    """Unifies dashes, ellipses and white space, and puts spaces around punctuation.

    'Yes—no,  maybe' -> 'Yes - no , maybe'; 'a\\n\\n b' -> 'a \\n b'. Any Unicode white space but
    a line break becomes one space. White space at both ends is stripped.
    """
    text = text.translate(_REPLACED)
    text = _RUNS.sub(r' \1 ', text)
    # The released code mends line breaks first, and then scans each run of spaces many times.
    text = _SPACES.sub(' ', text)
    text = _LINE_BREAKS.sub(' \n ', text)
    return text.strip()


def lines(text: str, unescape_html: str | bool = 'auto') -> Iterator[list[str]]:
    """Yields the words of `text`, lower-cased, one list for each non-blank line.

    'Hello!\\nBye' -> ['hello', '!'], ['bye']. spaCy makes a word of a line break, and none of its
    rules for English spans that word, so the lines have the words of the whole text.
    unescape_html: ftfy's option. False means that an earlier part of the text looked like HTML (see
    `parts`).
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
    """`lines` without ftfy and spaCy, or None if the text may need them.

    Importing ftfy and spaCy takes seconds.
    """
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
    """A part of a text.

    unescape_html: for `lines`. goes_on: whether the last line continues in the next part.
    """

    text: str
    unescape_html: str | bool = 'auto'
    goes_on: bool = False


def parts(text: str, size: int) -> Iterator[Part]:
    """Cuts a long text into parts of about `size` characters, after line breaks.

    Lines of more than 4 * size characters are also cut between words, so that memory does not grow
    with a line. The lines of the parts, one after the other, are the lines of the text. ftfy works
    line by line. From a line with a '<' on, ftfy takes the text for HTML and does not decode
    entities, so the parts after a '<' carry unescape_html=False. A cut changes words only if ftfy
    mends a wrong encoding across the cut, or if a word is longer than half a part.
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
    """The best place after `start` to cut the line that ends at `end`.

    The place is within size // 2 characters if these have one.
    """
    while end - start > size:
        # All kinds of places are looked for in these characters before the search moves on, so
        # that a part stays short.
        limit = start + max(1, size // 2)
        for pattern in _CUTS:
            # The patterns also look at the two characters after a place.
            found = pattern.search(text, start, min(limit + 2, end))
            if found:
                return found.start()
        start = limit
    return end


def _english():
    """spaCy's blank English pipeline, which has a tokenizer and nothing else."""
    nlp = _new_english()
    if len(nlp.vocab) > _LEXEMES_KEPT:
        _new_english.cache_clear()
        nlp = _new_english()
    return nlp


@functools.cache
def _new_english():
    import spacy

    nlp = spacy.blank('en')
    # Only the split is wanted, without the attributes of a word (shape, stop word, URL, ...). A new
    # word then costs less.
    nlp.vocab.lex_attr_getters = {}
    nlp.tokenizer = linear(nlp.tokenizer)
    return nlp
