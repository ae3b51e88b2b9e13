"""Sections 4.2 and 5: labelled sets derived from raw text, so the whole way can be walked without a download.

  cloze           Story Cloze's form: consecutive sentences, then the true next one or another (head 'choice')
  source          which library's documentation is a passage from? (head 'classify')
  acceptability   a sentence against itself with two neighbouring words swapped (zero-shot)

Training items come from the text that pretraining reads; development and test items from whole groups of documents
that it never reads, and no sentence in them of eight words or more stands in that text (gpt1_jax.data.overlap).
Every item is a pure function of the documents and the seed.
"""
import collections
import dataclasses
import pathlib
import random
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpt1_jax.data import overlap
from gpt1_jax.data.tasks import json_lines
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError

CONTEXT = 4          # sentences before the one to be chosen
STRIDE = 3           # sentences from one true ending to the next: each sentence ends one item at most
# Words of a segment: at 1.65 tokens a word (vocabulary 2,048) they fit the 62 tokens that a context of 128 leaves it.
SEGMENT_WORDS = 34
SENTENCE_WORDS = (3, 34)
ENDING_WORDS = (5, 25)
LENGTH_GAP = 3       # words that a wrong ending may differ by in length
PASSAGE_WORDS = 8    # at least, of a passage
SWAP_WORDS = (6, 25)
SOURCES = ('python', 'numpy', 'jax')  # first parts of document names (gpt1_jax.data.documentation)


class Material(NamedTuple):
    """What the items of one split are made from.

    names, runs: of each document its name and its runs of consecutive sentences that are clean and not seen.
    seen: whether a sentence stands in the training text. segment_words: upper limit of a context or passage.
    what: set and split, for messages.
    """
    names: list[str]
    runs: list[list[list[str]]]
    seen: Callable[[str], bool]
    segment_words: int
    what: str = ''


@dataclasses.dataclass(frozen=True)
class Splits:
    """Documents by use: pretraining and fine-tuning read `train` alone; no group of documents is in two splits."""
    train: tuple
    dev: tuple
    test: tuple


def split(documents: Iterable, dev: float = 0.05, test: float = 0.22, seed: int = 0) -> Splits:
    """Documents -> disjoint splits by whole groups of documents that share sentences.

    dev, test: shares of the characters. Of the embedded corpus the defaults leave about a third more test items
    than the thousand that `derive` takes.
    """
    rest, test_documents = overlap.hold_out(documents, test, seed)
    train, dev_documents = overlap.hold_out(rest, dev / (1 - test), seed + 1)
    return Splits(tuple(train), tuple(dev_documents), tuple(test_documents))


def derive(splits: Splits, seed: int = 0, n_train: int = 3000, n_dev: int = 300, n_test: int = 1000,
           segment_words: int = SEGMENT_WORDS) -> dict[str, dict[str, list[Example]]]:
    """{'cloze' | 'source' | 'acceptability': {'train' | 'dev' | 'test': examples}}.

    Counts are even. segment_words: upper limit of a cloze context and of a passage; 17 suits a context of 64 tokens.
    Acceptability is only scored, so it has no train split. Raises UserError where the documents of a split don't
    give the items asked for.
    """
    trained_on = overlap.Seen(document.text for document in splits.train)
    found = {name: {} for name in MAKERS}
    for split_name, documents, n in (('train', splits.train, n_train), ('dev', splits.dev, n_dev),
                                     ('test', splits.test, n_test)):
        seen = (lambda sentence: False) if split_name == 'train' else trained_on
        material = Material([document.name for document in documents], clean_runs(documents, seen), seen, segment_words)
        for name, make in MAKERS.items():
            if (name, split_name) != ('acceptability', 'train'):
                rng = random.Random(f'{seed} {name} {split_name}')
                found[name][split_name] = make(material._replace(what=f'{name} {split_name}'), n, rng)
    return found


def overlap_check(splits: Splits, sets: dict[str, dict[str, list[Example]]]) -> dict[str, int]:
    """How many distinct sentences of eight words or more stand verbatim in the training text, before and after.

    Keys: 'random_long', 'random_seen' (had as much text been held out by single documents instead of groups),
    'held_long', 'held_seen' (dev and test documents as held out here), 'item_long', 'item_seen' (the sentences
    of every dev and test item; item_seen is 0 or something is broken).
    """
    def count(name, texts, training):
        long = {sentence for text in texts for sentence in overlap.sentences(text)
                if len(overlap.words(sentence)) >= overlap.LONG}
        return {f'{name}_long': len(long), f'{name}_seen': len(overlap.verbatim(long, (d.text for d in training)))}

    documents = [*splits.train, *splits.dev, *splits.test]
    held = [*splits.dev, *splits.test]
    share = sum(len(document.text) for document in held) / sum(len(document.text) for document in documents)
    rest, single = overlap.hold_out(documents, share, 0, common=1)  # a sentence of one document links none
    items = [text for by_split in sets.values() for name in ('dev', 'test') for example in by_split[name]
             for text in (*example.texts, *example.choices)]
    return {**count('random', (document.text for document in single), rest),
            **count('held', (document.text for document in held), splits.train), **count('item', items, splits.train)}


