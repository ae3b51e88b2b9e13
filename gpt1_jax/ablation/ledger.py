"""The ledger of a search, OUT/ideas.jsonl: a line for each idea and stage, only ever appended.

A search is many invocations in one directory. Each line is a dict with

    stage        'screen' (short, may be wrong), 'confirm' (fresh seeds, LONGER), 'adopt' or 'timed'
    idea, against, changes, code    what was compared with what, and the hashes of the user's files
    baseline     a digest of the baseline that the stage had, with all that it had adopted
    seeds, updates, looks, runs     `runs` are the keys of pairs of trials in results.jsonl
    differences  idea - baseline of each seed, in nats a token, or in bits a byte if the tokenizers
                 differ. None if the validation texts differ
    nats, bits   [mean, low, high]
    p            of "not better", one-sided. 1 if no difference that matters
    speed        the baseline's time for a trial, divided by the idea's
    equal_time   the difference from the baseline's own curve after the idea's time
    verdict      better, worse, no difference that matters, cannot tell, or why there is none
"""

import datetime
import math
import pathlib
import statistics as builtin
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpt1_jax import storage, user_code
from gpt1_jax.ablation import ideas, statistics
from gpt1_jax.ablation.ideas import BASELINE, Idea
from gpt1_jax.ablation.statistics import Difference
from gpt1_jax.errors import UserError, did_you_mean
from gpt1_jax.runs import provenance, results

FILE = 'ideas.jsonl'
FRESH = 1000  # the first seed of a confirmation. A screen's seeds are below
LONGER = 2  # times the updates of a screen
SHARE = 0.05  # of false ideas among those that are believed, on average
SAME_SPEED = 0.05  # relative. A difference of speeds below is noise
OTHER = 'another baseline: other flags, such as --minutes, or before an adoption'
STEADY = 1.2  # times the fastest: a slower trial shows that the machine had other work
NO_MATTER = 'no difference that matters'
Pairs = Sequence[tuple[dict, dict]]  # rows of results.jsonl, of the same seed


def read(out: pathlib.Path) -> list[dict]:
    return results.read(out / FILE, {'stage': str}, continued=True)


def append(out: pathlib.Path, row: dict) -> None:
    """Appends a row, unless the same row is there. It gets its `key` and the time."""
    key = provenance.digest([row.get(name) for name in ('stage', 'idea', 'against', 'runs')])
    for before in read(out):
        if row.items() <= before.items() or (row.get('runs') and before.get('key') == key):
            return
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
    results.append(out / FILE, {'key': key, 'when': when, **row})


# What a comparison says


def compare(pairs: Pairs, looks: int = 1) -> tuple[Difference | None, Difference | None]:
    """Returns the differences of pairs of trials in nats a token and in bits a byte.

    None if they cannot be compared: nats for other tokenizers, both for other validation texts.
    looks: as in statistics.paired.
    """
    same_text = bool(pairs) and all(a['text']['bytes'] == b['text']['bytes'] for a, b in pairs)
    same_tokens = same_text and all(a['text'] == b['text'] for a, b in pairs)

    def found(unit):
        return statistics.paired([a[unit] for a, _ in pairs], [b[unit] for _, b in pairs], looks)

    return found('loss') if same_tokens else None, found('bits_per_byte') if same_text else None


