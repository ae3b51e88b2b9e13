"""Section 4.2, Tables 2 to 4: entailment; question answering and commonsense; similarity, classification, GLUE.

python -m experiments.tables --config=configs/experiments.py --config.pretrained=runs/gpt1 --config.data=DATA \\
    --config.out=runs/paper [--table=2] [--dry_run]

RACE is one model, trained on middle and high school questions together; its last row is over all questions.
"""
from collections.abc import Sequence

from absl import flags
from ml_collections import ConfigDict

from experiments.lib import bootstrap, paper, run_list, runner, tables
from experiments.lib.markdown import bullets, table
from experiments.lib.paper import Score
from experiments.lib.run_list import RunSpec
from experiments.lib.runner import Outcome

TITLES = {2: 'natural language inference', 3: 'question answering and commonsense reasoning',
          4: 'semantic similarity and classification'}
SCORES = {2: paper.TABLE2, 3: paper.TABLE3, 4: paper.TABLE4}
HEADER = ('task', 'metric', 'paper (test)', 'ours', 'best baseline', '95% interval', 'range of seeds', 'seeds', 'n',
          'split', 'parameters', 'best on dev (optimistic)')


def run(config: ConfigDict, dry_run: bool = False, numbers: Sequence[int] = tuple(TITLES)) -> list[str]:
    """Fine-tune on the sets of these tables and write OUT/table2.md, ...; returns their lines, none in a dry run."""
    outcomes = runner.of_script(config, lambda config: specs(config, numbers), dry_run)
    text = []
    for number in () if dry_run else numbers:
        text += runner.write(config, f'table{number}.md', lines(config, outcomes, number))
    runner.raise_failures(outcomes)
    return text


def specs(config: ConfigDict, numbers: Sequence[int]) -> list[RunSpec]:
    """The runs of these tables."""
    tasks = dict.fromkeys(task for number in numbers for task in tasks_of(number))
    return [spec for task in tasks for spec in run_list.finetune_specs(config, task, 'full')]


def tasks_of(number: int) -> list[str]:
    """The tasks of a table; Table 4's GLUE score has more of them than the table has rows."""
    glue = paper.GLUE.values() if number == 4 else ()
    return [score.task for several in (SCORES[number], *glue) for score in several]


def lines(config: ConfigDict, outcomes: Sequence[Outcome], number: int) -> list[str]:
    """The Markdown of a table from the outcomes of `specs`."""
    outcomes = [outcome for outcome in outcomes if outcome.spec.task in tasks_of(number)]
    baselines = tables.baselines_of(config)
    rows = [line(outcomes, score, baselines) for score in SCORES[number]]
    notes = [f'{score.label}: {score.about}.' for score in SCORES[number] if score.about]
    if number == 4:
        row, about = glue_line(outcomes)
        rows.append(row)
        notes += [about] if about else []
    return [f'# Table {number}: {TITLES[number]}', '', *table(HEADER, rows), tables.READING, '',
            *bullets([*notes, *tables.state(outcomes), *tables.settings(config, outcomes)])]


def line(outcomes: Sequence[Outcome], score: Score, baselines: Sequence[dict] = ()) -> list[str]:
    """A row of a table under HEADER. baselines: as in tables.baselines."""
    label = [score.label, score.metric, tables.number(score.paper)]
    found, split, selection = tables.shown(outcomes, score)
    baseline = tables.best_baseline(baselines, score, found, split)
    if found is None:
        return [*label, tables.absent(outcomes, score.task), baseline, *[''] * 7]
    best = tables.on_dev(outcomes, score, selection='best') if selection == 'final' else None
    value, *measured = tables.measured(found)
    return [*label, value, baseline, *measured, split, selection, '' if best is None else tables.percent(best.value)]


def glue_line(outcomes: Sequence[Outcome]) -> tuple[list[str], str]:
    """(the row of the GLUE score, a remark on it): both the paper's and ours over what is there."""
    scores = [score for several in paper.GLUE.values() for score in several]
    found = {score: tables.on_dev(outcomes, score) for score in scores}
    ours, theirs, missing = paper.shared_glue(found)
    if not ours:
        return ['GLUE', 'mean', tables.number(paper.GLUE_SCORE), tables.NA, *[''] * 8], ''
    mean = paper.glue_score(ours, bootstrap.mean)
    best = {score: tables.on_dev(outcomes, score, selection='best') for score in scores if found[score] is not None}
    optimistic = paper.glue_score(paper.shared_glue(best)[0], bootstrap.mean)
    about = 'GLUE: the mean over nine tasks, of each task\'s metrics (MRPC, STS-B, QQP) or sets (MNLI) first.'
    if missing:
        about += (f' Missing here: {", ".join(missing)}; so both columns are averages over the rest, {len(ours)} tasks '
                  f'(the paper\'s score over all nine is {paper.GLUE_SCORE}).')
    return ['GLUE', 'mean', tables.number(paper.glue_score(theirs)), tables.percent(mean.value), '',
            tables.interval(mean), '', '', f'{mean.n:,}', 'dev', 'final', tables.percent(optimistic.value)], about


def _define_flags():
    flags.DEFINE_multi_enum('table', list(map(str, TITLES)), list(map(str, TITLES)), 'Only this table.')


if __name__ == '__main__':
    runner.command(lambda config, dry_run: run(config, dry_run, [*map(int, flags.FLAGS.table)]), _define_flags)
