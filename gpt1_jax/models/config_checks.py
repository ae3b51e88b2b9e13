"""Checks that the configs of both backbones share."""
from typing import Any

from gpt1_jax.errors import shown
from gpt1_jax.models import dropout, precision
from gpt1_jax.models.fast import table


def problems(config: Any, positive: tuple[str, ...], rates: tuple[str, ...]) -> list[str]:
    """Invalid fields, a line each, so that all are reported at once. positive: names of fields that are at least 1;
    rates: of dropout rates."""
    found = []
    for name, least in (dict.fromkeys(positive, 1) | {'n_special': 0, 'unroll': 0}).items():
        value = getattr(config, name)
        if type(value) is not int or value < least:
            found.append(f'model.{name} is {shown(value)}, must be a whole number of at least {least}')
    for name in rates:
        value = getattr(config, name)
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            found.append(f'model.{name} is {shown(value)}, must be a number of at least 0 and below 1')
    choices = {'dtype': ('float32', 'bfloat16'), 'precision': precision.CHOICES, 'kernels': table.CHOICES}
    for name, allowed in choices.items():
        value = getattr(config, name)
        if value not in allowed:
            found.append(f'model.{name} is {shown(value)}, must be one of {", ".join(map(repr, allowed))}')
    if type(config.remat) is not bool:
        found.append(f'model.remat is {shown(config.remat)}, must be True or False')
    return found


def too_large(sizes: dict[str, int]) -> list[str]:
    """sizes: rows and columns of dropout masks, by the fields that they come from."""
    return [f'{name} = {size:,} must be at most {dropout.LARGEST:,} (dropout indexes rows and columns with 16 bits)'
            for name, size in sizes.items() if size > dropout.LARGEST]
