"""Rules for the values of a config's fields. A rule stands beside the default, in configs/ or in
the model's dataclass.

The type of a default is a rule already (`of_defaults`). Narrower rules are written down:
'batch.size': whole(1). configs/pretrain.py groups them by what a change means for a run.
"""

import functools
import importlib
import importlib.util
import numbers
import operator
from collections.abc import Callable, Mapping
from typing import Any

from gpt1_jax.errors import UserError, did_you_mean, shown

LARGEST = 1e38  # the largest number in a config, just below float32's largest
Rule = tuple[Callable[[Any], Any], str]  # (accepts the value, what it must be)
PROGRAMS = ('pretrain', 'finetune', 'zero_shot')  # each with a packaged config of its name


def validate(config: Any, rules: Mapping[str, Rule]) -> None:
    """UserError that lists every missing field of a config and every value that its rule refuses.

    config: a ConfigDict or nested dict. rules: {'batch.size': (predicate, 'a whole number of at
    least 1')}.
    """
    fields = {**config, **flatten(config)}
    missing = [name for name in rules if name not in fields]
    found = []
    if missing:
        check_program(config)
        found.append(f'config has no {", ".join(missing)}')
    for name, rule in rules.items():
        if name in fields:
            found += problem(f'config.{name}', fields[name], rule)
    if found:
        raise UserError('; '.join(found))


def problem(name: str, value: Any, rule: Rule) -> list[str]:
    """['batch.size is 0, must be ...'] if the rule refuses the value, otherwise []."""
    accepts, wanted = rule
    try:
        if accepts(value):
            return []
    except (AttributeError, TypeError, ValueError):  # of a value of another type
        pass
    return [f'{name} is {shown(value)}, must be {wanted}']


def require(values: Mapping[str, tuple[Any, Rule]]) -> None:
    """UserError that lists every value that its rule refuses.

    values: {'batch.size': (0, whole(1))}.
    """
    found = [line for name, (value, rule) in values.items() for line in problem(name, value, rule)]
    if found:
        raise UserError('; '.join(found))


def _is_group(value):
    return isinstance(value, Mapping) or hasattr(value, 'to_dict')


def program_of(config: Any) -> str:
    """The program of which a config has all fields, or ''."""
    known = {*flatten(config), *config}
    for program in PROGRAMS:
        if known >= importlib.import_module(f'gpt1_jax.configs.{program}').RULES.keys():
            return program
    return ''


def check_program(config: Any, wanted: str = '') -> None:
    """UserError if a config belongs to another program than the wanted program."""
    program = program_of(config)
    if program and program != wanted:
        raise UserError(f'this config is for gpt1 {program}')
    if not program and wanted in config:
        raise UserError(f'this config is not for gpt1 {wanted}, but for a program of experiments/')


def of_defaults(defaults: Any, narrower: Mapping[str, Rule | None]) -> dict[str, Rule]:
    """The rules of a ConfigDict's fields.

    A field without a rule in `narrower`, or with BY_TYPE, must have the type of its default. None
    is accepted if it is the default. The fields of the group `model` have their rules in models/.
    """
    rules = {}
    for name, default in flatten(defaults).items():
        if not name.startswith('model.'):
            rule = narrower.get(name) or _of_type(defaults, name)
            rules[name] = optional(rule) if default is None else rule
    return rules | ({'model': GROUP} if 'model' in defaults else {})


def _of_type(defaults, name):
    *parents, last = name.split('.')
    kind = functools.reduce(operator.getitem, parents, defaults).get_type(last)
    return {
        bool: flag(),
        str: text(),
        int: whole(-LARGEST),
        float: number(),
        tuple: several(ANY),
    }.get(kind, ANY)


def choose(what: str, name: str, known: Mapping[str, Any]) -> Any:
    """known[name]. UserError naming all known names for any other name."""
    if name not in known:
        raise UserError(
            f'no {what} {name!r}{did_you_mean(name, known)} (there are {", ".join(known)})'
        )
    return known[name]


