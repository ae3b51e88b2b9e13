"""Code of the user's in the place of an operation, the optimizer or the schedule: FILE:NAME in a config."""
import json
import shutil

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gpt1_jax import pretrain
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.models import build, ops
from gpt1_jax.models.fast import table
from gpt1_jax.runs import results, workdir
from gpt1_jax.training import optimizer
from gpt1_jax.weights import export_hugging_face
from interruptions import power_cut
from short_runs import arrays, losses
from tiny import ROOT, corpus, pretrain_config

RELU = f'{ROOT}/experiments/ideas/relu.py:relu_squared'


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp('ideas') / 'text')


def config_of(text, idea, **overrides):
    """Ten steps with an idea, whose operation, optimizer and schedule are all the user's."""
    return pretrain_config(text, model__ops__gelu=idea, optimizer__kind='optax:lion', optimizer__peak_rate=1e-3,
                           optimizer__schedule=f'{ROOT}/experiments/ideas/optimizers.py:inverse_square_root',
                           model__n_inner=64, train__steps=10, **overrides)


def test_a_run_with_ideas_learns_resumes_to_the_bit_and_is_bound_to_its_files(text, tmp_path):
    idea = tmp_path / 'idea.py'
    shutil.copy(ROOT / 'experiments/ideas/relu.py', idea)
    config = config_of(text, f'{idea}:relu_squared')
    straight = pretrain.run(config, tmp_path / 'straight')
    with power_cut(5):
        pretrain.run(config, tmp_path / 'run')
    resumed = pretrain.run(config, tmp_path / 'run')
    assert arrays(resumed, 10) == arrays(straight, 10)
    first, *_, last = (loss for _, loss in losses(straight))
    assert last < first
    assert set(straight.config['fingerprint']['code']) == {f'{idea}:relu_squared', 'optax:lion',
                                                           config.optimizer.schedule}
    model, _ = load.pretrained(straight, 10, load.sharding.make_mesh())
    assert model.config.ops == (('gelu', f'{idea}:relu_squared'),)
    with pytest.raises(UserError, match='cannot be exported: model.ops'):
        export_hugging_face.check(straight)
    idea.write_text(idea.read_text() + '\n# edited\n')
    with pytest.raises(UserError, match='which has changed since'):
        workdir.load(straight.path)


def test_the_operation_of_the_file_is_computed_with():
    fields = {'vocab_size': 5, 'n_ctx': 4, 'n_embd': 4, 'n_layer': 1, 'n_head': 2, 'n_inner': 8, 'ops': {'gelu': RELU}}
    x = jnp.linspace(-2, 2, 5)[None, None]
    for kernels in ('auto', 'plain'):
        found = table.ops(build.backbone(fields | {'kernels': kernels}).config)
        np.testing.assert_array_equal(found.gelu(x), jnp.maximum(x, 0) ** 2)
    assert found._replace(gelu=ops.gelu) == ops.PLAIN


def test_runs_without_the_field_load_as_before(text, tmp_path):
    run = pretrain.run(pretrain_config(text, train__steps=5), tmp_path / 'run')
    file = run.path / 'config.json'
    config = json.loads(file.read_text())
    del config['model']['ops'], config['optimizer']['kind'], config['optimizer']['schedule']
    file.write_text(json.dumps(config))
    resumed = pretrain.run(pretrain_config(text, train__steps=5), tmp_path / 'run')
    assert arrays(resumed, 5) == arrays(run, 5)


@pytest.mark.parametrize('code, message', [
    ('def f(x):\n    return x[:1]', r'ops.gelu = .*f: returns \(\(1, 3, 4\), .*must return \(\(2, 3, 4\)'),
    ('def f(x, y):\n    return x', 'ops.gelu = .*TypeError'), ('g = 1', "has no 'f'")])
def test_a_function_that_cannot_take_the_place_is_named(tmp_path, code, message):
    (tmp_path / 'idea.py').write_text(code)
    with pytest.raises(UserError, match=message):
        table.replacement('gelu', f'{tmp_path}/idea.py:f')


def test_an_operation_that_does_not_exist_is_named():
    with pytest.raises(UserError, match='model.ops.relu is .* look_up, dense, gelu'):
        build.backbone({'vocab_size': 5, 'ops': {'relu': 'a.py:b'}})


@pytest.mark.parametrize('kind', ['optax:adamw', 'optax:lion', 'optax:sgd'])
def test_an_optimizer_of_optax_moves_as_it_does_by_itself(kind):
    """At a constant rate, without clipping, with decay of matrices alone."""
    values = {'kind': kind, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8, 'weight_decay': 0.1, 'clip': 0}
    params = {'kernel': jnp.linspace(-1, 1, 6).reshape(2, 3), 'bias': jnp.ones(3)}
    ours, factory = optimizer.make(optimizer.settings(values)), getattr(optax, kind.split(':')[1])
    decay = {} if kind == 'optax:sgd' else {'weight_decay': 0.1, 'mask': {'kernel': True, 'bias': False}}
    theirs = factory(0.01, **decay)
    a = b = params
    state_a, state_b = ours.init(a), theirs.init(b)
    for step in range(4):
        gradients = {'kernel': jnp.sin(a['kernel'] + step), 'bias': jnp.cos(a['bias'] + step)}
        updates, state_a = ours.update(gradients, state_a, a, learning_rate=0.01)
        a = optax.apply_updates(a, updates)
        updates, state_b = theirs.update(gradients, state_b, b)
        b = optax.apply_updates(b, updates)
    for name in params:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-6)
        assert np.abs(a[name] - params[name]).max() > 1e-4


@pytest.mark.full
def test_muon_of_the_ideas_trains(text, tmp_path):
    config = pretrain_config(text, train__steps=5, log_every=1, optimizer__peak_rate=1e-2,
                             optimizer__kind=f'{ROOT}/experiments/ideas/optimizers.py:muon')
    run = pretrain.run(config, tmp_path / 'run')
    assert losses(run)[-1][1] < losses(run)[0][1] and run.steps()[-1] == 5


def test_the_validation_loss_is_that_of_eq_1_whatever_is_trained_with(text, tmp_path):
    (tmp_path / 'idea.py').write_text('from gpt1_jax.models import ops\n\n\ndef doubled(*arguments):\n'
                                      '    return 2 * ops.cross_entropy(*arguments)\n')
    run = pretrain.run(pretrain_config(text, model__ops__cross_entropy=f'{tmp_path}/idea.py:doubled', train__steps=1,
                                       log_every=1), tmp_path / 'run')
    rows = results.read(run.metrics)
    uniform = np.log(run.config['model']['vocab_size'])  # what both losses are near before training
    assert next(row['loss'] for row in rows if 'loss' in row) == pytest.approx(2 * uniform, rel=0.05)
    assert next(row['valid_loss'] for row in rows if 'valid_loss' in row) == pytest.approx(uniform, rel=0.05)


def test_a_mistake_in_an_idea_is_reported_before_any_text_is_read(tmp_path):
    (tmp_path / 'idea.py').write_text('def f(x):\n    return x[:1]\n')
    config = pretrain_config('no such corpus', model__ops__gelu=f'{tmp_path}/idea.py:f')
    with pytest.raises(UserError, match='ops.gelu = .*f: returns'):
        pretrain.run(config, tmp_path / 'run')