def row_of(
    stage: str, idea: Idea, against: Idea, pairs: Pairs, baseline: str, looks: int, least: float
) -> dict:
    """Returns a row of the ledger for pairs of trials. least: in nats a token."""
    nats, bits = compare(pairs, looks)
    unit = 'loss' if nats else 'bits_per_byte'
    found = nats or bits
    if found and not nats:  # in the baseline's nats
        least = least * pairs[0][1]['bits_per_byte'] / pairs[0][1]['loss']
    speed, certain = _speed(pairs)
    row = about(stage, idea, against, baseline) | {
        'seeds': [a['seed'] for a, _ in pairs],
        'updates': idea.config.train.steps,
        'looks': looks,
        'runs': [[a['key'], b['key']] for a, b in pairs],
        'differences': [a[unit] - b[unit] for a, b in pairs] if found else None,
        'nats': _interval(nats),
        'bits': _interval(bits),
        'p': None,
        'least': least,
        'speed': speed,
        'equal_time': None,
        'verdict': verdict(found, least, looks),
    }
    if found and found.n > 1:
        row['p'] = 1.0 if found.within(least) else found.p
    if found and certain and other_speed(speed):
        row['equal_time'] = float(
            np.mean([a[unit] - _reached(b, unit, 1 / speed) for a, b in pairs])
        )
    return row


def about(stage: str, idea: Idea, against: Idea, baseline: str) -> dict:
    """Returns the fields of a row that say what is compared. All that a failed idea has."""
    return {
        'stage': stage,
        'idea': idea.name,
        'against': against.name,
        'changes': idea.changes,
        'code': idea.code,
        'baseline': baseline,
    }


def _interval(found):
    return found and [found.mean, _finite(found.low), _finite(found.high)]


def _finite(value):
    """None for nan, which JSON lacks."""
    return value if math.isfinite(value) else None


def _speed(pairs):
    """The baseline's time for a trial, divided by the idea's, and whether it is certain.

    Of the fastest trial of each, because other work on the machine only makes trials slower. That
    work may last longer than a trial. So the speed is certain only if the trials of a side take
    about the same time, and no times of the two sides overlap.
    """
    idea, baseline = ([row['tokens'] / row['tokens_per_s'] for row in side] for side in zip(*pairs))
    steady = all(max(side) < STEADY * min(side) for side in (idea, baseline))
    certain = steady and (max(idea) < min(baseline) or max(baseline) < min(idea))
    return min(baseline) / min(idea), certain


def other_speed(speed: float) -> bool:
    """Returns whether a speed differs from the baseline's by more than noise."""
    return abs(speed - 1) > SAME_SPEED


def _reached(row, unit, times):
    """The loss of a trial after so many times its updates, from its own curve.

    Interpolated in the logarithm of the updates. After its end the curve goes on as it last went.
    """
    at = {'loss': 1, 'bits_per_byte': 2}[unit]
    steps = np.log([point[0] for point in row['curve']])
    values = [point[at] for point in row['curve']]
    wanted = math.log(times * row['updates'])
    if wanted <= steps[-1] or len(steps) < 2:
        return float(np.interp(wanted, steps, values))
    slope = (values[-1] - values[-2]) / (steps[-1] - steps[-2])
    return values[-1] + slope * (wanted - steps[-1])


def verdict(found: Difference | None, least: float, looks: int = 1) -> str:
    """Returns 'better', 'worse', 'no difference that matters', or why none can be concluded."""
    if found is None:
        return 'cannot be compared: another validation text'
    if found.n < 2:
        return 'cannot tell from one seed'
    if found.identical:
        return f'{NO_MATTER}: equal in each seed'
    if found.within(least):
        return NO_MATTER
    if found.excludes_zero:
        return 'better' if found.mean < 0 else 'worse'
    needed = statistics.seeds_needed(found, looks)
    if needed is None:
        return f'cannot tell, nor would {statistics.MOST:,} seeds'
    return f'cannot tell; {needed} seeds would, were the difference this large'


# What a search says


def latest(rows: Iterable[dict], stage: str) -> list[dict]:
    """Returns the newest row of each comparison of a stage, in the order of the first ones."""
    found = {}
    for row in rows:
        if row['stage'] == stage:
            found[row['idea'], row['against'], row['baseline']] = row
    return list(found.values())


def believed(rows: Iterable[dict]) -> set[str]:
    """Returns the keys of the confirmations that are believed.

    At most SHARE of them is false, on average, however many ideas the search has tried
    (statistics.believed). Every confirmation of the ledger counts, also of an idea that was edited
    and confirmed again. So an idea that was just believed may no longer be after further ones.
    """
    counted = tested(rows)
    found = statistics.believed([row['p'] for row in counted], SHARE)
    return {row['key'] for row, true in zip(counted, found) if true}


