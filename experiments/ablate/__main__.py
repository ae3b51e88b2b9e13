"""Pretrains a baseline and ideas on the same seeds, and reports paired differences of the loss.

python -m experiments.ablate [--config=configs/ablate.py] [--out=runs/ablate] \\
    [--dry_run] [--until=0.01]
python -m experiments.ablate \\
    --idea='squared ReLU: model.ops.gelu=experiments/ideas/relu.py:relu_squared'

An idea is a difference from the baseline's pretraining config: a number, or your own code as
FILE:NAME (CONTRIBUTING.md, "To try an idea"). Runs with the same seed share batches and dropout
masks. If shapes agree, they also share initial weights. So most of the noise between seeds cancels
in their difference. The program writes OUT/report.md and OUT/ideas.png.

Rerun an interrupted command to resume it. A run in OUT/results.jsonl with the same settings, text,
files and code is not repeated. If it lacks a task of config.tasks, or was scored on other files, it
is trained again unless config.keep_checkpoints kept its weights. --until=WIDTH adds seeds, up to
config.max_seeds, until every interval of the loss is that narrow.
"""

import pathlib
import statistics

from absl import flags
from gpt1_jax.configs.ablate import RULES
from ml_collections import ConfigDict

from experiments.ablate import report, runs
from experiments.lib import run_list, runner
from gpt1_jax import cli, rules
from gpt1_jax.cli import config_file
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import results
from gpt1_jax.runs.console import duration


def run(
    config: ConfigDict, out: str | pathlib.Path, until: float | None = None, dry_run: bool = False
) -> list[report.Comparison]:
    """Does the missing runs of a config, writes the report and returns the comparisons.

    config: as configs/ablate.py returns it. until: seeds are added until all intervals are at most
    this wide. dry_run: prints the plan and returns []. UserError for a mistake in the config or an
    idea, and, after the report, if runs failed.
    """
    rules.validate(config, RULES)
    rules.require({'--out': (str(out), run_list.OUT)})
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    results.check(out / 'results.jsonl')
    names = _compared(config)  # a mistake fails before any text is prepared
    ideas = runs.ideas(config, out)
    by_name = {idea.name: idea for idea in ideas}
    pairs = [(by_name[a], by_name[b]) for a, b in names]
    files = runs.files_of(config.tasks)
    if dry_run:
        _print_plan(config, ideas, out, files)
        return []
    looks = max(1, config.max_seeds - config.seeds + 1) if until else 1
    rows = {}
    failed = {}

    def do(idea, seed):
        try:
            rows[idea.name, seed] = runs.row_of(idea, seed, config, out, files)
        except Interrupted:
            raise
        except Exception as error:  # any: the user's code may raise it
            failed[idea.name, seed] = runner.one_line(error)
            print(f'{idea.name}, seed {seed}: {failed[idea.name, seed]}', flush=True)

    def compare():
        compared = [report.compare(a, b, rows, looks) for a, b in pairs]
        report.write(out, ideas, compared, rows, failed, looks, config.tasks)
        return compared

    for idea in ideas:
        for seed in range(config.seeds):
            do(idea, seed)
        compared = compare()
    for seed in range(config.seeds, config.max_seeds if until else 0):
        wide = {
            idea.name
            for each in compared
            if each.found and not each.found.high - each.found.low <= until
            for idea in each.ideas
        }
        for idea in ideas:
            if idea.name in wide:
                do(idea, seed)
        compared = compare()
    print(
        '\n'.join(report.differences(compared, looks)) + f'\nreport: {out / "report.md"}',
        flush=True,
    )
    if failed:
        raise UserError(
            'runs failed: '
            + '; '.join(f'{name}, seed {seed}: {error}' for (name, seed), error in failed.items())
        )
    return compared


def _compared(config):
    """Returns the pairs of names to compare: each idea with the baseline, and config.compare's."""
    ideas = [runs.parse(text)[0] for text in config.ideas]
    pairs = [(name, runs.BASELINE) for name in ideas]
    for text in config.compare:
        a, _, b = text.partition(' - ')
        if not {a, b} <= {*ideas, runs.BASELINE}:
            raise UserError(f"config.compare: {text!r} must be 'NAME - NAME' of two ideas")
        pairs.append((a, b))
    return pairs


def _print_plan(config, ideas, out, files):
    """Prints the runs of a dry run, and their time at the speed of the finished runs."""
    rows = results.read(out / 'results.jsonl', continued=True)
    left = 0
    for idea in ideas:
        to_do = sum(runs.done(idea, seed, rows, files) is None for seed in range(config.seeds))
        left += to_do * idea.tokens
        print(
            f'{idea.name}: {config.seeds - to_do} runs done, {to_do} to do, {idea.tokens:,} tokens '
            'each'
        )
    speed = statistics.median(row['tokens_per_s'] for row in rows) if rows else None
    time = (
        f'about {duration(left / speed)} at {speed:,.0f} tokens a second'
        if speed
        else 'no run has been timed yet'
    )
    print(f'in all {left:,} tokens to train on: {time}', flush=True)


def _define_flags():
    config_file.define('ablate', 'Ideas; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string(
        'out', 'runs/ablate', 'Directory to write; runs that are finished there are reused.'
    )
    flags.DEFINE_multi_string(
        'idea', [], "'NAME: FIELD=VALUE ...' in place of config.ideas; may be repeated."
    )
    flags.DEFINE_float(
        'until',
        None,
        'Add seeds until every interval is at most this wide, in nats.',
        lower_bound=1e-9,
    )
    flags.DEFINE_bool(
        'dry_run', False, 'Prepare the text, print the runs and an estimated time, train nothing.'
    )


def main() -> None:
    f = flags.FLAGS
    if f.idea:
        f.config.ideas = tuple(f.idea)
        if 'config.compare' not in f:  # config.compare names the config's ideas
            f.config.compare = ()
    run(f.config, f.out, f.until, f.dry_run)


if __name__ == '__main__':
    cli.run(main, _define_flags)
