"""Two labelled sets made from novels, in which words without their order are of little help.

  pronoun     which word comes next in a sentence, he or him? (head 'classify')
  word_order  which is the second half of the sentence? The other choice has two neighbouring words
              exchanged (head 'choice')

For each word of `pronoun`, a naive Bayes classifier made from the other half of the sentences is
right for half of the items. Every item is a pure function of the novels and the seed.
"""

import collections
import dataclasses
import json
import math
import pathlib
import random
import re
from collections.abc import Sequence

import numpy as np

from gpt1_jax import storage
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.pronouns import PRONOUNS
from gpt1_jax.errors import UserError

# A sentence ends at . ! or ? with closing marks, before white space and a capital. Mr. and the like
# do not end a sentence.
END = re.compile(r'(?<!\bMr)(?<!\bDr)(?<!\bSt)(?<!\bMrs)[.!?]["”’\')]*\s+(?=["“‘\'(]*[A-Z])')
WORD = re.compile(r'\w+')
BEGINNING_WORDS = range(4, 20)  # of a sentence for `pronoun`, before the pronoun
SENTENCE_WORDS = range(8, 27)  # of a sentence with an ending, in both halves together
CONTEXT_WORDS = range(2, 25)  # of the sentence before it


def sentences(text: str) -> list[list[str]]:
    """Returns the sentences of each line that is not blank, with single spaces."""
    lines = []
    for line in filter(str.strip, text.splitlines()):
        ends = [match.end() for match in END.finditer(line)]
        lines.append([' '.join(line[a:b].split()) for a, b in zip([0, *ends], [*ends, len(line)])])
    return lines


def words(text: str) -> list[str]:
    """Returns the lower-case words of a text, without punctuation."""
    return WORD.findall(text.lower())


def naive_bayes(train: Sequence[Example], items: Sequence[Example]) -> np.ndarray:
    """Returns scores, float[items, labels], by words without their order.

    This is multinomial naive Bayes with add-one smoothing. Labels are equally frequent.
    """
    counts = [collections.Counter() for _ in range(1 + max(item.label for item in train))]
    for item in train:
        counts[item.label].update(words(item.texts[0]))
    rows = len(set().union(*counts))
    scores = np.zeros((len(items), len(counts)))
    for i, item in enumerate(items):
        for label, count in enumerate(counts):
            for word in words(item.texts[0]):
                scores[i, label] += math.log((count[word] + 1) / (count.total() + rows))
    return scores


def pronoun(novels: Sequence[Document], n: int, rng: random.Random) -> list[Example]:
    """Returns n beginnings of sentences, cut off before a pronoun, which is the label. All PRONOUNS
    are equally frequent."""
    beginnings: list[set[str]] = [set() for _ in PRONOUNS]
    for novel in novels:
        for sentence in sum(sentences(novel.text), []):
            spoken = sentence.split()
            places = [
                i
                for i, word in enumerate(spoken)
                if i in BEGINNING_WORDS and word.rstrip('.,;!?') in PRONOUNS
            ]
            if places:
                place = rng.choice(places)
                beginnings[PRONOUNS.index(spoken[place].rstrip('.,;!?'))].add(
                    ' '.join(spoken[:place])
                )
    fewest = min(map(len, beginnings))
    items = [
        Example('', (text,), (), label)
        for label, texts in enumerate(beginnings)
        for text in rng.sample(sorted(texts), fewest)
    ]
    rng.shuffle(items)
    halves = items[::2], items[1::2]
    right = np.concatenate(
        [
            naive_bayes(other, half).argmax(-1) == [item.label for item in half]
            for half, other in (halves, halves[::-1])
        ]
    )
    chosen = []
    for label in range(len(PRONOUNS)):
        for by_words in (True, False):
            group = [
                item
                for item, hit in zip(sum(halves, []), right)
                if (item.label, hit) == (label, by_words)
            ]
            chosen += _sample(group, n // 4, f'beginnings before {PRONOUNS[label]!r}', rng)
    rng.shuffle(chosen)
    return [dataclasses.replace(item, id=str(i)) for i, item in enumerate(chosen)]


def word_order(novels: Sequence[Document], n: int, rng: random.Random) -> list[Example]:
    """Returns n items, an even number, each made from another sentence. The first and the second
    ending are right equally often."""
    pairs = []
    for context, ending in (cut for novel in novels for cut in _cuts(novel)):
        spoken = ending.split()
        places = [
            i for i, (a, b) in enumerate(zip(spoken, spoken[1:])) if f'{a}{b}'.isalpha() and a != b
        ]
        if places:
            i = rng.choice(places)
            exchanged = ' '.join([*spoken[:i], spoken[i + 1], spoken[i], *spoken[i + 2 :]])
            pairs.append((context, (ending, exchanged)))
    labels = rng.sample([0, 1] * (n // 2), n)
    return [
        Example(str(i), context, endings[::-1] if label else endings, label)
        for i, ((context, endings), label) in enumerate(
            zip(_sample(pairs, n, 'sentences', rng), labels)
        )
    ]


def _cuts(novel):
    """Yields (context, ending) of every sentence of a fitting length that has a sentence before it
    in its line.

    context: the sentence before it, and its first half. ending: its second half.
    """
    for line in sentences(novel.text):
        for before, sentence in zip(line, line[1:]):
            spoken = sentence.split()
            if len(spoken) in SENTENCE_WORDS and len(before.split()) in CONTEXT_WORDS:
                middle = len(spoken) // 2
                yield (before, ' '.join(spoken[:middle])), ' '.join(spoken[middle:])


def _sample(candidates, n, what, rng):
    if len(candidates) < n:
        raise UserError(f'the novels give {len(candidates):,} {what}, {n:,} wanted')
    return rng.sample(candidates, n)


MAKERS = {'pronoun': pronoun, 'word_order': word_order}


def write(
    directory: pathlib.Path, splits: dict[str, tuple[Sequence[Document], int]], seed: int = 0
) -> dict[str, dict[str, list[Example]]]:
    """Makes {task: {split: items}} from {split: (novels, number of items)}, and writes
    DIRECTORY/{task}_{split}.jsonl."""
    directory.mkdir(parents=True, exist_ok=True)
    sets = {name: {} for name in MAKERS}
    for name, make in MAKERS.items():
        for split, (novels, n) in splits.items():
            sets[name][split] = make(novels, n, random.Random(f'{seed} {name} {split}'))
            lines = [
                json.dumps(_record(item), ensure_ascii=False) + '\n' for item in sets[name][split]
            ]
            storage.write(directory / f'{name}_{split}.jsonl', ''.join(lines).encode())
    return sets


def _record(item):
    """Returns an item with the fields that gpt1_jax/data/tasks (qa, pronouns) reads."""
    if not item.choices:
        return {'id': item.id, 'text': item.texts[0], 'label': PRONOUNS[item.label]}
    return {
        'id': item.id,
        'before': item.texts[0],
        'beginning': item.texts[1],
        'ending1': item.choices[0],
        'ending2': item.choices[1],
        'label': item.label + 1,
    }