def is_clean(sentence: str) -> bool:
    """Whether a sentence ends as one and every piece between its spaces holds a letter or digit."""
    pieces = sentence.split()
    return (SENTENCE_WORDS[0] <= len(pieces) <= SENTENCE_WORDS[1] and bool(re.search(r'[.!?]["\')\]]*$', sentence))
            and all(re.search(r'[^\W_]', piece) for piece in pieces))


def clean_runs(documents: Iterable, seen: Callable[[str], bool]) -> list[list[list[str]]]:
    """For each document its runs of consecutive sentences that are clean and not seen; another sentence ends a run."""
    found = []
    for document in documents:
        runs = [[]]
        for sentence in overlap.sentences(document.text):
            if is_clean(sentence) and not seen(sentence):
                runs[-1].append(sentence)
            elif runs[-1]:
                runs.append([])
        found.append([run for run in runs if run])
    return found


class Window(NamedTuple):
    """A place for a cloze item: the ending's document and position in it, what comes before, and its words."""
    document: int
    position: int
    context: str
    ending: str
    key: str
    length: int


def cloze(material: Material, n: int, rng: random.Random) -> list[Example]:
    """n items: half have their wrong ending from the same document, half from another.

    In half of each kind choice 0 is the right one.

    Wrong endings are drawn among the sentences that could be right ones elsewhere (they have four before them),
    outside the item and not next to it, of nearly the same length: so an ending alone tells nothing. The context is
    the four sentences before the ending, or the last ones of them that together have at most segment_words words.
    """
    windows = cloze_windows(material)
    by_length, own = collections.defaultdict(list), collections.defaultdict(list)
    for window in windows:
        by_length[window.length].append(window)
        own[window.document].append(window)

    def fits(window, other):
        return (abs(other.length - window.length) <= LENGTH_GAP and other.key != window.key
                and other.key not in key(window.context))

    def wrong_ending(window, same):
        if same:
            near = [other for other in own[window.document]
                    if not -CONTEXT - 1 <= other.position - window.position <= 1 and fits(window, other)]
        else:
            alike = [other for length in range(window.length - LENGTH_GAP, window.length + LENGTH_GAP + 1)
                     for other in by_length.get(length, ())]
            near = [other for other in rng.sample(alike, min(len(alike), 20))
                    if other.document != window.document and fits(window, other)]
        return rng.choice(near).ending if near else None

    quota = dict(zip([(True, 0), (True, 1), (False, 0), (False, 1)], balanced(n)))
    cells = {cell: [] for cell in quota}

    def room(same):
        return sum(quota[same, label] - len(cells[same, label]) for label in (0, 1))

    rng.shuffle(windows)
    taken = set()  # (document, position) of the endings too near to another item's
    for window in windows:
        if (window.document, window.position) in taken:
            continue
        for same in sorted((True, False), key=room, reverse=True):
            if room(same) > 0 and (wrong := wrong_ending(window, same)) is not None:
                label = max((0, 1), key=lambda label: quota[same, label] - len(cells[same, label]))
                choices = (window.ending, wrong) if label == 0 else (wrong, window.ending)
                cells[same, label].append((window.context, choices, label, 'same' if same else 'other'))
                taken.update((window.document, window.position + offset) for offset in range(1 - STRIDE, STRIDE))
                break
    items = [item for cell in cells.values() for item in cell]
    enough(items, n, material.what)
    rng.shuffle(items)
    return [Example(f'{index}-{kind}', (context,), choices, label)
            for index, (context, choices, label, kind) in enumerate(items)]


def cloze_windows(material: Material) -> list[Window]:
    """Every sentence of a fit length that has four clean ones before it in its run."""
    windows = []
    for document, document_runs in enumerate(material.runs):
        position = 0
        for run in document_runs:
            for end in range(CONTEXT, len(run)):
                length = len(run[end].split())
                context = last_sentences(run[end - CONTEXT:end], material.segment_words)
                fits = ENDING_WORDS[0] <= length <= min(ENDING_WORDS[1], material.segment_words)
                if fits and context and fresh(context, material.seen):
                    windows.append(Window(document, position + end, context, run[end], key(run[end]), length))
            position += len(run) + 1
    return windows


