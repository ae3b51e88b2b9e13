"""Section 5, Zero-shot Behaviors: the heuristics, each a row's answers as token sequences, and what is compared.

  cola            a sentence's mean token log-probability, against a threshold
  sst2            the text and `very`: is `positive` or `negative` the likelier next word?
  race            the answer with the highest mean token log-probability, given document and question
  dpr, wsc273     the pronoun replaced by each candidate: the highest mean token log-probability of what comes after
  acceptability   a sentence or itself with two words swapped: the higher mean token log-probability

No specials anywhere: pretraining had none. So a text's first token is context alone. Of equal scores the first answer
is taken, of CoLA's the label 0.
"""
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpt1_jax import metrics, scoring
from gpt1_jax.errors import UserError, one_line


class Heuristic(NamedTuple):
    """sequences: (example, tokenizer, n_ctx) -> a list of (ids, n), one an answer: the last n of its ids are scored.
    mean:      answers are compared by the mean log-probability of their scored tokens, else by the sum.
    threshold: a row has one sequence; label 1 is its score above a threshold that is chosen on the training split.
    """
    sequences: Callable[..., list[tuple[list[int], int]]]
    mean: bool = True
    threshold: bool = False


class Row(NamedTuple):
    """An example as ids: its id and label, and a sequence (ids, n) for each answer."""
    id: str
    label: int
    sequences: list[tuple[list[int], int]]


def sentences(example, tokenizer, n_ctx):
    """Tokens 2..n of a text, or of each choice."""
    found = map(tokenizer.encode, example.choices or example.texts)
    return [(ids, len(ids) - 1) for ids in found]


def sst2(example, tokenizer, n_ctx):
    """The text as released, `very`, then each word. In the published vocabulary both words are one token; of a word of
    several tokens the sum over all of them counts: the log-probability of the word, however it is spelt."""
    prompt = tokenizer.encode(f'{example.texts[0]} very')
    words = [tokenizer.encode(word) for word in ('negative', 'positive')]
    return [(prompt + word, len(word)) for word in words]


def race(example, tokenizer, n_ctx):
    """Document, question, answer, with nothing between them, as in fine-tuning; the answer is scored.

    Too long a row loses the end of its document z: it keeps the first n_ctx - |q| - max |a_k| tokens, the same for all
    answers; question q and answers a_k stay whole. UserError where those alone fill the context.
    """
    document, question = map(tokenizer.encode, example.texts)
    answers = list(map(tokenizer.encode, example.choices))
    rest = len(question) + max(map(len, answers), default=0)
    if rest >= n_ctx:
        raise UserError(f'question and answer of {rest} tokens leave no room for the document in a context of {n_ctx}')
    context = document[:n_ctx - rest] + question
    return [(context + answer, len(answer)) for answer in answers]


def pronoun(example, tokenizer, n_ctx):
    """The sentence with each candidate in the pronoun's place; the tokens after the candidate are scored.

    texts: what stands before and after the pronoun, spaces included: the sentence is encoded as a whole. UserError
    where nothing is left to score.
    """
    before, after = example.texts
    found = []
    for candidate in example.choices:
        ids = tokenizer.encode(before + candidate + after)
        n = len(ids) - end_of_prefix(ids, before + candidate, tokenizer)
        if n < 1:
            raise UserError(f'nothing stands after the candidate {candidate!r}, so there is nothing to score')
        found.append((ids, n))
    return found


def end_of_prefix(ids, prefix, tokenizer):
    """How many of a text's ids it takes to spell a prefix of the text.

    Where the prefix ends inside a word (`Tom` of `Tom'd`), words, and so tokens, are cut otherwise than in the prefix
    alone: then its letters are counted. A token that spans the prefix's end belongs to the prefix.
    """
    alone = tokenizer.encode(prefix)
    if ids[:len(alone)] == alone:
        return len(alone)

    def letters(i):
        return len(tokenizer.decode([i]).strip())

    left, end = sum(map(letters, alone)), 0
    # A token without letters is the bare end of a word, unless it is a line break.
    while end < len(ids) and (left > 0 or not letters(ids[end]) and ids[end] != tokenizer.newline_id):
        left -= letters(ids[end])
        end += 1
    return end


