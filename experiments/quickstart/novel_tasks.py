"""Two labelled sets made from novels, in which the words alone give no answer away.

  order         is a sentence as it was written, or are two neighbouring words swapped? (head 'classify')
  continuation  the second half of a sentence, or that of another sentence of the novel? (head 'choice')

Both labels of `order` have the same distribution of words. The items of `continuation` come in pairs that share their
two endings, each of which is right once and wrong once; the endings are equally long and share equally many words with
each context. Every item is a pure function of the novels and the seed.
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
from gpt1_jax.errors import UserError

# A sentence ends at . ! or ? with closing marks, before white space and a capital; Mr. and the like end none.
END = re.compile(r'(?<!\bMr)(?<!\bDr)(?<!\bSt)(?<!\bMrs)[.!?]["”’\')]*\s+(?=["“‘\'(]*[A-Z])')
WORD = re.compile(r'\w+')
ORDER_WORDS = range(6, 26)          # of a sentence for `order`
CONTINUATION_WORDS = range(12, 27)  # of a sentence for `continuation`: both halves together
CONTEXT_WORDS = range(3, 27)        # of the sentence before it


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


def order(novels: Sequence[Document], n: int, rng: random.Random) -> list[Example]:
    """n sentences; label 1 where two neighbouring words are swapped, in every second one. The swapped words consist of
    letters and are not the first, so that neither capitals nor punctuation give the answer away."""
    candidates = {}
    for novel in novels:
        for sentence in sum(sentences(novel.text), []):
            places = _swappable(sentence.split())
            if len(sentence.split()) in ORDER_WORDS and places:
                candidates[sentence] = places
    items = []
    for index, (sentence, places) in enumerate(_sample(list(candidates.items()), n, 'order', rng)):
        if index % 2:
            i = rng.choice(places)
            spoken = sentence.split()
            sentence = ' '.join([*spoken[:i], spoken[i + 1], spoken[i], *spoken[i + 2:]])
        items.append(Example(str(index), (sentence,), (), index % 2))
    return items


def _swappable(spoken):
    """The positions of words that can be swapped with the next one."""
    pairs = enumerate(zip(spoken[1:], spoken[2:]), start=1)
    return [i for i, (a, b) in pairs if a.isalpha() and b.isalpha() and a.lower() != b.lower()]


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
                pairs.append((cut, partner))
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
    """Whether each context shares as many words with the other's ending as with its own."""
    return all(len(cut.context_words & a.ending_words) == len(cut.context_words & b.ending_words) for cut in (a, b))


def _sample(candidates, n, what, rng):
    if len(candidates) < n:
        raise UserError(f'the novels give {len(candidates):,} {what}, {n:,} wanted')
    return rng.sample(candidates, n)


MAKERS = {'order': order, 'continuation': continuation}


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
