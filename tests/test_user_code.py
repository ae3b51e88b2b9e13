"""Code of the user's, FILE:NAME in a config: loaded, and in the place of an operation or the
optimizer."""

import contextlib
import re

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gpt1_jax
from gpt1_jax import pretraining, user_code
from gpt1_jax.errors import UserError
from gpt1_jax.models import build, ops
from gpt1_jax.models.fast import table
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import results
from gpt1_jax.training import optimizer_config
from refusal import refusal
from tiny import ROOT, corpus, pretrain_config

IDEAS = f'{ROOT}/experiments/ideas'
pytestmark = pytest.mark.usefixtures('trusted_code')


def test_the_operation_of_the_file_is_computed_with():
    code = {'vocab_size': 5, 'ops': {'gelu': f'{IDEAS}/relu.py:relu_squared'}}
    x = jnp.linspace(-2, 2, 5)[None, None]
    for kernels in ('auto', 'plain'):
        found = table.ops(build.backbone(code | {'kernels': kernels}).config)
        np.testing.assert_array_equal(found.gelu(x), jnp.maximum(x, 0) ** 2)
    assert found._replace(gelu=ops.gelu) == ops.PLAIN


def settings(kind, **fields):
    values = {'kind': kind, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8, 'weight_decay': 0.0, 'clip': 0}
    return optimizer_config.make(optimizer_config.settings(values | fields))


@pytest.mark.parametrize(
    'kind, decay',
    [('adamw', {'weight_decay': 0.1, 'mask': {'kernel': True, 'bias': False}}), ('sgd', {})],
)
def test_an_optimizer_of_optax_moves_as_it_does_by_itself(kind, decay):
    """At a constant rate, without clipping, with decay of matrices alone."""
    params = {'kernel': jnp.linspace(-1, 1, 6).reshape(2, 3), 'bias': jnp.ones(3)}
    theirs = getattr(optax, kind)(0.01, **decay)
    ends = []
    for transformation, rate in (
        (settings(f'optax:{kind}', weight_decay=0.1), {'learning_rate': 0.01}),
        (theirs, {}),
    ):
        now = params
        state = transformation.init(now)
        for step in range(4):
            gradients = {'kernel': jnp.sin(now['kernel'] + step), 'bias': jnp.cos(now['bias'])}
            updates, state = transformation.update(gradients, state, now, **rate)
            now = optax.apply_updates(now, updates)
        ends.append(now)
    for name, start in params.items():
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=1e-6)
        assert np.abs(ends[0][name] - start).max() > 1e-4


def test_muon_orthogonalises_the_matrices_of_each_layer_and_nothing_else():
    """Against a loop over unstacked layers, whose kernels are plain matrices."""
    kernels = {'qkv/kernel': (2, 6, 3, 2, 3), 'out/kernel': (2, 2, 3, 6), 'fc/kernel': (2, 6, 8)}
    rows = {'qkv/kernel': 6, 'out/kernel': 6, 'fc/kernel': 6}
    generator = np.random.default_rng(0)

    def made():
        arrays = {name: generator.normal(size=shape) for name, shape in kernels.items()}
        return {'blocks': arrays | {'fc/bias': generator.normal(size=(2, 8))}}

    def matrices(tree, layer):
        return {
            name: jnp.array(tree['blocks'][name][layer]).reshape(n, -1) for name, n in rows.items()
        }

    params, gradients = made(), made()
    ours = settings('optax:contrib.muon')
    updates, _ = ours.update(gradients, ours.init(params), params, learning_rate=0.1)
    theirs = optax.contrib.muon(0.1)  # of plain matrices
    for layer in range(2):
        expected, _ = theirs.update(
            matrices(gradients, layer),
            theirs.init(matrices(params, layer)),
            matrices(params, layer),
        )
        for name, found in matrices(updates, layer).items():
            np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-6)
    bias = gradients['blocks']['fc/bias']
    nadam = optax.nadam(0.1)
    expected, _ = nadam.update(bias, nadam.init(bias))
    np.testing.assert_allclose(updates['blocks']['fc/bias'], expected, rtol=1e-5)


@pytest.mark.parametrize(
    'kind, field, value',
    [('optax:lion', 'b1', 0.95), ('optax:sgd', 'weight_decay', 0.1), ('optax:sgd', None, 0)],
)
def test_a_field_that_an_optimizer_of_optax_does_not_read_stays_at_its_default(kind, field, value):
    config = pretrain_config('').optimizer.to_dict() | {'kind': kind, 'weight_decay': 0.0}
    refused = pytest.raises(UserError, match=f'config.optimizer.{field} = .* no effect with it')
    with refused if field else contextlib.nullcontext():
        optimizer_config.check(config | {field: value}, lambda: {'kernel': jnp.ones((2, 3))})


@pytest.fixture(scope='module')
def tokens(tmp_path_factory):
    directory = tmp_path_factory.mktemp('tokens')
    prepare(directory / 'tokens', str(corpus(directory / 'text')), 0.2, merges=60, processes=1)
    return str(directory / 'tokens')


