"""Words absl's errors as ours; suggests the right flag for an unknown one (configs/coming_from.md has those of other
libraries)."""
import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any

WANTED = {'invalid literal for int': 'a whole number', 'could not convert string to float': 'a number',
          "('Non-boolean argument": 'True or False'}  # absl's cause: what the value must be


def message(error: str, known: Mapping[str, Any]) -> str:
    """The text of an absl error: flags that must be given with their help, a value of the wrong type with what it must
    be; any other as it is. known: {name: absl's flag}."""
    missing = re.findall(r'Flag --(\w+) must have a value other than None', error)
    if missing:
        return 'give ' + ', '.join(f'--{name} ({known[name].help})' for name in missing)
    for cause, wanted in WANTED.items():
        given, found, _ = error.partition(f': {cause}')
        if found:
            return f'{given.removeprefix("flag ")}: must be {wanted}'
    return error


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
