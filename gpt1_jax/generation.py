"""Text after text from a pretrained model: prompts, stop strings, words as soon as they are complete. Not in the paper.

sampling.py has the tokens, data/tokenizer.py their text: lower-case words, punctuation set off by spaces.
"""
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gpt1_jax import sampling
from gpt1_jax.errors import UserError, shown
from gpt1_jax.sampling import Sampling


class Continuation(NamedTuple):
    """What follows a prompt.

    ids: its tokens. text: theirs, up to the stop string. reason: 'stop' at a stop string, or 'length'.
    """
    ids: list[int]
    text: str
    reason: str


def generate(model, params, mesh, tokenizer, prompts: Sequence[str | list[int]], tokens: int = 100,
             how: Sampling = Sampling(), samples: int = 1, stop: str | Sequence[str] = (),
             show: Callable[[int, int, str], None] | None = None):
    """list[Continuation] of each prompt, `samples` of each, all in one batch.

    prompts: texts, or their ids.
    tokens:  how many at most. how: see sampling.Sampling. The same arguments give the same text; a sample's own is the
             same however many others there are.
    stop:    a text ends before the first of these strings in it. Each is looked for as it is, in lower case, and as the
             tokenizer writes it: 'End.' stops at 'end .', too, and '\\n\\n' at a line break, of which it writes one.
    show:    called with (prompt, sample, text) as words become complete; these texts add up to the Continuation's.
    UserError for an empty prompt, for a stop string without a character, and for numbers that cannot be. A notice on
    stderr says, before the first word, which prompts are longer than the context, and where the context gets full.
    """
    encoded = encode(tokenizer, prompts)
    for name, value in (('tokens', tokens), ('samples', samples)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f'{name} is {shown(value)}, must be a whole number of at least 1')
    stops = written(tokenizer, stop)
    _tell(model.config, encoded, tokens)
    n = len(encoded) * samples
    ids, texts, shown_up_to, reasons = [[] for _ in range(n)], [''] * n, [0] * n, [None] * n
    source = sampling.tokens(model, params, mesh, [ids for ids in encoded for _ in range(samples)], how,
                             [stream(ids, sample) for ids in encoded for sample in range(samples)])
    for place in range(tokens if n else 0):
        for i, token in enumerate(next(source).tolist()):
            if reasons[i]:
                continue
            ids[i].append(token)
            whole = tokenizer.decode(ids[i])
            end = first_stop(whole, stops)
            if end is not None:
                texts[i], reasons[i] = whole[:end].rstrip(' '), 'stop'
            elif place == tokens - 1:
                texts[i], reasons[i] = whole, 'length'
            elif tokenizer.ends_word(token):
                texts[i] = whole[:len(whole) - held_back(whole, stops)].rstrip(' ')
            if show is not None and len(texts[i]) > shown_up_to[i]:
                show(i // samples, i % samples, texts[i][shown_up_to[i]:])
                shown_up_to[i] = len(texts[i])
        if all(reasons):
            break
    found = [Continuation(*parts) for parts in zip(ids, texts, reasons)]
    return [found[first:first + samples] for first in range(0, n, samples)]


def _tell(config, encoded, tokens):
    """Notices of what the context does to prompts of such ids, that so many tokens follow."""
    n_ctx = config.n_ctx
    for number, ids in enumerate(encoded, 1):
        if len(ids) > n_ctx:
            print(f'notice: {_name(number, encoded)} has {len(ids):,} tokens, the context holds {n_ctx:,}: the first '
                  f'{len(ids) - n_ctx:,} are left out', file=sys.stderr)
    longest = min(n_ctx, max(map(len, encoded), default=0))
    if config.n_positions and longest + tokens - 1 > n_ctx:  # the last token is written, and not read
        print(f'notice: the context holds {n_ctx:,} tokens: whenever it is full, the text goes on from the last '
              f'{max(1, n_ctx // 2):,}', file=sys.stderr, flush=True)


def _name(number, prompts):
    return 'the prompt' if len(prompts) == 1 else f'prompt {number}'


def stream(ids: Sequence[int], sample: int) -> int:
    """The number of a sample's random numbers: that of another prompt is another, whatever else is in the batch."""
    return zlib.crc32(np.array([sample, *ids], '<i4').tobytes())


def encode(tokenizer, prompts: Sequence[str | list[int]]) -> list[list[int]]:
    """The prompts' ids. UserError for one without a token."""
    encoded = [tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
    for number, ids in enumerate(encoded, 1):
        if not ids:
            raise UserError(f'{_name(number, encoded)} is empty: give it a word at least')
    return encoded


def written(tokenizer, stop: str | Sequence[str]) -> list[str]:
    """The forms in which stop strings are looked for. UserError for one without a character.

    ['End.\\n\\n'] -> ['end.\\n\\n', 'end .\\n']
    """
    stop = [stop] if isinstance(stop, str) else stop
    if '' in stop:
        raise UserError('a stop string is empty')

    def between_words(text):  # as the tokenizer drops white space at either end, which is meant where it was given
        found = tokenizer.decode(tokenizer.encode(f'a {text} a'))[1:-1]
        found = found if text[0].isspace() else found.removeprefix(' ')
        return found if text[-1].isspace() else found.removesuffix(' ')
    forms = (form for text in stop for form in (text.lower(), between_words(text)))
    return list(dict.fromkeys(filter(None, forms)))


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first stop string in a text begins, or None."""
    return min((found for stop in stops if (found := text.find(stop)) >= 0), default=None)


def held_back(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of a text may be the beginning of a stop string.

    'a b', ['b c'] -> 1
    """
    return max((n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)
