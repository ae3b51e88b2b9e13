"""The report of a search, written from its ledger and its trials: report.md and ideas.png."""

import io
import math
import pathlib
import statistics as builtin
from collections.abc import Container, Mapping, Sequence

import matplotlib
from matplotlib.figure import Figure

from gpt1_jax import storage
from gpt1_jax.ablation import ledger
from gpt1_jax.ablation.ideas import BASELINE
from gpt1_jax.runs.markdown import bullets, table

READING = """A difference is idea - baseline, smaller is better, with a 95% interval (Student's t
over seeds). Both were trained on the same seeds: same batches, same dropout masks and, for arrays
of the same name and shape, same initial weights. The interval covers what a seed decides. It does
not cover the choice of the validation text, other sizes or longer training. *Speed* is the
baseline's time for a trial divided by the idea's, of the fastest trial of each. Other work on the
machine changes it: with a question mark, the times of the two overlap, or those of one differ. *At
equal time* compares an idea of another speed with the baseline's own curve after the time that the
idea takes: an estimate, without an interval."""
SCREENED = """Short trials, whose verdicts may be wrong. What looks better with every seed has a `>`
and waits for `--confirm`. With two seeds one in four ideas that change nothing may have it."""
CONFIRMED = """Trials of {longer} times the length, on seeds that nothing else has used. Only these
count. *Believed*: p is at most the level of its test. Of the ideas that are believed, at most
{share:.0%} are false on average, whenever the search stops and whatever it adopts on the way
(SAFFRON, over the {tested} confirmations that this search has begun). The promise is about this
directory: a search that is begun again elsewhere begins the count again."""
COLUMNS = [
    'idea',
    'nats a token',
    'bits a byte',
    'speed',
    'at equal time',
    'seeds',
    'updates',
    'verdict',
]
EARLIER = ' (earlier baseline)'
BETTER = '#0072B2'
WORSE = '#D55E00'
DIVERGED = 1.0  # bits a byte: a difference this large does not decide the width of the picture


def write(
    out: pathlib.Path, rows: Sequence[dict], baseline: str, trials: Mapping[str, dict], about: str
) -> None:
    """Writes report.md and ideas.png.

    rows: of the ledger. baseline: the present one, as in the ledger. trials: of results.jsonl, by
    key. about: a sentence on the baseline.
    """
    screened, confirmed = (ledger.latest(rows, stage) for stage in ('screen', 'confirm'))
    _draw(out / 'ideas.png', screened, confirmed, ledger.believed(rows))
    lines = [
        '# Ideas',
        '',
        *bullets(summary(rows, baseline)),
        about,
        '',
        *READING.splitlines(),
        '',
        '![the differences](ideas.png)',
        '',
    ]
    if confirmed:
        tested = len(ledger.tests(rows))
        text = CONFIRMED.format(longer=ledger.LONGER, share=ledger.SHARE, tested=tested)
        lines += ['## Confirmations', '', *text.splitlines(), '']
        lines += differences(rows, 'confirm', baseline)
    lines += ['## Screened', '', *SCREENED.splitlines(), '', *differences(rows, 'screen', baseline)]
    lines += ['## Trials', '', *_trials([*confirmed, *screened], trials, baseline)]
    storage.write(out / 'report.md', '\n'.join(lines).encode())


def summary(rows: Sequence[dict], baseline: str) -> list[str]:
    """Returns what a search has found, a sentence a line. baseline: the present one."""
    screened = {
        (row['idea'], row['baseline'], *map(str, (row['changes'], row['code'])))
        for row in rows
        if row['stage'] == 'screen'
    }
    lines = [f'Comparisons that were screened: {len(screened)}.']
    confirmed = ledger.latest(rows, 'confirm')
    if confirmed:
        believed = ledger.believed(rows)
        winners = [row['idea'] for row in confirmed if row['key'] in believed]
        lines.append(f'Confirmations, on fresh seeds: {len(ledger.tests(rows))}.')
        lines.append(f'Believed to be better: {", ".join(winners) or "none"}.')
    adopted = [row['idea'] for row in rows if row['stage'] == 'adopt']
    if adopted:
        lines.append(f'Adopted by the baseline: {", ".join(adopted)}.')
    waiting = ledger.to_confirm(rows, baseline)
    lines.append(f'Looks better, to confirm: {", ".join(waiting) or "none"}.')
    return lines


