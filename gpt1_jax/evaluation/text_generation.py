"""Generates text after prompts with a pretrained model, with stop strings and streaming.

Not in the paper. decoding.py generates the tokens. data/tokenizer.py turns them into text: lower
case, with punctuation set off by spaces.
"""

import dataclasses
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from gpt1_jax import rules
from gpt1_jax.data.detokenize import readable
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.windows import TokenStream
from gpt1_jax.errors import UserError, shown
from gpt1_jax.evaluation import decoding
from gpt1_jax.evaluation.decoding import Sampling
from gpt1_jax.models import kv_cache
from gpt1_jax.models.build import backbone

PROMPT = 8  # tokens, of a sample in training


@dataclasses.dataclass
class Continuation:
    """The generated continuation of a prompt.

    ids: its tokens.
    text: their text up to the stop string. Until it is complete, only the final part.
    reason: 'stop' at a stop string, or 'length', or '' until it is complete.
    """

    ids: list[int] = dataclasses.field(default_factory=list)
    text: str = ''
    reason: str = ''

    def append(self, tokenizer: Tokenizer, token: int, stops: Sequence[str], last: bool) -> None:
        """Adds a token. last: whether it is the last token that was requested."""
        self.ids.append(token)
        whole = tokenizer.decode(self.ids)
        ends = [end for end in map(whole.find, stops) if end >= 0]
        if ends:
            self.text = whole[: min(ends)].rstrip(' ')
            self.reason = 'stop'
        elif last:
            self.text = whole
            self.reason = 'length'
        elif tokenizer.ends_word(token):
            self.text = whole[: len(whole) - held_back(whole, stops)].rstrip(' ')


def generate(
    model: Any,
    params: Any,
    mesh: Mesh,
    tokenizer: Tokenizer,
    prompt: list[int],
    samples: int = 1,
    tokens: int = 100,
    how: Sampling = Sampling(),
    stop: str | Sequence[str] | None = (),
    show: Callable[[int, str], None] | None = None,
) -> list[Continuation]:
    """Generates several continuations of a prompt, in one batch.

    prompt: its ids.
    tokens: the maximum number of tokens.
    how: see decoding.Sampling. Equal arguments give equal text. A sample does not depend on the
        number of samples.
    stop: a text ends before the first of these strings. Each is matched in lower case, and as the
        tokenizer writes it: 'End.' also matches 'end .', and '\\n\\n' the single line break written
        for it.
    show: called with (index of the sample, text so far) as words become complete.

    UserError for an empty prompt or stop string, and for an invalid number. Notices on stderr say
    that a prompt is longer than the context, and that the text will outgrow it.
    """
    if not prompt:
        raise UserError('the prompt is empty: it needs at least one word')
    rules.require({'samples': (samples, rules.integer(1)), 'tokens': (tokens, rules.integer(1))})
    tokens = int(tokens)
    stops = stop_forms(tokenizer, stop)
    _print_notices(model, len(prompt), tokens)
    streams = [stream(prompt, sample) for sample in range(int(samples))]
    source = decoding.tokens(model, params, mesh, prompt, how, streams, never=tokenizer.unk_id)
    found = [Continuation() for _ in streams]
    for place in range(tokens):
        for i, token in enumerate(next(source).tolist()):
            before = found[i].text
            if not found[i].reason:
                found[i].append(tokenizer, token, stops, last=place == tokens - 1)
            if show is not None and found[i].text != before:
                show(i, found[i].text)
        if all(continuation.reason for continuation in found):
            break
    return found


def _print_notices(model, given, tokens):
    """Prints to stderr that the context will cut off tokens.

    given: the number of the prompt's tokens. tokens: to generate after them.
    """
    n_ctx = model.config.n_ctx
    if given > n_ctx:
        print(
            f'notice: the prompt has {given:,} tokens, the context holds {n_ctx:,}: dropping the '
            f'first {given - n_ctx:,}',
            file=sys.stderr,
        )
    # The last token is generated but not read.
    if min(n_ctx, given) + tokens - 1 > n_ctx and kv_cache.bounded(model):
        print(
            f'notice: the context holds {n_ctx:,} tokens: whenever it is full, the text continues '
            f'from the last {max(1, n_ctx // 2):,}',
            file=sys.stderr,
            flush=True,
        )


def stream(ids: Sequence[int], sample: int) -> int:
    """The random stream of a sample, a uint32.

    It depends on the prompt and the number of the sample, not on the batch.
    """
    return zlib.crc32(np.array([sample, *ids], '<i4').tobytes())


def stop_forms(tokenizer: Tokenizer, stop: str | Sequence[str] | None) -> list[str]:
    """The forms in which stop strings are matched.

    stop: None means no strings. UserError for an empty string or another type.

    ['End.\\n\\n'] -> ['end.\\n\\n', 'end .\\n']
    """
    stop = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stop, (list, tuple)) or not all(isinstance(text, str) for text in stop):
        raise UserError(f'stop is {shown(stop)}, must be a text or a list of texts')
    if '' in stop:
        raise UserError('a stop string is empty')
    forms = [form for text in stop for form in (text.lower(), _as_decoded(tokenizer, text))]
    return list(dict.fromkeys(filter(None, forms)))


def _as_decoded(tokenizer, text):
    """The text as the tokenizer writes it inside another text.

    There the tokenizer keeps white space at either end.
    """
    found = tokenizer.decode(tokenizer.encode(f'a {text} a'))[1:-1]
    if not text[0].isspace():
        found = found.removeprefix(' ')
    if not text[-1].isspace():
        found = found.removesuffix(' ')
    return found


def held_back(text: str, stops: Sequence[str]) -> int:
    """The length of the longest end of a text that may still become a stop string.

    'a b', ['b c'] -> 1
    """
    return max(
        (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0
    )


def sampler(
    fields: dict, mesh: Mesh, tokenizer: Tokenizer, held_out: TokenStream, n: int
) -> Callable[[Any], str] | None:
    """Returns a function that generates a sample from a model in training.

        params -> 'the first words of the validation text | the n tokens that the model adds'

    The function always uses the same random numbers. fields: of the model. Returns None if n is 0,
    and with several processes, because none of them holds all parameters.
    """
    if n == 0 or jax.process_count() > 1:
        return None
    model = backbone(fields | {'unroll': 0})  # as in load.pretrained
    prompt = held_out.window(0, model.config.n_ctx)[:PROMPT].tolist()

    def sample(params):
        tokens = decoding.tokens(
            model, params, mesh, prompt, Sampling(top_k=40), never=tokenizer.unk_id
        )
        found = [int(next(tokens)[0]) for _ in range(n)]
        return ' | '.join(
            readable(' '.join(tokenizer.decode(ids).split())) for ids in (prompt, found)
        )

    return sample
