"""JAX's persistent compilation cache, on by default: the second start of a program does not compile again."""
import contextlib
import hashlib
import platform
import warnings

import jax

from gpt1_jax import storage


def enable() -> None:
    """Keep compiled programs under GPT1_JAX_CACHE; JAX_COMPILATION_CACHE_DIR, if set, takes precedence.

    Programs for a CPU may use instructions that other CPUs lack, so each kind of host has a directory of its own. A
    cache that cannot be read or written is silently not used.
    """
    if getattr(jax.config, 'jax_compilation_cache_dir') is not None:
        return
    host = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    with contextlib.suppress(OSError):
        directory = storage.cache(f'programs/{host}')
        directory.mkdir(parents=True, exist_ok=True)
        jax.config.update('jax_compilation_cache_dir', str(directory))
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.2)
        warnings.filterwarnings('ignore', message='Error (reading|writing) persistent compilation cache entry')


def _processor():
    """The model and the instruction sets of this host's CPU."""
    with contextlib.suppress(OSError), open('/proc/cpuinfo', encoding='utf-8', errors='replace') as file:
        wanted = 'model name', 'flags', 'Features', 'CPU part'
        return ''.join(sorted({line for line in file if line.startswith(wanted)}))
    return platform.processor()
