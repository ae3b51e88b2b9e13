"""Certificates: a confirmed idea in one file, with everything that another machine needs to train
its trials again and to compute its verdict.

A certificate has the configs and the code of the idea and its baseline, the digests of text and
vocabulary, the whole ledger with all confirmations of the search, and the trials of this
confirmation: losses at each evaluation and a digest of the weights. `gpt1 verify FILE` recomputes
interval and verdict from the rows, trains trials again, and says what agrees. It runs the code in
the file only with --trust_code.
"""

import hashlib
import pathlib
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gpt1_jax import perplexity, rules, storage, user_code
from gpt1_jax.ablation import ideas, ledger, text, trials
from gpt1_jax.ablation.ideas import BASELINE, Idea
from gpt1_jax.cli import config_file
from gpt1_jax.configs import pretrain
from gpt1_jax.data import corpus as corpus_lib
from gpt1_jax.errors import UserError, shown
from gpt1_jax.runs import provenance

FORMAT = 1
PLACE = 'CODE/'  # of the idea's files in the certificate's configs: CODE/SHA-256:NAME
FIELDS = {'format': int, 'idea': str, 'configs': dict, 'code': dict, 'text': dict, 'ledger': list}
FIELDS |= {'trials': list, 'versions': dict, 'device': str, 'rounding': float, 'confirmation': str}
FIELDS |= {'package': str}
# Differences of rounding grow in training: another order of sums may move a loss by so many times
# what it did in the one repeat that a certificate has
ROUNDING = 10
LEAST_ROUNDING = 1e-4  # nats


def write(
    out: pathlib.Path,
    row: dict,
    several: Mapping[str, Idea],
    rows: Sequence[dict],
    found: Mapping[str, dict],
) -> pathlib.Path:
    """Writes the certificate of a confirmation to OUT, and returns its path.

    row: of the confirmation. several: the idea and the baseline, as they were confirmed. rows: the
    ledger. found: rows of results.jsonl, by key. One trial of the baseline is trained once more
    with other rounding. UserError if the trials are not those of the present configs.
    """
    keys = [key for pair in row['runs'] for key in pair]
    for seed, (ours, theirs) in zip(row['seeds'], row['runs']):
        if (ours, theirs) != tuple(several[name].key(seed) for name in (row['idea'], BASELINE)):
            raise UserError(
                f'--certify={row["idea"]}: was confirmed with other settings or other code: give '
                'the flags of that command, such as --minutes'
            )
    code: dict[str, str] = {}
    contents = {
        'format': FORMAT,
        'idea': row['idea'],
        'confirmation': row['key'],
        'configs': {name: _packed(idea.config, code) for name, idea in several.items()},
        'code': code,
        'text': {name: _text(idea) for name, idea in several.items()},
        'ledger': list(rows),
        'trials': [found[key] for key in dict.fromkeys(keys)],
        'rounding': _rounding(several[BASELINE], row['seeds'][0], found[row['runs'][0][1]], out),
        'device': jax.devices()[0].device_kind,
        'versions': provenance.versions()['versions'],
        'package': provenance.code_digest(),
    }
    name = re.sub(r'\W+', '_', row['idea']).strip('_') or 'idea'
    path = out / f'{name}.certificate.json'
    storage.write_json(path, contents)
    return path


def _packed(config, code):
    """A config's fields. Files become CODE/SHA-256:NAME, and their contents go to `code`."""
    fields = rules.flatten(config)
    fields['data.tokens'] = ''
    for field, value in fields.items():
        if user_code.names_code(value) and value.rpartition(':')[0] not in user_code.LIBRARIES:
            file, _, name = value.rpartition(':')
            source = pathlib.Path(file).read_bytes()
            digest = hashlib.sha256(source).hexdigest()
            code[digest] = source.decode()
            fields[field] = f'{PLACE}{digest}:{name}'
    return fields


def _text(idea):
    return {
        'fingerprint': idea.manifest['fingerprint'],
        'overlap': text.overlap(idea),
        **text.describe(idea),
    }


def _rounding(idea, seed, trial, out):
    """By how much a loss moves if a trial adds up its sums in another order, in nats."""
    config = idea.config.copy_and_resolve_references()
    parts = 2 * config.batch.microbatches
    if config.batch.size % (parts * jax.device_count()) == 0:
        config.batch.microbatches = parts
    else:
        config.batch.loss_chunks += 2
    with tempfile.TemporaryDirectory(dir=out) as directory:
        place = pathlib.Path(directory) / 'trial'
        with trials.logged(place):
            again = trials.measure(idea._replace(config=config), seed, place)
    return max(abs(a[1] - b[1]) for a, b in zip(again['curve'], trial['curve']))


# Verify


