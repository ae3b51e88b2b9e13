"""The benchmarks: what they count and divide, on numbers by hand; the timed steps themselves at a tiny size."""
import contextlib
import functools
import json
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarks import compare, fine_tuning, kernels, scoring, timing, train_step
from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.tokens import permutation
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone
from gpt1_jax.models.fast import gpu_attention, gpu_residual_norm
from gpt1_jax.models.gpt import GPTConfig
from tiny import ROOT, load_config, override

pytestmark = pytest.mark.full

TINY = dict(model__n_layer=1, model__n_embd=16, model__n_head=1, model__n_inner=64, model__n_ctx=16, batch__size=8,
            optimizer__peak_rate=1e-2)


def test_a_sweep_is_every_combination_of_its_values_and_a_mistake_in_it_one_line():
    found = train_step.configs(load_config('pretrain'), 'batch.size=16,32;model.dtype=float32,bfloat16')
    assert [changes for changes, _ in found] == [
        {'batch.size': 16, 'model.dtype': 'float32'}, {'batch.size': 16, 'model.dtype': 'bfloat16'},
        {'batch.size': 32, 'model.dtype': 'float32'}, {'batch.size': 32, 'model.dtype': 'bfloat16'}]
    assert [config.batch.size for _, config in found] == [16, 16, 32, 32]
    for sweep, message in (('batch.size=', '^--sweep: .* is not FIELD=VALUE'),
                           ('batch.sise=8', "^unknown field batch.sise, did you mean 'batch.size'"),
                           ('batch.size=x', '^batch.size=x: ')):
        with pytest.raises(UserError, match=message):
            train_step.configs(load_config('pretrain'), sweep)


def test_windows_are_timed_after_the_first_step_and_the_warm_up(monkeypatch):
    clock, done = [0.0], []
    monkeypatch.setattr(timing.time, 'perf_counter', lambda: clock[0])

    def run(n):
        clock[0] += 10.0 if not done else n * 0.5
        done.append(n)
        return float(len(done))
    assert timing.measure(run, 3, 2, 4) == {'first_seconds': 10.0, 'losses': [1.0, 2.0, 3.0, 4.0],
                                            'step_seconds': [0.5, 0.5]}
    assert done == [1, 3, 4, 4]
    assert timing.throughput([0.5, 0.25, 1.0], 100) == (200, 100, 400)


def test_ratios_are_of_medians_over_the_windows_of_all_turns():
    rows = {'ours': [{'step_seconds': [1.0, 1.0], 'first_seconds': 3.0, 'losses': [7.0, 6.0]},
                     {'step_seconds': [5.0], 'first_seconds': 3.0, 'losses': [7.0, 6.5]}],
            'post-ln': [{'step_seconds': [2.0, 2.5, 9.0], 'first_seconds': 1.0, 'losses': [7.1, 6.1]}]}
    assert compare.summary(rows, 10) == [('ours', 10, 2, 10, 1.0, 3.0, 7.0, 6.0),
                                         ('post-ln', 4, 10 / 9, 5, 2.5, 1.0, 7.1, 6.1)]


@pytest.mark.parametrize('program, flags, said', [
    (train_step, {'sweep': 'batch.size=8,9'}, None),
    (compare, {'contestants': ['ours', 'post-ln'], 'turns': 2}, '^post-ln: .*no such thing')])
def test_what_was_measured_is_written_where_another_row_fails(monkeypatch, tmp_path, program, flags, said):
    row = {'step_seconds': [1.0], 'first_seconds': 3.0, 'losses': [7.0, 6.0], 'device': 'x', 'tokens_per_s': 1,
           'lowest': 1, 'highest': 1, 'mfu': None, 'bytes': None}
    outcomes = iter([row, row, row, RuntimeError('no such thing')] if said else [row, UserError('no such thing')])

    def alone(function, *arguments):
        if isinstance(outcome := next(outcomes), Exception):
            raise outcome
        return outcome
    config = override(load_config('pretrain'), TINY)
    values = dict(config=config, out=str(tmp_path / 'a.json'), vocab_size=50, warmup=1, windows=1, steps=1) | flags
    monkeypatch.setattr(program.flags, 'FLAGS', types.SimpleNamespace(**values))
    monkeypatch.setattr(program.timing, 'alone', alone)
    with pytest.raises(UserError, match=said) if said else contextlib.nullcontext():
        program.main()
    rows = json.loads((tmp_path / 'a.json').read_text())['rows']
    if said:
        assert rows == {'ours': [row, row], 'post-ln': [row]}
    else:
        assert [each.get('error') for each in rows] == [None, 'no such thing']


def test_tokens_of_an_epoch_are_counted_by_each_way_to_pad():
    own = [8, 8, 16, 16]
    rows = [Encoded(str(i), [[1] * n], 0, [1.0, 0.0], False) for i, n in enumerate(own)]
    first, second, third, fourth = (own[i] for i in permutation(0, 0, 4))
    padded = 2 * max(first, second) + 2 * max(third, fourth)
    assert fine_tuning.count(rows, 32, 2, 4) == {'rows': 4, 'lengths': [8, 16], 'real': 48, 'ours': padded,
                                                 'sorted': 48, 'context': 128, 'batch': padded}


