"""model.kind=FILE:CLASS: a backbone of the user's, those of experiments/ideas, and runs of the
user's code alone."""

import dataclasses
import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax import finetuning, pretraining, user_code
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.models import build, kv_cache, ops
from gpt1_jax.models.dropout import NONE, Key
from gpt1_jax.runs import workdir
from gpt1_jax.weights import export_hugging_face
from interruptions import power_cut
from short_runs import arrays, losses
from tiny import ROOT, cola, corpus, finetune_config, pretrain_config

IDEAS = f'{ROOT}/experiments/ideas'
pytestmark = pytest.mark.usefixtures('trusted_code')
PRE_NORM = f'{IDEAS}/pre_norm.py:PreNorm'
SIZES = {'vocab_size': 23, 'n_ctx': 9, 'n_embd': 16, 'n_layer': 3, 'n_head': 4, 'n_inner': 24}
VARIANTS = {
    'pre-norm': {'kind': PRE_NORM},
    'no positions': {'kind': f'{IDEAS}/positions.py:NoPositions'},
    'sinusoidal': {'kind': f'{IDEAS}/positions.py:Sinusoidal'},
    'rotary': {
        'kind': f'{IDEAS}/positions.py:NoPositions',
        'ops': {'attention': f'{IDEAS}/positions.py:rotary'},
    },
    'QK-norm': {'kind': f'{IDEAS}/qk_norm.py:QKNorm'},
    'value residual': {'kind': f'{IDEAS}/value_residual.py:ValueResidual'},
    'free output': {'kind': f'{IDEAS}/weights.py:FreeOutput'},
    'scaled by depth': {'kind': f'{IDEAS}/weights.py:ScaledByDepth'},
}
TOKENS = np.array([[4, 22, 2, 0, 11, 5, 7], [2, 3, 3, 19, 8, 1, 0]], np.int32)


@functools.cache
def model_of(name):
    """(model, random parameters) of a variant."""
    model = build.backbone(SIZES | VARIANTS[name])
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))[
        'params'
    ]
    return model, reference.random_like(shapes, 1)


@pytest.mark.parametrize(
    'name', ['pre-norm', *(pytest.param(name, marks=pytest.mark.full) for name in [*VARIANTS][1:])]
)
def test_states_of_an_idea_with_a_cache_are_those_without(name):
    model, params = model_of(name)
    expected = model.apply({'params': params}, TOKENS)[0]
    cache = model.empty_cache(2)
    found = []
    for part in (TOKENS[:, :3], TOKENS[:, 3:4], TOKENS[:, 4:]):
        (states, _), cache = kv_cache.read(model, params, cache, part)
        found.append(states)
    np.testing.assert_allclose(np.concatenate(found, 1), expected, atol=2e-5)


def test_pre_norm_is_the_formula_with_and_without_dropout():
    model, params = model_of('pre-norm')
    keys = None, Key(jnp.uint32(5), jnp.uint32(700), jnp.uint32(0))
    for key, rates in zip(keys, ({}, {'embd': 0.1, 'attn': 0.1, 'resid': 0.1, 'key': (5, 700)})):
        expected, _ = reference.gpt(params, TOKENS, **rates, pre_norm=True)
        np.testing.assert_allclose(
            model.apply({'params': params}, TOKENS, key)[0], expected, atol=1e-4
        )


def test_rotary_rotates_complex_numbers_by_position():
    qkv = np.random.default_rng(0).normal(size=(2, 7, 3, 2, 4)).astype(np.float32)
    turns = np.exp(1j * np.arange(7)[:, None] * np.array([1, 0.01]))  # [L, E / 2]
    z = (qkv[:, :, :2, :, :2] + 1j * qkv[:, :, :2, :, 2:]) * turns[:, None, None]
    rotated = qkv.copy()
    rotated[:, :, :2] = np.concatenate([z.real, z.imag], -1)
    code = build.user_code.load(f'{IDEAS}/positions.py:rotary', 'f')
    np.testing.assert_allclose(code(qkv, NONE), ops.attention(rotated, NONE), atol=1e-5)