def balanced(n: int) -> tuple[int, int, int, int]:
    """Items of (same, 0), (same, 1), (other, 0), (other, 1): n in all, n / 2 of each label. n is even."""
    if n % 2:
        raise ValueError(f'{n} items cannot be half of one label and half of the other')
    return (n + 2) // 4, n // 4, n // 2 - (n + 2) // 4, n // 2 - n // 4


def source(material: Material, n: int, rng: random.Random) -> list[Example]:
    """n passages of one or two sentences, as equally as can be from the documents of each of SOURCES (the label).

    A passage has PASSAGE_WORDS words or more, at most `segment_words`, and serves once.
    """
    passages = {name: {} for name in SOURCES}
    for name, runs in zip(material.names, material.runs):
        found = passages.get(name.split('.')[0])
        for run in runs if found is not None else ():
            for first in range(0, len(run), 2):
                passage = ' '.join(run[first:first + 2])
                if PASSAGE_WORDS <= len(passage.split()) <= material.segment_words and fresh(passage, material.seen):
                    found.setdefault(key(passage), passage)
    items = []
    for label, (name, found) in enumerate(passages.items()):
        wanted = n // len(SOURCES) + (label < n % len(SOURCES))
        chosen = rng.sample(list(found.values()), min(wanted, len(found)))
        enough(chosen, wanted, f'{material.what} {name}')
        items += [(passage, label) for passage in chosen]
    rng.shuffle(items)
    return [Example(str(index), (passage,), (), label) for index, (passage, label) in enumerate(items)]


def acceptability(material: Material, n: int, rng: random.Random) -> list[Example]:
    """n distinct sentences, each beside itself with two neighbouring words swapped; choice 0 is right in half.

    The words swapped are letters only and never the sentence's first, so neither a capital nor a full stop gives
    the answer away.
    """
    found = {}
    for runs in material.runs:
        for run in runs:
            for sentence in run:
                pieces = sentence.split()
                places = [i for i in range(1, len(pieces) - 1)
                          if pieces[i].isalpha() and pieces[i + 1].isalpha()
                          and pieces[i].lower() != pieces[i + 1].lower()]
                if SWAP_WORDS[0] <= len(pieces) <= SWAP_WORDS[1] and places:
                    found.setdefault(key(sentence), (pieces, places))
    chosen = rng.sample(list(found.values()), min(n, len(found)))
    enough(chosen, n, material.what)
    items = []
    for index, (pieces, places) in enumerate(chosen):
        i = rng.choice(places)
        swapped = ' '.join([*pieces[:i], pieces[i + 1], pieces[i], *pieces[i + 2:]])
        right, label = ' '.join(pieces), index % 2
        items.append(Example(str(index), (), (swapped, right) if label else (right, swapped), label))
    return items


def last_sentences(sentences: list[str], limit: int) -> str:
    """The last of some sentences that together have at most `limit` words, as one text; '' if the last one has more."""
    kept, room_left = [], limit
    for sentence in reversed(sentences):
        room_left -= len(sentence.split())
        if room_left < 0:
            break
        kept.append(sentence)
    return ' '.join(reversed(kept))


def fresh(text: str, seen: Callable[[str], bool]) -> bool:
    """Whether no sentence of a text was seen, however joining has cut it into sentences."""
    return not any(seen(sentence) for sentence in overlap.sentences(text))


def key(text: str) -> str:
    return ' '.join(overlap.words(text))


def enough(items: list, n: int, what: str):
    if len(items) < n:
        raise UserError(f'{what}: the documents give {len(items):,} items, {n:,} wanted')


def write_all(directory, sets: dict[str, dict[str, list[Example]]]):
    """What `derive` returns -> '{name}_{split}.jsonl' files in a directory, made if missing."""
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    for name, by_split in sets.items():
        for split_name, examples in by_split.items():
            json_lines.write(pathlib.Path(directory) / f'{name}_{split_name}.jsonl', examples)


MAKERS = {'cloze': cloze, 'source': source, 'acceptability': acceptability}

CLOZE = json_lines.task('cloze', 'choice', ('1', '2'), ('train', 'dev', 'test'), 1, 2)
SOURCE = json_lines.task('source', 'classify', SOURCES, ('train', 'dev', 'test'), 1, 0)
ACCEPTABILITY = json_lines.task('acceptability', 'choice', ('1', '2'), ('dev', 'test'), 0, 2)
