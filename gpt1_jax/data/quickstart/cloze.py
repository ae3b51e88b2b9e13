"""The quickstart's cloze items, in Story Cloze's form: a context, then the true next sentence or a wrong one."""
import collections
import random
from typing import NamedTuple

from gpt1_jax.data.quickstart import word_overlap
from gpt1_jax.data.quickstart.material import Material, check_enough, fresh, key, last_sentences
from gpt1_jax.data.quickstart.overlap import words
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError

CONTEXT = 4          # sentences before the ending
STRIDE = 3           # sentences from one item's ending to the next, so that each sentence ends one item at most
ENDING_WORDS = (5, 25)
LENGTH_GAP = 3       # words by which a wrong ending may be shorter or longer than the right one
CANDIDATES = 100     # sentences among which a wrong ending is looked for


class Window(NamedTuple):
    """A place for an item.

    document, position: of the ending sentence. context: the text before it. ending: the sentence itself.
    key:                its words (material.key). length: how many.
    words:              the set of them, lower-case.
    """
    document: int
    position: int
    context: str
    ending: str
    key: str
    length: int
    words: frozenset[str]


def cloze(material: Material, n: int, rng: random.Random) -> list[Example]:
    """n items. Half have a wrong ending from the same document, half from another; in half of each, choice 0 is right.

    Wrong endings are sentences that are the right ending of another window, outside this item and not next to it, and
    of nearly the same length, so that the ending by itself does not give the answer away. Nor do the words that an
    ending shares with the context (word_overlap.shared): in half of the items the wrong ending shares no fewer, in
    half no more, and of the candidates the nearest to the right one is taken. The context is the four sentences before
    the ending, or as many of the last ones as fit into segment_words.
    """
    windows = find_windows(material)
    wrong_endings = _WrongEndings(windows, material.rarity, rng)
    cells = [(True, 0), (True, 1), (False, 0), (False, 1)]  # (wrong ending from the same document, label)
    missing = dict(zip(cells, balanced(n)))
    items = {cell: [] for cell in cells}

    rng.shuffle(windows)
    taken = set()  # (document, position) of sentences too near to the ending of an item
    for window in windows:
        if (window.document, window.position) in taken:
            continue
        for same in _by_need(missing):
            label = 0 if missing[same, 0] >= missing[same, 1] else 1
            more = len(items[same, label]) % 2 == 0
            wrong = wrong_endings.choose(window, same, more)
            if wrong is None:
                continue
            choices = (window.ending, wrong) if label == 0 else (wrong, window.ending)
            items[same, label].append((window.context, choices, label, 'same' if same else 'other'))
            missing[same, label] -= 1
            for offset in range(1 - STRIDE, STRIDE):
                taken.add((window.document, window.position + offset))
            break
    found = [item for cell in cells for item in items[cell]]
    check_enough(found, n, material.what)
    rng.shuffle(found)
    return [Example(f'{index}-{kind}', (context,), choices, label)
            for index, (context, choices, label, kind) in enumerate(found)]


def text_rarity(material: Material) -> dict[str, float]:
    """word_overlap.rarity of all contexts and endings that items can be made of."""
    windows = find_windows(material)
    return word_overlap.rarity(text for window in windows for text in (window.context, window.ending))


def _by_need(missing):
    """Whether the wrong ending should come from the same document: the kinds of which items are missing, first the one
    of which more are."""
    totals = {same: missing[same, 0] + missing[same, 1] for same in (True, False)}
    ordered = sorted(totals, key=totals.get, reverse=True)
    return [same for same in ordered if totals[same] > 0]


class _WrongEndings:
    """Chooses wrong endings among the endings of other windows."""

    def __init__(self, windows, rarity, rng) -> None:
        self._rng = rng
        self._rarity = rarity
        self._by_length = collections.defaultdict(list)
        self._by_document = collections.defaultdict(list)
        for window in windows:
            self._by_length[window.length].append(window)
            self._by_document[window.document].append(window)

    def choose(self, window, same, more):
        """A wrong ending from the same document or another one, which shares no fewer (or no more) words with the
        context than the right one, and of these the one that comes nearest to it; None if there is none."""
        context = set(words(window.context))
        right = word_overlap.shared(context, window.words, self._rarity)
        nearest = None
        for other in self._same_document(window) if same else self._other_document(window):
            distance = word_overlap.shared(context, other.words, self._rarity) - right
            if not more:
                distance = -distance
            if distance >= 0 and (nearest is None or distance < nearest[0]):
                nearest = distance, other.ending
        return nearest and nearest[1]

    def _same_document(self, window):
        context = key(window.context)
        found = []
        for other in self._by_document[window.document]:
            distance = other.position - window.position
            inside_or_next = -CONTEXT - 1 <= distance <= 1
            if not inside_or_next and _fits(window, other, context):
                found.append(other)
        return self._rng.sample(found, min(len(found), CANDIDATES))

    def _other_document(self, window):
        context = key(window.context)
        alike = []
        for length in range(window.length - LENGTH_GAP, window.length + LENGTH_GAP + 1):
            alike += self._by_length.get(length, ())
        sample = self._rng.sample(alike, min(len(alike), CANDIDATES))
        return [other for other in sample if other.document != window.document and _fits(window, other, context)]


def _fits(window, other, context):
    """Whether the other window's ending can be a wrong one here: of like length, and new to the item. context: the
    words of the window's (material.key)."""
    if abs(other.length - window.length) > LENGTH_GAP:
        return False
    return other.key != window.key and other.key not in context


def find_windows(material: Material) -> list[Window]:
    """Every sentence of a suitable length that has four clean ones before it in its run."""
    least, most = ENDING_WORDS[0], min(ENDING_WORDS[1], material.segment_words)
    windows = []
    for document, runs in enumerate(material.runs):
        start = 0  # of the run; two runs are at least one sentence apart
        for run in runs:
            for end in range(CONTEXT, len(run)):
                ending = run[end]
                length = len(ending.split())
                context = last_sentences(run[end - CONTEXT:end], material.segment_words)
                if least <= length <= most and context and fresh(context, material.seen):
                    windows.append(Window(document, start + end, context, ending, key(ending), length,
                                          frozenset(words(ending))))
            start += len(run) + 1
    return windows


def balanced(n: int) -> tuple[int, int, int, int]:
    """How many of n items are (same document, label 0), (same, 1), (other, 0), (other, 1): n / 2 of each label. n is
    even."""
    if n % 2:
        raise UserError(f'{n} cloze items cannot be half of one label and half of the other: give an even number')
    return (n + 2) // 4, n // 4, n // 2 - (n + 2) // 4, n // 2 - n // 4
