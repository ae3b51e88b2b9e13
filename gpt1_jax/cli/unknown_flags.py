"""Suggests the right flag for an unknown one; flags of other libraries are in configs/coming_from.md."""
import difflib
from collections.abc import Iterable


def suggestion(given: str, known: Iterable[str]) -> str:
    """', did you mean --config.batch.size?', or '' where no known flag is like it.

    given: the unknown flag, without dashes. known: the program's flags, with 'config.batch.size' for each field.
    """
    known = list(known)
    name = given.replace('-', '_').replace('.', '_')
    plain = {one: one.removeprefix('config.').replace('.', '_') for one in known}
    last = {one: one.rpartition('.')[2] for one in known}
    for flag in known:
        if name in (plain[flag], last[flag]):
            return f', did you mean --{flag}?'
    for flag in known:  # a part of the name: 'warmup' of config.optimizer.warmup_steps
        if f'_{name}_' in f'_{plain[flag]}_':
            return f', did you mean --{flag}?'
    for names in (plain, last):
        near = difflib.get_close_matches(name, names.values(), n=1, cutoff=0.7)
        if near:
            return f', did you mean --{next(flag for flag, own in names.items() if own == near[0])}?'
    return ''
