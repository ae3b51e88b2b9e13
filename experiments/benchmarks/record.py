"""The JSON file of a benchmark: its measurements, date, device, versions and command."""

import datetime
import json
import os
import pathlib
import platform
import re
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


def processor(told: pathlib.Path = pathlib.Path('/proc/cpuinfo')) -> str:
    """Return the processor's name and its INSTRUCTIONS, as in 'AMD EPYC avx2 avx512f'. Linux lists
    them in this file."""
    fields = (
        dict(
            re.findall(
                r'^(model name|flags)\s*: '
                r'(.*)$',
                told.read_text(),
                re.MULTILINE,
            )
        )
        if told.exists()
        else {}
    )
    has = fields.get('flags', '').split()
    return ' '.join(
        [
            fields.get('model name') or platform.machine(),
            *(name for name in INSTRUCTIONS if name in has),
        ]
    )
