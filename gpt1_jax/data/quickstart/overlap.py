"""Held-out text without leakage: finds sentences that documents share with the training text.

  * Documents that share a sentence of eight words or more form a group; a group is held out as a whole.
  * Sentences that are too common to group by (boilerplate) are removed from the evaluation text (`Seen`).
"""
import collections
import random
import re
from collections.abc import Iterable

import numpy as np

LONG = 8  # words; shorter sentences ("returns the result") recur without being copied
COMMON = 10  # documents; a sentence in more of them is boilerplate, which would link unrelated documents

WORD = re.compile(r'\w+')
# A sentence ends at . ! or ? with closing marks, before white space and something that can start a sentence.
END = re.compile(r'(?<=[.!?])["\')\]]*\s+(?=["\'(\[]*[A-Z0-9])')
ABBREVIATION = re.compile(r'(?:\b(?:e\.g|i\.e|cf|vs|resp|approx|eq|eqs|fig|figs|no|vol|pp|al|dr|mr|mrs|ms|st|jr|prof)'
                          r'|(?<![A-Za-z])[A-Z])\.["\')\]]*$', re.I)


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, with single spaces; a line break always ends a sentence."""
    found = []
    for line in text.splitlines():
        line = ' '.join(line.split())
        start = 0
        for end in END.finditer(line):
            if not ABBREVIATION.search(line[start:end.end()].rstrip()):
                found.append(line[start:end.end()].rstrip())
                start = end.end()
        if line[start:]:
            found.append(line[start:])
    return found


def words(text: str) -> list[str]:
    """The lower-case words of a text, without punctuation."""
    return WORD.findall(text.lower())


def groups(documents: Iterable, common: int = COMMON) -> list[list[int]]:
    """Connected components of documents (anything with .text), linked by shared sentences of LONG words or more.

    Sentences in more than `common` documents link nothing. Returns the indices of each group, in the order of the
    groups' first documents.
    """
    documents = list(documents)
    holders = collections.defaultdict(set)
    for index, document in enumerate(documents):
        for sentence in sentences(document.text):
            key = words(sentence)
            if len(key) >= LONG:
                holders[tuple(key)].add(index)
    # Union-find: parent[i] is a document of the same group; a document that is its own parent is the group's root.
    parent = list(range(len(documents)))

    def root(index):
        while parent[index] != index:
            parent[index] = parent[parent[index]]  # path halving
            index = parent[index]
        return index

    for indices in holders.values():
        if 1 < len(indices) <= common:
            first, *others = sorted(indices)
            for other in others:
                parent[root(other)] = root(first)
    members = collections.defaultdict(list)
    for index in range(len(documents)):
        members[root(index)].append(index)
    return sorted(members.values())


def hold_out(documents: Iterable, fraction: float, seed: int, common: int = COMMON) -> tuple[list, list]:
    """Split documents into (train, held) by whole groups, with at most `fraction` of the characters in `held`.

    Groups are taken in a seeded random order; a group that would exceed the fraction stays in training. Both lists keep
    the order of the documents.
    """
    documents = list(documents)
    room = fraction * sum(len(document.text) for document in documents)
    order = groups(documents, common)
    random.Random(seed).shuffle(order)
    held = set()
    for group in order:
        size = sum(len(documents[index].text) for index in group)
        if size <= room:
            room -= size
            held.update(group)
    return ([document for index, document in enumerate(documents) if index not in held],
            [document for index, document in enumerate(documents) if index in held])


class Seen:
    """Whether a sentence occurs in the training texts: `seen = Seen(texts)`, then `seen(sentence)`.

    A sentence counts as seen if all of its n-grams of LONG words occur in the texts. That is true of every verbatim
    copy, wherever sentences were split (and of a patchwork of copies). Shorter sentences are never seen. Words are
    compared in lower case without punctuation.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._ids = {}
        runs = [self._runs([self._ids.setdefault(word, len(self._ids) + 1) for word in words(text)])
                for text in texts]
        self._known = set(np.unique(np.concatenate(runs)).tolist()) if runs else set()

    def _runs(self, ids: list[int]) -> np.ndarray:
        """A hash of every n-gram of LONG word ids: uint64[len(ids) - LONG + 1], or empty."""
        # All n-grams at once: one step of a multiply-xorshift hash for each of their LONG positions.
        ids = np.array(ids, np.uint64)
        count = max(0, len(ids) - LONG + 1)
        hashes = np.zeros(count, np.uint64)
        for offset in range(LONG):
            hashes = (hashes ^ ids[offset:offset + count]) * np.uint64(0x9E3779B97F4A7C15)  # wraps modulo 2^64
            hashes ^= hashes >> np.uint64(29)
        return hashes

    def __call__(self, sentence: str) -> bool:
        ids = [self._ids.get(word, 0) for word in words(sentence)]
        return len(ids) >= LONG and all(run in self._known for run in self._runs(ids).tolist())


def without_seen(text: str, seen: Seen) -> str:
    """The text without sentences that were seen; line breaks are kept."""
    return '\n'.join(' '.join(sentence for sentence in sentences(line) if not seen(sentence)) if line.strip() else ''
                     for line in text.split('\n'))


def verbatim(evaluated: Iterable[str], texts: Iterable[str]) -> set[str]:
    """The evaluated sentences of LONG words or more that occur in the texts verbatim.

    An independent check of `Seen`: compares the words themselves at every position, without hashes.
    """
    by_start = collections.defaultdict(list)
    for sentence in set(evaluated):
        key = words(sentence)
        if len(key) >= LONG:
            by_start[tuple(key[:LONG])].append((key, sentence))
    found = set()
    for text in texts:
        stream = words(text)
        for position, start in enumerate(zip(*(stream[offset:] for offset in range(LONG)))):
            for key, sentence in by_start.get(start, ()):
                if stream[position:position + len(key)] == key:
                    found.add(sentence)
    return found
