"""Checks that the configs of both backbones share, by the rules of config fields (rules.py). Each returns problems."""
from typing import Any

from gpt1_jax import rules
from gpt1_jax.models import precision


def whole_numbers(config: Any, least: dict[str, int]) -> list[str]:
    """least: field -> its least value."""
    return rules.fields(config, {name: rules.whole(low) for name, low in least.items()})


def rates(config: Any, names: tuple[str, ...]) -> list[str]:
    """names: fields with dropout rates."""
    return rules.fields(config, {name: rules.between(0, 1) for name in names})


def compute_options(config: Any) -> list[str]:
    """The fields dtype, precision and remat."""
    return rules.fields(config, {'dtype': rules.one_of('float32', 'bfloat16'),
                                 'precision': rules.one_of(*precision.CHOICES), 'remat': rules.flag()})


def one_of(config: Any, name: str, choices: tuple[str, ...]) -> list[str]:
    return rules.fields(config, {name: rules.one_of(*choices)})
