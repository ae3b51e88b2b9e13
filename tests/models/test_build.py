import numpy as np
import pytest

from gpt1_jax import perplexity, pretraining
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.lstm import LSTM, LSTMConfig
from gpt1_jax.runs import workdir
from tiny import corpus, pretrain_config


def test_fields_without_a_kind_are_a_gpts():
    fields = dict(
        n_layer=3,
        n_embd=8,
        n_head=2,
        n_inner=12,
        n_ctx=5,
        embd_dropout=0.1,
        attn_dropout=0.2,
        resid_dropout=0.3,
        dtype='float32',
        remat=False,
        unroll=1,
        vocab_size=7,
    )
    assert backbone(fields) == GPT(GPTConfig(**fields))
    assert own_fields(fields) == fields | {'kind': 'gpt', 'ops': {}}


def test_each_kind_reads_its_own_fields_alone():
    fields = dict(
        n_layer=3,
        n_embd=8,
        n_head=2,
        n_inner=12,
        n_units=6,
        n_ctx=5,
        attn_dropout=0.2,
        resid_dropout=0.3,
    )
    assert own_fields(fields | {'kind': 'lstm'}) == {
        'kind': 'lstm',
        'n_units': 6,
        'n_ctx': 5,
        'resid_dropout': 0.3,
    }
    assert 'n_units' not in own_fields(fields)
    assert backbone(fields | {'kind': 'lstm', 'n_special': 3}) == LSTM(
        LSTMConfig(n_special=3, n_units=6, n_ctx=5, resid_dropout=0.3)
    )


@pytest.mark.parametrize(
    'fields, message',
    [
        ({'kind': 'LSTM'}, "^model.kind is 'LSTM', did you mean 'lstm'[?]"),
        ({'kind': None}, '^model.kind is None '),
        ({'kind': 'lstm', 'n_unit': 8}, "^unknown field model.n_unit, did you mean 'n_units'[?]$"),
    ],
)
def test_what_is_unknown_is_refused_with_the_nearest_that_is_known(fields, message):
    with pytest.raises(UserError, match=message):
        backbone(fields)


def test_a_run_stores_the_fields_of_its_kind_and_opens_as_the_same_model(tmp_path):
    config = pretrain_config(
        corpus(tmp_path / 'text'), model__kind='lstm', model__n_units=16, train__steps=6
    )
    run = workdir.load(pretraining.run(config, tmp_path / 'run').path)
    assert run.config['model'] == dict(
        kind='lstm',
        n_units=16,
        n_ctx=16,
        embd_dropout=0.1,
        resid_dropout=0.1,
        dtype='float32',
        unroll=0,
        precision='highest',
        kernels='auto',
        vocab_size=run.tokenizer().vocab_size,
    )
    assert np.isfinite(perplexity.evaluate(run.path, str(tmp_path / 'text'))['value'])
