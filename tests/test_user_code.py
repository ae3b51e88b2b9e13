"""Code of the user's, FILE:NAME in a config: loaded, and in the place of an operation or the
optimizer."""

import contextlib
import hashlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gpt1_jax
from gpt1_jax import pretraining, user_code
from gpt1_jax.errors import UserError
from gpt1_jax.models import build, ops
from gpt1_jax.models.fast import table
from gpt1_jax.runs import results
from gpt1_jax.training import optimizer_config
from tiny import ROOT, corpus, pretrain_config

IDEAS = f'{ROOT}/experiments/ideas'
pytestmark = pytest.mark.usefixtures('trusted_code')


def test_the_operation_of_the_file_is_computed_with():
    fields = {
        'vocab_size': 5,
        'n_ctx': 4,
        'n_embd': 4,
        'n_layer': 1,
        'n_head': 2,
        'n_inner': 8,
        'ops': {'gelu': f'{IDEAS}/relu.py:relu_squared'},
    }
    x = jnp.linspace(-2, 2, 5)[None, None]
    for kernels in ('auto', 'plain'):
        found = table.ops(build.backbone(fields | {'kernels': kernels}).config)
        np.testing.assert_array_equal(found.gelu(x), jnp.maximum(x, 0) ** 2)
    assert found._replace(gelu=ops.gelu) == ops.PLAIN


@pytest.mark.parametrize('kind', ['optax:adamw', 'optax:lion', 'optax:sgd'])
def test_an_optimizer_of_optax_moves_as_it_does_by_itself(kind):
    """At a constant rate, without clipping, with decay of matrices alone."""
    values = {'kind': kind, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8, 'weight_decay': 0.1, 'clip': 0}
    params = {'kernel': jnp.linspace(-1, 1, 6).reshape(2, 3), 'bias': jnp.ones(3)}
    ours = optimizer_config.make(optimizer_config.settings(values))
    factory = getattr(optax, kind.split(':')[1])
    decay = (
        {}
        if kind == 'optax:sgd'
        else {'weight_decay': 0.1, 'mask': {'kernel': True, 'bias': False}}
    )
    theirs = factory(0.01, **decay)
    a = b = params
    state_a = ours.init(a)
    state_b = theirs.init(b)
    for step in range(4):
        gradients = {'kernel': jnp.sin(a['kernel'] + step), 'bias': jnp.cos(a['bias'] + step)}
        updates, state_a = ours.update(gradients, state_a, a, learning_rate=0.01)
        a = optax.apply_updates(a, updates)
        updates, state_b = theirs.update(gradients, state_b, b)
        b = optax.apply_updates(b, updates)
    for name in params:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-6)
        assert np.abs(a[name] - params[name]).max() > 1e-4


def test_muon_orthogonalises_the_matrices_of_each_layer_and_nothing_else():
    """Against a loop over unstacked layers, whose kernels are plain matrices."""
    N, D, H, E, F = 2, 6, 2, 3, 8
    shapes = {
        'qkv/kernel': (N, D, 3, H, E),
        'out/kernel': (N, H, E, D),
        'fc/kernel': (N, D, F),
        'fc/bias': (N, F),
        'scale': (N, D),
    }
    generator = np.random.default_rng(0)

    def made():
        blocks = {name: jnp.array(generator.normal(size=shape)) for name, shape in shapes.items()}
        return {'blocks': blocks, 'embed': {'tokens': jnp.array(generator.normal(size=(5, D)))}}

    def unstacked(tree, layer):
        """The kernels of a layer as matrices, everything else apart."""
        columns = {'qkv/kernel': (D, -1), 'out/kernel': (-1, D), 'fc/kernel': (D, F)}
        return {name: tree['blocks'][name][layer].reshape(to) for name, to in columns.items()}

    params, gradients = made(), made()
    values = {'kind': 'optax:contrib.muon', 'weight_decay': 0.0, 'clip': 0}
    values |= {'b1': 0.9, 'b2': 0.999, 'eps': 1e-8}
    ours = optimizer_config.make(optimizer_config.settings(values))
    updates, _ = ours.update(gradients, ours.init(params), params, learning_rate=0.1)
    # optax takes plain matrices for what is to be orthogonalised
    for layer in range(N):
        layer_params = unstacked(params, layer)
        theirs = optax.contrib.muon(0.1)
        expected, _ = theirs.update(
            unstacked(gradients, layer), theirs.init(layer_params), layer_params
        )
        found = unstacked(updates, layer)
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)
    adam = optax.contrib.muon(
        0.1, muon_weight_dimension_numbers=lambda p: jax.tree.map(lambda _: None, p)
    )
    rest = {'bias': params['blocks']['fc/bias'], 'tokens': params['embed']['tokens']}
    moved = {'bias': gradients['blocks']['fc/bias'], 'tokens': gradients['embed']['tokens']}
    expected, _ = adam.update(moved, adam.init(rest), rest)
    np.testing.assert_allclose(updates['blocks']['fc/bias'], expected['bias'], rtol=1e-5)
    np.testing.assert_allclose(updates['embed']['tokens'], expected['tokens'], rtol=1e-5)


