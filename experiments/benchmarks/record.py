"""The JSON file of a benchmark: its measurements, date, device, versions and command."""

import datetime
import json
import os
import pathlib
import platform
import sys

from absl import flags

from gpt1_jax import storage
from gpt1_jax.cli import config_file
from gpt1_jax.runs import provenance

flags.disclaim_key_flags()  # --help lists the flags defined here with the caller's
# The instructions that decide how fast matrix products on a CPU are
INSTRUCTIONS = ('avx2', 'avx512f', 'avx512_bf16', 'amx_bf16')
VARIABLES = ('XLA_FLAGS', 'GLIBC_TUNABLES')  # they change a step's time


def define_flag() -> None:
    """Define the flag --out."""
    flags.DEFINE_string('out', None, 'A JSON file for the result.')


def define_step_flags() -> None:
    """Define --out and the flags for a pretraining step."""
    define_flag()
    config_file.define('pretrain', 'What to measure; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_integer(
        'vocab_size', 40478, "Ids of the tokenizer; the published one's by default.", lower_bound=1
    )


def write(path: str | None, found: dict, device: str | None = None) -> None:
    """Write a result to a path, with its folder if that is missing.

    path: None writes nothing. found: plain values. device: the measured device, by default this
    machine's processor.
    """
    if path is None:
        return
    made = provenance.versions()
    made['versions'] |= provenance.installed(('torch', 'transformers'))
    about = {
        'date': datetime.date.today().isoformat(),
        'command': ' '.join(['python', *sys.orig_argv[1:]]),
        'device': device or f'{os.cpu_count()} cores, {platform.machine()}',
        'processor': processor(),
        **made,
        'environment': {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    storage.write(path, (json.dumps(about | found, indent=1) + '\n').encode())


def processor() -> str:
    """Return the processor's name and its INSTRUCTIONS, as in 'AMD EPYC avx2 avx512f'."""
    facts = cpuinfo()
    has = [name for name in INSTRUCTIONS if name in facts.get('flags', '').split()]
    return ' '.join([facts.get('model name') or platform.machine(), *has])


def cpuinfo() -> dict[str, str]:
    """Return what Linux says about the first core: {'model name': 'AMD EPYC', 'flags': ...}."""
    told = pathlib.Path('/proc/cpuinfo')
    first = told.read_text(encoding='utf-8').partition('\n\n')[0] if told.exists() else ''
    facts = (line.partition(':') for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in facts}