HEURISTICS = {
    'cola': Heuristic(sentences, threshold=True), 'sst2': Heuristic(sst2, mean=False), 'race': Heuristic(race),
    'dpr': Heuristic(pronoun), 'wsc273': Heuristic(pronoun), 'acceptability': Heuristic(sentences)}


def get(task):
    """The Heuristic of a task's name. UserError for a task without one."""
    if task not in HEURISTICS:
        raise UserError(f'no zero-shot evaluator for {task!r} (there are {", ".join(HEURISTICS)})')
    return HEURISTICS[task]


def encode_all(heuristic, examples, tokenizer, n_ctx, what, skipped=None):
    """Every example as a Row, in order.

    what: task and split, for messages. UserError naming the row that has no label, or that cannot be scored. skipped: a
    list that takes such messages instead; the rows are left out.
    """
    found = []
    for example in examples:
        try:
            sequences = heuristic.sequences(example, tokenizer, n_ctx)
            for ids, n in sequences:
                scoring.check(ids, n, n_ctx)
            answers = 2 if heuristic.threshold else len(sequences)
            if example.label is None or not 0 <= example.label < answers:
                raise UserError(f'label {example.label} is none of 0..{answers - 1}')
            found.append(Row(example.id, example.label, sequences))
        except UserError as error:
            message = one_line(f'{what}: row {example.id}: {error}')
            if skipped is None:
                raise UserError(message) from None
            skipped.append(message)
    if not found:
        raise UserError(f'{what}: no row to score' + (f', the first left out: {skipped[0]}' if skipped else ''))
    return found


def answer(heuristic, score, rows, train=None):
    """The scores of every row's answers, and what was chosen on the way.

    score: sequences -> (sums, counts), as scoring.score. rows, train: lists of Row; train chooses the threshold.
    Returns (float[rows, answers], {'threshold': nats a token} or {}). Rows may differ in their number of answers: those
    that a row lacks have the score metrics.ABSENT.
    """
    if heuristic.threshold:
        cut = best_threshold(_values(heuristic, score, train)[:, 0], np.array([row.label for row in train]))
        above = _values(heuristic, score, rows)[:, 0] - cut
        return np.stack([np.zeros(len(above)), above], axis=1), {'threshold': cut}
    return _values(heuristic, score, rows), {}


def _values(heuristic, score, rows):
    sums, counts = score([sequence for row in rows for sequence in row.sequences])
    values = sums / counts if heuristic.mean else sums
    widths = [len(row.sequences) for row in rows]
    found = np.full((len(rows), max(widths)), metrics.ABSENT)
    found[np.arange(max(widths)) < np.array(widths)[:, None]] = values
    return found


def best_threshold(scores, gold):
    """The cut between two scores that gives `scores > cut` the highest Matthews correlation (the lowest of equals).

    Paper: the threshold is unstated.
    """
    order = np.argsort(scores, kind='stable')
    ordered, labels = scores[order], gold[order]
    # Cutting after the first i scores: they are called 0, the others 1.
    negatives, positives = np.cumsum(labels == 0), np.cumsum(labels == 1)
    tn, fn = negatives.astype(float), positives.astype(float)
    fp, tp = tn[-1] - tn, fn[-1] - fn
    matthews = metrics.matthews_of(np.stack([tp, fp, fn, tn], axis=-1))
    matthews[:-1][ordered[:-1] == ordered[1:]] = -2  # no cut stands between equal scores
    i = int(np.argmax(matthews[:-1])) if len(scores) > 1 else 0
    return float((ordered[i] + ordered[min(i + 1, len(ordered) - 1)]) / 2)
