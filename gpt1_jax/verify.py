"""Verifies a pretraining run, or the certificate of an idea, by training again.

gpt1 verify --workdir=runs/gpt1 [--from_step=20 --to_step=40] [--tokens=DIR]
gpt1 verify FILE --trust_code [--trials=all] [--corpus=FILES] [--valid=FILES] [--unseen=FILES]

The first command trains again between two of a run's checkpoints and compares every array to the
bit. The second reads the certificate of an idea (`gpt1 help ablate`): it computes interval and
verdict again from the rows, and trains two trials again that it chooses at random.

The program also compares config.json with the config in the checkpoints, the tokens with their
hashes, and your code (FILE:NAME) with its hash. If a run was continued with --allow_change, it is
replayed from the step of the change. If this package's code, its libraries or the devices changed,
notes say so, because results may then differ by rounding. By default the last two checkpoints are
taken. --from_step=0 begins with the initial weights. If anything differs, the exit status is 1, and
the message says what differs and by how much. On a GPU only runs trained with --deterministic
repeat to the bit.
"""

import sys
from typing import Any

import jax
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, pretraining, storage
from gpt1_jax.ablation import certificate
from gpt1_jax.data.prepared import MANIFEST
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.parallel import processes
from gpt1_jax.parallel.sharding import named_leaves
from gpt1_jax.runs import checkpoint, provenance, results, workdir
from gpt1_jax.training.loop import TrainState

SHOWN = 8  # differing arrays that a message names


def run(
    directory: str | storage.Path,
    from_step: int | None = None,
    to_step: int | None = None,
    tokens: str | None = None,
) -> list[str]:
    """Verify a pretraining run. Returns the lines that it prints.

    tokens: the directory of the run's prepared text, by default as in config.json. UserError naming
    the differences.
    """
    this = load.open_pretrained(storage.path(directory))
    if 'imported' in this.config:
        raise UserError(f'{this.path}: weights that were imported: nothing was trained here')
    first, last = _steps(this, from_step, to_step)
    _check_config(this, first, last)
    try:
        setting = pretraining.resolve(_config_of(this, tokens), this.path)
    except UserError as error:
        raise UserError(f'{this.path / "config.json"}: {error}') from None
    job = pretraining.build(pretraining.plan(setting))
    for name in ('tokens', 'tokenizer'):
        recorded, here = (config['fingerprint'][name] for config in (this.config, job.config))
        if recorded != here:
            raise UserError(
                f'{this.path}: was trained with other {name}: fingerprint {recorded[:16]}, here '
                f'{here[:16]}'
            )
    # DamagedError names a damaged array
    expected = checkpoint.restore(this.checkpoints, last, job.program.state)
    if first:
        state = checkpoint.restore(this.checkpoints, first, job.program.state)
    else:
        state = job.program.init(np.uint32(setting.config.seed))
    meta = checkpoint.read_meta(this.checkpoints, last)
    notes = _notes(this, first, last, meta, state.params)
    for step in range(first, last):
        batch = job.batches.place(step, job.program.mesh)
        state, _ = job.program.step(state, batch, job.hyper, *job.batches.resident)
    differing = _differences(state, expected, meta)
    steps = f'steps {first:,} to {last:,} replayed'
    arrays = sum(map(len, meta['arrays'].values()))
    if differing:
        others = f'; and {len(differing) - SHOWN} more' if len(differing) > SHOWN else ''
        raise UserError(
            f'{this.path}: {steps}: {len(differing)} of {arrays} arrays differ: '
            f'{"; ".join(differing[:SHOWN])}{others}{"".join(f" ({note})" for note in notes)}'
        )
    lines = [f'{steps}: {arrays} arrays equal to the bit', *notes]
    print('\n'.join(lines), flush=True)
    return lines


def _steps(run, first, last):
    """(first, last) of the steps to replay."""
    saved = run.steps()
    last = run.step(last)
    earlier = [step for step in saved if step < last]
    if first is None:
        first = earlier[-1] if earlier else 0
    if first and first not in earlier or first >= last:
        raise UserError(
            f'{run.path}: --from_step={first} must be 0 or a saved step before {last}; there are '
            f'{", ".join(map(str, saved))}'
        )
    if not first and run.config['fingerprint'].get('origin'):
        raise UserError(
            f'{run.path}: begins with the weights of another run: give --from_step, a saved step'
        )
    return first, last


def _check_config(run, first, last):
    """UserError naming the fields of config.json that differ from a checkpoint's config.

    If a start of training began at the first checkpoint, --allow_change may have changed fields
    there.
    """
    starts = {row['step'] for row in _starts(run, last)}
    for step in (step for step in run.steps() if first <= step <= last):
        saved = checkpoint.read_meta(run.checkpoints, step)['config']
        changed = {
            field: line
            for field, line in workdir.changed(saved, run.config).items()
            if not workdir.listed(field, workdir.SCORING)
        }
        if step == first and step in starts:
            run.check_checkpoint(step)
        elif changed:
            raise UserError(
                f'{run.path}: config.json is not what step {step:,} was trained with '
                f'({"; ".join(changed.values())})'
            )


