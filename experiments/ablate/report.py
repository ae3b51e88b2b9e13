"""The report of an ablation: report.md and the forest plot ideas.png."""

import math
import pathlib
import statistics as builtin
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.ablate import statistics
from experiments.ablate.runs import Idea
from experiments.ablate.statistics import Difference
from experiments.lib import bootstrap, figures
from experiments.lib.markdown import bullets, table
from gpt1_jax import metrics, storage
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import minimal_pairs
from gpt1_jax.metrics.bootstrap import interval, mean

READING = """Differences are idea - baseline, smaller is better. Both were trained on the same seeds: same batches, same
dropout masks and, for arrays of the same name and shape, same initial weights. Intervals are Student's t over the
differences of the seeds ({level}): they cover what a seed decides, which is initial weights, order of the text and
dropout. They do not cover the choice of the validation text, which is the same for all of one context and tokenizer
(others are scored on windows of their own), nor other sizes or longer training. "SD unpaired" is what the standard
deviation of a difference would be if the two had not shared seeds."""  # noqa: E501
TASK = """Larger is better. Two kinds of noise, neither of which contains the other: of the seeds (mean, Student's t),
and of the items of the task (median over seeds, of BLiMP the mean; paired bootstrap)."""  # noqa: E501
NOISE = (
    'Mean and standard deviation of the paired difference in bits a byte: trajectories of a pair '
    'part with time.'
)
Rows = Mapping[tuple[str, int], dict]  # {(name of an idea, seed): its row of results.jsonl}


class Comparison(NamedTuple):
    """Two ideas, the rows of the seeds that both have, and their Differences.

    nats: in nats a token, None if the tokenizers differ. bits: in bits a byte. Both are None if the
    validation texts differ or there is no row.
    """

    name: str
    ideas: tuple[Idea, Idea]
    rows: list[tuple[dict, dict]]
    nats: Difference | None
    bits: Difference | None

    @property
    def found(self) -> Difference | None:
        return self.nats or self.bits


def compare(a: Idea, b: Idea, rows: Rows, looks: int) -> Comparison:
    """Returns the Comparison of two ideas. looks: as in statistics.paired."""
    seeds = sorted(seed for name, seed in rows if name == a.name and (b.name, seed) in rows)
    shared = [(rows[a.name, seed], rows[b.name, seed]) for seed in seeds]
    same_text = (
        bool(shared)
        and a.manifest['splits']['valid']['bytes'] == b.manifest['splits']['valid']['bytes']
    )
    same_tokens = same_text and a.manifest['tokenizer'] == b.manifest['tokenizer']
    nats, bits = (
        statistics.paired(*zip(*((x[unit], y[unit]) for x, y in shared)), looks)
        if comparable
        else None
        for unit, comparable in (('loss', same_tokens), ('bits_per_byte', same_text))
    )
    return Comparison(
        a.name if not b.changes else f'{a.name} - {b.name}', (a, b), shared, nats, bits
    )


def verdict(found: Difference | None, looks: int = 1) -> str:
    """Returns 'better', 'worse', or the reason why neither can be concluded."""
    if found is None:
        return 'cannot be compared: another validation text, or no run'
    if found.n < 2:
        return 'cannot tell from one seed'
    if found.identical:
        return 'no effect: equal in each seed'
    if found.excludes_zero:
        return 'better' if found.mean < 0 else 'worse'
    needed = statistics.seeds_needed(found, looks)
    return (
        f'cannot tell; {needed} seeds would, were the difference this large'
        if needed
        else (f'cannot tell, nor would {statistics.MOST:,} seeds')
    )


def shown(found: Difference | None) -> str:
    """Returns '-0.0512 (-0.0603 to -0.0421)'."""
    if found is None:
        return 'n/a'
    return f'{found.mean:+.4f}' + (
        '' if math.isnan(found.low) else f' ({found.low:+.4f} to {found.high:+.4f})'
    )


def write(
    out: pathlib.Path,
    ideas: Sequence[Idea],
    compared: Sequence[Comparison],
    rows: Rows,
    failed: Mapping[tuple[str, int], str],
    looks: int,
    tasks: Iterable[str],
) -> None:
    """Writes report.md and ideas.png. tasks: the tasks that all rows were scored on."""
    _draw(out / 'ideas.png', compared)
    level = (
        '95%'
        if looks == 1
        else (
            f'95% for whichever of the {looks} possible reports is read: seeds were added until '
            f'the intervals were narrow, so {5 / looks:.2g}% is outside of each, Bonferroni'
        )
    )
    lines = [
        '# Ideas',
        '',
        *READING.format(level=level).splitlines(),
        '',
        '![the differences](ideas.png)',
        '',
        '## Differences of the validation loss',
        '',
        *differences(compared, looks),
        *_tasks(compared, looks, tasks),
        '## The noise by updates',
        '',
        NOISE,
        '',
        *_by_step(compared),
        '## Runs',
        '',
        *_runs(ideas, rows),
    ]
    if failed:
        lines += [
            '## Failed',
            '',
            *bullets([f'{name}, seed {seed}: {why}' for (name, seed), why in failed.items()]),
        ]
    (out / 'report.md').write_text('\n'.join(lines), encoding='utf-8')


