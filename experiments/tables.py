"""Markdown tables of fine-tuned figures beside the paper's, from the outcomes of a list of runs.

Where the labels of the paper's test split are public, the parameters are those that were best on dev, reported on test.
Elsewhere dev stands in: the parameters of the last step of the fixed schedule, and in a column of their own those that
were best on dev, which is optimistic, as the same rows chose them.
"""
from collections.abc import Mapping, Sequence

from configs import finetune as finetune_config
from experiments import estimates, glue_score, paper, run
from experiments.estimates import Estimate
from experiments.planned import LABELLED_TEST
from experiments.report import table
from gpt1_jax import workdir

NA = 'n/a'
NO_BUDGET = f'{NA} (budget)'
FINAL = ('dev', 'final')
HEADER = ('task', 'metric', 'paper (test)', 'ours', '95% interval', 'range of seeds', 'seeds', 'n', 'split',
          'parameters', 'best on dev (optimistic)')
READING = ('All figures are in percent (correlations times 100). With several seeds a figure is the median, and the '
           'range is that of the seeds. "final": the parameters of the last step of the fixed schedule; "best": those '
           f'that were best on dev. {estimates.INTERVALS}')


def find(outcomes: Sequence[run.Outcome], task: str, condition: str, metric: str, split: str, selection: str,
         group: str | None = None) -> Estimate | None:
    """The Estimate of what the outcomes hold of one figure, over their seeds; None without any."""
    rows = [row for outcome in outcomes for row in outcome.rows
            if (outcome.planned.task, outcome.planned.condition) == (task, condition)
            and row['split'] == split and row['metric'] == metric and row.get('group') == group
            and row.get('selection') == selection]
    return estimates.of_rows(rows) if rows else None


def shown(outcomes, figure: paper.Figure, condition: str = 'full') -> tuple[Estimate | None, str, str]:
    """(estimate, split, selection) that stand for a figure of the paper, by the rule above."""
    if figure.task in LABELLED_TEST:
        found = find(outcomes, figure.task, condition, figure.metric, 'test', 'best', figure.group)
        if found is not None:
            return found, 'test', 'best'
    return on_dev(outcomes, figure, condition), figure.split, 'final'


def on_dev(outcomes, figure: paper.Figure, condition: str = 'full', selection: str = 'final') -> Estimate | None:
    return find(outcomes, figure.task, condition, figure.metric, figure.split, selection, figure.group)


def absent(outcomes, task: str, condition: str = 'full') -> str:
    """What stands for a figure that is not there."""
    return NO_BUDGET if any((o.status, o.planned.task, o.planned.condition) == ('no budget', task, condition)
                            for o in outcomes) else NA


def no_lstm(config) -> str:
    """Why there is no row of the LSTM."""
    return f'LSTM: {NA}, no --config.lstm=DIR was given.' if config.start else f'LSTM: {NO_BUDGET}.'


def line(outcomes, figure: paper.Figure, condition: str = 'full') -> list[str]:
    """A row of a table under HEADER."""
    found, split, selection = shown(outcomes, figure, condition)
    if found is None:
        return [figure.label, figure.metric, number(figure.paper), absent(outcomes, figure.task, condition), *[''] * 7]
    optimistic = on_dev(outcomes, figure, condition, 'best') if selection == 'final' else None
    return [figure.label, figure.metric, number(figure.paper), *measured(found), split, selection,
            '' if optimistic is None else percent(optimistic.value)]


def measured(found: Estimate) -> list[str]:
    """Figure, interval, range of seeds, seeds and n."""
    return [percent(found.value), interval(found),
            f'{percent(found.range[0])} to {percent(found.range[1])}' if len(found.seeds) > 1 else '',
            str(len(found.seeds) or ''), f'{found.n:,}']


def glue_line(outcomes, selection: str = 'final') -> tuple[list[str], str]:
    """(the row of the GLUE score, what to say of it): both the paper's and ours over what is there."""
    figures = [figure for several in paper.GLUE.values() for figure in several]
    found = {figure: on_dev(outcomes, figure) for figure in figures}
    ours, theirs, missing = glue_score.shared(found)
    if not ours:
        return ['GLUE', 'mean', number(paper.GLUE_SCORE), NA, *[''] * 7], ''
    score = glue_score.glue_score(ours, estimates.mean)
    best = {figure: on_dev(outcomes, figure, selection='best') for figure in figures if found[figure] is not None}
    optimistic = glue_score.glue_score(glue_score.shared(best)[0], estimates.mean)
    about = 'GLUE: the mean over nine tasks, of each task\'s metrics (MRPC, STS-B, QQP) or sets (MNLI) first.'
    if missing:
        about += (f' Missing here: {", ".join(missing)}; so both columns are averages over the rest, {len(ours)} tasks '
                  f'(the paper\'s score over all nine is {paper.GLUE_SCORE}).')
    return ['GLUE', 'mean', number(glue_score.glue_score(theirs)), percent(score.value), interval(score),
            '', '', f'{score.n:,}', 'dev', 'final', percent(optimistic.value)], about


