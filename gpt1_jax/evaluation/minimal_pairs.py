"""BLiMP's accuracies from the log-probabilities of minimal pairs, with bootstrap intervals. Not in the paper.

A pair is right where its good sentence has the higher log-probability; a tie counts half. Accuracies are of each set
first; a phenomenon's is the mean of its sets, the overall one the mean of all sets. Conventions that published figures
differ in, each worth a point or two, are metrics of their own:

  accuracy                 ties half, mean of the sets
  accuracy_ties_wrong      as in the BLiMP paper
  accuracy_ties_right      as in lm-evaluation-harness
  accuracy_phenomena       mean of the phenomena instead of the sets
  accuracy_first_unscored  a sentence's first token is read, after the line break, but not scored
  accuracy_filtered        of the pairs in an index file alone, such as BabyLM's
"""
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from gpt1_jax.data.tasks import blimp
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import log_probs
from gpt1_jax.metrics import bootstrap

RESAMPLES = 2000


class Mean(NamedTuple):
    """An accuracy over n pairs, as a fraction, and its bootstrap resamples float[RESAMPLES]."""
    value: float
    draws: np.ndarray
    n: int


def report(task: Task, split: str, ids: Sequence[str], sequences: Sequence[Sequence[tuple[list[int], int]]],
           scores: np.ndarray, score: Callable, chosen: Collection[str] = ()) -> tuple[list[dict], list[str]]:
    """The rows of results.jsonl for a checkpoint, over all pairs, each phenomenon and each set; and lines to print.

    ids, sequences, scores: of each pair: PHENOMENON/SET/PAIR; both sentences as (ids, n); float[pairs, 2], the good
    sentence first. score: as log_probs.score, for the first tokens. chosen: 'SET/PAIR' of the filtered pairs, if any.
    """
    half = outcomes(scores)
    sets = set_means(ids, half)
    unscored = outcomes(scores - first_tokens(sequences, score))
    overall = {
        'accuracy': mean(sets.values()),
        'accuracy_ties_wrong': mean(set_means(ids, np.floor(half)).values()),
        'accuracy_ties_right': mean(set_means(ids, np.ceil(half)).values()),
        'accuracy_phenomena': mean(phenomena(sets).values()),
        'accuracy_first_unscored': mean(set_means(ids, unscored).values())}
    if chosen:
        kept = filtered(ids, chosen)
        overall['accuracy_filtered'] = mean(set_means([ids[i] for i in kept], half[kept]).values())
    rows = [_row(task, split, None, metric, one) for metric, one in overall.items()]
    for group, one in {**phenomena(sets), **sets}.items():
        rows.append(_row(task, split, group, 'accuracy', one))
    tied = half == 0.5
    rows[0]['ties'] = int(tied.sum())
    return rows, [f'{task.name}: {about_ties(ids, sequences, tied)}']


def outcomes(scores: np.ndarray) -> np.ndarray:
    """float[pairs] of float[pairs, 2], the good sentence first: 1 where its score is higher, 0.5 at a tie, else 0."""
    return (1 + np.sign(scores[:, 0] - scores[:, 1])) / 2


def first_tokens(sequences: Sequence[Sequence[tuple[list[int], int]]], score: Callable) -> np.ndarray:
    """float[pairs, 2]: the log-probability of each sentence's first token, after what stands before it.

    sequences: both sentences of each pair as (ids, n), of which the last n are scored. score: as log_probs.score.
    """
    beginnings = [(ids[:len(ids) - n + 1], 1) for pair in sequences for ids, n in pair]
    distinct, places = log_probs.distinct(beginnings)
    sums, _ = score(distinct)
    return sums[np.array(places)].reshape(-1, 2)


def set_means(ids: Sequence[str], values: np.ndarray) -> dict[str, Mean]:
    """{'PHENOMENON/SET': Mean}, by name. values: float[pairs], outcomes or differences of two models' outcomes.

    Resampling n pairs with replacement is one multinomial draw of how many of them have each of the few values.
    """
    by_set = {}
    for name, value in zip(ids, values, strict=True):
        by_set.setdefault(name.rpartition('/')[0], []).append(value)
    found = {}
    for name, values in sorted(by_set.items()):
        n = len(values)
        different, counts = np.unique(values, return_counts=True)
        rng = np.random.default_rng(zlib.crc32(name.encode()))  # a set's own: others don't change its resamples
        drawn = rng.multinomial(n, counts / n, RESAMPLES)
        found[name] = Mean(float(np.mean(values)), drawn @ different / n, n)
    return found


def phenomena(sets: dict[str, Mean]) -> dict[str, Mean]:
    """{phenomenon: Mean} over its sets. sets: as of `set_means`."""
    by_phenomenon = {}
    for name, one in sets.items():
        by_phenomenon.setdefault(name.partition('/')[0], []).append(one)
    return {name: mean(several) for name, several in by_phenomenon.items()}


def mean(several: Collection[Mean]) -> Mean:
    """The mean of several accuracies, each with the same weight, resample by resample."""
    value = float(np.mean([one.value for one in several]))
    draws = np.mean([one.draws for one in several], axis=0)
    return Mean(value, draws, sum(one.n for one in several))


def about_ties(ids: Sequence[str], sequences: Sequence[Sequence[tuple[list[int], int]]], tied: np.ndarray) -> str:
    """How many pairs are tied, and how many of them beyond those that BLiMP itself gives one sentence twice."""
    known = same = 0
    for name, pair, tie in zip(ids, sequences, tied, strict=True):
        if tie and name in blimp.IDENTICAL:
            known += 1
        elif tie:
            same += pair[0] == pair[1]
    ties = int(tied.sum())
    return (f'{ties:,} ties count half: {known} of the {len(blimp.IDENTICAL)} pairs that BLiMP itself has as one '
            f'sentence twice, {ties - known:,} others (of which {same:,} are the same tokens)')


def filtered(ids: Sequence[str], chosen: Collection[str]) -> list[int]:
    """The indices of the pairs whose 'SET/PAIR' is chosen. UserError without any."""
    kept = [i for i, name in enumerate(ids) if name.partition('/')[2] in chosen]
    if not kept:
        raise UserError('config.data.filter: its file has none of these pairs')
    return kept


def _row(task, split, group, metric, one):
    low, high = bootstrap.percentiles(one.draws)
    return {'task': task.name, 'split': split, 'group': group, 'n': one.n, 'metric': metric, 'value': one.value,
            'low': low, 'high': high}
