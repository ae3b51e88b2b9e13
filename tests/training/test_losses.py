import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import reference
from gpt1_jax import finetuning
from gpt1_jax.data.windows import TokenStream
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.parallel import sharding
from gpt1_jax.training import losses, optimizer_config, validation
from meshes import hyper, mesh_of, shapes
from tiny import place

SEED = 12  # of dropout; the first update's step is 0


def generator():
    return np.random.default_rng(0)


@pytest.mark.parametrize('chunks', [2, 3, 7])
def test_chunks_of_a_sequence_change_neither_losses_nor_gradients(chunks):
    hidden = generator().normal(size=(2, 7, 8)).astype(np.float32)
    rows = generator().normal(size=(13, 8)).astype('f')
    targets = generator().integers(0, 13, (2, 7))
    weights = generator().normal(size=(2, 7)).astype(np.float32)

    def run(chunks):
        found, gradient = jax.vjp(
            lambda h, r: losses.token_losses(h, r, targets, chunks), hidden, rows
        )
        return found, *gradient(jnp.asarray(weights))

    for found, expected in zip(jax.jit(run, static_argnums=0)(chunks), run(1)):
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_auxiliary_loss_is_normalised_by_each_sequence_s_own_length_over_all_rows():
    rows = generator().normal(size=(11 + 3 + 6, 8)).astype(np.float32)
    hidden = generator().normal(size=(3, 6, 8)).astype(np.float32)
    # 11 to 13 are the specials
    tokens = np.array([[11, 4, 12, 7, 13, 0], [11, 2, 13, 0, 0, 0], [11, 1, 2, 12, 3, 13]])
    mask = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
    logits = hidden[:, :-1].astype(np.float64) @ rows.T.astype(np.float64)
    every = reference.cross_entropy(logits, tokens[:, 1:])
    # By hand: 4, 2 and 5 targets, the delimiter (12) and the extract token (13) among them.
    expected = [every[0, :4].sum() / 4, every[1, :2].sum() / 2, every[2].sum() / 5]
    np.testing.assert_allclose(
        losses.auxiliary_lm_loss(hidden, rows, tokens, mask), expected, rtol=1e-5
    )


@pytest.mark.parametrize(
    'logits, target, expected',
    [
        (np.log([0.5, 0.25, 0.25]) + 3, [0, 1, 0], 1.386294),
        (np.log([0.5, 0.25, 0.25]), [0.8, 0.2, 0], 0.8 * 0.693147 + 0.2 * 1.386294),  # soft labels
        ([0.0, 0.0, -1e9], [0, 1, 0], 0.693147),
    ],
)  # a choice that is not there
def test_task_loss_is_minus_the_mean_logarithm_of_the_target_s_probabilities(
    logits, target, expected
):
    value, slope = jax.value_and_grad(
        lambda x: losses.task_loss(x, jnp.array([target], jnp.float32))[0]
    )(jnp.array([logits], jnp.float32))
    assert float(value) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(slope[0], scipy.special.softmax(logits) - target, atol=1e-6)
    np.testing.assert_allclose(
        losses.squared_loss(jnp.array([[0.5], [2.0]]), jnp.array([[0.25], [1.0]])), [0.0625, 1]
    )


# The loss of fine-tuning, Eq. 5, as one update of gpt1_jax.finetuning computes it


def batch_of(task, config, lengths, n_labels):
    """start, text, delimiter, text, extract, then padding; one row of `lengths` an example, one
    entry a sequence."""
    start, delimiter, extract = (config.vocab_size + n for n in range(3))
    B = len(lengths)
    K = len(lengths[0])
    L = 12
    g = generator()
    tokens = np.zeros((B, K, L), np.int32)
    mask = np.zeros((B, K, L), np.float32)
    for b, k in np.ndindex(B, K):
        n = lengths[b][k]
        text = g.integers(0, config.vocab_size, n)
        text[0], text[2], text[-1] = start, delimiter, extract
        tokens[b, k, :n], mask[b, k, :n] = text, 1
    C = K if task == 'choice' else n_labels
    return {
        'tokens': tokens,
        'mask': mask,
        'extract': np.asarray(lengths, np.int32) - 1,
        'present': np.ones((B, K), np.float32),
        'target': np.eye(C, dtype=np.float32)[g.integers(0, C, B)],
    }


