"""The ledger of a search, OUT/ideas.jsonl: a line for each idea and stage, only ever appended.

A search is many invocations in one directory. Each line is a dict with

    stage        'screen' (short, may be wrong), 'planned' (what is to be confirmed, and its
                 seeds), 'confirm' (fresh seeds, LONGER), 'adopt' or 'timed'
    idea, changes, code    what was compared with the baseline, and the hashes of the user's files
    baseline     a digest of the baseline that the stage had, with all that it had adopted
    seeds, updates, runs   `runs` are the keys of pairs of trials in results.jsonl
    differences  idea - baseline of each seed, in nats a token, or in bits a byte if the tokenizers
                 differ. None if the validation texts differ
    nats, bits   [mean, low, high]
    p            of "not better", one-sided. 1 if no difference that matters
    speed        the baseline's time for a trial, divided by the idea's
    equal_time   the difference from the baseline's own curve after the idea's time
    warning      why the trials tell little, or None
    verdict      better, worse, no difference that matters, cannot tell, or why there is none
    believed     of a confirmation: whether p is at most its level
    before       the digest of the line before, '' of the first line

So the lines are a chain: a line that was changed or taken out is noticed. Each trial records the
last line's digest when it was trained, so that lines that are missing at the end are noticed too.
"""

import datetime
import math
import pathlib
import statistics as builtin
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gpt1_jax import storage, user_code
from gpt1_jax.ablation import ideas, statistics
from gpt1_jax.ablation.ideas import Idea
from gpt1_jax.ablation.statistics import Difference
from gpt1_jax.errors import UserError
from gpt1_jax.runs import provenance, results

FILE = 'ideas.jsonl'
FRESH = 1000  # the first seed of a confirmation. A screen's seeds are below
LONGER = 2  # times the updates of a screen
SHARE = 0.05  # of false ideas among those that are believed, on average
SAME_SPEED = 0.05  # relative. A difference of speeds below is noise
OTHER = 'another baseline: other flags, such as --minutes, or before an adoption'
STEADY = 1.2  # times the fastest: a slower trial shows that the machine had other work
NO_MATTER = 'no difference that matters'
TOO_GOOD = 1.0  # nats a token: more than any honest idea has brought here
DIVERGED = 0.5  # nats above the median of an idea's differences
Pairs = Sequence[tuple[dict, dict]]  # rows of results.jsonl, of the same seed

_NUMBER = (int, float)
_OPTIONAL = (int, float, type(None))
_COMPARED: dict[str, Any] = {'idea': str, 'changes': dict, 'code': dict}
_COMPARED |= {'baseline': str, 'verdict': str}
# The fields of each stage's lines, and their types
FIELDS: dict[str, dict[str, Any]] = {
    'screen': _COMPARED,
    'confirm': _COMPARED | {'planned': str},
    'planned': {'ideas': dict, 'baseline': str, 'seeds': list, 'updates': int},
    'adopt': {'idea': str, 'changes': dict, 'code': dict, 'of': str},
    'timed': {'minutes': _NUMBER, 'baseline': str, 'updates': int},
}
MEASURED: dict[str, Any] = {  # of a comparison whose trials did not fail
    'seeds': list,
    'updates': int,
    'runs': list,
    'differences': (list, type(None)),
    'nats': (list, type(None)),
    'bits': (list, type(None)),
    'p': _OPTIONAL,
    'least': _NUMBER,
    'speed': _NUMBER,
    'equal_time': _OPTIONAL,
    'warning': (str, type(None)),
}


def read(out: pathlib.Path, trials: Iterable[dict] = ()) -> list[dict]:
    """Returns the lines.

    trials: rows of results.jsonl. UserError naming the line if a field is missing or damaged, if a
    line was changed or taken out, and if a trial was trained after a line that is not there.
    """
    file = out / FILE
    rows = results.read(file, {'stage': str}, continued=True)
    heads = check(rows, file)
    for trial in trials:
        if trial['ledger'] not in heads:
            raise UserError(
                f'{file}: lines are missing at its end: trial {trial["key"]} was trained after a '
                'line that is not there. Nothing can be believed of this search: begin another '
                'directory'
            )
    return rows


