"""What experiments.one_gpu found: report.md with the paper's tables and figures, and paper_scale.md, what the paper's
own hundred epochs would take."""
import pathlib
import statistics
import sys

from experiments import (
    estimates,
    figure2_layers,
    figure2_zero_shot,
    one_gpu_sets,
    paper,
    plots,
    table2_nli,
    table3_qa,
    table4_similarity_classification,
    table5_ablations,
    tables,
)
from experiments import run as runs
from experiments.report import table
from gpt1_jax import results
from gpt1_jax.data import tokens
from gpt1_jax.progress import duration

SECTIONS = {'table2.md': table2_nli, 'table3.md': table3_qa, 'table4.md': table4_similarity_classification,
            'table5.md': table5_ablations, 'figure2_layers.md': figure2_layers,
            'figure2_zero_shot.md': figure2_zero_shot}
PAPER_TOKENS = 100e9  # 100 epochs of BooksCorpus, about a billion tokens each
# Chips that have not been measured: dense bf16 FLOP/s, the share of it that a step is taken to use, dollars an hour.
V5E = {'peak': 197e12, 'mfu': 0.4, 'dollars': 1.2}
SCALING = 0.9         # of one GPU's speed that each of eight is taken to have
PUBLISHED = {'cola': 8551, 'sst2': 67349, 'mrpc': 3668, 'stsb': 5749, 'qqp': 363846, 'mnli': 392702, 'qnli': 104743,
             'rte': 2490, 'snli': 549367, 'race': 87866, 'story_cloze': 1497}  # training rows


def write(config, plan, used, out):
    """Write OUT/report.md, its PNG files and OUT/paper_scale.md, from whatever runs are done; none is started.

    used: seconds of the device.
    """
    config, out = config.copy_and_resolve_references(), pathlib.Path(out)
    config.start, config.zero_shot_steps = False, tuple(plan['saved'])
    for module in SECTIONS.values():
        try:
            module.run(config)
        except runs.Failed as error:  # what could be written is
            print(f'{module.__name__}: {error}', flush=True)
    trained = results.read(out / 'pretrain' / 'metrics.jsonl')
    curves = {'GPT-1': plots.curves_of(out / 'pretrain')}
    if config.lstm:
        curves['LSTM'] = plots.curves_of(pathlib.Path(config.lstm))
    plots.runs(out / 'pretraining.png', curves)
    scale = paper_scale(plan, config.dollars_an_hour)
    (out / 'paper_scale.md').write_text('\n'.join(scale).rstrip() + '\n', encoding='utf-8')
    lines = ['# The paper on one GPU', '', *table(('', 'value'), facts(config, plan, used, trained, out)),
             '## What differs from the paper', '', *tables.bullets(differences(config, plan, out)),
             '## Pretraining', '', '![loss, rate, held-out perplexity, throughput](pretraining.png)', '',
             *throughput(plan, trained), '## Does pretraining help?', '', *helps(config)]
    for name in SECTIONS:
        if (out / name).exists():
            lines += [line.replace('# ', '## ', 1) if line.startswith(('# ', '## ')) else line
                      for line in (out / name).read_text(encoding='utf-8').splitlines()] + ['']
    (out / 'report.md').write_text('\n'.join([*lines, *scale]).rstrip() + '\n', encoding='utf-8')
    print(f'report: {out / "report.md"}')


def facts(config, plan, used, trained, out):
    """Rows of the first table."""
    manifest = tokens.read_manifest(out / 'tokens')
    valid = [row for row in trained if row.get('valid_perplexity') is not None]
    epoch, versions = manifest['splits']['train']['tokens'], results.versions()
    return [
        ['command', ' '.join(['python -m experiments.one_gpu', *sys.argv[1:]])], ['device', plan['device']],
        ['time on the device', f'{duration(used)} of {config.minutes:g} minutes'],
        ['cost', f'${used / 3600 * config.dollars_an_hour:.2f} at ${config.dollars_an_hour:g} an hour'],
        ['training text', f'{epoch:,} tokens'],
        ['pretraining', f'{plan["steps"]:,} updates, {plan["tokens"]:,} tokens, {plan["tokens"] / epoch:.2f} epochs'],
        ['validation perplexity', f'{valid[-1]["valid_perplexity"]:.2f} a token (the paper: 18.4 on BooksCorpus)'
         if valid else tables.NA],
        ['speed, measured before', _speed(plan['tokens_per_s'], plan)],
        ['fine-tuning runs', f'{len({row["key"] for row in _rows(config) if row["kind"] == "finetune"}):,}'],
        ['commit', versions['commit']], ['code', versions['code']],
        *([name, version] for name, version in versions['versions'].items())]


def _rows(config):
    return results.read(runs.results_path(config))


def _speed(tokens_per_s, plan):
    share = '' if plan['mfu'] is None else (f', MFU {100 * plan["mfu"] * tokens_per_s / plan["tokens_per_s"]:.1f}% '
                                            f'({plan["flops_per_token"] / 1e6:,.2f} MFLOP a token, full attention '
                                            'counted, over the dense bf16 peak)')
    return f'{tokens_per_s:,.0f} tokens/s{share}'


