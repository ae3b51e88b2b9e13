"""Makes Tables 2 to 5, both panels of Figure 2, BLiMP and the claims (Sections 4.2 and 5).

python -m experiments.tables --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm \\
    --config.data=DATA --config.out=runs/paper [--only=table2] [--only=claims] [--dry_run]

The program writes OUT/NAME.md, and OUT/NAME.png for a figure, for each NAME of --only, by default
all. If several parts need the same run, it is done once. RACE has one model, trained on middle and
high school questions together. RACE's last row is over all questions.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags
from ml_collections import ConfigDict

from experiments.lib import run_list, runner
from experiments.lib.run_list import Run
from experiments.paper import (
    blimp,
    claims,
    figure2_layers,
    figure2_zero_shot,
    gains,
    numbers,
    scores,
    table5,
)
from experiments.paper.numbers import Score
from gpt1_jax import cli
from gpt1_jax.cli import config_file
from gpt1_jax.errors import UserError
from gpt1_jax.metrics.bootstrap import mean
from gpt1_jax.runs.markdown import bullets, table

HEADER = (
    'task',
    'metric',
    'paper (test)',
    'ours',
    'best baseline',
    '95% interval',
    'range of seeds',
    'seeds',
    'n',
    'split',
    'parameters',
    'best on dev (optimistic)',
)


class Table(NamedTuple):
    """Table 2, 3 or 4. glue: whether its last row is the GLUE score, which has more tasks than the
    other rows."""

    title: str
    scores: Sequence[Score]
    glue: bool = False

    def specs(self, config: ConfigDict) -> list[Run]:
        glue = numbers.GLUE.values() if self.glue else ()
        tasks = dict.fromkeys(score.task for several in (self.scores, *glue) for score in several)
        return [run for task in tasks for run in run_list.finetune_runs(config, task, 'full')]

    def lines(self, config: ConfigDict, runs: Sequence[Run]) -> list[str]:
        rows = [line(config, runs, score) for score in self.scores]
        notes = [f'{score.label}: {score.about}.' for score in self.scores if score.about]
        if self.glue:
            row, about = glue_line(runs)
            rows.append(row)
            notes += [about] if about else []
        return [
            f'# {self.title}',
            '',
            *table(HEADER, rows),
            scores.READING,
            '',
            *bullets([*notes, *scores.state(runs), *scores.settings(config, runs)]),
        ]


def line(config: ConfigDict, runs: Sequence[Run], score: Score) -> list[str]:
    label = [score.label, score.metric, scores.number(score.paper)]
    found, split, selection = scores.shown(runs, score)
    baseline = scores.best_baseline(config, score, found, split)
    if found is None:
        return [*label, scores.absent(runs, score.task), baseline, *[''] * 7]
    best = scores.find(runs, score, selection='best') if selection == 'final' else None
    value, *measured = scores.measured(found)
    return [
        *label,
        value,
        baseline,
        *measured,
        split,
        selection,
        scores.percent(best.value) if best else '',
    ]


def glue_line(runs: Sequence[Run]) -> tuple[list[str], str]:
    """Return (the row of the GLUE score, a remark). The paper's score and ours are over the scores
    that we have."""
    found = {
        score: scores.find(runs, score) for several in numbers.GLUE.values() for score in several
    }
    ours, theirs, missing = numbers.shared_glue(found)
    if not ours:
        return ['GLUE', 'mean', scores.number(numbers.GLUE_SCORE), scores.NA, *[''] * 8], ''
    average = numbers.glue_score(ours, mean)
    # Two metrics of a task share their items
    rows = {(score.task, score.split): each.n for score, each in found.items() if each}
    n = sum(rows.values())
    best = {score: scores.find(runs, score, selection='best') for score in found if found[score]}
    optimistic = numbers.glue_score(numbers.shared_glue(best)[0], mean)
    about = (
        "GLUE: the mean over nine tasks, of each task's metrics (MRPC, STS-B, QQP) "
        'or sets (MNLI) first.'
    )
    if missing:
        about += (
            f' Missing here: {", ".join(missing)}; so both columns are averages over the rest, '
            f'{len(ours)} tasks '
            f"(the paper's score over all nine is {numbers.GLUE_SCORE})."
        )
    return [
        'GLUE',
        'mean',
        scores.number(numbers.glue_score(theirs)),
        scores.percent(average.value),
        '',
        scores.interval(average),
        '',
        '',
        f'{n:,}',
        'dev',
        'final',
        scores.percent(optimistic.value),
    ], about


# Each part has specs(config), which returns its runs, and lines(config, runs with results), which
# returns Markdown. A figure also has draw(config, runs, path), which writes a PNG file if there is
# anything to draw.
PARTS = {
    'gains': gains,
    'claims': claims,
    'table2': Table('Table 2: natural language inference', numbers.TABLE2),
    'table3': Table('Table 3: question answering and commonsense reasoning', numbers.TABLE3),
    'table4': Table('Table 4: semantic similarity and classification', numbers.TABLE4, glue=True),
    'table5': table5,
    'figure2_layers': figure2_layers,
    'figure2_zero_shot': figure2_zero_shot,
    'figure_blimp': blimp,
}


def run(
    config: ConfigDict, only: Sequence[str] = tuple(PARTS), dry_run: bool = False
) -> dict[str, list[str]]:
    """Do the runs of some parts, write their files, and return {part: its lines}.

    A dry run returns {}. UserError, after everything possible is written, if runs failed or no run
    has its data.
    """
    run_list.check(config)
    planned = {name: PARTS[name].specs(config) for name in only}
    every = {run.name: run for several in planned.values() for run in several}
    runs = runner.carry_out(config, list(every.values()), dry_run)
    written = {}
    problems = []
    for name in () if dry_run else only:
        own = {run.name for run in planned[name]}
        try:
            written[name] = write(config, name, [each for each in runs if each.name in own])
        except UserError as error:
            problems.append(f'{name}: {error}')
    failed = [run.name for run in runs if run.status == 'failed']
    if failed:
        problems.append(f'{len(failed)} of {len(runs)} runs failed: {", ".join(failed)}')
    elif runs and all(run.status == 'no data' for run in runs):
        problems.append(f'none of the {len(runs)} runs has its data: {runs[0].error}')
    if problems:
        raise UserError('; '.join(problems))
    return written


def write(config: ConfigDict, name: str, runs: Sequence[Run]) -> list[str]:
    """Write OUT/NAME.md and OUT/NAME.png, print OUT/NAME.md, and return its lines."""
    path = pathlib.Path(config.out) / f'{name}.md'
    path.parent.mkdir(parents=True, exist_ok=True)
    text = PARTS[name].lines(config, runs)
    if hasattr(PARTS[name], 'draw'):
        PARTS[name].draw(config, runs, path.with_suffix('.png'))
    path.write_text('\n'.join(text).rstrip() + '\n', encoding='utf-8')
    print('\n'.join(text) + f'\n{path}', flush=True)
    return text


def _define_flags():
    config_file.define('experiments', 'Runs and settings; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_multi_enum('only', list(PARTS), list(PARTS), 'Only this table or figure.')
    flags.DEFINE_bool(
        'dry_run', False, 'Print the list of runs and the tokens to process, and stop.'
    )


def main() -> None:
    f = flags.FLAGS
    run_list.find_models(f.config)
    run(f.config, list(dict.fromkeys(f.only)), f.dry_run)


if __name__ == '__main__':
    cli.run(main, _define_flags)
