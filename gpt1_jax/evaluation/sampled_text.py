"""Samples a few words from a model in training, always with the same prompt and seed. Not in the paper."""
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from gpt1_jax.data.detokenize import readable
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.tokens import TokenStream
from gpt1_jax.evaluation import decoding
from gpt1_jax.models.build import backbone

PROMPT = 8  # tokens
HOW = decoding.Sampling(top_k=40)


def sampler(fields: dict, mesh: Mesh, tokenizer: Tokenizer, stream: TokenStream,
            n: int) -> Callable[[Any], str] | None:
    """A function params -> 'the first words of the validation text | the n tokens that the model continues with'.

    fields: of the model. None if n is 0, and with several processes, as none of them holds all parameters. Does not
    touch the training's state and random numbers.
    """
    if n == 0 or jax.process_count() > 1:
        return None
    model = backbone(fields | {'unroll': 0})  # as in load.pretrained
    prompt = stream.window(0, model.config.n_ctx)[:min(PROMPT, model.config.n_ctx)].tolist()

    def sample(params):
        tokens = decoding.tokens(model, params, mesh, [prompt], HOW, never=tokenizer.unk_id)
        found = [int(next(tokens)[0]) for _ in range(n)]
        return ' | '.join(readable(' '.join(tokenizer.decode(ids).split())) for ids in (prompt, found))
    return sample
