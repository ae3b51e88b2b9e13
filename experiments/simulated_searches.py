"""Simulates searches by agents: how many of the ideas that are believed are false, by two rules.

python -m experiments.simulated_searches --out=experiments/results/ideas/simulated.json

    earlier   five seeds, the same for all confirmations; Benjamini and Hochberg over all of them
    present   seven fresh seeds for each; SAFFRON (gpt1_jax/ablation/statistics.py)

The noise of a trial is 0.015 nats, and a useful idea brings 0.03. Agents act as soon as they
believe: they adopt and go on, stop at the first, give the best idea again under other names, try
one idea with other seeds, or edit it. An earlier confirmation under another name trained nothing.
"""

import json
import pathlib

import numpy as np
from absl import flags
from scipy import stats

from gpt1_jax import cli, storage
from gpt1_jax.ablation import ledger, statistics
from gpt1_jax.runs import provenance
from gpt1_jax.runs.markdown import table

NOISE = 0.015  # nats
USEFUL = -0.03
LEAST = 0.005
SEARCHES = 1000
SEEDS = {'earlier': 5, 'present': 7}
IDEAS = 40


def p_values(generator, effects, seeds, baseline=None):
    """Returns the one-sided p-values of confirmations. baseline: losses that all share."""
    found = []
    for effect in effects:
        losses = effect + generator.normal(0, NOISE, seeds)
        against = generator.normal(0, NOISE, seeds) if baseline is None else baseline
        difference = statistics.paired(losses, against)
        found.append(1.0 if difference.within(LEAST) else difference.p)
    return found


def believed(p, rule):
    """Returns for each confirmation whether it is believed when it is made, one after the other."""
    if rule == 'present':
        levels = statistics.levels([[one] for one in p], ledger.SHARE)
        return [one <= level for one, (level,) in zip(p, levels)]
    found = []
    # What is believed now may not be believed later: an agent that acts does not look again
    for n in range(1, len(p) + 1):
        adjusted = stats.false_discovery_control(p[:n], method='bh')
        found.append(bool(adjusted[-1] <= ledger.SHARE))
    return found


def search(generator, rule, agent):
    """Returns (false, believed, useful ideas that are believed, useful ideas) of one search."""
    seeds = SEEDS[rule]
    # The earlier rule trained the baseline once, on the same seeds for all confirmations
    baseline = generator.normal(0, NOISE, seeds) if rule == 'earlier' else None
    useful = np.zeros(IDEAS, bool)
    if agent in ('one in ten is useful', 'half are useful'):
        useful = generator.random(IDEAS) < (0.1 if 'ten' in agent else 0.5)
    effects = np.where(useful, USEFUL, 0.0)
    p = p_values(generator, effects, seeds, baseline)
    if agent == 'the best again under twenty names':
        half = IDEAS // 2
        best = int(np.argmin(p[:half]))
        # The earlier rule trained nothing for another name. The present one has fresh seeds.
        if rule == 'earlier':
            p = p[:half] + [p[best]] * half
    if agent == 'one idea with other seeds' and rule == 'earlier':
        p = p_values(generator, effects, seeds)
    found = np.array(believed(p, rule))
    if agent in ('stops at the first', 'one idea with other seeds') and found.any():
        first = int(np.argmax(found))  # what comes after was never tried
        found[first + 1 :] = False
    return (found & ~useful).sum(), found.sum(), (found & useful).sum(), useful.sum()


AGENTS = (
    'adopts and goes on; none is useful',
    'stops at the first',
    'the best again under twenty names',
    'one idea with other seeds',
    'one in ten is useful',
    'half are useful',
)


def run() -> list[dict]:
    """Returns a row for each agent and rule."""
    rows = []
    for agent in AGENTS:
        for rule in SEEDS:
            generator = np.random.default_rng(0)
            counted = np.array([search(generator, rule, agent) for _ in range(SEARCHES)])
            false, all_believed, true, useful = counted.T
            shares = false / np.maximum(1, all_believed)
            rows.append(
                {
                    'agent': agent,
                    'rule': rule,
                    'false': round(float(shares.mean()), 4),
                    'error': round(float(shares.std() / SEARCHES**0.5), 4),
                    'found': round(float(true.sum() / useful.sum()), 4) if useful.any() else None,
                }
            )
    return rows


def lines(rows: list[dict]) -> list[str]:
    """Returns the table: the share of false ideas among the believed, and of useful ones found."""
    cells = []
    for agent in AGENTS:
        row = [agent]
        for rule in SEEDS:
            (found,) = [one for one in rows if (one['agent'], one['rule']) == (agent, rule)]
            row.append(f'{found["false"]:.1%}')
            row.append('' if found['found'] is None else f'{found["found"]:.0%}')
        cells.append([row[0], row[1], row[3], row[2], row[4]])
    columns = ['', 'false, earlier', 'false, present', 'found, earlier', 'found, present']
    return table(columns, cells)


def main() -> None:
    rows = run()
    out = pathlib.Path(flags.FLAGS.out)
    storage.write(out, json.dumps({'rows': rows, **provenance.versions()}, indent=1).encode())
    print('\n'.join(lines(rows)), flush=True)


def _define_flags():
    flags.DEFINE_string('out', None, 'a file to write, JSON', required=True)


if __name__ == '__main__':
    cli.run(main, _define_flags)