def _config_of(run, tokens):
    """The pretraining config from which a run's config.json was made, but with these tokens."""
    config = ConfigDict(
        {name: value for name, value in run.config.items() if name not in ('kind', 'fingerprint')}
    )
    config.data.corpus = ''
    config.data.verify = True
    config.data.tokens = tokens or config.data.tokens
    config.init_from = config.init_step = None
    place = storage.path(config.data.tokens or run.path / 'tokens')
    if not (place / MANIFEST).exists():
        raise UserError(
            f'{place}: no prepared text there: give --tokens=DIR, where that of the run is'
        )
    return config


def _starts(run, last):
    """The starts of training before a step."""
    return [
        row
        for row in results.read(run.path / 'environment.jsonl', results.OF_A_START)
        if row['step'] < last
    ]


def _notes(run, first, last, meta, params):
    """Lines on the differences between the training of these steps and this process."""
    starts = _starts(run, last)
    of_these = [
        row for i, row in enumerate(starts) if i + 1 == len(starts) or starts[i + 1]['step'] > first
    ]
    codes = {row['code'] for row in of_these} - {provenance.code_digest()}
    notes = [
        f'trained with code {code}, replayed with {provenance.code_digest()}'
        for code in sorted(codes)
    ]
    if jax.default_backend() == 'gpu' and not _deterministic(meta['environment']):
        notes.append(
            'trained on a GPU without --deterministic, so that two runs need not be the same to '
            'the bit'
        )
    setup = provenance.departures(meta['environment'], provenance.environment(params))
    return notes + [
        f'another setup, whose results may differ by rounding: {", ".join(setup)}'
    ] * bool(setup)


def _deterministic(environment):
    """Whether training in this environment repeats to the bit on a GPU."""
    return set(processes.DETERMINISTIC.split()) <= set(str(environment.get('XLA_FLAGS')).split())


def _differences(state: TrainState, expected: TrainState, meta: dict[str, Any]) -> list[str]:
    """'params/embed/tokens by up to 0.01' for each array that differs from the checkpoint."""
    lines = []
    for item, recorded in meta['arrays'].items():
        ours = named_leaves(getattr(state, item))
        theirs = named_leaves(getattr(expected, item))
        for name, found in provenance.describe(getattr(state, item)).items():
            if found['digest'] != recorded[name]['digest']:
                by = np.abs(
                    np.subtract(*jax.device_get((ours[name], theirs[name])), dtype=np.float64)
                ).max()
                lines.append(f'{item}/{name} by up to {by:.3g}')
    return lines


def _define_flags():
    if sys.argv[1:] and not sys.argv[1].startswith('-'):
        sys.argv[1] = f'--certificate={sys.argv[1]}'
    flags.DEFINE_string('workdir', None, 'Directory of the pretraining run.')
    flags.DEFINE_string('certificate', None, 'A file of gpt1 ablate --certify.')
    flags.DEFINE_string('trials', '2', 'Of a certificate: how many are trained again, or all.')
    flags.DEFINE_string('corpus', None, 'Of a certificate: where its training text is here.')
    flags.DEFINE_string('valid', None, 'Of a certificate: where its validation text is here.')
    flags.DEFINE_multi_string(
        'unseen', None, 'Of a certificate: text of your own, on which its trials are scored too.'
    )
    flags.DEFINE_integer(
        'from_step',
        None,
        'A saved step, or 0; default the last one before --to_step.',
        lower_bound=0,
    )
    flags.DEFINE_integer('to_step', None, 'A saved step; default the latest.', lower_bound=1)
    flags.DEFINE_string(
        'tokens', None, 'Directory of the prepared text of the run; default that in config.json.'
    )


def _verify_certificate(f):
    if f.trials != 'all' and not (f.trials.isdecimal() and int(f.trials)):
        raise UserError(f'--trials={f.trials}: must be a number of at least 1, or all')
    several = None if f.trials == 'all' else int(f.trials)
    file = storage.path(f.certificate)
    lines = certificate.verify(file, several, f.trust_code, f.corpus, f.valid, f.unseen)
    print('\n'.join(lines), flush=True)


def main() -> None:
    f = flags.FLAGS
    if (f.workdir is None) == (f.certificate is None):
        raise UserError('give --workdir=DIR, a run, or FILE, a certificate')
    if f.certificate is not None:
        _verify_certificate(f)
        return
    # Set the XLA flags with which the run was trained, before anything touches a device.
    starts = results.read(storage.path(f.workdir) / 'environment.jsonl', results.OF_A_START)
    processes.start(deterministic=bool(starts) and _deterministic(starts[-1]['environment']))
    run(f.workdir, f.from_step, f.to_step, f.tokens)


if __name__ == '__main__':
    cli.run(main, _define_flags)