def check(rows: Sequence[dict], where: Any) -> set[str]:
    """Returns the digests of all lines. UserError as in `read`."""
    before = ''
    heads = {before}
    for number, row in enumerate(rows, 1):
        line = f'{where}: line {number}'
        _check_fields(row, line)
        if row.get('before') != before:
            raise UserError(
                f'{line}: does not follow the line before: that line was changed, or a line is '
                'missing. Nothing can be believed of this search: begin another directory'
            )
        before = storage.json_digest(row)[:32]
        heads.add(before)
    return heads


def _check_fields(row, where):
    if row['stage'] not in FIELDS:
        raise UserError(f'{where}: stage is {row["stage"]!r}, must be one of {", ".join(FIELDS)}')
    wanted = {'key': str, 'when': str} | FIELDS[row['stage']]
    if 'runs' in row:
        wanted |= MEASURED
    for name, kind in wanted.items():
        if not isinstance(row.get(name, ...), kind):
            raise UserError(f'{where}: its field {name!r} is missing or damaged')


def head(rows: Sequence[dict]) -> str:
    """Returns the digest of the last line, '' of an empty ledger."""
    return storage.json_digest(rows[-1])[:32] if rows else ''


def append(out: pathlib.Path, row: dict) -> dict:
    """Appends a row, unless the same row is there, and returns it with its `key`, the time and
    `before`."""
    key = provenance.digest([row.get(name) for name in ('stage', 'idea', 'runs', 'seeds')])
    rows = read(out)
    for before in rows:
        if row.items() <= before.items() or (row.get('runs') and before.get('key') == key):
            return before
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
    row = {'key': key, 'when': when, **row, 'before': head(rows)}
    results.append(out / FILE, row)
    return row


# What a comparison says


def compare(pairs: Pairs) -> tuple[Difference | None, Difference | None]:
    """Returns the differences of pairs of trials in nats a token and in bits a byte.

    None if they cannot be compared: nats for other tokenizers, both for other validation texts.
    """
    same_text = bool(pairs) and all(a['text']['digest'] == b['text']['digest'] for a, b in pairs)
    same_tokens = same_text and all(a['text'] == b['text'] for a, b in pairs)

    def found(unit):
        return statistics.paired([a[unit] for a, _ in pairs], [b[unit] for _, b in pairs])

    return found('loss') if same_tokens else None, found('bits_per_byte') if same_text else None


def row_of(
    stage: str, idea: Idea, pairs: Pairs, baseline: str, least: float, warning: str | None
) -> dict:
    """Returns a row of the ledger for pairs of trials.

    least: in nats a token. warning: on the baseline's trials.
    """
    nats, bits = compare(pairs)
    if bits and not nats:  # in the baseline's nats
        least = least * pairs[0][1]['bits_per_byte'] / pairs[0][1]['loss']
    return about(stage, idea, baseline) | measured(pairs, least, warning)


def measured(pairs: Pairs, least: float, warning: str | None) -> dict:
    """Returns the fields of a row that follow from its trials. least: in the row's unit."""
    nats, bits = compare(pairs)
    unit = 'loss' if nats else 'bits_per_byte'
    found = nats or bits
    speed, certain = _speed(pairs)
    differences = [a[unit] - b[unit] for a, b in pairs] if found else None
    seeds = [a['seed'] for a, _ in pairs]
    row = {
        'seeds': seeds,
        'updates': pairs[0][0]['updates'],
        'runs': [[a['key'], b['key']] for a, b in pairs],
        'differences': differences,
        'nats': _interval(nats),
        'bits': _interval(bits),
        'p': None,
        'least': least,
        'speed': speed,
        'equal_time': None,
        'warning': warning,
        'verdict': verdict(found, least),
    }
    if found and found.mean < -TOO_GOOD:
        row['verdict'] += (
            f'; a gain of {-found.mean:.2f} nats is more than any honest idea has brought here: '
            'look for a leak'
        )
    if found and found.n > 1:
        row['p'] = 1.0 if found.within(least) else found.p
        doubt = _doubt(differences, seeds, found, warning)
        if doubt and not found.identical:
            row['p'] = 1.0
            row['verdict'] = f'cannot tell: {doubt}'
    if found and certain and other_speed(speed):
        row['equal_time'] = float(
            np.mean([a[unit] - _reached(b, unit, 1 / speed) for a, b in pairs])
        )
    return row


def _doubt(differences, seeds, found, warning):
    """Why a t test of these differences is not to be trusted, or ''."""
    middle = builtin.median(differences)
    diverged = [seed for seed, one in zip(seeds, differences) if one > middle + DIVERGED]
    if diverged:
        return f'seed {", ".join(map(str, diverged))} diverged'
    if warning:
        return 'the trials are too short'
    if found.excludes_zero and found.mean < 0 < max(differences):
        return 'not every seed is better'
    return ''


