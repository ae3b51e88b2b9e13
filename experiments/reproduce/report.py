"""The report of a job, report.md: facts, differences from the paper, tables, figures and claims."""

import collections
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from gpt1_jax.configs import pretrain as papers
from ml_collections import ConfigDict

from experiments import plots, tables
from experiments.lib import runner
from experiments.paper import scores
from experiments.reproduce import plan
from gpt1_jax.data import prepared
from gpt1_jax.errors import UserError
from gpt1_jax.runs import provenance, results, workdir
from gpt1_jax.runs.console import duration
from gpt1_jax.runs.markdown import bullets, included, table


def write(config: ConfigDict, failures: Mapping[str, str]) -> None:
    """Write OUT/report.md and its PNG files from the finished runs. No run is started. failures:
    {stage: its failures as text}."""
    out = pathlib.Path(config.out)
    config = config.copy_and_resolve_references()
    config.start = False
    parts = [
        name for name in tables.PARTS if name != 'figure_blimp' or 'blimp' in config.zero_shot_tasks
    ]
    try:
        tables.run(config, parts)
    except UserError as error:  # the other parts are written
        print(error, flush=True)
    models = {'GPT-1': config.pretrained, 'LSTM': config.lstm}
    trained = {name: workdir.load(directory) for name, directory in models.items() if directory}
    # Imported weights have no log
    trained = {name: run for name, run in trained.items() if results.read(run.metrics)}
    if trained:
        plots.training_curves(
            out / 'pretraining.png',
            {name: plots.read_curves(run.path) for name, run in trained.items()},
        )
    lines = [
        "# The paper's experiments",
        '',
        *table(('', 'value'), facts(config, trained)),
        *(f'**{name} failed:** {error}\n' for name, error in failures.items()),
        '## What differs from the paper',
        '',
        *bullets(differences(config)),
        *(
            [
                '## Pretraining',
                '',
                '![loss, rate, held-out perplexity, throughput](pretraining.png)',
                '',
            ]
            if trained
            else []
        ),
    ]
    for name in parts:
        lines += included(out / f'{name}.md')
    (out / 'report.md').write_text('\n'.join(lines).rstrip() + '\n', encoding='utf-8')
    print(f'report: {out / "report.md"}')


def facts(config: ConfigDict, trained: Mapping[str, workdir.Run]) -> list[list[str]]:
    """Return the rows of the report's first table: commands, sizes, times, versions. trained: the
    models with a log."""
    found = results.read(runner.results_path(config))
    commands = [row['command'] for row in results.read(pathlib.Path(config.out) / 'commands.jsonl')]
    rows = [['command', command] for command in dict.fromkeys(commands)]
    model = workdir.load(config.pretrained).config['model']
    rows += [
        ['device', _distinct(row['device'] for row in found if 'device' in row)],
        ['GPT-1', f'{model["n_layer"]} layers x {model["n_embd"]} wide, context {model["n_ctx"]}'],
    ]
    if config.lstm:
        rows.append(['LSTM', f'{workdir.load(config.lstm).config["model"]["n_units"]} units'])
    if plan.has_text(config):
        rows.append(['training text', f'{_text(config)["tokens"]:,} tokens'])
    if 'GPT-1' not in trained:
        rows.append(['pretraining', f'not here. {scores.pretrained(config)}'])
    for name, run in trained.items():
        rows += _of_training(config, name, run)
    code = provenance.code_digest()
    # A run that was evaluated again by hand has rows without a key.
    finetuned = {
        row['key']
        for row in found
        if row['kind'] == 'finetune'
        and 'key' in row
        and (config.any_version or row['code'] == code)
    }
    rows.append(['fine-tuning runs', f'{len(finetuned):,}'])
    times = collections.Counter()
    for row in results.read(pathlib.Path(config.out) / 'stages.jsonl'):
        times[row['stage']] += row['seconds']
    rows += [[f'time: {stage}', duration(seconds)] for stage, seconds in times.items()]
    limit = f' of {config.minutes:g} minutes' if config.minutes else ''
    rows.append(['time on the device', f'{duration(times.total())}{limit}'])
    # Results may come from another machine than this report
    recorded = [row for row in found if 'versions' in row]
    libraries = dict.fromkeys(name for row in recorded for name in row['versions'])
    return [
        *rows,
        ['commit', _distinct(row['commit'] for row in recorded)],
        ['code', _distinct(row['code'] for row in recorded)],
        *[[name, _distinct(row['versions'].get(name) for row in recorded)] for name in libraries],
    ]


def _distinct(values):
    """Return the different values in their order, as text."""
    return ', '.join(dict.fromkeys(map(str, values)))


def _text(config):
    """Return the manifest's entry of the training text."""
    return prepared.read_manifest(plan.tokens_of(config))['splits']['train']


def _of_training(config, name, run):
    """Return rows of facts on a model's training: length, speed, perplexity."""
    logged = results.read(run.metrics)
    read = logged[-1]['step'] * run.config['batch']['size'] * run.config['model']['n_ctx']
    length = f'{logged[-1]["step"]:,} updates, {read:,} tokens'
    if plan.has_text(config):
        length += f', {read / _text(config)["tokens"]:.2f} epochs'
    rows = [[f'{name}: pretraining', length]]
    timed = [row for row in logged if row.get('tokens_per_s')]
    if timed:
        speed = statistics.median(row['tokens_per_s'] for row in timed)
        mfu = [row['mfu'] for row in timed if row.get('mfu')]
        share = f', MFU {statistics.median(mfu):.1%}' if mfu else ''
        rows.append([f'{name}: speed, median', f'{speed:,.0f} tokens/s{share}'])
    valid = [row for row in logged if row.get('valid_perplexity') is not None]
    if valid:
        rows.append(
            [
                f'{name}: validation perplexity',
                f'{valid[-1]["valid_perplexity"]:.2f} a token after {valid[-1]["step"]:,} updates',
            ]
        )
    return rows


def differences(config: ConfigDict) -> Sequence[str]:
    """Return the differences from the paper, in plain words. Fine-tuning's settings are under each
    table."""
    found = []
    if plan.has_text(config):
        text = _text(config)
        found.append(
            f'The corpus: {text["documents"]:,} books ({text["tokens"]:,} tokens) rather than '
            'BooksCorpus (about 7,000 books, a billion tokens).'
        )
    of_run = workdir.load(config.pretrained).config
    if 'optimizer' in of_run:
        ours = {group: of_run[group] for group in ('model', 'batch', 'optimizer', 'train')}
        paper = papers.get_config()
        paper.optimizer.warmup_steps = papers.WARMUP
        found.append(f'Settings of pretraining: {scores.changes(ConfigDict(ours), paper)}.')
    else:
        found.append(
            'The weights were imported: what they were trained on, and for how long, is in their '
            'model card.'
        )
    own = {
        task: rows
        for task in config.tasks
        if (rows := config.tasks[task].get('data', {}).get('eval_rows'))
    }
    rows = f'{config.finetune.data.eval_rows or "all"} of a split at most'
    return [
        *found,
        f'Evaluated rows: {", ".join([rows, *(f"{task} {rows}" for task, rows in own.items())])}.',
        "Results are on dev where the test labels are not public; the paper's are on test.",
    ]