def differences(config, plan, out):
    """What is not as in the paper, in plain words."""
    splits = tokens.read_manifest(out / 'tokens')['splits']
    partial = [f'{task} {counts["finetune"]["rows"]:,} of {PUBLISHED[task]:,}'
               for task, counts in one_gpu_sets.read(out).items()
               if 'finetune' in counts and counts['finetune']['rows'] < PUBLISHED.get(task, 0)]
    return [f'The corpus: {splits["train"]["documents"]:,} books ({splits["train"]["tokens"]:,} tokens) rather than '
            'BooksCorpus (about 7,000 books, a billion tokens).',
            f'Tokens seen: {plan["tokens"]:,}, {100 * plan["tokens"] / PAPER_TOKENS:.2f}% of the paper\'s 100 billion; '
            f'the warm-up is {round(config.warmup * plan["steps"]):,} updates rather than 2,000.',
            'Training rows: ' + (', '.join(partial) or 'those of the paper') + '.',
            f'Products and activations are {config.pretrain.model.dtype}.',
            'Figures are on dev where the test labels are not public; the paper\'s are on test.',
            'Parameters "best" are those of the last update, too: there is one evaluation a run.'
            if config.finetune.train.evaluate_every >= config.finetune.train.epochs else
            f'Evaluated every {config.finetune.train.evaluate_every} epoch(s).',
            f'Seeds: {len(config.seeds_small)} on {", ".join(config.small)}, {len(config.seeds)} elsewhere.']


def throughput(plan, trained):
    """A table of tokens/s and MFU over the run, by tenths of its updates."""
    parts = [[] for _ in range(10)]
    for row in trained:
        if row.get('tokens_per_s'):
            parts[min(9, 10 * (row['step'] - 1) // plan['steps'])].append(row)
    return table(('updates', 'tokens/s, median', 'MFU', 'training loss, last'), [
        [f'{part[0]["step"]:,} to {part[-1]["step"]:,}', f'{speed:,.0f}',
         tables.NA if plan['mfu'] is None else f'{100 * plan["mfu"] * speed / plan["tokens_per_s"]:.1f}%',
         f'{part[-1]["loss"]:.3f}'] for part in parts if part
        for speed in [statistics.median(row['tokens_per_s'] for row in part)]])


def helps(config):
    """Pretrained minus from scratch, task by task and on average, paired."""
    figures = [figure for figure in dict.fromkeys([*paper.TABLE2, *paper.TABLE3, *paper.TABLE4])
               if figure.group is None and figure.task in (*config.small, *config.large, 'race')]
    wanted = [one for task in dict.fromkeys(figure.task for figure in figures)
              for condition in ('full', 'no_pretraining') for one in runs.plans(config, task, condition)]
    outcomes = runs.carry_out(config, wanted)
    found = {figure.label: tables.difference(outcomes, [figure], 'full', 'no_pretraining') for figure in figures}
    there = {label: one for label, one in found.items() if one is not None}
    rows = [[figure.label, *cells(found[figure.label])] if found[figure.label] else
            [figure.label, max(tables.absent(outcomes, figure.task, condition) for condition in (
                'full', 'no_pretraining')), '', ''] for figure in figures]  # n/a (budget) where either is
    if not there:
        return [*table(('task', 'pretrained − from scratch', '95% interval', 'n'), rows), '']
    mean = estimates.mean(list(there.values()))
    unclear = [label for label, one in there.items() if not one.interval()[0] > 0]
    verdict = 'excludes' if mean.interval()[0] > 0 or mean.interval()[1] < 0 else 'includes'
    return [*table(('task', 'pretrained − from scratch', '95% interval', 'n'), [*rows, ['mean', *cells(mean)]]),
            f'The interval of the mean over {len(there)} figures {verdict} zero. '
            + (f'It is not above zero on its own for: {", ".join(unclear)}.' if unclear else
               'Each one\'s is above zero.'), '', tables.READING, '']


def cells(one):
    return tables.percent(one.value, '+'), tables.interval(one, '+'), f'{one.n:,}'


def paper_scale(plan, dollars) -> list[str]:
    """The Markdown of what the paper's hundred epochs would take, from the measured speed and stated assumptions."""
    speed, flops = plan['tokens_per_s'], plan['flops_per_token']
    slices = 256 * V5E['peak'] * V5E['mfu'] / flops
    rows = [(f'1 x {plan["device"].split(" x ")[-1]}', speed, dollars), ('8 of them', 8 * SCALING * speed, 8 * dollars),
            ('TPU v5e-256', slices, 256 * V5E['dollars'])]
    return ["# The paper's 100 epochs", '', *table(
        ('', 'tokens/s', 'time', 'cost'),
        [[name, f'{rate:,.0f}', duration(PAPER_TOKENS / rate), f'${PAPER_TOKENS / rate / 3600 * price:,.0f}']
         for name, rate, price in rows]), 'Assumptions:', '',
        f'* 100 epochs of about a billion tokens: {PAPER_TOKENS:,.0f}. A batch of 64 x 512 leaves little work for each '
        'of many chips: these times hold for batches that are larger by the number of chips, whose effect on the '
        'result is not known here.',
        f'* One GPU: {speed:,.0f} tokens/s as measured, ${dollars:g} an hour.',
        f'* Eight: {SCALING:.0%} of that each. Not measured.',
        f'* v5e-256: {V5E["peak"] / 1e12:g} TFLOP/s a chip in bf16 by its data sheet, {V5E["mfu"]:.0%} of it used, '
        f'{flops / 1e6:,.2f} MFLOP a token, ${V5E["dollars"]:g} a chip and hour. Not measured; '
        'experiments/results/compile says what fits.']
