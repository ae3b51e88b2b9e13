"""What a job found: report.md with the paper's tables, figures and claims and, where the device has a price, what the
paper's own hundred epochs would take.
"""
import itertools
import pathlib
import statistics
from collections.abc import Sequence

from gpt1_jax.configs import experiments
from ml_collections import ConfigDict

from experiments import baselines, claims, figure2_layers, figure2_zero_shot, figure_blimp, plots, table5_ablations
from experiments import tables as tables_2_to_4
from experiments.lib import bootstrap, paper, run_list, runner, tables
from experiments.lib.finished import one_line
from experiments.lib.markdown import bullets, included, table
from experiments.reproduce import inputs
from experiments.reproduce import plan as plan_lib
from experiments.reproduce.clock import Clock
from gpt1_jax.data import tokens
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import device_peaks
from gpt1_jax.runs import provenance, results, workdir
from gpt1_jax.runs.console import duration

SECTIONS = {  # {program: the files that it writes}
    claims: ('claims.md',), tables_2_to_4: ('table2.md', 'table3.md', 'table4.md'), table5_ablations: ('table5.md',),
    figure2_layers: ('figure2_layers.md',), figure2_zero_shot: ('figure2_zero_shot.md',)}
PAPER_TOKENS = 100e9  # 100 epochs of BooksCorpus, about a billion tokens each
# Chips that have not been measured: peak in bfloat16, the share of it that a step is taken to use, dollars an hour.
V5E = {'peak': device_peaks.PEAKS['TPU v5e'].bfloat16, 'mfu': 0.4, 'dollars': 1.2}
SCALING = 0.9         # of one GPU's speed that each of eight is taken to have


def write(config: ConfigDict, plan: dict, clock: Clock, failures: dict[str, str]) -> None:
    """Write OUT/report.md and its PNG files from the finished runs; none is started.

    failures: {stage: what failed}.
    """
    out = pathlib.Path(config.out)
    config = config.copy_and_resolve_references()
    config.start = False
    config.zero_shot_steps = tuple(plan['saved'])
    lstm_dropped = 'lstm_step_seconds' in plan and not config.lstm  # measured, and too slow for the time left
    config.out_of_time = tuple(spec.name for specs in plan_lib.all_runs(config, plan['saved']).values()
                               for spec in specs if clock.left <= 0 or lstm_dropped and spec.condition == 'lstm')
    if clock.left <= 0 or lstm_dropped:
        config.out_of_time += ('pretrain_lstm',)
    _baselines(config)
    sections = dict(SECTIONS)
    if 'blimp' in config.zero_shot_tasks:
        sections[figure_blimp] = ('figure_blimp.md',)
    for module in sections:
        try:
            module.run(config)
        except UserError as error:  # what could be written is
            print(f'{module.__name__}: {error}', flush=True)
    trained, curves = {}, {}  # imported weights have none
    for name, directory in (('GPT-1', config.pretrained), ('LSTM', config.lstm)):
        rows = results.read(workdir.load(directory).metrics) if directory else []
        if rows:
            trained[name] = rows
            curves[name] = plots.read_curves(pathlib.Path(directory))
    if curves:
        plots.training_curves(out / 'pretraining.png', curves)
    lines = ["# The paper's experiments", '', *table(('', 'value'), facts(config, plan, clock, trained)),
             *(f'**{name} failed:** {error}\n' for name, error in failures.items()),
             '## What differs from the paper', '', *bullets(differences(config, plan)),
             *(['## Pretraining', '', '![loss, rate, held-out perplexity, throughput](pretraining.png)', '',
                *throughput(plan, trained.get('GPT-1', ()))] if curves else []),
             '## Does pretraining help?', '', *gains(config)]
    for name in itertools.chain(*sections.values()):
        lines += included(out / name)
    if config.dollars_an_hour:
        lines += paper_scale(plan, config.dollars_an_hour)
    (out / 'report.md').write_text('\n'.join(lines).rstrip() + '\n', encoding='utf-8')
    print(f'report: {out / "report.md"}')


def _baselines(config):
    """Write OUT/baselines.json, which the tables read."""
    try:
        baselines.run(config, pathlib.Path(config.out) / tables.BASELINES_FILE)
    except Exception as error:  # scikit-learn is an extra; the report does without
        print(f'baselines: {one_line(error)}', flush=True)