def _draw(path, compared):
    drawn = sorted((each for each in compared if each.bits), key=lambda each: each.bits.mean)
    about = (
        'difference from the baseline in bits a byte, 95% intervals\n(left: better; hollow: the '
        'interval contains zero)'
    )
    with figures.panel(path, (7.2, 1.2 + 0.27 * len(drawn)), xlabel=about) as axes:
        figures.forest(
            axes,
            [
                (
                    each.name,
                    'pretrained' if each.bits.mean < 0 else 'scratch',
                    dict(zip(figures.VALUES, (each.bits.mean, each.bits.low, each.bits.high))),
                )
                for each in drawn
            ],
            0,
        )


def differences(compared: Sequence[Comparison], looks: int) -> list[str]:
    tested = [each.found for each in compared if each.found and each.found.n > 1]
    clear = {id(d) for d, p in zip(tested, statistics.holm([d.p for d in tested])) if p < 0.05}
    cells = [
        [
            each.name,
            shown(each.nats),
            shown(each.bits),
            f'{d.sd:.4f} / {d.unpaired_sd:.4f}' if d else '',
            d.n if d else 0,
            verdict(d, looks) + (' *' if id(d) in clear else ''),
        ]
        for each in compared
        for d in [each.found]
    ]
    return [
        *table(['idea', 'nats a token', 'bits a byte', 'SD paired / unpaired', 'seeds', ''], cells),
        f'\\* also after correction for the number of comparisons (Holm, 5%); of {len(compared)}, '
        'one in twenty would exclude zero by chance.',
        '',
    ]


def _tasks(compared, looks, tasks):
    lines = []
    for task in tasks:
        cells = []
        for each in compared:
            a, b = ([pair[side]['tasks'][task] for pair in each.rows] for side in (0, 1))
            if a:
                over_seeds = statistics.paired(
                    [row['value'] for row in a], [row['value'] for row in b], looks
                )
                over_items = _over_items(task, a, b)
                low, high = interval(over_items.draws)
                cells.append(
                    [
                        each.name,
                        shown(over_seeds),
                        f'{over_items.value:+.4f} ({low:+.4f} to {high:+.4f})',
                        over_seeds.n,
                        over_items.n,
                    ]
                )
        columns = ['idea', 'over seeds', 'over items', 'seeds', 'items']
        lines += [f'## {task}, zero-shot', '', *TASK.splitlines(), '', *table(columns, cells)]
    return lines


def _over_items(task, a, b):
    if task != 'blimp':
        return bootstrap.minus(bootstrap.of_rows(a), bootstrap.of_rows(b))
    read = [
        [metrics.read_predictions(storage.path(row['predictions'])) for row in side]
        for side in (a, b)
    ]
    ids = read[0][0][0]
    if any(each != ids for side in read for each, _, _ in side):
        raise UserError('a difference of scores that are not about the same items')
    of_a, of_b = (
        np.mean([minimal_pairs.outcomes(scores) for _, _, scores in side], axis=0) for side in read
    )
    return mean(minimal_pairs.set_means(ids, of_a - of_b).values())


def _by_step(compared):
    by_name = {}
    for each in compared:
        if each.bits and each.bits.n > 1:
            curves = [
                [{step: bits for step, _, bits in row['curve']} for row in pair]
                for pair in each.rows
            ]
            shared = set.intersection(*(set(curve) for pair in curves for curve in pair))
            by_name[each.name] = {step: [a[step] - b[step] for a, b in curves] for step in shared}
    steps = sorted({step for of in by_name.values() for step in of})
    return table(
        ['updates', *(f'{step:,}' for step in steps)],
        [
            [
                name,
                *(
                    f'{builtin.mean(of[step]):+.4f} ± {builtin.stdev(of[step]):.4f}'
                    if step in of
                    else ''
                    for step in steps
                ),
            ]
            for name, of in by_name.items()
        ],
    )


def _runs(ideas, rows):
    cells = []
    for idea in ideas:
        if own := [row for (name, _), row in rows.items() if name == idea.name]:
            bits = [row['bits_per_byte'] for row in own]
            speed = builtin.median(row['tokens_per_s'] for row in own)
            changes = ' '.join(f'{name}={value}' for name, value in idea.changes.items())
            cells.append(
                [
                    idea.name,
                    changes,
                    f'{builtin.mean(bits):.4f} ({min(bits):.4f} to {max(bits):.4f})',
                    f'{own[0]["parameters"]:,}',
                    f'{own[0]["tokens"]:,}',
                    f'{speed:,.0f}',
                    len(own),
                ]
            )
    model = ideas[0].config.model
    text = ideas[0].manifest['splits']
    about = (
        f'Baseline: {model.kind}, {model.n_layer} layers, width {model.n_embd}, {model.n_head} '
        f'heads, context {model.n_ctx}; {text["train"]["tokens"]:,} training tokens, '
        f'{text["valid"]["tokens"]:,} held out.'
    )
    return [
        about,
        '',
        *table(
            [
                'idea',
                'changes',
                'bits a byte (range)',
                'parameters',
                'tokens',
                'tokens a second',
                'runs',
            ],
            cells,
        ),
    ]