def flatten(config: Any, prefix: str = '') -> dict[str, Any]:
    """{'model.n_layer': 12, ...} of a ConfigDict or nested dict."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f'{prefix}{key}.') if _is_group(value) else {f'{prefix}{key}': value}
    return flat


def is_number(x: Any) -> bool:
    return isinstance(x, numbers.Real) and not isinstance(x, bool)


def whole(low: float, high: int = 2**31 - 1) -> Rule:
    """An int from `low` to `high`, by default the largest int32."""
    return (
        lambda x: isinstance(x, int) and not isinstance(x, bool) and low <= x <= high,
        f'a whole number from {low} to {high:,}',
    )


def integer(low: float, high: int = 2**31 - 1) -> Rule:
    """As `whole`, but for an argument in Python, so numpy's integers are accepted too.

    A config, written as JSON, cannot hold numpy's integers.
    """
    accepts, wanted = whole(low, high)
    return lambda x: accepts(x if isinstance(x, bool) else operator.index(x)), wanted


def between(low: float, high: float) -> Rule:
    """A number from `low` to below `high`."""
    return (
        lambda x: is_number(x) and low <= x < high,
        f'a number of at least {low} and below {high}',
    )


def number() -> Rule:
    """A finite number that float32 can hold."""
    return (
        lambda x: is_number(x) and -LARGEST < x < LARGEST,
        f'a number of magnitude below {LARGEST}',
    )


def positive() -> Rule:
    """A number above 0 that float32 can hold."""
    return lambda x: is_number(x) and 0 < x < LARGEST, f'a number above 0 and below {LARGEST}'


def text() -> Rule:
    return lambda x: isinstance(x, str), 'a text'


def flag() -> Rule:
    return lambda x: isinstance(x, bool), 'True or False'


def one_of(*choices: str) -> Rule:
    return lambda x: x in choices, f'one of {", ".join(map(repr, choices))}'


def or_code(*choices: str) -> Rule:
    """One of the built-in choices, or code named as FILE:NAME or optax:NAME (user_code.py)."""
    return (
        lambda x: x in choices or all(x.rpartition(':')[::2]),
        f'one of {", ".join(map(repr, choices))}, or FILE:NAME',
    )


def several(rule: Rule) -> Rule:
    """A tuple or list of values that another rule accepts."""
    accepts, wanted = rule
    return (
        lambda x: isinstance(x, (tuple, list)) and all(map(accepts, x)),
        f'a tuple, each of it {wanted}',
    )


def optional(rule: Rule) -> Rule:
    """None, or a value that another rule accepts."""
    accepts, wanted = rule
    return lambda x: x is None or accepts(x), f'{wanted.removesuffix(", or None")}, or None'


def extra(*libraries: str) -> Rule:
    """'', or the name of an installed library, which is the name of the extra that installs it."""
    return (
        lambda x: x == '' or x in libraries and importlib.util.find_spec(x),
        f"'', or with the extra of its name (pip install 'gpt1_jax[{libraries[0]}]') "
        f'{" or ".join(map(repr, libraries))}',
    )


def span(text: str) -> tuple[int, int] | None:
    """(START, STOP) of 'START:STOP', or None of ''. ValueError for any other text."""
    if not text:
        return None
    first, last = (int(part) for part in text.split(':'))
    if not 0 <= first < last:
        raise ValueError
    return first, last


BY_TYPE = None  # in place of a rule: the rule follows from the default's type
GROUP = (_is_group, 'a group of fields')
ANY = (lambda x: True, 'any value')
AXIS = (
    lambda x: whole(-1)[0](x) and x != 0,
    'a whole number of at least 1, or -1 for the remaining devices',
)
SPAN = (lambda x: span(x) or True, 'START:STOP, two steps, the first the smaller')
TENSORBOARD = (
    lambda x: x is False or x is True and importlib.util.find_spec('tensorboardX'),
    "False, or with the extra tensorboard (pip install 'gpt1_jax[tensorboard]') True",
)
