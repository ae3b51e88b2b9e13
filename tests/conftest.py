"""Eight devices on any machine, and no silent broadcasting between arrays of different rank (`slow`: see setup.cfg)."""
import os

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Most of a test's time is compiling: LLVM need not optimise what runs once. XLA's own passes are those of any run.
os.environ.setdefault('XLA_FLAGS', '--xla_backend_optimization_level=0')

import jax  # noqa: E402  (after the environment is set)

# Of this process alone: programs started by a test see the machine as it is.
jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')