@pytest.mark.full
def test_a_run_of_the_users_code_learns_resumes_to_the_bit_and_is_fine_tuned_but_not_exported(
    tmp_path,
):
    """Backbone, operation, optimizer and schedule."""
    idea = tmp_path / 'idea.py'
    schedule = f'{IDEAS}/optimizers.py:inverse_square_root'
    muon = f'{IDEAS}/optimizers.py:muon'
    shutil.copy(f'{IDEAS}/relu.py', idea)
    relu = f'{idea}:relu_squared'
    config = pretrain_config(
        corpus(tmp_path / 'text'),
        model__kind=PRE_NORM,
        model__ops__gelu=relu,
        model__n_inner=64,
        train__steps=10,
        optimizer__kind=muon,
        optimizer__schedule=schedule,
        log_every=1,
    )
    straight = pretraining.run(config, tmp_path / 'straight')
    with power_cut(7):
        pretraining.run(config, tmp_path / 'run')
    run = pretraining.run(config, tmp_path / 'run')
    assert arrays(run, 10) == arrays(straight, 10) and 'ln_f/scale' in arrays(run, 10)['params']
    assert losses(run)[-1][1] < losses(run)[0][1]
    assert run.config['fingerprint']['code'].keys() == {PRE_NORM, relu, muon, schedule}
    assert load.pretrained(run, 10, load.sharding.make_mesh())[0].config.ops == (('gelu', relu),)
    gpt = run.config | {'model': run.config['model'] | {'kind': 'gpt'}}
    with pytest.raises(UserError, match='cannot be exported: model.ops'):
        export_hugging_face.check(dataclasses.replace(run, config=gpt))

    config = finetune_config('cola', cola(tmp_path / 'CoLA'), init_from=str(run.path))
    setting = finetuning.resolve(config)

    def key():
        code = user_code.digests(setting.config.to_dict() | {'model': setting.sizes})
        return finetuning._key(dataclasses.replace(setting, code=code))

    before = key()
    assert before == finetuning._key(setting)
    assert finetuning.run(setting.config, tmp_path / 'cola')
    tuned = workdir.load(tmp_path / 'cola')
    assert tuned.config['model']['kind'] == PRE_NORM
    assert tuned.config['fingerprint']['code'].keys() == {PRE_NORM, relu}
    assert load.fine_tuned(tuned).params['backbone']['ln_f']['scale'].shape == (16,)
    idea.write_text(idea.read_text() + '\n# edited\n')
    assert key() != before
    with pytest.raises(UserError, match='which has changed since'):
        workdir.load(tuned.path)


GPT_CODE = """
import dataclasses
import jax.numpy as jnp
from gpt1_jax.models.gpt import GPT, GPTConfig

@dataclasses.dataclass(frozen=True)
class WithField(GPTConfig):
    window: int = 4
    base: float = 10000.0

class Model(GPT):
    {field}
    def __call__(self, tokens, key=None):
        x, rows = super().__call__(tokens, key)
        return {x}, rows
"""


@pytest.mark.parametrize(
    'field, code, message',
    [
        (
            'kind',
            GPT_CODE.format(field='', x='x[:, :1]'),
            r'Model must have states of shape and type \(\(2, 3, 16\)',
        ),
        ('kind', GPT_CODE.format(field='', x='x @ x'), 'idea.py: line 15: TypeError: '),
        (
            'kind',
            GPT_CODE.format(field='config: dict', x='x'),
            'Model: is not a Flax module with a field `config` that',
        ),
        (
            'ops__gelu',
            'def Model(x):\n    return x[:1]',
            r'Model: returns \(\(1, 3, 4\), .*must return \(\(2, 3, 4\)',
        ),
        ('ops__gelu', 'def Model(x, y):\n    return x', 'ops.gelu = .*TypeError'),
    ],
)
def test_a_mistake_in_the_users_code_is_one_line_before_any_text_is_read(
    tmp_path, field, code, message
):
    (tmp_path / 'idea.py').write_text(code)
    config = pretrain_config('no such corpus', **{f'model__{field}': f'{tmp_path}/idea.py:Model'})
    with pytest.raises(UserError, match=message) as error:
        pretraining.run(config, tmp_path / 'run')
    assert str(error.value).isprintable()


def test_a_field_of_ones_own_has_its_default_and_is_stored(tmp_path):
    (tmp_path / 'idea.py').write_text(GPT_CODE.format(field='config: WithField', x='x'))
    kind = f'{tmp_path}/idea.py:Model'
    stored = build.own_fields(SIZES | {'kind': kind})
    assert stored['window'] == 4 and 'n_special' not in stored and 'window' in build.sizes(kind)
    assert build.backbone(stored | {'window': 2}).config.window == 2
    with pytest.raises(UserError, match='unknown field model.windows, did you mean .window'):
        build.backbone(SIZES | {'kind': kind, 'windows': 2})
    assert stored['base'] == 10000.0  # no dropout rate
    with pytest.raises(UserError, match='model.base is inf, must be a number of magnitude below'):
        build.backbone(stored | {'base': float('inf')})


def test_an_operation_that_a_backbone_does_not_have_is_refused():
    with pytest.raises(
        UserError, match="model.ops.gelu: model.kind = 'lstm' has no such operation"
    ):
        build.own_fields({'kind': 'lstm', 'ops': {'gelu': 'a.py:b', 'dense': None}})
    with pytest.raises(UserError, match='model.ops.relu is .* look_up, dense, gelu'):
        build.backbone({'vocab_size': 5, 'ops': {'relu': 'a.py:b'}})
