"""Checks a backbone's config.

A field's rule follows from its default. A whole number is at least 1, or at least 0 if the default
is 0. A float is any finite number, and NAME_dropout is a rate below 1.
"""

import dataclasses
from typing import Any

from gpt1_jax import rules, user_code
from gpt1_jax.errors import UserError
from gpt1_jax.models import dropout, ops
from gpt1_jax.models.fast import table

CHOICES = {
    'dtype': ('float32', 'bfloat16'),
    'precision': ('highest', 'high', 'default'),  # see build.precision
    'kernels': table.CHOICES,
}


def check(config: Any) -> None:
    """Raises a UserError that lists every invalid field of a GPTConfig or LSTMConfig."""
    problems = []
    for field in dataclasses.fields(config):
        default: Any = field.default
        if field.name in CHOICES:
            rule = rules.one_of(*CHOICES[field.name])
        elif type(default) is int:  # dropout indexes rows and columns with 16 bits
            rule = rules.whole(min(default, 1), dropout.LARGEST)
        else:
            number = rules.between(0, 1) if field.name.endswith('_dropout') else rules.number()
            rule = {bool: rules.flag(), float: number}.get(type(default), rules.ANY)
        problems += rules.problem(f'model.{field.name}', getattr(config, field.name), rule)
    if not problems:
        rows = config.vocab_size + config.n_special + config.n_ctx
        problems += rules.problem(
            'model.vocab_size + specials + positions', rows, rules.whole(1, dropout.LARGEST)
        )
        if config.n_embd % getattr(config, 'n_head', 1):
            problems.append(
                f'model.n_embd = {config.n_embd} is not a multiple of model.n_head = '
                f'{config.n_head}'
            )
    for name, code in getattr(config, 'ops', ()):
        if name in ops.Ops._fields and user_code.names_code(code):
            # Loaded here, so that a mistake in the code is reported before any text is read
            table.replacement(name, code)
        else:
            problems.append(
                f'model.ops.{name} is {code!r}, must be FILE:NAME in the place of one of '
                f'{", ".join(ops.Ops._fields)}'
            )
    if problems:
        raise UserError('; '.join(problems))