def script_table(config, dry_run: bool, name: str, title: str, figures: Sequence[paper.Figure], extra_tasks=(),
                 more=None) -> list[str]:
    """The whole of a script of Tables 2 to 4: its runs, its table in OUT/NAME; returns the lines, none in a dry run.

    extra_tasks: run as well, for `more`: outcomes -> (row, what to say of it).
    """
    run.check(config)
    names = dict.fromkeys([*(figure.task for figure in figures), *extra_tasks])
    outcomes = run.carry_out(config, [one for task in names for one in run.plans(config, task, 'full')], dry_run)
    if dry_run:
        run.raise_failures(outcomes)
        return []
    row, about = more(outcomes) if more else ([], '')
    rows = [line(outcomes, figure) for figure in figures] + ([row] if row else [])
    notes = [f'{figure.label}: {figure.about}.' for figure in figures if figure.about] + ([about] if about else [])
    return run.write(config, name, [f'# {title}', '', *table(HEADER, rows), READING, '',
                                    *bullets([*notes, *state(outcomes), *settings(config, outcomes)])], outcomes)


def settings(config, outcomes) -> list[str]:
    """What the figures of a list were made with: all that is not the paper's, and the models."""
    ours, theirs = (workdir.flatten(one.to_dict()) for one in (config.finetune, finetune_config.get_config('')))
    differs = ', '.join(f'{name} {value}' for name, value in ours.items() if value != theirs.get(name))
    models = {row['config']['model']['kind']: row['config']['model'] for outcome in outcomes for row in outcome.rows[:1]
              if 'model' in row.get('config', {})}
    return ["Settings of fine-tuning: the paper's" + (f' but for {differs}' if differs else '')
            + ''.join(f'; {task}: {changed(config.tasks[task])}' for task in config.tasks) + '.',
            f'Pretrained: {config.pretrained}' + (f'; LSTM: {config.lstm}' if config.lstm else '') + '.',
            *(f'Model {kind}: ' + ', '.join(f'{name} {value}' for name, value in sorted(model.items())
                                            if name not in ('kind', 'unroll', 'remat', 'kernels')) + '.'
              for kind, model in sorted(models.items()))]


def changed(nested: Mapping) -> str:
    """'batch.size 8, train.epochs 5'."""
    return ', '.join(f'{name} {value}' for name, value in workdir.flatten(nested.to_dict()).items())


def state(outcomes) -> list[str]:
    """A line for each task whose runs lack data, and for each run that was left out or failed."""
    lines = {f'n/a, no data: {o.planned.task} ({o.error})' for o in outcomes if o.status == 'no data'}
    lines |= {f'{NO_BUDGET}: {o.planned.name}' for o in outcomes if o.status == 'no budget'}
    return [*sorted(lines), *(f'FAILED: {o.planned.name}: {o.error}' for o in outcomes if o.status == 'failed')]


def difference(outcomes, figures: Sequence[paper.Figure], a: str, b: str) -> Estimate | None:
    """Condition a - condition b of a column (the mean of its figures), over what both have; None without any."""
    pairs = [(shown(outcomes, figure, a)[0], shown(outcomes, figure, b)[0]) for figure in figures]
    both = [estimates.minus(one, other) for one, other in pairs if one is not None and other is not None]
    return estimates.mean(both) if both else None


def column(outcomes, figures: Sequence[paper.Figure], condition: str, selection: str = 'final') -> Estimate | None:
    """A column of Table 5 on dev: the mean of those of its figures that are there."""
    found = [on_dev(outcomes, figure, condition, selection) for figure in figures]
    return estimates.mean([one for one in found if one is not None]) if any(found) else None


def number(value: float | None) -> str:
    """A figure that is in percent already."""
    return '' if value is None else f'{value:.1f}'


def percent(value: float, sign: str = '') -> str:
    return 'undefined' if value != value else f'{100 * value:{sign}.1f}'


def interval(found: Estimate, sign: str = '') -> str:
    low, high = found.interval()
    return '' if low != low else f'{percent(low, sign)} to {percent(high, sign)}'


def bullets(lines: Sequence[str]) -> list[str]:
    return [f'* {one}' for one in lines] + ([''] if lines else [])