def released_loss(params, batch, head, lm_weight, rate=0.1, key=(SEED, 0)):
    """(L3, task, LM): the formula of Eq. 5 as released in numpy float64, through the whole model,
    dropout included."""
    tokens, (B, K, L) = batch['tokens'], batch['tokens'].shape
    hidden, we = reference.gpt(params['backbone'], tokens.reshape(B * K, L), rate, rate, rate, key)
    lm = []
    pooled = np.zeros((B, K, hidden.shape[-1]))
    for b, k in np.ndindex(B, K):
        n = int(batch['mask'][b, k].sum())
        states = hidden[b * K + k]
        lm.append(reference.cross_entropy(states[: n - 1] @ we.T, tokens[b, k, 1:n]).mean())
        pooled[b, k] = states[n - 1]
    if head == 'similarity':
        pooled = pooled.sum(1, keepdims=True)
    pooled = np.where(
        reference.keep((*key, 0, 4), (B, 1, pooled.shape[-1]), rate), pooled / (1 - rate), 0
    )
    logits = (
        pooled @ params['classifier']['kernel'].astype(np.float64) + params['classifier']['bias']
    )
    logits = logits[:, :, 0] if head == 'choice' else logits[:, 0]
    task = reference.cross_entropy(logits, batch['target'].argmax(1)).mean()
    return task + lm_weight * np.mean(lm), task, np.mean(lm)


@functools.cache
def program_of(config, head, n_labels, K, classifier_dropout, clip=0, auxiliary=True):
    settings = optimizer_config.settings(
        dict(kind='adam', b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, clip=clip)
    )
    model = TaskModel(GPT(config), head, n_labels, classifier_dropout)
    return finetuning._program(
        model, settings, ('linear',), mesh_of((1, 1, 1)), 1, 1, K, False, auxiliary
    )


def first_update(config, head, n_labels, params, batch, lm_weight=0.5, classifier_dropout=0.1):
    """(metrics, gradients) of the first update of fine-tuning; gradients from Adam's first moments,
    a tenth."""
    program = program_of(config, head, n_labels, batch['tokens'].shape[1], classifier_dropout)
    state = program.init(jnp.uint32(0))._replace(params=jax.tree.map(jnp.asarray, params))
    state, metrics = program.step(
        state, place(program, batch), hyper(seed=SEED, lm_weight=lm_weight)
    )
    return metrics, jax.tree.map(lambda m: np.asarray(m) * 10, state.opt_state.mu)


def parameters(head, n_labels, K):
    return reference.random_like(shapes(TaskModel(GPT(TINY), head, n_labels), K), seed=1, scale=0.4)


TINY = GPTConfig(vocab_size=10, n_special=3, n_ctx=12, n_embd=8, n_layer=2, n_head=2, n_inner=12)


@pytest.mark.parametrize(
    'head, n_labels, lengths',
    [
        ('classify', 3, [(5,), (12,), (9,), (7,)]),
        pytest.param('similarity', 2, [(5, 5), (12, 12)], marks=pytest.mark.full),
        ('choice', 1, [(5, 12), (9, 6), (7, 7), (12, 4)]),
    ],
)
def test_gradient_of_the_fine_tuning_loss_is_the_released_formula_s_slope(head, n_labels, lengths):
    """In every leaf, along a random direction, against central differences of the numpy
    transcription, dropout on."""
    params = parameters(head, n_labels, len(lengths[0]))
    batch = batch_of(head, TINY, lengths, n_labels)
    metrics, gradients = first_update(TINY, head, n_labels, params, batch, lm_weight=0.7)
    found = sharding.named_leaves(gradients)
    wide = jax.tree.map(lambda x: x.astype(np.float64), params)
    expected = released_loss(wide, batch, head, 0.7)[0]
    assert float(metrics['loss']) == pytest.approx(expected, rel=1e-5)
    for n, (name, leaf) in enumerate(sharding.named_leaves(wide).items()):
        direction = np.random.default_rng(n).normal(size=leaf.shape)

        def at(shift):
            moved = jax.tree.map(lambda x: x + shift * direction if x is leaf else x, wide)
            return released_loss(moved, batch, head, 0.7)[0]

        slope = (at(1e-5) - at(-1e-5)) / 2e-5
        assert np.sum(found[name] * direction) == pytest.approx(slope, rel=2e-4, abs=2e-5), name


