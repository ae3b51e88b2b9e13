"""The self-check of the kernels: it passes those that are right, and finds each that was broken on
purpose."""

import dataclasses
import re
import types

import jax
import jax.numpy as jnp
import pytest

from gpt1_jax.errors import UserError
from gpt1_jax.models.fast import (
    gpu_attention,
    gpu_cross_entropy,
    gpu_residual_norm,
    self_check,
    table,
    tpu_attention,
)
from gpt1_jax.models.gpt import GPTConfig
from gpt1_jax.parallel import processes

KERNELS = {kernel.name: kernel for kernel in table.KERNELS}
# The module and the function of each kernel, and a head size, width or vocabulary and a length that
# it takes; small, as they are interpreted.
SMALL = {
    'flash': (gpu_attention, 'flash_attention', 16, 20),
    'mosaic': (tpu_attention, 'tpu_attention', 64, 100),
    'fused': (gpu_residual_norm, 'add_and_norm', 32, 10),
    'rowwise': (gpu_cross_entropy, 'cross_entropy', 300, 10),
}
# The messages about a kernel that is broken in some way.
SAID = {
    'another mask': r'^the result is off by \S+, \S+ are allowed \(',
    'one element': r'^the result is off by',
    'nan': r'^the result is off by nan',
    'its gradient': r'^gradient 1 is off by',
    'raises': r'^RuntimeError: out of shared memory$',
    'not at all': '^None$',
}


@pytest.mark.full
@pytest.mark.parametrize(
    'name, how',
    [(name, how) for name in SMALL for how in SAID if (name, how) != ('rowwise', 'another mask')],
)
def test_a_broken_kernel_is_found_and_one_that_is_right_passes(monkeypatch, name, how):
    module, function, size, length = SMALL[name]
    right = getattr(module, function)

    def broken(first, *others, **options):
        *others, last = others  # the dropout; of a loss the dtype
        if how == 'raises':
            raise RuntimeError('out of\nshared memory')
        if how == 'another mask' and last.key is not None:
            last = dataclasses.replace(last, key=last.key._replace(step=last.key.step + 1))
        if how == 'its gradient':  # doubled; the result is right
            first = 2 * first - jax.lax.stop_gradient(first)
        wrong = {'one element': 0.3, 'nan': jnp.nan}.get(how, 0)
        found = right(first, *others, last, **options)
        return found.at[(0, 3, 0)[: found.ndim]].add(wrong)

    monkeypatch.setattr(module, function, broken)
    found = self_check.failure(KERNELS[name], size, length, jax.devices('cpu')[0])
    assert re.search(SAID[how], str(found))


# The choice of kernels after the check. The devices do not exist, and the test sets the result of
# `failure`.

MODEL = GPTConfig(vocab_size=20, n_ctx=512, dtype='bfloat16')
FLASH = ('attention', 'auto', 'gpu', 'NVIDIA X', 'bfloat16', 64, True)


@pytest.fixture
def gpu(monkeypatch):
    """This machine's only device, with nothing checked yet."""
    device = types.SimpleNamespace(
        platform='gpu',
        device_kind='NVIDIA X',
        compute_capability='9.0',
        client=types.SimpleNamespace(platform_version='cuda 13'),
    )
    monkeypatch.setattr(jax, 'local_devices', lambda: [device])
    monkeypatch.setattr(table, 'verdicts', {})
    return device


def finds(monkeypatch, reasons):
    """Lets the check find {kernel: its fault}. Returns a list that records the checked kernels."""
    asked = []

    def failure(kernel, size, length, device):
        asked.append((kernel.name, size, length))
        return reasons.get(kernel.name)

    monkeypatch.setattr(self_check, 'failure', failure)
    return asked


def test_auto_uses_what_passed_and_tells_of_what_did_not(monkeypatch, gpu, capsys):
    assert table.choose(*FLASH) == 'plain'  # nothing is used unchecked
    asked = finds(monkeypatch, {'fused': 'spilt'})
    self_check.check(MODEL)
    self_check.check(MODEL)
    assert asked == [('cudnn', 64, 512), ('flash', 64, 512), ('fused', 768, 512)]
    assert table.choose(*FLASH, length=512) == 'flash'
    assert table.choose(*FLASH, length=513) == 'plain'
    assert table.choose(*FLASH[:-1], False) == 'cudnn'
    assert table.choose('add_and_norm', 'auto', 'gpu', 'NVIDIA X', 'bfloat16', 768, True) == 'xla'
    assert capsys.readouterr().out == (
        'kernels: fused (add_and_norm) is not used on NVIDIA X, plain XLA takes its place: spilt\n'
    )


def test_one_process_that_fails_decides_for_all(monkeypatch, gpu, capsys):
    finds(monkeypatch, {})
    monkeypatch.setattr(processes, 'everywhere', lambda passed: False)
    self_check.check(MODEL)
    assert table.choose(*FLASH) == 'plain'
    assert capsys.readouterr().out.count('it failed in another process') == 3


@pytest.mark.parametrize('capability', ['7.5', 'gfx942', None])
def test_a_gpu_is_judged_by_what_it_can_do_not_by_its_name(gpu, capability):
    gpu.compute_capability = capability
    if capability is None:
        del gpu.compute_capability
    assert self_check.failure(KERNELS['flash'], 64, 512, gpu) == (
        f'compute capability {capability}, bfloat16 needs 8.0 of an NVIDIA GPU'
    )


def test_a_kernel_that_is_asked_for_and_fails_is_one_line(monkeypatch, gpu):
    asked = finds(monkeypatch, {'flash': 'spilt'})
    self_check.check(MODEL)  # 'auto' does without it, and says so
    once = len(asked)
    for _ in range(2):
        with pytest.raises(
            UserError,
            match=r"^model.kernels = 'triton': flash fails on NVIDIA X: "
            r'spilt$',
        ):
            self_check.check(dataclasses.replace(MODEL, kernels='triton'))
    assert len(asked) == once


@pytest.mark.parametrize('change', [{'dtype': 'float32'}, {'kernels': 'xla'}, {'kernels': 'plain'}])
def test_where_no_kernel_would_be_used_none_is_checked(monkeypatch, gpu, change):
    asked = finds(monkeypatch, {})
    self_check.check(dataclasses.replace(MODEL, **change))
    assert not asked
