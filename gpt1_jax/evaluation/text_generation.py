"""Generates text after prompts with a pretrained model, with stop strings and streaming. Not in the paper.

decoding.py generates the tokens. Their text is that of data/tokenizer.py: lower-case, punctuation set off by spaces.
"""
import dataclasses
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from gpt1_jax import rules
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, shown
from gpt1_jax.evaluation import decoding
from gpt1_jax.evaluation.decoding import Sampling


@dataclasses.dataclass
class Continuation:
    """The generated continuation of a prompt.

    ids: its tokens. text: their text, up to the stop string. reason: 'stop' at a stop string, or 'length'; None until
    it is complete. new_text: the text that became final with the last token.
    """
    ids: list[int] = dataclasses.field(default_factory=list)
    text: str = ''
    reason: str | None = None
    new_text: str = ''
    _shown: int = 0  # characters of the text that were in a new_text

    def append(self, tokenizer: Tokenizer, token: int, stops: Sequence[str], last: bool) -> None:
        """Add a token, unless a stop string was met. last: whether it is the last one requested."""
        self.new_text = ''
        if self.reason is not None:
            return
        self.ids.append(token)
        whole = tokenizer.decode(self.ids)
        end = first_stop(whole, stops)
        if end is not None:
            self.text = whole[:end].rstrip(' ')
            self.reason = 'stop'
        elif last:
            self.text = whole
            self.reason = 'length'
        elif tokenizer.ends_word(token):
            self.text = whole[:len(whole) - held_back(whole, stops)].rstrip(' ')
        self.new_text = self.text[self._shown:]
        self._shown = max(self._shown, len(self.text))


def generate(model: Any, params: Any, mesh: Mesh, tokenizer: Tokenizer, prompts: Sequence[str | list[int]],
             tokens: int = 100, how: Sampling = Sampling(), samples: int = 1, stop: str | Sequence[str] | None = (),
             show: Callable[[int, int, str], None] | None = None) -> list[list[Continuation]]:
    """The continuations of each prompt, `samples` of each, generated in one batch.

    prompts: texts, or their ids.
    tokens:  the maximum number of tokens. how: see decoding.Sampling. Equal arguments give equal text; a sample does
             not depend on the number of samples.
    stop:    a text ends before the first of these strings. Each is matched in lower case, and as the tokenizer writes
             it: 'End.' also matches 'end .', and '\\n\\n' the single line break written for it.
    show:    called with (prompt, sample, text) as words become complete; these texts add up to the Continuation's.
    UserError for an empty prompt or stop string, and for an invalid number. Notices on stderr name the prompts that are
    longer than the context, and announce that the text will outgrow it.
    """
    encoded = encode(tokenizer, prompts)
    rules.require({'tokens': (tokens, rules.whole(1)), 'samples': (samples, rules.whole(1))})
    stops = stop_forms(tokenizer, stop)
    _print_notices(model.config, encoded, tokens)
    repeated = [ids for ids in encoded for _ in range(samples)]
    streams = [stream(ids, sample) for ids in encoded for sample in range(samples)]
    source = decoding.tokens(model, params, mesh, repeated, how, streams, never=tokenizer.unk_id)
    found = [Continuation() for _ in repeated]
    for place in range(tokens):
        for i, token in enumerate(next(source).tolist()):
            found[i].append(tokenizer, token, stops, last=place == tokens - 1)
            if show is not None and found[i].new_text:
                show(i // samples, i % samples, found[i].new_text)
        if all(continuation.reason for continuation in found):
            break
    return [found[first:first + samples] for first in range(0, len(found), samples)]


def _print_notices(config, encoded, tokens):
    """Print to stderr what the context cuts off when `tokens` are generated after these prompts."""
    n_ctx = config.n_ctx
    for number, ids in enumerate(encoded, 1):
        if len(ids) > n_ctx:
            print(f'notice: {_name(number, encoded)} has {len(ids):,} tokens, the context holds {n_ctx:,}: dropping '
                  f'the first {len(ids) - n_ctx:,}', file=sys.stderr)
    longest = min(n_ctx, max(map(len, encoded)))
    if config.n_positions and longest + tokens - 1 > n_ctx:  # the last token is generated, but not read
        print(f'notice: the context holds {n_ctx:,} tokens: whenever it is full, the text continues from the last '
              f'{max(1, n_ctx // 2):,}', file=sys.stderr, flush=True)


def _name(number, prompts):
    return 'the prompt' if len(prompts) == 1 else f'prompt {number}'


def stream(ids: Sequence[int], sample: int) -> int:
    """The random stream of a sample, a uint32 that depends on its prompt and number, not on the batch."""
    return zlib.crc32(np.array([sample, *ids], '<i4').tobytes())


def encode(tokenizer: Tokenizer, prompts: Sequence[str | list[int]]) -> list[list[int]]:
    """The ids of each prompt. UserError for a prompt without a token."""
    encoded = [tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
    for number, ids in enumerate(encoded, 1):
        if not ids:
            raise UserError(f'{_name(number, encoded)} is empty: it needs at least one word')
    return encoded


def stop_forms(tokenizer: Tokenizer, stop: str | Sequence[str] | None) -> list[str]:
    """The forms in which stop strings are matched; None for no strings. UserError for an empty string or another type.

    ['End.\\n\\n'] -> ['end.\\n\\n', 'end .\\n']
    """
    if stop is None:
        stop = []
    elif isinstance(stop, str):
        stop = [stop]
    if not isinstance(stop, (list, tuple)) or not all(isinstance(text, str) for text in stop):
        raise UserError(f'stop is {shown(stop)}, must be a text or a list of texts')
    if '' in stop:
        raise UserError('a stop string is empty')

    forms = []
    for text in stop:
        forms += [text.lower(), _as_decoded(tokenizer, text)]
    return list(dict.fromkeys(form for form in forms if form))


def _as_decoded(tokenizer, text):
    """The text as the tokenizer writes it in the middle of a text, where it keeps white space at either end."""
    found = tokenizer.decode(tokenizer.encode(f'a {text} a'))[1:-1]
    if not text[0].isspace():
        found = found.removeprefix(' ')
    if not text[-1].isspace():
        found = found.removesuffix(' ')
    return found


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """The index of the first stop string in a text, or None."""
    starts = [text.find(stop) for stop in stops]
    return min((start for start in starts if start >= 0), default=None)


def held_back(text: str, stops: Sequence[str]) -> int:
    """The length of the longest end of a text that may still become a stop string.

    'a b', ['b c'] -> 1
    """
    longest = 0
    for stop in stops:
        for n in range(longest + 1, len(stop)):
            if text.endswith(stop[:n]):
                longest = n
    return longest