@pytest.mark.parametrize(
    'kind, values, name',
    [
        ('optax:lion', {'b1': 0.95}, 'b1'),
        ('optax:sgd', {'weight_decay': 0.1}, 'weight_decay'),
        ('optax:lion', {'weight_decay': 0.1}, None),
        ('optax:sgd', {'weight_decay': 0.0}, None),
    ],
)
def test_a_field_that_an_optimizer_of_optax_does_not_read_stays_at_its_default(kind, values, name):
    config = pretrain_config('').optimizer.to_dict() | {'kind': kind} | values
    refused = pytest.raises(UserError, match=f'config.optimizer.{name} = .* no effect with it')
    with refused if name else contextlib.nullcontext():
        optimizer_config.check_code(config, lambda: {'kernel': jnp.ones((2, 3))})


def own(tmp_path, code, **more):
    (tmp_path / 'idea.py').write_text('import jax\nimport jax.numpy as jnp\nimport optax\n' + code)
    more = {f'optimizer__{field}': f'{tmp_path}/idea.py:{name}' for field, name in more.items()}
    return pretrain_config(
        corpus(tmp_path / 'text'), train__steps=6, log_every=1, optimizer__warmup_steps=2, **more
    )


def test_a_schedule_of_optax_s_builders_gives_its_rates(tmp_path):
    config = own(
        tmp_path,
        'def s(peak, warmup, total, decay):\n'
        '    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, total)\n',
        schedule='s',
    )
    run = pretraining.run(config, tmp_path / 'run')
    rates = optax.warmup_cosine_decay_schedule(0.0, config.optimizer.peak_rate, 2, 6)
    found = [row['learning_rate'] for row in results.read(run.metrics) if 'learning_rate' in row]
    np.testing.assert_allclose(found, [rates(step) for step in range(6)], rtol=1e-6)


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
        ('schedule', 'def f(*numbers): return 3', 'idea.py: TypeError: '),
        (
            'schedule',
            'def f(*numbers): return lambda step: step + jnp.ones(2)',
            'a function from a step to one number',
        ),
    ],
)
def test_code_that_cannot_train_is_one_line_before_any_text_is_read(tmp_path, field, code, message):
    message = re.escape(message)
    config = own(tmp_path, code, **{field: 'f'})
    config.data.corpus = 'no such corpus'
    with pytest.raises(UserError, match=f'^config.optimizer.{field} = .*{message}'):
        pretraining.run(config, tmp_path / 'run')


def test_code_may_be_mended_before_the_first_step(tmp_path, monkeypatch):
    config = own(tmp_path, 'def s(*numbers):\n    return lambda step: 1e-3\n', schedule='s')
    with monkeypatch.context() as patch:
        patch.setattr(pretraining.loop, 'fit', None)
        with pytest.raises(TypeError):
            pretraining.run(config, tmp_path / 'run')
    file = tmp_path / 'idea.py'
    file.write_text(file.read_text().replace('1e-3', '2e-3'))
    monkeypatch.setattr(user_code, '_modules', {})  # a new process
    run = pretraining.run(config, tmp_path / 'run')
    file.write_text(file.read_text().replace('2e-3', '3e-3'))
    with pytest.raises(UserError, match='idea.py:s, which has changed since'):
        pretraining.run(config, run.path)


def test_the_validation_loss_is_that_of_eq_1_whatever_is_trained_with(tmp_path):
    (tmp_path / 'idea.py').write_text(
        'from gpt1_jax.models import ops\n\n\ndef doubled(*arguments):\n'
        '    return 2 * ops.cross_entropy(*arguments)\n'
    )
    run = pretraining.run(
        pretrain_config(
            corpus(tmp_path / 'text'),
            train__steps=1,
            log_every=1,
            model__ops__cross_entropy=f'{tmp_path}/idea.py:doubled',
        ),
        tmp_path / 'run',
    )
    rows = results.read(run.metrics)
    uniform = np.log(run.config['model']['vocab_size'])  # what both losses are near before training
    assert next(row['loss'] for row in rows if 'loss' in row) == pytest.approx(
        2 * uniform, rel=0.05
    )
    assert next(row['valid_loss'] for row in rows if 'valid_loss' in row) == pytest.approx(
        uniform, rel=0.05
    )


