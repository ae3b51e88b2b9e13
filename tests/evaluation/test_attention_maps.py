"""Where each head looks: transformers' maps, the mixes that the model makes of them, what cannot be
shown."""

import numpy as np
import pytest

import reference
from backbones import weights
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation.states import attention_maps
from gpt1_jax.models.build import backbone
from gpt1_jax.models.gpt import GPT, GPTConfig
from tiny import ROOT

pytestmark = pytest.mark.full

MODEL = GPT(GPTConfig(vocab_size=29, n_ctx=12, n_embd=16, n_layer=3, n_head=4, n_inner=64))
TOKENS = np.random.default_rng(0).integers(0, 29, (2, 11)).astype(np.int32)
PARAMS = weights(MODEL)


@pytest.fixture(scope='module')
def maps():
    return np.asarray(attention_maps(MODEL, PARAMS, TOKENS))


def test_they_are_those_of_transformers(maps):
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    model = transformers.OpenAIGPTModel(
        transformers.OpenAIGPTConfig(
            vocab_size=29,
            n_positions=12,
            n_embd=16,
            n_layer=3,
            n_head=4,
            attn_implementation='eager',
        )
    ).eval()
    names = {
        name.removeprefix('transformer.'): array
        for name, array in reference.hugging_face(PARAMS).items()
    }
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in names.items()})
    with torch.no_grad():
        theirs = model(torch.from_numpy(TOKENS).long(), output_attentions=True).attentions
    assert maps.shape == (3, 2, 4, 11, 11) and maps.std() > 0.1
    np.testing.assert_allclose(maps, np.stack(theirs), rtol=0, atol=1e-5)


def test_an_attention_of_the_users_own_has_other_maps_and_is_refused(trusted_code):
    rotary = GPT(GPTConfig(ops=(('attention', f'{ROOT}/experiments/ideas/positions.py:rotary'),)))
    with pytest.raises(UserError, match='model.ops.attention is code of its own'):
        attention_maps(rotary, None, TOKENS)


def test_an_lstm_has_none_and_too_many_tokens_do_not_fit():
    with pytest.raises(UserError, match='an LSTM has no attention'):
        attention_maps(backbone({'kind': 'lstm', 'n_units': 8}), None, TOKENS)
    with pytest.raises(UserError, match='a sequence of 13 tokens is longer than the context, 12'):
        attention_maps(MODEL, PARAMS, np.zeros((1, 13), np.int32))