def differences(
    rows: Sequence[dict], stage: str, baseline: str, names: Container[str] | None = None
) -> list[str]:
    """Returns the table of a stage's newest comparisons. baseline: the present one.

    names: of the ideas in the table, which then has only comparisons with this baseline.
    """
    believed = ledger.believed(rows)
    waiting = ledger.to_confirm(rows, baseline)
    cells = []
    for row in ledger.latest(rows, stage):
        name = row['idea']
        if names is not None and (name not in names or row['baseline'] != baseline):
            continue
        if row['baseline'] != baseline:
            name += EARLIER
        if not row.get('runs'):  # failed
            cells.append([name, *[''] * (len(COLUMNS) - 2), row['verdict']])
            continue
        conclusion = row['verdict']
        if stage == 'confirm':
            conclusion = f'**believed**: {conclusion}' if row['key'] in believed else conclusion
        elif row['idea'] in waiting and row['baseline'] == baseline:
            conclusion = f'> {conclusion}'
        equal_time = row['equal_time']
        speed = f'{row["speed"]:.2f}'
        if row['differences'] and equal_time is None and ledger.other_speed(row['speed']):
            speed += '?'
        cells.append(
            [
                name,
                shown(row['nats']),
                shown(row['bits']),
                speed,
                '' if equal_time is None else f'{equal_time:+.4f}',
                len(row['seeds']),
                f'{row["updates"]:,}',
                conclusion,
            ]
        )
    return table(COLUMNS, cells)


def shown(found: Sequence[float | None] | None) -> str:
    """Returns '-0.0512 (-0.0603 to -0.0421)' of [mean, low, high]."""
    if found is None:
        return 'n/a'
    middle, low, high = found
    return f'{middle:+.4f}' + ('' if low is None else f' ({low:+.4f} to {high:+.4f})')


def _draw(path, screened, confirmed, believed):
    """A forest plot in bits a byte: confirmations above the screens."""
    drawn = []
    for rows in (confirmed, screened):
        known = [row for row in rows if row.get('bits')]
        drawn += sorted(known, key=lambda row: row['bits'][0])
    limit = reach(drawn)
    names = []
    with matplotlib.rc_context({'font.size': 10, 'axes.spines.top': False}):
        figure = Figure(figsize=(7.2, 1.2 + 0.27 * len(drawn)), dpi=150)
        axes = figure.subplots()
        axes.axvline(0, color='#707070', linestyle='--', linewidth=1)
        for height, row in enumerate(drawn):
            middle, low, high = row['bits']
            low, high = (middle if low is None else low), (middle if high is None else high)
            colour = BETTER if middle < 0 else WORSE
            name = row['idea']
            if row['stage'] == 'confirm':
                name += ', believed' if row['key'] in believed else ', not believed'
            names.append(name)
            if abs(middle) > limit:
                end = math.copysign(limit, middle)
                axes.plot(end, height, '>' if end > 0 else '<', color=colour, clip_on=False)
                continue
            axes.errorbar(
                middle,
                height,
                xerr=[[middle - low], [high - middle]],
                fmt='o',
                color=colour,
                capsize=3,
                markerfacecolor=colour if low > 0 or high < 0 else 'white',
            )
        axes.set_yticks(range(len(drawn)), names)
        axes.set_xlim(-limit, limit)
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.grid(axis='x', color='#E6E6E6')
        axes.set_xlabel(
            'difference from the baseline in bits a byte, 95% intervals\n'
            '(left: better; hollow: the interval contains zero; arrow: far beyond)'
        )
        picture = io.BytesIO()
        figure.savefig(picture, bbox_inches='tight', format='png')
        storage.write(path, picture.getvalue())


def reach(drawn: Sequence[dict]) -> float:
    """Returns how far the picture's axis goes: twice the largest mean, and all of a confirmation.

    With two seeds an interval is so much wider that the means would be one point. An idea that
    diverged does not count.
    """
    ends = [0.005]
    for row in drawn:
        middle, *interval = (abs(end or 0.0) for end in row['bits'])
        if middle < DIVERGED:
            ends.append(2 * middle)
            ends += interval if row['stage'] == 'confirm' else []
    return max(ends)


def _trials(rows, by_key, baseline):
    """The trials of each idea, baseline and length: losses, sizes and speeds."""
    several: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        earlier = '' if row['baseline'] == baseline else EARLIER
        for pair in row.get('runs', ()):
            for name, key in zip((row['idea'], BASELINE), pair):
                if key in by_key:
                    group = name + earlier, by_key[key]['updates']
                    several.setdefault(group, {})[key] = by_key[key]
    cells = []
    for (name, updates), found in several.items():
        trials = list(found.values())
        bits = [trial['bits_per_byte'] for trial in trials]
        speed = builtin.median(trial['tokens_per_s'] for trial in trials)
        cells.append(
            [
                name,
                ' '.join(f'{field}={value}' for field, value in trials[0]['changes'].items()),
                f'{builtin.mean(bits):.4f} ({min(bits):.4f} to {max(bits):.4f})',
                f'{trials[0]["parameters"]:,}',
                f'{updates:,}',
                f'{speed:,.0f}',
                len(trials),
            ]
        )
    columns = ['idea', 'changes', 'bits a byte (range)', 'parameters', 'updates', 'tokens a second']
    return table([*columns, 'trials'], cells)