@pytest.mark.parametrize(
    'head, n_labels, lengths',
    [
        pytest.param('classify', 3, [(5,), (9,), (7,), (8,)], marks=pytest.mark.full),
        ('choice', 1, [(5, 9), (9, 6), (7, 7), (8, 4)]),
    ],
)
def test_neither_the_fine_tuning_loss_nor_its_gradient_depends_on_the_padded_length(
    head, n_labels, lengths
):
    """Rows of at most 9 tokens, padded to 9 and to 12, dropout on."""
    params = parameters(head, n_labels, len(lengths[0]))
    batch = batch_of(head, TINY, lengths, n_labels)
    shorter = batch | {name: batch[name][:, :, :9] for name in ('tokens', 'mask')}
    found, gradients = first_update(TINY, head, n_labels, params, batch)
    again, same = first_update(TINY, head, n_labels, params, shorter)
    for name in ('loss', 'task_loss', 'lm_loss'):
        assert float(found[name]) == pytest.approx(float(again[name]), rel=1e-6)
    for g, h in zip(jax.tree.leaves(gradients), jax.tree.leaves(same)):
        np.testing.assert_allclose(g, h, atol=2e-6)


@pytest.mark.full
def test_without_a_weight_the_lm_loss_is_not_computed_and_weights_are_the_same(fusion_emitters):
    batch = batch_of('choice', TINY, [(5, 12), (9, 6)], 1)
    start = parameters('choice', 1, 2)
    found = []
    for auxiliary in (True, False):
        program = program_of(TINY, 'choice', 1, 2, 0.1, clip=1, auxiliary=auxiliary)
        state = program.init(jnp.uint32(0))._replace(params=jax.tree.map(jnp.asarray, start))
        arguments = place(program, batch), hyper(seed=SEED, lm_weight=0.0)
        rows = TINY.vocab_size + TINY.n_special + TINY.n_ctx  # of the softmax
        text = str(program.step.trace(state, *arguments).jaxpr)
        assert bool(re.search(rf'\[[\d,]+,{rows}\]', text)) == auxiliary
        for _ in range(3):
            state, metrics = program.step(state, *arguments)
        assert (
            float(metrics['loss']) == float(metrics['task_loss'])
            and ('lm_loss' in metrics) == auxiliary
        )
        found.append(jax.device_get(state.params))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_a_choice_that_is_not_there_counts_for_nothing():
    """Whatever stands in the place of a choice that a row lacks changes neither the loss nor its
    gradients; the losses are the released formula's for a row of three choices and one of two."""
    params = parameters('choice', 1, 3)
    batch = batch_of('choice', TINY, [(5, 12, 7), (9, 6, 4)], 1)
    batch['present'][1, 2], batch['target'][1] = 0, [0, 1, 0]
    other = {name: value.copy() for name, value in batch.items()}
    other['tokens'][1, 2], other['mask'][1, 2], other['extract'][1, 2] = 3, 0, 0
    found, gradients = first_update(TINY, 'choice', 1, params, batch)
    again, same = first_update(TINY, 'choice', 1, params, other)
    assert float(found['loss']) == pytest.approx(float(again['loss']), rel=1e-6)
    for g, h in zip(jax.tree.leaves(gradients), jax.tree.leaves(same)):
        np.testing.assert_allclose(g, h, atol=1e-6)
    # Dropout off, since the rows of another batch have other masks.
    plain = dataclasses.replace(TINY, embd_dropout=0.0, attn_dropout=0.0, resid_dropout=0.0)
    found, _ = first_update(plain, 'choice', 1, params, batch, classifier_dropout=0.0)
    apart = [
        released_loss(
            params, {name: value[rows] for name, value in batch.items()}, 'choice', 0.5, rate=0
        )
        for rows in (np.s_[:1], np.s_[1:, :2])
    ]
    values = [float(found[name]) for name in ('loss', 'task_loss', 'lm_loss')]
    np.testing.assert_allclose(values, np.mean(apart, axis=0), rtol=1e-5)


# On held-out text


def test_windows_that_fill_up_the_last_batch_count_for_nothing():
    model = GPT(GPTConfig(vocab_size=30, n_ctx=8, n_embd=16, n_layer=1, n_head=2, n_inner=16))
    params = jax.tree.map(
        lambda x: 20 * x, model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    )
    stream = TokenStream(
        (np.random.default_rng(0).integers(0, 30, 100).astype('<u2'),), 'made up', 'f'
    )
    found = validation.mean_loss(
        model, sharding.make_mesh(devices=jax.devices()[:4]), stream, 10, 4, 1
    )(params)
    windows = np.stack([stream.window(i, 8) for i in stream.evenly_spaced(10, 8)])
    hidden, table = model.apply({'params': params}, windows[:, :-1])
    logits = np.asarray(hidden, np.float64) @ np.asarray(table, np.float64)[:30].T
    assert found == pytest.approx(reference.cross_entropy(logits, windows[:, 1:]).mean(), rel=1e-5)
