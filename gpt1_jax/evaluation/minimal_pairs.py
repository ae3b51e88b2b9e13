"""BLiMP's accuracies from the log-probabilities of minimal pairs, with bootstrap intervals.

Not in the paper. A pair is right if its good sentence has the higher log-probability. A tie counts
half. Accuracies are computed per set. A phenomenon's accuracy is the mean of its sets, and the
overall accuracy is the mean of all sets. Published figures differ in conventions, each worth a
point or two, so each convention is a metric (see `report`).
"""

import collections
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gpt1_jax import metrics
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.errors import UserError
from gpt1_jax.metrics.bootstrap import Estimate, interval, mean, resampled


def report(
    task: Task,
    split: str,
    pairs: Sequence[Any],
    scores: np.ndarray,
    score: Callable,
    chosen: Collection[str],
) -> list[dict]:
    """The rows of results.jsonl for a checkpoint, over all pairs, each phenomenon and each set.

    pairs: zero_shot_heuristics.Row, with ids PHENOMENON/SET/PAIR.
    scores: float[pairs, 2], the good sentence first.
    score: as in zero_shot_heuristics.answer_scores, for first tokens.
    chosen: 'SET/PAIR' of the filtered pairs, if any.
    """
    ids = [pair.id for pair in pairs]
    half = outcomes(scores)
    sets = set_means(ids, half)
    first_tokens = score(
        [(tokens[: len(tokens) - n + 1], 1) for pair in pairs for tokens, n in pair.sequences]
    )
    overall = {
        'accuracy': sets,
        'accuracy_ties_wrong': set_means(ids, np.floor(half)),  # as in the BLiMP paper
        'accuracy_ties_right': set_means(ids, np.ceil(half)),  # as in lm-evaluation-harness
        'accuracy_phenomena': phenomena(sets),  # the mean of phenomena, not of sets
        # A sentence's first token, after the line break, is only context.
        'accuracy_first_unscored': set_means(ids, outcomes(scores - first_tokens.reshape(-1, 2))),
    }
    if chosen:  # the pairs of an index file, such as BabyLM's
        kept = filtered(ids, chosen)
        overall['accuracy_filtered'] = set_means([ids[i] for i in kept], half[kept])
    found: list[tuple[str | None, str, Estimate]]
    found = [(None, metric, mean(estimates.values())) for metric, estimates in overall.items()]
    found += [
        (group, 'accuracy', estimate) for group, estimate in {**phenomena(sets), **sets}.items()
    ]
    rows = []
    for group, metric, estimate in found:
        low, high = interval(estimate.draws)
        rows.append(
            {
                'task': task.name,
                'split': split,
                'group': group,
                'n': estimate.n,
                'metric': metric,
                'value': estimate.value,
                'low': low,
                'high': high,
            }
        )
    rows[0]['ties'] = int((half == 0.5).sum())
    return rows


def outcomes(scores: np.ndarray) -> np.ndarray:
    """The outcome of each pair, float[pairs]: 1 if the good sentence wins, 0.5 for a tie, else 0.

    scores: float[pairs, 2], the good sentence first.
    """
    return (1 + np.sign(scores[:, 0] - scores[:, 1])) / 2


def set_means(ids: Sequence[str], values: np.ndarray) -> dict[str, Estimate]:
    """{'PHENOMENON/SET': Estimate}, by name.

    values: float[pairs], outcomes or differences of two models' outcomes.
    """
    by_set: dict[str, list] = collections.defaultdict(list)
    for name, value in zip(ids, values, strict=True):
        by_set[name.rpartition('/')[0]].append((value, 1))
    found = {}
    for name, terms in sorted(by_set.items()):
        # by set, so that its resamples do not depend on other sets
        seed = zlib.crc32(name.encode())
        (draws,) = resampled([np.array(terms)], metrics.ratio, seed, grouped=True)
        found[name] = Estimate(float(np.mean(terms, axis=0)[0]), draws, len(terms))
    return found


def phenomena(sets: dict[str, Estimate]) -> dict[str, Estimate]:
    """{phenomenon: Estimate} over its sets, given the Estimates of `set_means`."""
    by_phenomenon: dict[str, list[Estimate]] = collections.defaultdict(list)
    for name, estimate in sets.items():
        by_phenomenon[name.partition('/')[0]].append(estimate)
    return {name: mean(estimates) for name, estimates in by_phenomenon.items()}


def filtered(ids: Sequence[str], chosen: Collection[str]) -> list[int]:
    """The indices of the pairs whose 'SET/PAIR' is chosen. UserError if there are none."""
    kept = [i for i, name in enumerate(ids) if name.partition('/')[2] in chosen]
    if not kept:
        raise UserError('config.data.filter: its file lists none of these pairs')
    return kept