def test_pairs_that_meet_again_are_counted():
    one, following = np.array([[0, 1, 2], [3, 4, 5]]), np.array([[0, 1, 6], [3, 4, 5]])
    assert fine_tuning.met_again(one, following) == (1 + 3) / 6


def test_scoring_is_compared_with_a_padded_pass_of_each_candidate():
    model = backbone({'n_layer': 1, 'n_embd': 16, 'n_head': 1, 'n_inner': 16, 'n_ctx': 32, 'vocab_size': 30})
    params = model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
    question = list(range(16))
    found = scoring.compare(model, params, [([*question, *range(n)], n) for n in (1, 2, 3, 4)], 2, 128)
    assert found['sequences'] == 4 and found['scored'] == 10 and found['difference'] < 1e-4
    assert found['tokens'] == {'ours': 16 + 4 * 4, 'context': 4 * 32, 'length': 8 * 16 + 4 * 32}
    assert {way: len(seconds) for way, seconds in found['seconds'].items()} == {'ours': 2, 'context': 2, 'length': 2}


@pytest.mark.parametrize('name', ['ours', 'post-ln', 'nanogpt', 'hugging-face'])
def test_a_contestant_starts_at_the_logarithm_of_the_vocabulary_and_learns(name):
    if name != 'ours':
        pytest.importorskip('torch')
        pytest.importorskip('transformers')
    row = compare.contestant(name, override(load_config('pretrain'), TINY), 50, 10, 1, 10)
    assert row['losses'][0] == pytest.approx(math.log(50), abs=0.05)
    assert row['losses'][-1] < row['losses'][0] - 0.3 and len(row['step_seconds']) == 1


NAMES = {'tokens_embed': 'tokens', 'positions_embed': 'positions', 'h.': 'blocks.', 'attn.c_attn': 'qkv',
         'attn.c_proj': 'out', 'mlp.c_fc': 'fc', 'mlp.c_proj': 'proj'}


def test_the_post_ln_contestant_computes_what_transformers_does():
    """As our model does, by tests/models/test_gpt.py."""
    torch, _ = pytest.importorskip('torch'), pytest.importorskip('transformers')
    from experiments.benchmarks import contestants
    config = GPTConfig(vocab_size=50, n_ctx=16, n_embd=16, n_layer=2, n_head=2, n_inner=64, embd_dropout=0.2,
                       attn_dropout=0.3, resid_dropout=0.4)
    ours, theirs = contestants.Model(config, post=True).eval(), contestants.HuggingFace(config).eval()
    assert (ours.drop.p, ours.blocks[0].attn_dropout, ours.blocks[0].drop.p) == (0.2, 0.3, 0.4)
    tokens = torch.as_tensor(np.random.default_rng(0).integers(0, 50, (3, 17)))
    with torch.no_grad():
        state = {}
        for name, x in theirs.model.transformer.named_parameters():
            x.normal_(std=0.3)
            new = functools.reduce(lambda name, pair: name.replace(*pair), NAMES.items(), name)
            state[new] = x.T if '.c_' in name and x.ndim == 2 else x
        ours.load_state_dict(state)
        assert float(ours(tokens)) == pytest.approx(float(theirs(tokens)), rel=1e-5)


# Tiles of the kernels

LISTS = {'attention': 'FORWARD', 'attention, gradient': 'BACKWARD', 'norm': 'NORM', 'norm, gradient': 'NORM_BACKWARD'}
PRESENT = {'attention': tuple(gpu_attention.FORWARD), 'attention, gradient': tuple(gpu_attention.BACKWARD),
           'norm': (gpu_residual_norm.ROWS, gpu_residual_norm.FORWARD),
           'norm, gradient': (gpu_residual_norm.ROWS, gpu_residual_norm.PROGRAMS, gpu_residual_norm.BACKWARD)}


def test_the_kernels_have_the_fastest_tiles_of_the_file_and_those_are_measured_first():
    rows = json.loads((ROOT / 'experiments/benchmarks/results/h200_kernels.json').read_text())['rows']
    for kernel, present in PRESENT.items():
        measured = {tuple(row['tiles']): row['microseconds'] for row in rows if row['kernel'] == kernel}
        assert measured.keys() == set(getattr(kernels, LISTS[kernel]))
        assert min(measured, key=measured.get) == present == getattr(kernels, LISTS[kernel])[0]


def test_every_choice_of_tiles_is_timed_and_computes_the_same(monkeypatch):
    for module, names in ((gpu_attention, ('FORWARD', 'BACKWARD')),
                          (gpu_residual_norm, ('ROWS', 'PROGRAMS', 'FORWARD', 'BACKWARD'))):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))  # measure changes them
    for name in LISTS.values():
        monkeypatch.setattr(kernels, name, getattr(kernels, name)[:2])
    rows = kernels.measure((1, 32, 2, 16), True, calls=1)
    assert [row['kernel'] for row in rows] == [kernel for kernel in LISTS for _ in range(2)]
    assert all(row['microseconds'] > 0 and row['difference'] < 5e-3 for row in rows)
