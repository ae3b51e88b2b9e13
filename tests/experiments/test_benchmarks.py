"""The benchmarks: their counts and quotients, on numbers by hand, and the timed steps at a tiny
size."""

import contextlib
import functools
import itertools
import json
import math
import types

import jax
import numpy as np
import pytest

from experiments.benchmarks import compare, record, timing, train_step
from gpt1_jax.errors import UserError
from gpt1_jax.models.fast import gpu_attention, gpu_residual_norm
from gpt1_jax.models.gpt import GPTConfig
from tiny import ROOT, load_config, override

pytestmark = pytest.mark.full

TINY = dict(
    model__n_layer=1,
    model__n_embd=16,
    model__n_head=1,
    model__n_inner=64,
    model__n_ctx=16,
    batch__size=8,
    optimizer__peak_rate=1e-2,
)


def test_a_sweep_is_every_combination_of_its_values_and_a_mistake_in_it_one_line():
    found = train_step.configs(
        load_config('pretrain'), 'batch.size=16,32;model.dtype=float32,bfloat16'
    )
    wanted = [*itertools.product((16, 32), ('float32', 'bfloat16'))]
    assert [tuple(changes.values()) for changes, _ in found] == wanted
    assert [(config.batch.size, config.model.dtype) for _, config in found] == wanted
    for sweep, message in (
        ('batch.size=', '^--sweep: .* is not FIELD=VALUE'),
        ('batch.sise=8', "^config has no field batch.sise, did you mean 'batch.size'"),
        ('batch.size=x', '^batch.size=x: '),
    ):
        with pytest.raises(UserError, match=message):
            train_step.configs(load_config('pretrain'), sweep)


def test_windows_are_timed_after_the_first_step_and_the_warm_up(monkeypatch):
    clock = [0.0]
    done = []
    monkeypatch.setattr(timing.time, 'perf_counter', lambda: clock[0])

    def run(n):
        clock[0] += 10.0 if not done else n * 0.5
        done.append(n)
        return float(len(done))

    assert timing.measure(run, 3, 2, 4) == {
        'first_seconds': 10.0,
        'losses': [1.0, 2.0, 3.0, 4.0],
        'step_seconds': [0.5, 0.5],
    }
    assert done == [1, 3, 4, 4]
    assert timing.throughput([0.5, 0.25, 1.0], 100) == (200, 100, 400)


def test_ratios_are_of_medians_over_the_windows_of_all_turns():
    def row(*seconds):
        return {'device': 'x', 'step_seconds': seconds, 'first_seconds': 3.0, 'losses': [7.0, 6.0]}

    rows = {'ours': [row(1.0, 1.0), row(5.0)], 'post-ln': [row(2.0, 2.5, 9.0)]}
    assert compare.summary(rows, 9000) == [
        ['ours', 'x', '9,000', '1,800 to 9,000', '1.00', '3.0', '7.00', '6.00'],
        ['post-ln', 'x', '3,600', '1,000 to 4,500', '2.50', '3.0', '7.00', '6.00'],
    ]


@pytest.mark.parametrize(
    'program, fields, failed',
    [
        (train_step, {'sweep': 'batch.size=8,9'}, 2),
        (compare, {'contestants': ['ours', 'post-ln'], 'turns': 2}, 4),
    ],
)
def test_what_was_measured_is_written_where_another_row_fails(
    monkeypatch, tmp_path, capsys, program, fields, failed
):
    row = {'step_seconds': [1.0], 'first_seconds': 3.0, 'losses': [7.0, 6.0], 'device': 'x'}
    row |= {'tokens_per_s': 1, 'lowest': 1, 'highest': 1, 'mfu': None, 'bytes': None}
    calls = []

    def alone(*_):
        calls.append(1)
        if len(calls) == failed:
            raise UserError('no such thing')
        return row

    values = {'config': override(load_config('pretrain'), TINY), 'out': str(tmp_path / 'a.json')}
    values |= {'vocab_size': 50, 'warmup': 1, 'windows': 1, 'steps': 1} | fields
    monkeypatch.setattr(program.flags, 'FLAGS', types.SimpleNamespace(**values))
    monkeypatch.setattr(program.timing, 'alone', alone)
    refused = pytest.raises(UserError, match='^post-ln: no such thing')
    with refused if program is compare else contextlib.nullcontext():
        program.main()
    rows = json.loads((tmp_path / 'a.json').read_text())['rows']
    if program is compare:
        assert rows == {'ours': [row, row], 'post-ln': [row]}
        assert '| ours | x | 128 |' in capsys.readouterr().out  # its device, tokens a second
    else:
        assert [each.get('error') for each in rows] == [None, 'no such thing']