def facts(config: ConfigDict, plan: dict, clock: Clock, trained: dict[str, list[dict]]) -> list[list[str]]:
    """Rows of the report's first table: commands, sizes, times, versions. trained: {model: rows of metrics.jsonl}."""
    commands = [row['command'] for row in results.read(pathlib.Path(config.out) / 'commands.jsonl')]
    rows = [['command', command] for command in dict.fromkeys(commands)]
    model = workdir.load(config.pretrained).config['model']
    rows += [['device', plan['device']],
             ['GPT-1', f'{model["n_layer"]} layers x {model["n_embd"]} wide, context {model["n_ctx"]}']]
    if config.lstm:
        rows.append(['LSTM', f'{workdir.load(config.lstm).config["model"]["n_units"]} units'])
    pretraining = (f'{plan["steps"]:,} updates, {plan["tokens"]:,} tokens' if plan['steps'] else
                   f'not here. {tables.pretrained(config)}')
    if inputs.has_text(config):
        epoch = tokens.read_manifest(inputs.tokens_of(config))['splits']['train']['tokens']
        rows.append(['training text', f'{epoch:,} tokens'])
        pretraining += f', {plan["tokens"] / epoch:.2f} epochs'
    rows += [['pretraining', pretraining], ['speed, measured before', _speed(plan)]]
    for name, logged in trained.items():
        valid = [row for row in logged if row.get('valid_perplexity') is not None]
        if valid:
            rows.append([f'{name}: validation perplexity',
                         f'{valid[-1]["valid_perplexity"]:.2f} a token after {valid[-1]["step"]:,} updates'])
    versions = provenance.versions()
    # A run that was evaluated again by hand has rows without a key.
    finetuned = {row['key'] for row in results.read(runner.results_path(config)) if row['kind'] == 'finetune'
                 and 'key' in row and (config.any_version or row['code'] == versions['code'])}
    rows.append(['fine-tuning runs', f'{len(finetuned):,}'])
    rows += [[f'time: {stage}', duration(seconds)] for stage, seconds in clock.stages.items()]
    limit = f' of {config.minutes:g} minutes' if config.minutes else ''
    rows.append(['time on the device', f'{duration(clock.used)}{limit}'])
    if config.dollars_an_hour:
        cost = clock.used / 3600 * config.dollars_an_hour
        rows.append(['cost', f'${cost:.2f} at ${config.dollars_an_hour:g} an hour'])
    return [*rows, ['commit', versions['commit']], ['code', versions['code']], *map(list, versions['versions'].items())]


def _speed(plan):
    speed = f'{plan["tokens_per_s"]:,.0f} tokens/s'
    if plan['mfu'] is None:
        return speed
    return (f'{speed}, MFU {100 * plan["mfu"]:.1f}% ({plan["flops_per_token"] / 1e6:,.2f} MFLOP a token, full '
            'attention counted, over the dense bf16 peak)')


def differences(config: ConfigDict, plan: dict) -> list[str]:
    """What is not as in the paper, in plain words."""
    found = []
    if inputs.has_text(config):
        train = tokens.read_manifest(inputs.tokens_of(config))['splits']['train']
        found.append(f'The corpus: {train["documents"]:,} books ({train["tokens"]:,} tokens) rather than BooksCorpus '
                     '(about 7,000 books, a billion tokens).')
    rows = [f'{config.finetune.data.train_rows:,} of a set at most'] if config.finetune.data.train_rows else []
    for task, changes in config.tasks.items():
        if changes.get('data', {}).get('train_rows'):
            rows.append(f'{task} {changes.data.train_rows:,}')
    evaluated = f'Evaluated every {config.finetune.train.evaluate_every} epoch(s).'
    if config.finetune.train.evaluate_every >= config.finetune.train.epochs:
        evaluated = 'Parameters "best" are also those of the last update: there is one evaluation a run.'
    warmup = plan_lib.pretraining(config, plan).optimizer.warmup_steps
    if plan['steps']:
        found.append(f'Tokens seen: {plan["tokens"]:,}, {100 * plan["tokens"] / PAPER_TOKENS:.2g}% of the paper\'s 100 '
                     f'billion; the warm-up is {warmup:,} updates rather than 2,000.')
    else:
        found.append('The weights were imported: their model card says what they were trained on, and for how long.')
    dtypes = dict.fromkeys((config.pretrain.model.dtype, config.finetune.model.dtype))
    return [*found,
            'Training rows: ' + (', '.join(rows) or 'all that the files have') + '.',
            f'Evaluated rows: {config.finetune.data.eval_rows or "all"} of a split at most.',
            f'Products and activations are {", in fine-tuning ".join(dtypes)}.',
            'Results are on dev where the test labels are not public; the paper\'s are on test.',
            evaluated,
            f'Seeds: {len(config.seeds_small)} on {", ".join(experiments.SMALL)}, {len(config.seeds)} elsewhere.']


