"""What a search believes if it is told about sixty ideas that change nothing.

python -m experiments.false_winners --out=runs/nothing

The ideas are those of ideas/nothing.py: sixty that change nothing, six that must help and three
that must harm. The program screens all of them, confirms what looks better, and adds seeds to the
screen until it has cost as much as both. Then it counts which ideas each rule keeps:

    one run     keep an idea if its loss is lower in one run each, as a loop of agents does
    mean        the same with the mean of several runs: as much work as the last rule
    confirmed   believed after a confirmation on fresh seeds (gpt1 ablate --confirm)

It writes false_winners.json, false_winners.md and false_winners.png. Rerun it to resume it.
"""

import json
import pathlib
import statistics

from absl import flags

from experiments.ideas import nothing
from experiments.lib import figures
from gpt1_jax import cli
from gpt1_jax.ablation import ablate, ledger
from gpt1_jax.runs.markdown import table

RULES = {
    'one run': 'lower in one run',
    'mean': 'lower in the mean of {seeds} runs',
    'confirmed': 'screened with two runs, then confirmed on fresh seeds',
}
KINDS = {'better': 'pretrained', 'nothing': 'baseline', 'worse': 'scratch'}  # colours


def search(out: pathlib.Path) -> list[dict]:
    """Returns the ledger's rows after all stages, whose trials are done or looked up."""
    config = nothing.get_config()
    ablate.run(config, out)
    to_confirm = config.copy_and_resolve_references()
    to_confirm.ideas = ()
    rows = ablate.run(to_confirm, out, confirm=True)
    config.seeds = round(cost(rows)['confirmed'] / (len(config.ideas) + 1))
    return ablate.run(config, out)


def cost(rows: list[dict]) -> dict[str, int]:
    """Returns how many short trials each rule takes, the baseline's among them."""
    runs = {'screen': set(), 'confirm': set()}
    for row in rows:
        if row['stage'] in runs:
            runs[row['stage']].update(key for pair in row['runs'] for key in pair)
    first = {key for row in screens(rows, 2) for pair in row['runs'] for key in pair}
    return {
        'one run': len(first) // 2,
        'mean': len(runs['screen']),
        'confirmed': len(first) + ledger.LONGER * len(runs['confirm']),
    }


def screens(rows: list[dict], seeds: int) -> list[dict]:
    """Returns the rows of a screen with so many seeds."""
    return [row for row in rows if row['stage'] == 'screen' and len(row['seeds']) == seeds]


def kind(name: str) -> str:
    """Returns what is known of an idea: 'better', 'worse' or 'nothing'."""
    if name in nothing.BETTER:
        return 'better'
    return 'worse' if name in nothing.WORSE else 'nothing'


def count(rows: list[dict]) -> dict:
    """Returns for each rule its cost, and every idea with its difference and whether it is kept."""
    most = max(len(row['seeds']) for row in rows if row['stage'] == 'screen')
    believed = ledger.believed(rows)
    kept = {
        'one run': [(row, row['differences'][0]) for row in screens(rows, most)],
        'mean': [(row, statistics.mean(row['differences'])) for row in screens(rows, most)],
        'confirmed': [
            (row, statistics.mean(row['differences'])) for row in ledger.latest(rows, 'confirm')
        ],
    }
    found = {}
    for rule, ideas in kept.items():
        points = [
            {
                'idea': row['idea'],
                'kind': kind(row['idea']),
                'nats': round(difference, 6),
                'kept': row['key'] in believed if rule == 'confirmed' else difference < 0,
            }
            for row, difference in ideas
        ]
        found[rule] = {'trials': cost(rows)[rule], 'ideas': points}
    return {'seeds': most, 'least': nothing.get_config().least, 'rules': found}


def lines(found: dict) -> list[str]:
    """Returns the table: what each rule keeps, and how much of it changes nothing or harms."""
    cells = []
    for rule, text in RULES.items():
        counted = found['rules'][rule]
        winners = [point for point in counted['ideas'] if point['kept']]
        false = [point for point in winners if point['kind'] != 'better']
        large = [point for point in false if point['nats'] <= -found['least']]
        cells.append(
            [
                text.format(seeds=found['seeds']),
                counted['trials'],
                len(winners),
                f'{len(winners) - len(false)} of {len(nothing.BETTER)}',
                len(false),
                len(large),
            ]
        )
    large = f'by {found["least"]:g} nats or more'
    columns = ['an idea is kept if it is', 'short trials', 'kept', 'real', 'false', large]
    return table(columns, cells)


def draw(path: pathlib.Path, found: dict) -> None:
    """Draws every idea's difference by each rule: a row a rule, filled if it is kept."""
    with figures.panel(path, (7.2, 3.2), xlabel='difference from the baseline, nats') as axes:
        axes.axvline(0, color=figures.GREY, linestyle='--', linewidth=1)
        for height, rule in enumerate(RULES):
            for number, point in enumerate(found['rules'][rule]['ideas']):
                colour = figures.COLOURS[KINDS[point['kind']]]
                axes.plot(
                    point['nats'],
                    height + (number * 7 % 11 - 5) / 18,  # apart from each other
                    'o',
                    color=colour,
                    markersize=5,
                    markerfacecolor=colour if point['kept'] else 'white',
                )
        for name, colour in KINDS.items():
            label = {'nothing': 'changes nothing'}.get(name, f'must be {name}')
            axes.plot([], [], 'o', color=figures.COLOURS[colour], label=label)
        names = [text.format(seeds=found['seeds']).replace(', ', ',\n') for text in RULES.values()]
        axes.set_yticks(range(len(RULES)), names)
        axes.set_ylim(len(RULES) - 0.5, -0.5)
        axes.grid(axis='y', visible=False)
        axes.legend(title='filled: kept', loc='lower right')


def main() -> None:
    out = pathlib.Path(flags.FLAGS.out)
    found = count(search(out))
    (out / 'false_winners.json').write_text(json.dumps(found, indent=1), encoding='utf-8')
    (out / 'false_winners.md').write_text('\n'.join(lines(found)), encoding='utf-8')
    draw(out / 'false_winners.png', found)
    print('\n'.join(lines(found)), flush=True)


def _define_flags():
    flags.DEFINE_string('out', 'runs/nothing', 'Directory of the search.')


if __name__ == '__main__':
    cli.run(main, _define_flags)