def verify(
    file: pathlib.Path,
    several: int | None,
    trusted: bool,
    corpus: str | None,
    valid: str | None,
    unseen: Sequence[str] | None = None,
) -> list[str]:
    """Verifies a certificate, and returns the lines to print.

    several: how many trials are trained again, None for all. trusted: whether its code may run.
    corpus, valid: where the text is on this machine, by default as in the certificate. unseen: text
    on which the trials are scored too. UserError naming what was forged, what is missing, or what
    this machine found otherwise.
    """
    if unseen:  # said before anything is trained
        if several == 1:
            raise UserError('--unseen compares an idea with its baseline: give --trials=2 or more')
        corpus_lib.expand(unseen)
    contents = read(file)
    try:
        row = recompute(contents, file)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f'{file}: no certificate, or damaged ({shown(error)})') from None
    if contents['code'] and not trusted:
        raise UserError(
            f'{file}: its rows agree with its verdict ({row["verdict"]}), but to train again, its '
            'code must run: read the field "code", then give --trust_code'
        )
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        both = _unpacked(contents, place, corpus, valid, file)
        asked = [
            (name, seed, trial)
            for seed, pair in zip(row['seeds'], row['runs'])
            for name, key in zip((contents['idea'], BASELINE), pair)
            for trial in contents['trials']
            if trial['key'] == key
        ]
        if several is not None:
            # As many of the idea as of the baseline, or one more: a forger gains by the idea's
            asked = random.SystemRandom().sample(asked, len(asked))
            of_idea = [one for one in asked if one[0] != BASELINE]
            of_baseline = [one for one in asked if one[0] == BASELINE]
            asked = of_idea[: (several + 1) // 2] + of_baseline[: several // 2]
        replayed = [
            _replayed(both[name], seed, trial, contents, place, file, unseen)
            for name, seed, trial in asked
        ]
    lines = _paragraph(contents, row, replayed)
    return lines + ([on_unseen(replayed, file)] if unseen else [])


def read(file: pathlib.Path) -> dict[str, Any]:
    """Returns a certificate's contents. UserError for a damaged field."""
    contents = storage.read_json(file)
    for name, kind in FIELDS.items():
        if not isinstance(contents, dict) or not isinstance(contents.get(name), kind):
            raise UserError(f'{file}: its field {name!r} is missing or damaged: no certificate')
    if contents['format'] != FORMAT:
        raise UserError(f'{file}: format {contents["format"]}, this version reads {FORMAT}')
    for digest, source in contents['code'].items():
        if hashlib.sha256(str(source).encode()).hexdigest() != digest:
            raise UserError(f'{file}: code {digest[:12]} is other code than was confirmed')
    return contents


def recompute(contents: dict, file: pathlib.Path) -> dict:
    """Returns the ledger's row of the confirmation, after its chain, its trials and its verdict
    were computed again. UserError naming what does not agree."""
    rows = contents['ledger']
    heads = ledger.check(rows, f'{file}: ledger')
    wanted = contents['confirmation'], contents['idea']
    chosen = [row for row in rows if (row['key'], row.get('idea')) == wanted]
    if len(chosen) != 1 or chosen[0]['stage'] != 'confirm' or 'runs' not in chosen[0]:
        raise UserError(f'{file}: its ledger lacks the confirmation of {contents["idea"]!r}')
    (row,) = chosen
    by_key = {trial['key']: trial for trial in contents['trials']}
    missing = [key for pair in row['runs'] for key in pair if key not in by_key]
    if missing:
        raise UserError(f'{file}: trial {missing[0]} of the confirmation is missing')
    pairs = [(by_key[ours], by_key[theirs]) for ours, theirs in row['runs']]
    for pair in pairs:
        for trial in pair:
            if trial['ledger'] not in heads:
                raise UserError(
                    f'{file}: trial {trial["key"]} was trained after other lines than its ledger '
                    'has: confirmations are hidden'
                )
            if trial['loss'] != trial['curve'][-1][1]:
                raise UserError(f'{file}: trial {trial["key"]}: its loss is not that of its curve')
    again = ledger.measured(pairs, row['least'], row['warning'])
    for name in ('differences', 'nats', 'bits', 'p', 'verdict', 'seeds'):
        if again[name] != row[name]:
            raise UserError(
                f'{file}: {name} of the confirmation is {row[name]}, its trials give {again[name]}'
            )
    for name in (BASELINE, row['idea']):
        if not isinstance(contents['configs'].get(name), dict):
            raise UserError(f'{file}: has no config of {name}')
    return row


def _unpacked(contents, place, corpus, valid, file):
    """{name: Idea} of the idea and its baseline, with their code and text in `place`."""
    for digest, source in contents['code'].items():
        (place / f'{digest}.py').write_text(source)
    user_code.trust_everything()
    labels = {
        'digest': 'validation text',
        'tokenizer': 'vocabulary',
        'fingerprint': 'training text',
    }
    made = {}
    for name in (BASELINE, contents['idea']):
        given = {}
        for field, value in contents['configs'][name].items():
            if isinstance(value, str) and value.startswith(PLACE):
                digest, _, attribute = value.removeprefix(PLACE).rpartition(':')
                value = f'{place / digest}.py:{attribute}'
            given[field] = tuple(value) if isinstance(value, list) else value
        config = config_file.with_fields(pretrain.get_config(), given)
        if corpus and config.data.corpus == contents['configs'][BASELINE]['data.corpus']:
            config.data.corpus = corpus
        if valid:
            config.data.valid = valid
        with ideas.of_idea(name):
            made |= ideas.build(config, {name: {}}, place)
        ours = text.describe(made[name]) | {'fingerprint': made[name].manifest['fingerprint']}
        for what, label in labels.items():
            if ours[what] != contents['text'][name][what]:
                raise UserError(f'{file}: was made with another {label} than is here')
    return made


def _replayed(idea, seed, trial, contents, place, file, unseen):
    """The row of a trial that is trained again.

    Besides: difference, the largest of a loss, in nats; equal, whether the weights agree to the
    bit; unseen, bits a byte of another text.
    """
    directory = place / 'runs' / trial['key']
    name = f'{idea.name}, seed {seed}'
    print(f'training {name}, again', flush=True)
    bits = None
    with trials.logged(directory):
        again = trials.measure(idea, seed, directory)
        if unseen:
            bits = perplexity.evaluate(str(directory), unseen)['bits_per_byte']
    if [point[0] for point in again['curve']] != [point[0] for point in trial['curve']]:
        raise UserError(f'{file}: {name}: its curve is at other updates')
    difference = max(abs(a[1] - b[1]) for a, b in zip(again['curve'], trial['curve']))
    same_place = (
        contents['device'] == jax.devices()[0].device_kind
        and contents['versions'] == provenance.versions()['versions']
        and contents['package'] == provenance.code_digest()
    )
    allowed = 0.0 if same_place else max(LEAST_ROUNDING, ROUNDING * contents['rounding'])
    if difference > allowed:
        raise UserError(
            f'{file}: {name}: the loss is {trial["loss"]:.6f} in the certificate and '
            f'{again["loss"]:.6f} here: they differ by {difference:.2g}, rounding explains '
            f'{allowed:.2g}'
        )
    equal = again['weights'] == trial['weights']
    return again | {'difference': difference, 'equal': equal, 'unseen': bits}


def on_unseen(replayed: Sequence[dict], file: pathlib.Path) -> str:
    """Returns a line on the gain on text that the idea's code cannot have learned by heart.

    replayed: trials that were trained again, of the idea and of the baseline. The referee sees
    whether a model looks ahead, but not whether it knows the validation text. UserError if less
    than half of the gain on the validation text is there.
    """

    def difference(field):
        ours = [one[field] for one in replayed if one['idea'] != BASELINE]
        theirs = [one[field] for one in replayed if one['idea'] == BASELINE]
        return float(np.mean(ours) - np.mean(theirs))

    own = difference('bits_per_byte')
    other = difference('unseen')
    if own < 0 and other > own / 2:
        raise UserError(
            f'{file}: most of the gain is not there on unseen text: {own:+.4f} bits a byte on the '
            f'validation text, {other:+.4f} on the unseen text. Its code may know the validation '
            'text'
        )
    return f'On unseen text {other:+.4f} bits a byte, on the validation text {own:+.4f}.'


def _paragraph(contents, row, replayed):
    """What was claimed, what was done again, and what agrees."""
    rows = contents['ledger']
    tests = ledger.tests(rows)
    level = next(level for _, level, one in tests if one is not None and one['key'] == row['key'])
    believed = row['p'] is not None and row['p'] <= level
    middle, low, high = row['nats'] or row['bits']
    unit = 'nats a token' if row['nats'] else 'bits a byte'
    others = len(tests) - 1
    words = [
        f'Claimed: {row["idea"]!r} changes the validation loss by {middle:+.4f} {unit} '
        f'({low:+.4f} to {high:+.4f}), {row["verdict"]}, with {len(row["seeds"])} seeds of '
        f'{row["updates"]:,} updates.',
        f'Its search has begun {others} other confirmation(s): p is {row["p"]:.2g}, its level '
        f'{level:.2g}, so it is {"" if believed else "not "}believed.',
        'The interval, the verdict and the level follow from the rows.',
    ]
    for one in replayed:
        found = (
            'equal to the bit'
            if one['equal']
            else f'losses agree within {one["difference"]:.1g} nats'
        )
        words.append(
            f'Trained again: {one["idea"]}, seed {one["seed"]}: {found}, causal within '
            f'{one["examined"]:.0e}.'
        )
    return words
