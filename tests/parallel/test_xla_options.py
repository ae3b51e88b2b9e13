"""The options of XLA by platform, and what XLA_FLAGS takes from them."""

import jax
import jax.numpy as jnp
import pytest

from gpt1_jax.models.fast import self_check, table
from gpt1_jax.parallel import xla_options
from gpt1_jax.runs import provenance


@pytest.mark.parametrize(
    'platform, flags, expected',
    [
        ('gpu', '', '--xla_gpu_enable_triton_gemm=false --xla_gpu_ftz=true'),
        ('gpu', '--xla_gpu_ftz_other=1 --xla_gpu_ftz=false', '--xla_gpu_enable_triton_gemm=false'),
        ('gpu', '--xla_gpu_enable_triton_gemm --xla_gpu_ftz', ''),
        ('cpu', '', ''),
        ('tpu', '', ''),
    ],
)
def test_only_a_gpu_has_options_and_a_flag_of_the_user_s_goes_before(
    monkeypatch, platform, flags, expected
):
    monkeypatch.setenv('XLA_FLAGS', flags)
    assert xla_options.text(platform) == expected


def test_a_run_records_them_and_says_what_differs(monkeypatch):
    tree = {'a': jnp.zeros(1)}
    before = provenance.environment(tree)
    assert before['xla_options'] == ''
    monkeypatch.setattr(xla_options, 'of', lambda platform: {'xla_gpu_ftz': platform == 'cpu'})
    assert provenance.departures(before, provenance.environment(tree)) == [
        'xla_options  -> --xla_gpu_ftz=true'
    ]


def test_the_check_of_a_kernel_is_compiled_with_them(monkeypatch):
    monkeypatch.setattr(xla_options, 'of', lambda platform: {f'no_option_for_{platform}': True})
    kernel = next(kernel for kernel in table.KERNELS if kernel.name == 'fused')
    reason = self_check.failure(kernel, 32, 10, jax.devices('cpu')[0])
    assert 'no_option_for_cpu' in str(reason)