def test_a_result_has_its_versions_and_the_flags_that_change_a_step_s_time(monkeypatch, tmp_path):
    monkeypatch.setenv('XLA_FLAGS', '--a')
    monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
    record.write(str(tmp_path / 'a.json'), {'rows': []})
    found = json.loads((tmp_path / 'a.json').read_text())
    assert found['versions']['jax'] == jax.__version__ and found['rows'] == []
    assert found['environment'] == {'XLA_FLAGS': '--a'}


@pytest.mark.parametrize('name', ['ours', 'ours-xla', 'post-ln', 'nanogpt', 'hugging-face'])
def test_a_contestant_starts_at_the_logarithm_of_the_vocabulary_and_learns_on_one_device(name):
    if not name.startswith('ours'):
        pytest.importorskip('torch')
        pytest.importorskip('transformers')
    row = compare.contestant(name, override(load_config('pretrain'), TINY), 50, 10, 1, 10)
    assert row['losses'][0] == pytest.approx(math.log(64 if name == 'nanogpt' else 50), abs=0.05)
    assert row['losses'][-1] < row['losses'][0] - 0.3 and len(row['step_seconds']) == 1
    assert row['device'].endswith('cpu') and row['device'].startswith('1 x ' * ('ours' in name))


@pytest.mark.parametrize('ours, theirs', [('highest', 'highest'), ('default', 'high')])
def test_products_of_contestants_have_the_precision_of_the_config(ours, theirs):
    torch = pytest.importorskip('torch')
    fields = TINY | {'model__precision': ours}
    compare.contestant('post-ln', override(load_config('pretrain'), fields), 50, 1, 1, 1)
    assert torch.get_float32_matmul_precision() == theirs


NAMES = {
    'tokens_embed': 'tokens',
    'positions_embed': 'positions',
    'h.': 'blocks.',
    'attn.c_attn': 'qkv',
    'attn.c_proj': 'out',
    'mlp.c_fc': 'fc',
    'mlp.c_proj': 'proj',
}


def test_the_post_ln_contestant_computes_what_transformers_does():
    """As our model does, by tests/models/test_gpt.py."""
    torch = pytest.importorskip('torch')
    _ = pytest.importorskip('transformers')
    from experiments.benchmarks import contestants

    config = GPTConfig(
        vocab_size=50,
        n_ctx=16,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_inner=64,
        embd_dropout=0.2,
        attn_dropout=0.3,
        resid_dropout=0.4,
    )
    ours = contestants.Model(config, post=True).eval()
    theirs = contestants.HuggingFace(config).eval()
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

PRESENT = {
    'attention': tuple(gpu_attention.FORWARD),
    'attention, gradient': tuple(gpu_attention.BACKWARD),
    'norm': (gpu_residual_norm.ROWS, gpu_residual_norm.FORWARD),
    'norm, gradient': (
        gpu_residual_norm.ROWS,
        gpu_residual_norm.PROGRAMS,
        gpu_residual_norm.BACKWARD,
    ),
}


def test_the_kernels_have_the_fastest_tiles_of_the_file():
    rows = json.loads((ROOT / 'experiments/benchmarks/results/h200_kernels.json').read_text())[
        'rows'
    ]
    for kernel, present in PRESENT.items():
        measured = {
            tuple(row['tiles']): row['microseconds'] for row in rows if row['kernel'] == kernel
        }
        assert len(measured) > 7 and min(measured, key=measured.get) == present
