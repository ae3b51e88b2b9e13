"""Two labelled sets made from novels, for which word order counts.

  next_word     which of four words comes next, the, to, of or and? (head 'classify')
  continuation  the second half of a sentence, or that of another sentence of the novel? (head 'choice')

Each of the four words follows equally often. The items of `continuation` come in pairs that share their two endings:
each ending is right once and wrong once. Both are equally long and share the same words with each context. Every item
is a pure function of the novels and the seed.
"""
import collections
import pathlib
import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from gpt1_jax.data.document import Document
from gpt1_jax.data.tasks import json_lines
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.quickstart import NEXT_WORDS
from gpt1_jax.errors import UserError

# A sentence ends at . ! or ? with closing marks, before white space and a capital; Mr. and the like end none.
END = re.compile(r'(?<!\bMr)(?<!\bDr)(?<!\bSt)(?<!\bMrs)[.!?]["”’\')]*\s+(?=["“‘\'(]*[A-Z])')
WORD = re.compile(r'\w+')
BEGINNING_WORDS = range(5, 20)      # of a sentence for `next_word`, before that word
CONTINUATION_WORDS = range(8, 27)   # of a sentence for `continuation`: both halves together
CONTEXT_WORDS = range(2, 25)        # of the sentence before it


def sentences(text: str) -> list[list[str]]:
    """The sentences of each line of a text that is not blank, with single spaces."""
    lines = []
    for line in filter(str.strip, text.splitlines()):
        ends = [match.end() for match in END.finditer(line)]
        lines.append([' '.join(line[a:b].split()) for a, b in zip([0, *ends], [*ends, len(line)])])
    return lines


def words(text: str) -> list[str]:
    """The lower-case words of a text, without punctuation."""
    return WORD.findall(text.lower())


def next_word(novels: Sequence[Document], n: int, rng: random.Random) -> list[Example]:
    """n beginnings of sentences, the same number for each of NEXT_WORDS (the label), before which they are cut off."""
    beginnings = {word: set() for word in NEXT_WORDS}
    for novel in novels:
        for sentence in sum(sentences(novel.text), []):
            spoken = sentence.split()
            places = [i for i, word in enumerate(spoken) if i in BEGINNING_WORDS and word in NEXT_WORDS]
            if places:
                place = rng.choice(places)
                beginnings[spoken[place]].add(' '.join(spoken[:place]))
    items = [(text, label) for label, texts in enumerate(beginnings.values())
             for text in _sample(sorted(texts), n // len(NEXT_WORDS), f'beginnings before {NEXT_WORDS[label]!r}', rng)]
    rng.shuffle(items)
    return [Example(str(i), (text,), (), label) for i, (text, label) in enumerate(items)]


class Cut(NamedTuple):
    """A sentence cut in the middle. context: the sentence before it and its first half. ending: its second half.
    context_words, ending_words: their different words."""
    context: tuple[str, str]
    ending: str
    context_words: set[str]
    ending_words: set[str]


def continuation(novels: Sequence[Document], n: int, rng: random.Random) -> list[Example]:
    """n items, an even number, each of a sentence of its own."""
    waiting = collections.defaultdict(list)  # (novel, words of the ending): cuts without a partner
    pairs = []
    for novel in novels:
        cuts = _cuts(novel)
        rng.shuffle(cuts)
        for cut in cuts:
            others = waiting[novel.name, len(cut.ending.split())]
            partner = next((other for other in others if _balanced(cut, other)), None)
            if partner is None:
                others.append(cut)
            else:
                others.remove(partner)
                pairs.append(rng.sample((cut, partner), 2))
    items = []
    for pair in _sample(pairs, n // 2, 'pairs for continuation', rng):
        endings = tuple(cut.ending for cut in pair)
        items += [Example(str(len(items) + label), cut.context, endings, label) for label, cut in enumerate(pair)]
    return items


def _cuts(novel):
    """Every sentence of a fitting length that has a sentence before it in its line."""
    cuts = []
    for line in sentences(novel.text):
        for before, sentence in zip(line, line[1:]):
            spoken = sentence.split()
            if len(spoken) in CONTINUATION_WORDS and len(before.split()) in CONTEXT_WORDS:
                middle = len(spoken) // 2
                context, ending = (before, ' '.join(spoken[:middle])), ' '.join(spoken[middle:])
                cuts.append(Cut(context, ending, set(words(' '.join(context))), set(words(ending))))
    return cuts


def _balanced(a, b):
    """Whether each context shares the same words with the other's ending as with its own."""
    return all(cut.context_words & a.ending_words == cut.context_words & b.ending_words for cut in (a, b))


def _sample(candidates, n, what, rng):
    if len(candidates) < n:
        raise UserError(f'the novels give {len(candidates):,} {what}, {n:,} wanted')
    return rng.sample(candidates, n)


MAKERS = {'next_word': next_word, 'continuation': continuation}


def write(directory: pathlib.Path, splits: dict[str, tuple[Sequence[Document], int]],
          seed: int = 0) -> dict[str, dict[str, list[Example]]]:
    """Makes {task: {split: items}} from {split: (novels, number of items)}; writes DIRECTORY/{task}_{split}.jsonl."""
    directory.mkdir(parents=True, exist_ok=True)
    sets = {name: {} for name in MAKERS}
    for name, make in MAKERS.items():
        for split, (novels, n) in splits.items():
            sets[name][split] = make(novels, n, random.Random(f'{seed} {name} {split}'))
            json_lines.write(directory / f'{name}_{split}.jsonl', sets[name][split])
    return sets