def own(tmp_path, code, tokens='no such tokens', **fields):
    """The config of a run of 2 updates whose fields name functions of this code."""
    (tmp_path / 'idea.py').write_text('import jax\nimport jax.numpy as jnp\nimport optax\n' + code)
    names = {field: f'{tmp_path}/idea.py:{name}' for field, name in fields.items()}
    return pretrain_config('', data__tokens=tokens, train__steps=2, log_every=1, **names)


@pytest.mark.full
def test_a_schedule_of_optax_s_builders_gives_its_rates(tmp_path, tokens):
    code = (
        'def s(peak, warmup, total, decay):\n'
        '    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, total)\n'
    )
    config = own(tmp_path, code, tokens, optimizer__schedule='s')
    config.optimizer.warmup_steps = 1
    run = pretraining.run(config, tmp_path / 'run')
    rates = optax.warmup_cosine_decay_schedule(0.0, config.optimizer.peak_rate, 1, 2)
    found = [row['learning_rate'] for row in results.read(run.metrics) if 'learning_rate' in row]
    np.testing.assert_allclose(found, [rates(step) for step in range(2)], rtol=1e-6)


TRANSFORMATION = 'def f(learning_rate):\n    return optax.GradientTransformation({}, {})\n'


@pytest.mark.parametrize(
    'field, code, message',
    [
        (
            'kind',
            'def f(learning_rate): return 3',
            "idea.py: AttributeError: 'int' object has no attribute 'init'",
        ),
        ('kind', 'def f(learning_rate): raise KeyError(1)', 'idea.py: line 4: KeyError: 1'),
        (
            'kind',
            TRANSFORMATION.format(
                'lambda p: ()', 'lambda u, s, p: (jax.tree.map(lambda x: x[:1], u), s)'
            ),
            'its update returns a tree of updates with other shapes',
        ),
        (
            'kind',
            TRANSFORMATION.format('lambda p: 0', 'lambda u, s, p: (u, (s, s))'),
            'a tree of state with other shapes',
        ),
        (
            'kind',
            TRANSFORMATION.format('lambda p: jax.random.key(0)', 'lambda u, s, p: (u, s)'),
            'has a random key',
        ),
        ('schedule', 'def f(peak, warmup): pass', 'idea.py: TypeError: f() takes 2 positional'),
        ('schedule', 'def f(*_): return lambda step: step + jnp.ones(2)', 'from a step to one num'),
    ],
)
def test_code_that_cannot_train_is_one_line_before_any_text_is_read(tmp_path, field, code, message):
    message = re.escape(message)
    config = own(tmp_path, code, **{f'optimizer__{field}': 'f'})
    with pytest.raises(UserError, match=f'^config.optimizer.{field} = .*{message}'):
        pretraining.run(config, tmp_path / 'run')


def test_code_may_be_mended_before_the_first_step(tmp_path, tokens, monkeypatch):
    code = 'def s(*numbers):\n    return lambda step: 1e-3\n'
    monkeypatch.setattr(pretraining.loop, 'fit', None)
    for mended in (code, code.replace('1e-3', '2e-3')):
        monkeypatch.setattr(user_code, '_modules', {})  # a new process
        config = own(tmp_path, mended, tokens, optimizer__schedule='s')
        with pytest.raises(TypeError, match='NoneType'):  # the training begins
            pretraining.run(config, tmp_path / 'run')


def first(run, name):
    return next(row[name] for row in results.read(run.metrics) if name in row)


@pytest.mark.full
def test_the_validation_loss_is_that_of_eq_1_whatever_is_trained_with(tmp_path, tokens):
    code = (
        'from gpt1_jax.models import ops\n\n\ndef doubled(*arguments):\n'
        '    return 2 * ops.cross_entropy(*arguments)\n'
    )
    config = own(tmp_path, code, tokens, model__ops__cross_entropy='doubled')
    run = pretraining.run(config, tmp_path / 'run')
    uniform = np.log(run.config['model']['vocab_size'])  # what both losses are near before training
    assert first(run, 'loss') == pytest.approx(2 * uniform, rel=0.05)
    assert first(run, 'valid_loss') == pytest.approx(uniform, rel=0.05)


@pytest.mark.full
def test_logits_of_the_user_s_act_in_training_validation_scoring_and_generation(tmp_path, tokens):
    """Logits that are all 0 but for one token's, whatever the text."""
    code = (
        'def biased(hidden, rows):\n'
        '    flat = 0 * jnp.einsum("td,rd->tr", hidden, rows, '
        'preferred_element_type=jnp.float32)\n'
        '    return flat.at[:, -1].set(5.0)\n'
    )
    run = pretraining.run(
        own(tmp_path, code, tokens, model__ops__logits='biased'), tmp_path / 'run'
    )
    trained = gpt1_jax.load(run.path)
    V = run.config['model']['vocab_size']
    log_sum = np.log(V - 1 + np.exp(5.0))
    for name in ('loss', 'valid_loss'):
        assert log_sum - 5 < first(run, name) < log_sum, name
    sentence = 'The cat sat on a mat.'
    expected = [5.0 * (token == V - 1) - log_sum for token in trained.encode(sentence)[1:]]
    np.testing.assert_allclose(trained.score(sentence).log_probabilities, expected, atol=1e-5)
    (greedy,) = trained.generate(sentence, tokens=3, temperature=0)
    assert greedy == trained.tokenizer.decode([V - 1] * 3).strip()


