"""Checks that the configs of both backbones share. Each returns problems in words, so that all are reported at once."""
from typing import Any

from gpt1_jax.errors import shown
from gpt1_jax.models import precision


def whole_numbers(config: Any, least: dict[str, int]) -> list[str]:
    """least: field -> its least value."""
    problems = []
    for name, low in least.items():
        value = getattr(config, name)
        if type(value) is not int or value < low:
            problems.append(f'model.{name} is {shown(value)}, must be a whole number of at least {low}')
    return problems


def rates(config: Any, names: tuple[str, ...]) -> list[str]:
    """names: fields with dropout rates."""
    problems = []
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            problems.append(f'model.{name} is {shown(value)}, must be a number of at least 0 and below 1')
    return problems


def compute_options(config: Any) -> list[str]:
    """The fields dtype, precision and remat."""
    problems = one_of(config, 'dtype', ('float32', 'bfloat16'))
    problems += one_of(config, 'precision', precision.CHOICES)
    if type(config.remat) is not bool:
        problems.append(f'model.remat is {shown(config.remat)}, must be True or False')
    return problems


def one_of(config: Any, name: str, choices: tuple[str, ...]) -> list[str]:
    value = getattr(config, name)
    if value in choices:
        return []
    return [f'model.{name} is {shown(value)}, must be one of {", ".join(map(repr, choices))}']