def about(stage: str, idea: Idea, baseline: str) -> dict:
    """Returns the fields of a row that say what is compared. All that a failed idea has."""
    return {
        'stage': stage,
        'idea': idea.name,
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


def verdict(found: Difference | None, least: float) -> str:
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
    needed = statistics.seeds_needed(found)
    if needed is None:
        return f'cannot tell, nor would {statistics.MOST:,} seeds'
    return f'cannot tell; {needed} seeds would, were the difference this large'


# What a search says


def latest(rows: Iterable[dict], stage: str) -> list[dict]:
    """Returns the newest row of each comparison of a stage, in the order of the first ones."""
    found = {}
    for row in rows:
        if row['stage'] == stage:
            found[row['idea'], row['baseline']] = row
    return list(found.values())


def plan(rows: Sequence[dict], several: Mapping[str, Idea], n: int, baseline: str) -> dict:
    """Returns the row of a confirmation that is to be trained, with n seeds.

    An interrupted confirmation of the same ideas goes on with its seeds. Any other gets seeds that
    no earlier one had. So its p-values are independent of all that the search has seen.
    """
    row = {
        'stage': 'planned',
        'ideas': {
            name: {'changes': idea.changes, 'code': idea.code} for name, idea in several.items()
        },
        'baseline': baseline,
        'updates': next(iter(several.values())).config.train.steps,
    }
    done = {(one['planned'], one['idea']) for one in rows if one['stage'] == 'confirm'}
    first = FRESH
    for before in planned(rows):
        if row.items() <= before.items() and any(
            (before['key'], name) not in done for name in before['ideas']
        ):
            return before
        first = max(first, before['seeds'][-1] + 1)
    return row | {'seeds': list(range(first, first + n))}


def planned(rows: Iterable[dict]) -> list[dict]:
    """Returns the rows of confirmations that were begun."""
    return [row for row in rows if row['stage'] == 'planned']


def tests(rows: Sequence[dict]) -> list[tuple[dict, float, dict | None]]:
    """Returns (plan, level, the row of its confirmation) of each idea that was to be confirmed.

    At most SHARE of the ideas with p <= level is false, on average (statistics.levels). All that
    were begun count, in their order: edited ones, those under another name, and those that failed
    or were given up, as if p were 1.
    """
    confirmed = {(row['planned'], row['idea']): row for row in rows if row['stage'] == 'confirm'}
    plans = planned(rows)
    found = [[confirmed.get((one['key'], name)) for name in one['ideas']] for one in plans]
    p_values = [[_p(row) for row in batch] for batch in found]
    levels = statistics.levels(p_values, SHARE)
    return [
        (one, level, row)
        for one, batch, of_batch in zip(plans, found, levels)
        for row, level in zip(batch, of_batch)
    ]


def _p(row):
    return 1.0 if row is None or row.get('p') is None else row['p']


def believed(rows: Sequence[dict]) -> set[str]:
    """Returns the keys of the confirmations that are believed. Once believed, always believed."""
    return {row['key'] for _, level, row in tests(rows) if row is not None and _p(row) <= level}


def looks_better(row: dict) -> bool:
    """Returns whether a screened idea deserves a confirmation.

    It does if it is better with every seed, and by `least` or more on average.
    """
    found = row.get('differences') or [0.0]
    return max(found) < 0 and builtin.mean(found) <= -row['least']


def to_confirm(rows: Sequence[dict], baseline: str) -> dict[str, dict]:
    """Returns {name: row} of screened ideas that look better than this baseline, the best first,
    because the levels of a confirmation fall.

    Without those that were confirmed or refuted with the same fields and files, also under another
    name.
    """
    known = [
        (row['changes'], row['code'])
        for row in rows
        if row['stage'] == 'confirm' and row['baseline'] == baseline
    ]
    waiting = [
        row
        for row in latest(rows, 'screen')
        if row['baseline'] == baseline
        and looks_better(row)
        and (row['changes'], row['code']) not in known
    ]
    waiting.sort(key=lambda row: builtin.mean(row['differences']))
    return {row['idea']: row for row in waiting}


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
        raise UserError(
            f'--adopt={name}: is not confirmed and believed; believed: {", ".join(found) or "none"}'
        )
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