def test_files_of_one_name_keep_their_own_configs(tmp_path):
    for folder, scale in (('a', 0.1), ('b', 0.9)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'net.py').write_text(
            'from __future__ import annotations\nimport dataclasses\nfrom gpt1_jax.models.gpt '
            'import GPT, GPTConfig\n\n'
            '@dataclasses.dataclass(frozen=True)\nclass Config(GPTConfig):\n    scale: float = '
            f'{scale}\n\n'
            'class Net(GPT):\n    config: Config\n'
        )
        user_code.load(f'{tmp_path}/{folder}/net.py:Net', 'f')  # both, before the first is used
    found = [
        build.own_fields({'kind': f'{tmp_path}/{folder}/net.py:Net', 'vocab_size': 5})['scale']
        for folder in 'ab'
    ]
    assert found == [0.1, 0.9]


def test_a_file_that_changes_while_a_process_uses_it_is_refused(tmp_path):
    file = tmp_path / 'idea.py'
    file.write_text('x = 1')
    assert user_code.load(f'{file}:x', 'f') == 1
    file.write_text('x = 2')
    with pytest.raises(UserError, match='f: .*idea.py has changed since this process ran it'):
        user_code.load(f'{file}:x', 'f')


def test_a_run_whose_code_is_gone_names_both(tmp_path):
    name = f'{tmp_path}/a.py:f'
    said = refusal(user_code.check, 'run', {name: '0'})
    assert said.startswith(
        f'run: was trained with {name}, which cannot be read ({tmp_path}/a.py: N'
    )


def test_a_relative_name_of_two_files_in_one_process_is_refused(tmp_path, monkeypatch):
    """Compiled programs are found again by that name."""
    for folder in 'ab':
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'two_of_them.py').write_text(f'x = {folder!r}')
    monkeypatch.chdir(tmp_path / 'a')
    assert user_code.load('two_of_them.py:x', 'f') == 'a'
    monkeypatch.chdir(tmp_path / 'b')
    before = f'{tmp_path}/a/two_of_them.py before in this process'
    with pytest.raises(UserError, match=f'^f: two_of_them.py was {before}'):
        user_code.load('two_of_them.py:x', 'f')
    assert user_code.load(f'{tmp_path}/b/two_of_them.py:x', 'f') == 'b'


@pytest.mark.parametrize(
    'contents, name, message',
    [
        (None, 'x', 'optimizer.kind: /.*/idea.py: No such file'),
        ('\n\n1 / 0', 'x', 'line 3: ZeroDivisionError'),
        ('def relu(x): pass', 'relo', "idea.py has no 'relo', did you mean 'relu'"),
        ('a = 1\ndef f(:\n', 'f', 'idea.py: SyntaxError: .*line 2'),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path, contents, name, message):
    file = tmp_path / 'idea.py'
    if contents is not None:
        file.write_text(contents)
    with pytest.raises(UserError, match=message):
        user_code.load(f'{file}:{name}', 'optimizer.kind')


def test_a_mistake_in_a_name_of_optax_is_said_once():
    config = pretrain_config('').optimizer.to_dict() | {'kind': 'optax:sdg'}
    said = refusal(optimizer_config.check, config, None)
    assert said.count('config.optimizer') == 1 and "no 'sdg', did you mean 'sgd'?" in said


SEES_LATER = """
import flax.linen as nn
from gpt1_jax.models.gpt import GPT, GPTConfig


def attention(qkv, drop):
    q, k, v = (qkv[:, :, i] for i in range(3))
    scores = jnp.einsum('blhe,bmhe->bhlm', q, k)
    return jnp.einsum('bhlm,bmhe->blhe', drop(jax.nn.softmax(scores)), v)


class Net(GPT):
    config: GPTConfig

    @nn.compact
    def __call__(self, tokens, key=None):
        x, rows = super().__call__(tokens, key)
        scale = self.param('scale', nn.initializers.zeros, ())
        return x + scale * x.mean(1, keepdims=True), rows
"""


@pytest.mark.parametrize('field, name', [('ops__attention', 'attention'), ('kind', 'Net')])
def test_a_model_that_sees_later_tokens_is_refused_before_any_text_is_read(tmp_path, field, name):
    """Also if a weight that begins at zero hides it."""
    config = own(tmp_path, SEES_LATER, **{f'model__{field}': name})
    with pytest.raises(UserError, match=f'^config.model: with .*idea.py:{name} a state depends on'):
        pretraining.run(config, tmp_path / 'run')