def tested(rows: Iterable[dict]) -> list[dict]:
    """Returns the confirmations that have a p-value."""
    return [row for row in rows if row['stage'] == 'confirm' and row.get('p') is not None]


def looks_better(row: dict) -> bool:
    """Returns whether a screened idea deserves a confirmation.

    It does if it is better with every seed, and by `least` or more on average.
    """
    found = row.get('differences') or [0.0]
    return max(found) < 0 and builtin.mean(found) <= -row['least']


def to_confirm(rows: Sequence[dict], baseline: str) -> dict[str, dict]:
    """Returns {name: row} of screened ideas that look better than this baseline.

    Without those that were confirmed or refuted with the same files.
    """

    def what(row):
        return row['idea'], row['changes'], row['code']

    known = [
        what(row)
        for row in rows
        if row['stage'] == 'confirm' and row['baseline'] == baseline and row.get('runs')
    ]
    return {
        row['idea']: row
        for row in latest(rows, 'screen')
        if row['against'] == BASELINE
        and row['baseline'] == baseline
        and looks_better(row)
        and what(row) not in known
    }


# What a search adopts


def adopted(rows: Iterable[dict], out: pathlib.Path) -> dict[str, str]:
    """Returns the changes of all adopted ideas, the later ones over the earlier ones."""
    changes: dict[str, str] = {}
    for row in rows:
        if row['stage'] == 'adopt':
            changes |= checked(row, out)
    return changes


def checked(row: dict, out: pathlib.Path) -> dict[str, str]:
    """Returns the changes of a row, with the copies of the user's files. UserError if these are no
    longer as the row has them."""
    code = row.get('code', {})
    changes = ideas.kept(row['changes'], out, code)
    files = {
        changes[field]: code[value] for field, value in row['changes'].items() if value in code
    }
    user_code.check(f'idea {row["idea"]!r}', files)
    return changes


def confirmed(name: str, rows: Sequence[dict], baseline: str) -> dict:
    """Returns the row of an idea's confirmation. UserError if it is not believed, or was confirmed
    against another baseline."""
    known = believed(rows)
    found = {row['idea']: row for row in rows if row['key'] in known}
    if name not in found:
        hint = did_you_mean(name, found) or f'; believed: {", ".join(found) or "none"}'
        raise UserError(f'--adopt={name}: is not confirmed and believed{hint}')
    if found[name]['baseline'] != baseline:
        raise UserError(f'--adopt={name}: was confirmed against {OTHER}')
    return found[name]


def adopt(out: pathlib.Path, row: dict) -> None:
    """Makes a confirmed idea part of the baseline."""
    same = {name: row[name] for name in ('idea', 'changes', 'code')}
    append(out, {'stage': 'adopt', **same, 'of': row['key']})


def write_baseline(
    out: pathlib.Path, names: Sequence[str], fields: Mapping[str, object], defaults: Mapping
) -> None:
    """Writes a config of `gpt1 pretrain` with everything that was adopted.

    fields, defaults: of the baseline and of configs/pretrain.py, flattened. Only those that differ
    are written.
    """
    lines = [
        f'    {name!r}: {value!r},'
        for name, value in fields.items()
        if name not in defaults or defaults[name] != value
    ]
    # All of it is repr: a name in a ledger, which may be a stranger's, is never code.
    text = f'''"""The baseline of a search, with the ideas that it adopted."""

# for gpt1 pretrain --config
from gpt1_jax.configs import pretrain

ADOPTED = {list(names)!r}
FIELDS = {{
{chr(10).join(lines)}
}}


def get_config():
    config = pretrain.get_config()
    config.update_from_flattened_dict(FIELDS)
    return config
'''
    storage.write(out / 'baseline.py', text.encode())