def throughput(plan: dict, trained: Sequence[dict]) -> list[str]:
    """A table of tokens/s and MFU over the run, by tenths of its updates. trained: rows of metrics.jsonl."""
    parts = [[] for _ in range(10)]
    for row in trained:
        if row.get('tokens_per_s'):
            parts[min(9, 10 * (row['step'] - 1) // plan['steps'])].append(row)
    cells = []
    for part in filter(None, parts):
        speed = statistics.median(row['tokens_per_s'] for row in part)
        mfu = tables.NA
        if plan['mfu'] is not None:
            mfu = f'{100 * plan["mfu"] * speed / plan["tokens_per_s"]:.1f}%'
        cells.append([f'{part[0]["step"]:,} to {part[-1]["step"]:,}', f'{speed:,.0f}', mfu, f'{part[-1]["loss"]:.3f}'])
    return table(('updates', 'tokens/s, median', 'MFU', 'training loss, last'), cells)


def gains(config: ConfigDict) -> list[str]:
    """Every set under each condition, and pretrained minus from scratch, task by task and on average, paired."""
    scores = [score for score in dict.fromkeys([*paper.TABLE2, *paper.TABLE3, *paper.TABLE4]) if score.group is None]
    specs = []
    for task in dict.fromkeys(score.task for score in scores):
        for condition in run_list.CONDITIONS:
            specs += run_list.finetune_specs(config, task, condition)
    outcomes = runner.carry_out(config, specs)
    found = {}
    rows = []
    beside = tables.baselines_of(config)
    for score in scores:
        row = [f'{score.label} ({score.metric})']
        for condition in run_list.CONDITIONS:
            one, _, _ = tables.shown(outcomes, score, condition)
            row.append(tables.absent(outcomes, score.task, condition) if one is None else tables.percent(one.value))
        full, split, _ = tables.shown(outcomes, score)
        row.append(tables.best_baseline(beside, score, full, split))
        gain = tables.difference(outcomes, [score], 'full', 'no_pretraining')
        if gain is not None:
            found[score.label] = gain
        rows.append([*row, *(cells(gain) if gain else [tables.NA, '', ''])])
    header = ('task', *(paper.NAMES[condition] for condition in run_list.CONDITIONS), 'best baseline',
              'full − no pretraining', '95% interval', 'n')
    if not found:
        return [*table(header, rows), '']
    mean = bootstrap.mean(list(found.values()))
    low, high = mean.interval()
    verdict = 'excludes' if low > 0 or high < 0 else 'includes'
    unclear = [label for label, gain in found.items() if not gain.interval()[0] > 0]
    each = 'Each one\'s is above zero.'
    if unclear:
        each = f'It is not above zero on its own for: {", ".join(unclear)}.'
    return [*table(header, [*rows, ['mean of the differences', *[''] * 5, *cells(mean)]]),
            f'The interval of the mean over {len(found)} scores {verdict} zero. {each}', '', tables.READING, '']


def cells(gain: bootstrap.Estimate) -> tuple[str, str, str]:
    """A difference, its interval and n."""
    return tables.percent(gain.value, '+'), tables.interval(gain, '+'), f'{gain.n:,}'


def paper_scale(plan: dict, dollars: float) -> list[str]:
    """The Markdown of what the paper's hundred epochs would take, from the measured speed and stated assumptions."""
    speed = plan['tokens_per_s']
    flops = plan['flops_per_token']
    devices = [(f'1 x {plan["device"].split(" x ")[-1]}', speed, dollars),
               ('8 of them', 8 * SCALING * speed, 8 * dollars),
               ('TPU v5e-256', 256 * V5E['peak'] * V5E['mfu'] / flops, 256 * V5E['dollars'])]
    rows = []
    for name, tokens_per_s, price in devices:
        seconds = PAPER_TOKENS / tokens_per_s
        rows.append([name, f'{tokens_per_s:,.0f}', duration(seconds), f'${seconds / 3600 * price:,.0f}'])
    return ["## The paper's 100 epochs", '', *table(('', 'tokens/s', 'time', 'cost'), rows), 'Assumptions:', '',
        f'* 100 epochs of about a billion tokens: {PAPER_TOKENS:,.0f}. A batch of 64 x 512 leaves little work for each '
        'of many chips: these times hold for batches that are larger by the number of chips, whose effect on the '
        'result is not known here.',
        f'* One GPU: {speed:,.0f} tokens/s as measured, ${dollars:g} an hour.',
        f'* Eight: {SCALING:.0%} of that each. Not measured.',
        f'* v5e-256: {V5E["peak"] / 1e12:g} TFLOP/s a chip in bf16 by its data sheet, {V5E["mfu"]:.0%} of it used, '
        f'{flops / 1e6:,.2f} MFLOP a token, ${V5E["dollars"]:g} a chip and hour. Not measured; '
        'experiments/results/compile says what fits.']
