"""Section 4.1: splits text into words: "the ftfy library to clean the raw text, standardize some
punctuation and whitespace, and use the spaCy tokenizer".

    text -> ftfy.fix_text -> standardize -> spaCy's blank English tokenizer -> lower-case, word by
    word

The order and all regular expressions come from the released code (text_utils.py). ftfy and spaCy
are imported for the first text that needs them. A plain prompt does not.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpt1_jax.data.long_words import LONG, linear

# The released code has this pattern in a non-raw string, so its `\\+` is a second `\+`: backslashes
# are *not* separated.
_RUNS = re.compile(r'(([-~!";?+,)(/*\[\]}{|_])\2*)')
_REPLACED = str.maketrans({'—': '-', '–': '-', '―': '-', '…': '...', '´': "'"})

# The places at which a very long line may be cut, best first: between two plain words, between any
# two words, inside a word. The text after a cut begins with a letter or digit, so it is not blank.
_CUTS = (
    re.compile(r'(?<=[a-z]{2} )(?=[a-z]{2})'),
    re.compile(r'(?<=[\w.,;:!?][ \t])(?=[^\W_])'),
    re.compile(r'(?<=[^\W_])(?=[^\W_])'),
)

# ftfy does not change text of these characters
_ASCII = re.compile(r'[\t\n -%\'-~]*')
# spaCy leaves these words as they are, unless they are in SPECIAL, but for a full stop at the end
_PLAIN = re.compile('[A-Za-z]+|[A-Za-z]*[a-z][.]|[,;!?]|[0-9]+')
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
# Words between spaces. A text repeats most of them, and spaCy takes 20 microseconds for each
KEPT = 2**16


def standardize(text: str) -> Iterator[list[str]]:
    """Unifies dashes and ellipses, puts spaces around punctuation, and splits at white space.

    Yields what stands between spaces in each line that is not blank: 'Yes—no,  maybe\\n\\n b' ->
    ['Yes', '-', 'no', ',', 'maybe'], ['b']. The released code joins the same by single spaces.
    """
    between = _RUNS.split(text.translate(_REPLACED))
    del between[2::3]  # the single character of each run
    for line in ' '.join(between).split('\n'):
        if spaced := line.split():
            yield spaced


def lines(text: str, unescape_html: str | bool = 'auto') -> Iterator[list[str]]:
    """Yields the words of `text`, lower-cased, one list for each non-blank line.

    'Hello!\\nBye' -> ['hello', '!'], ['bye']. unescape_html: as in `cleaned`.
    """
    for line in cleaned(text, unescape_html):
        found = [_kept_words(spaced) for spaced in line]
        yield whole_line(line) if None in found else list(itertools.chain.from_iterable(found))


def cleaned(text: str, unescape_html: str | bool = 'auto') -> Iterator[list[str]]:
    """The lines of `standardize`, of the text that ftfy mended.

    unescape_html: ftfy's option. False means that an earlier part of the text looked like HTML (see
    `parts`).
    """
    if not _ASCII.fullmatch(text):
        import ftfy

        text = ftfy.fix_text(text, unescape_html=unescape_html)
    return standardize(text)


def words(spaced: str) -> list[str] | None:
    """Splits what stands between spaces into words, lower-cased: "Don't" -> ['do', "n't"].

    None if its words may depend on its neighbours. For plain words spaCy is not imported, which
    takes seconds.
    """
    lower = spaced.lower()
    if _PLAIN.fullmatch(spaced):
        found = lower.replace('.', ' .').split(' ')
        if lower not in SPECIAL and SPECIAL.isdisjoint(found):
            return found
    tokenizer, unmatched = _english()
    found = _split(tokenizer, spaced)
    # spaCy looks for its rules among the tokens of a line. None of them spans a space, but two
    # tokens beside a space may look like one, and then no other is looked for there: in "''x" the
    # marks are one word, in "' ''x" three.
    if len(found) > 1 and found != _split(unmatched, spaced):
        return None
    return found


def whole_line(line: list[str]) -> list[str]:
    """The words of a line of `cleaned`, lower-cased."""
    return _split(_english()[0], ' '.join(line))


def _split(tokenizer, line):
    return [word.text.lower() for word in tokenizer(line)]


def kept(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same function, which keeps its results for the last KEPT words that are not long."""
    of_short = functools.lru_cache(KEPT)(function)
    return lambda spaced: (of_short if len(spaced) <= LONG else function)(spaced)


_kept_words = kept(words)


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
    """spaCy's English tokenizer, and the same without its search for rules in a line."""
    vocabulary, *tokenizers = _new_english()
    if len(vocabulary) > _LEXEMES_KEPT:
        _new_english.cache_clear()
        _, *tokenizers = _new_english()
    return tokenizers


@functools.cache
def _new_english():
    import spacy

    nlp = spacy.blank('en')
    # Only the split is wanted, without the attributes of a word (shape, stop word, URL, ...). A new
    # word then costs less.
    nlp.vocab.lex_attr_getters = {}
    return nlp.vocab, linear(nlp.tokenizer), linear(nlp.tokenizer, in_lines=False)
