"""BLiMP by the words of its pairs: how common each is in the training text, and whether the vocabulary has it whole.

python -m experiments.blimp_words --init_from=novels --predictions=predictions_zero_shot_blimp_test_0.jsonl \\
    --data=blimp/data --corpus=books/train

Not in the paper. Pairs are compared with others of the same set alone, so that no construction is easier than another:
over the sets with at least 50 pairs on both sides, each with the same weight. A word that the text hardly has is one
that a model cannot know, whatever it knows of the grammar.
"""
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from experiments.lib.markdown import table
from experiments.lib.scores import percent, signed
from gpt1_jax import cli, metrics
from gpt1_jax.data import corpus, encode
from gpt1_jax.data import text as text_lib
from gpt1_jax.data.tasks import blimp
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, minimal_pairs
from gpt1_jax.metrics import bootstrap
from gpt1_jax.metrics.bootstrap import Estimate
from gpt1_jax.weights import from_hub

PER_MILLION = (0.1, 1, 3, 10)  # how often the text must have a pair's rarest word, in a million words
LEAST = 50                     # pairs of a set on either side


class Comparison(NamedTuple):
    """Accuracy of the selected pairs and of the others, means of the same sets; fractions."""
    sets: int
    selected: Estimate
    others: Estimate
    difference: Estimate


def compare(ids: Sequence[str], right: np.ndarray, selected: np.ndarray, least: int = LEAST) -> Comparison | None:
    """The Comparison of some pairs with the others of their sets; None where no set has `least` pairs of both.

    ids: PHENOMENON/SET/PAIR. right: float[pairs], as in minimal_pairs.outcomes. selected: bool[pairs].
    """
    sides = []
    for side, chosen in (('selected', selected), ('others', ~selected)):
        # The side in the name: each set's resamples are drawn from its name, and the sides are independent.
        of_side = minimal_pairs.set_means([f'{side}/{ids[i]}' for i in np.flatnonzero(chosen)], right[chosen])
        sides.append({name.partition('/')[2]: one for name, one in of_side.items() if one.n >= least})
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        return None
    a, b = (bootstrap.mean([side[name] for name in shared]) for side in sides)
    return Comparison(len(shared), a, b, Estimate(a.value - b.value, a.draws - b.draws, a.n + b.n))


def rarest(pairs: Sequence[Collection[str]], counts: Mapping[str, int]) -> np.ndarray:
    """float[pairs]: how often the text has the rarest word of each pair, in a million words. counts: of the text."""
    total = sum(counts.values())
    return np.array([min(counts.get(word, 0) for word in words) for words in pairs]) * 1e6 / total


def words_of(text: str) -> set[str]:
    """The distinct words of a text, as the tokenizer sees them."""
    return {word for line in text_lib.lines(text) for word in line}


def split_words(pairs: Sequence[Collection[str]], tokenizer: Tokenizer) -> np.ndarray:
    """bool[pairs]: whether a word of the pair is more than one token."""
    pieces = {word: len(tokenizer.encode(word)) for word in set().union(*pairs)}
    return np.array([any(pieces[word] > 1 for word in words) for words in pairs])


def lines(ids: Sequence[str], right: np.ndarray, pairs: Sequence[Collection[str]], counts: Mapping[str, int],
          tokenizer: Tokenizer) -> list[str]:
    """The Markdown table. pairs: the words of each; counts: of the training text."""
    common = rarest(pairs, counts)
    rows = [(f'every word at least {least:g} times in a million', common >= least) for least in PER_MILLION]
    rows.append(('every word one token', ~split_words(pairs, tokenizer)))
    body = []
    for name, selected in rows:
        found = compare(ids, right, selected)
        cells = ['n/a'] * 4
        if found:
            cells = [found.sets, percent(found.selected.value), percent(found.others.value), signed(found.difference)]
        body.append([name, percent(selected.mean()), *cells])
    overall = bootstrap.mean(minimal_pairs.set_means(ids, right).values())
    return [f'{len(ids):,} pairs, mean of the sets {percent(overall.value)}; in percent, with 95% intervals.', '',
            *table(['pairs with', 'of all', 'sets', 'accuracy', 'the others', 'difference'], body)]


def _define_flags():
    flags.DEFINE_string('init_from', None, 'the run that was scored', required=True)
    flags.DEFINE_string('predictions', None, 'its predictions on BLiMP, as zero_shot wrote them', required=True)
    flags.DEFINE_string('data', None, "directory of BLiMP's files", required=True)
    flags.DEFINE_multi_string('corpus', None, 'the text that it was trained on', required=True)


def main() -> None:
    f = flags.FLAGS
    tokenizer = load.open_pretrained(from_hub.local_run(f.init_from)).tokenizer()
    ids, _, scores = metrics.read_predictions(f.predictions)
    words = {one.id: words_of(' '.join(one.choices)) for one in blimp.BLIMP.read(f.data, 'test')}
    absent = next((name for name in ids if name not in words), None)
    if absent is not None:
        raise UserError(f'{f.predictions}: {absent!r} is no pair of {f.data}')
    counts = encode.count_words(corpus.documents(f.corpus))
    if not counts:
        raise UserError(f'{", ".join(f.corpus)}: no word in it')
    print('\n'.join(lines(ids, minimal_pairs.outcomes(scores), [words[name] for name in ids], counts, tokenizer)))


if __name__ == '__main__':
    cli.run(main, _define_flags)
