"""The options of XLA with which a training step is compiled, by platform."""

import os

# On an H200 cuBLASLt's products, which add biases inside, make the paper's step 5% faster than
# XLA's choice between them and Triton's (experiments/benchmarks/README.md). With ftz, denormal
# numbers are zero and 2^x needs no scaling.
GPU = {'xla_gpu_enable_triton_gemm': False, 'xla_gpu_ftz': True}


def of(platform: str) -> dict[str, bool]:
    """{option: value} for jax.jit on a platform, without options that XLA_FLAGS sets."""
    if platform != 'gpu':
        return {}
    given = {flag.lstrip('-').partition('=')[0] for flag in os.environ.get('XLA_FLAGS', '').split()}
    return {name: value for name, value in GPU.items() if name not in given}


def text(platform: str) -> str:
    """The options of a platform in the form of XLA_FLAGS: '--NAME=true --OTHER=false'."""
    return ' '.join(f'--{name}={str(value).lower()}' for name, value in of(platform).items())
