"""Section 5, Zero-shot Behaviors: the sequences of a row's answers, and how they are compared.

  cola            a sentence's mean token log-probability, against a threshold
  sst2            the text and `very`: is `positive` or `negative` the more likely next word?
  race            the answer with the highest mean token log-probability, given document and
                  question (also for the quickstart's `word_order` and any other task with choices)
  dpr             the pronoun replaced by each candidate: the highest mean token log-probability of
                  the text after it (partial scoring, Trinh and Le, 2018)
  blimp           a good or a bad sentence: the higher log-probability of all tokens, after a line
                  break, in float32 (minimal_pairs.py)

There are no special tokens, as in pretraining. So a text's first token is only context. In blimp
the first token is scored, after the line break that ends every line of pretraining's text. The
first answer wins ties, but in blimp a tie counts half. A CoLA sentence whose score equals the
threshold has label 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpt1_jax import metrics, rules
from gpt1_jax.data import splits
from gpt1_jax.data.tasks.example import Example, Task
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, fail

Candidate = tuple[list[int], int]  # (ids, n): an answer in its context, whose last n ids are scored


class Heuristic(NamedTuple):
    """How a task is scored."""

    # (example, tokenizer, n_ctx) -> a sequence for each answer
    sequences: Callable[[Example, Tokenizer, int], list[Candidate]]
    # Compare answers by the mean log-probability of their scored tokens, else by the sum
    mean: bool = True
    # A row has one sequence. Its label is 1 above a threshold chosen on the training split
    threshold: bool = False
    # Compute in float32, whatever the run's dtype, and report as minimal_pairs.py
    pairs: bool = False


class Row(NamedTuple):
    """An encoded example: its id and label, and a sequence (ids, n) for each answer."""

    id: str
    label: int
    sequences: list[Candidate]


def sentence(example: Example, tokenizer: Tokenizer, n_ctx: int) -> list[Candidate]:
    """The text. All its tokens but the first are scored."""
    ids = tokenizer.encode(example.texts[0])
    return [(ids, len(ids) - 1)]


def after_line_break(example: Example, tokenizer: Tokenizer, n_ctx: int) -> list[Candidate]:
    """Each choice after the token of a line break. All tokens of the choice are scored."""
    texts = [tokenizer.encode(text) for text in example.choices]
    return [([tokenizer.newline_id, *ids], len(ids)) for ids in texts]


def sst2(example: Example, tokenizer: Tokenizer, n_ctx: int) -> list[Candidate]:
    """The text as released, `very`, then each word.

    A word is one token of the published vocabulary. In other vocabularies the log-probabilities of
    its tokens are summed.
    """
    prompt = tokenizer.encode(f'{example.texts[0]} very')
    words = [tokenizer.encode(word) for word in ('negative', 'positive')]
    return [(prompt + word, len(word)) for word in words]


def race(example: Example, tokenizer: Tokenizer, n_ctx: int) -> list[Candidate]:
    """Document, question, answer, with nothing between them.

    The answer is scored. The document of a long row is truncated to its first n_ctx - |q| - max
    |a_k| tokens, the same for all answers a_k to question q. The question is the last of a row's
    texts, and the texts before it are the document. UserError if question and answer leave no room
    for a document.
    """
    *before, question = [tokenizer.encode(text) for text in example.texts]
    document = [token for text in before for token in text]
    answers = [tokenizer.encode(choice) for choice in example.choices]
    rest = len(question) + max(map(len, answers), default=0)
    if rest >= n_ctx:
        raise UserError(
            f'question and answer of {rest} tokens leave no room for the document in a context of '
            f'{n_ctx}'
        )
    context = document[: n_ctx - rest] + question
    return [(context + answer, len(answer)) for answer in answers]


def pronoun(example: Example, tokenizer: Tokenizer, n_ctx: int) -> list[Candidate]:
    """The sentence with each candidate in place of the pronoun.

    The tokens after the candidate are scored. texts: the parts before and after the pronoun, with
    spaces. The sentence is encoded as a whole.
    """
    before, after = example.texts
    found = []
    for candidate in example.choices:
        ids = tokenizer.encode(before + candidate + after)
        found.append((ids, len(ids) - end_of_prefix(ids, before + candidate, tokenizer)))
    return found


def end_of_prefix(ids: Sequence[int], prefix: str, tokenizer: Tokenizer) -> int:
    """How many of a text's ids spell a prefix of the text.

    If the prefix ends inside a word (`Tom` of `Tom'd`), the text has other tokens than the prefix
    by itself. Then letters are counted. A token that spans the end of the prefix belongs to the
    prefix.
    """
    alone = tokenizer.encode(prefix)
    if ids[: len(alone)] == alone:
        return len(alone)

    def letters(i):
        return len(tokenizer.decode([i]).strip())

    left = sum(map(letters, alone))
    end = 0
    # After the last letter, a token without letters, but for the line break, ends the word.
    while end < len(ids) and (
        left > 0 or letters(ids[end]) == 0 and ids[end] != tokenizer.newline_id
    ):
        left -= letters(ids[end])
        end += 1
    return end


HEURISTICS = {
    'cola': Heuristic(sentence, threshold=True),
    'sst2': Heuristic(sst2, mean=False),
    'race': Heuristic(race),
    'dpr': Heuristic(pronoun),
    'word_order': Heuristic(race),
    'blimp': Heuristic(after_line_break, mean=False, pairs=True),
}


def get(task: str) -> Heuristic:
    """The Heuristic of a task, by name. UserError for a task without one."""
    return rules.choose('zero-shot evaluator', task, HEURISTICS)


def of(task: Task) -> Heuristic:
    """The Heuristic of a task by its name. Any other task with choices is scored like RACE."""
    if task.name not in HEURISTICS and task.head == 'choice':
        return Heuristic(race)
    return get(task.name)


def encode_all(
    heuristic: Heuristic,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    n_ctx: int,
    what: str,
    on_bad: Callable[[str], None] = fail,
) -> list[Row]:
    """Encodes every example as a Row, in order.

    what, on_bad, UserError: as in splits.each.
    """

    def encode(example):
        sequences = heuristic.sequences(example, tokenizer, n_ctx)
        for ids, n in sequences:
            if not 1 <= n < min(len(ids), n_ctx):
                raise UserError(
                    f'{n} of {len(ids)} tokens to score: needs 1 to {n_ctx - 1}, and one before '
                    'them'
                )
        sequences = [(ids[-n_ctx:], n) for ids, n in sequences]
        answers = 2 if heuristic.threshold else len(sequences)
        if example.label is None or not 0 <= example.label < answers:
            raise UserError(f'label {example.label} is not in 0..{answers - 1}')
        return Row(example.id, int(example.label), sequences)

    return splits.each(examples, encode, what, on_bad)


def answer_scores(
    heuristic: Heuristic,
    score: Callable[[list[Candidate]], np.ndarray],
    rows: Sequence[Row],
    train: Sequence[Row] | None = None,
) -> tuple[np.ndarray, dict[str, Any]]:
    """(scores float[rows, answers], details). The answer with the highest score is the model's.

    score: sequences -> their log-probabilities, as log_probs.last_tokens.
    train: the rows on which a threshold is chosen.
    details: {'threshold': nats per token} or {}.

    Answers that a row lacks score metrics.ABSENT.
    """
    values = _values(heuristic, score, rows)
    if not heuristic.threshold:
        return values, {}
    assert train is not None
    gold = np.array([row.label for row in train])
    threshold = best_threshold(_values(heuristic, score, train)[:, 0], gold)
    # Label 0 scores 0, so label 1 has the higher score if the sentence is above the threshold.
    return np.insert(values - threshold, 0, 0, axis=1), {'threshold': threshold}


def _values(heuristic, score, rows):
    """The mean or the sum of the log-probabilities of each answer's scored tokens.

    float[rows, answers].
    """
    sequences = [sequence for row in rows for sequence in row.sequences]
    sums = score(sequences)
    counts = np.array([n for _, n in sequences])
    values = sums / counts if heuristic.mean else sums
    widths = [len(row.sequences) for row in rows]
    found = np.full((len(rows), max(widths)), metrics.ABSENT)
    found[np.arange(max(widths)) < np.array(widths)[:, None]] = values
    return found


def best_threshold(scores: np.ndarray, gold: np.ndarray) -> float:
    """The threshold at which `scores > threshold` has the highest Matthews correlation.

    It is halfway between two scores. Of several such thresholds it is the lowest. The paper does
    not state how it chose the threshold.

    scores: float[n]. gold: int[n], 0 or 1.
    """
    order = np.argsort(scores, kind='stable')
    ordered = scores[order]
    labels = gold[order]
    # Confusion counts at index i, for a threshold just above ordered[i]: scores up to i get label
    # 0, the others 1.
    tn = np.cumsum(labels == 0).astype(float)
    fn = np.cumsum(labels == 1).astype(float)
    fp = tn[-1] - tn
    tp = fn[-1] - fn
    matthews = metrics.matthews_of(np.stack([tp, fp, fn, tn], axis=-1))
    matthews[:-1][ordered[:-1] == ordered[1:]] = -2  # there is no threshold between equal scores
    i = int(np.argmax(matthews[:-1])) if len(scores) > 1 else 0
    return float((ordered[i] + ordered[min(i + 1, len(ordered) - 1)]) / 2)