def test_logits_of_the_user_s_act_in_training_validation_scoring_and_generation(tmp_path):
    """Logits that are all 0 but for one token's, whatever the text."""
    (tmp_path / 'idea.py').write_text(
        'import jax\nimport jax.numpy as jnp\n\n\ndef biased(hidden, rows):\n'
        '    flat = 0 * jnp.einsum("td,rd->tr", hidden, rows, '
        'preferred_element_type=jnp.float32)\n'
        '    return flat.at[:, -1].set(5.0)\n'
    )
    text = corpus(tmp_path / 'text')
    config = pretrain_config(
        text, train__steps=1, log_every=1, model__ops__logits=f'{tmp_path}/idea.py:biased'
    )
    run = pretraining.run(config, tmp_path / 'run')
    rows = results.read(run.metrics)
    trained = gpt1_jax.load(run.path)
    V = run.config['model']['vocab_size']
    log_sum = np.log(V - 1 + np.exp(5.0))
    for name in ('loss', 'valid_loss'):
        value = next(row[name] for row in rows if name in row)
        assert log_sum - 5 < value < log_sum, name
    sentence = (text / '00.txt').read_text().splitlines()[0]
    ids = trained.encode(sentence)
    expected = [5.0 * (token == V - 1) - log_sum for token in ids[1:]]
    np.testing.assert_allclose(trained.score(sentence).log_probabilities, expected, atol=1e-5)
    (greedy,) = trained.generate(sentence, tokens=3, temperature=0)
    assert greedy == trained.tokenizer.decode([V - 1] * 3).strip()


def test_a_function_of_a_file_and_one_of_optax(tmp_path):
    file = tmp_path / 'idea.py'
    file.write_text('def double(x):\n    return 2 * x\n')
    assert user_code.load(f'{file}:double', 'a.b')(4) == 8
    assert user_code.load('optax:contrib.muon', 'a.b') is optax.contrib.muon
    assert user_code.digest(f'{file}:double') == hashlib.sha256(file.read_bytes()).hexdigest()
    assert user_code.digest('optax:lion') == optax.__version__


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
    with pytest.raises(
        UserError,
        match=rf'^run: was trained with {name}, which cannot be read '
        rf'\({tmp_path}/a.py: No ',
    ):
        user_code.check('run', {name: '0'})


def test_a_relative_file_that_is_missing_is_named_with_where_it_was_looked_for(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f'^f: {tmp_path}/idea.py: No such file'):
        user_code.load('idea.py:x', 'f')


def test_a_relative_name_of_two_files_in_one_process_is_refused(tmp_path, monkeypatch):
    """Compiled programs are found again by that name."""
    for folder, value in (('a', 1), ('b', 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'two_of_them.py').write_text(f'x = {value}')
    monkeypatch.chdir(tmp_path / 'a')
    assert user_code.load('two_of_them.py:x', 'f') == 1
    monkeypatch.chdir(tmp_path / 'b')
    with pytest.raises(
        UserError,
        match=f'^f: two_of_them.py was {tmp_path}/a/two_of_them.py before in this process',
    ):
        user_code.load('two_of_them.py:x', 'f')
    assert user_code.load(f'{tmp_path}/b/two_of_them.py:x', 'f') == 2


@pytest.mark.parametrize(
    'contents, name, message',
    [
        (None, 'x', 'optimizer.kind: .*idea.py: No such file'),
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


@pytest.mark.parametrize(
    'field, name, given',
    [
        ('kind', 'optax:sdg', "optax has no 'sdg', did you mean 'sgd'?"),
        ('schedule', 'nowhere.py:f', 'nowhere.py: No such file or directory'),
    ],
)
def test_a_mistake_in_a_name_is_said_once(tmp_path, field, name, given):
    config = pretrain_config('').optimizer.to_dict() | {field: str(tmp_path / name)}
    if field == 'kind':
        config[field] = name
    else:
        user_code.trust({'optimizer': config})
    with pytest.raises(UserError) as error:
        optimizer_config.check_code(config, lambda: {'kernel': jnp.ones((2, 3))})
    assert str(error.value).count('config.optimizer') == 1 and given in str(error.value)


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
    config = own(tmp_path, SEES_LATER)
    config.data.corpus = 'no such corpus'
    config.update_from_flattened_dict(
        {f'model.{field.replace("__", ".")}': f'{tmp_path}/idea.py:{name}'}
    )
    with pytest.raises(UserError, match=f'^config.model: with .*idea.py:{name} a state depends on'):
        pretraining.run(config, tmp_path / 'run')
