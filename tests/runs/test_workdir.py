"""config.json of a run directory: damaged, or edited by hand."""
import json

import pytest

from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import fine_tuned
from gpt1_jax.runs import workdir

MODEL = {'kind': 'gpt', 'n_layer': 2, 'n_embd': 16, 'n_head': 4, 'n_inner': 32, 'n_ctx': 64, 'vocab_size': 300,
         'embd_dropout': 0.1, 'attn_dropout': 0.1, 'resid_dropout': 0.1, 'dtype': 'float32'}
TUNED = {'kind': 'finetune', 'model': MODEL, 'fingerprint': {}, 'seed': 0, 'task': 'cola', 'results': None,
         'data': {'dir': 'glue/CoLA', 'n_ctx': None, 'train_rows': None, 'eval_rows': None, 'skip_bad': False},
         'classifier_dropout': 0.1, 'lengths': [16, 32], 'batch': {'eval_size': 8}}


def complaint(function, directory, content):
    (directory / 'config.json').write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(UserError) as caught:
        function(directory)
    where, message = str(caught.value).split(': ', 1)
    assert where == str(directory / 'config.json')
    return message


@pytest.mark.parametrize('content, message', [
    (b'{"kind": "caf\xe9"}', 'not JSON (\'utf-8\' codec'),
    ([], "not a run's config: its model or fingerprint is missing"),
    (TUNED | {'model': None}, "not a run's config: its model or"),
    (TUNED | {'kind': None}, "kind is None, must be 'pretrain' or 'finetune'"),
    (TUNED | {'model': MODEL | {'n_layer': '2'}}, "model.n_layer is '2', must be a whole number from 1"),
    (TUNED | {'model': MODEL | {'n_layers': 2}}, "model.n_layers is no field of any model, did you mean 'n_layer'?"),
    (TUNED | {'model': {k: v for k, v in MODEL.items() if k != 'n_head'}}, 'model.n_head is missing')])
def test_a_config_that_is_no_run_s_is_named(tmp_path, content, message):
    assert complaint(workdir.load, tmp_path, content).startswith(message)


@pytest.mark.parametrize('change, message', [
    ({'data': None}, "config.data is None, must be a group of fields"),
    ({'data': {'dir': 'x'}}, 'config.data.n_ctx, config.data.train_rows, config.data.eval_rows, '),
    ({'lengths': []}, 'config.lengths is [], must be a list of lengths'),
    ({'batch': {'eval_size': 0}}, 'config.batch.eval_size is 0, must be'),
    ({'classifier_dropout': 'x'}, "config.classifier_dropout is 'x', must be"),
    ({'seed': None}, 'config.seed is None, must be'), ({'task': []}, 'config.task is [], must be a text'),
    ({'results': 3}, 'config.results is 3, must be a text, or None')])
def test_a_fine_tuned_run_s_config_is_checked_before_it_is_scored(tmp_path, change, message):
    assert complaint(lambda directory: fine_tuned.evaluate_run(workdir.load(directory), 'dev'), tmp_path,
                     TUNED | change).startswith(message)
