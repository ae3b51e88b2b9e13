"""Suggests the right flag for an unknown one; flags of other libraries are in configs/coming_from.md."""
import difflib
from collections.abc import Collection


def suggestion(given: str, known: Collection[str]) -> str:
    """', did you mean --config.batch.size?', or '' where no known flag is like it.

    given: the unknown flag, without dashes. known: the program's flags, with 'config.batch.size' for each field.
    """
    name = given.replace('-', '_').replace('.', '_')
    plain = {flag: flag.removeprefix('config.').replace('.', '_') for flag in known}
    last = {flag: flag.rpartition('.')[2] for flag in known}
    meant = [flag for flag in known if name in (plain[flag], last[flag])]
    meant += [flag for flag in known if f'_{name}_' in f'_{plain[flag]}_']  # 'warmup' of config.optimizer.warmup_steps
    for names in (plain, last):
        near = difflib.get_close_matches(name, names.values(), n=1, cutoff=0.7)
        meant += [flag for flag in known if names[flag] in near]
    return f', did you mean --{meant[0]}?' if meant else ''
