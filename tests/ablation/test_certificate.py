"""A certificate is replayed on another machine, and what was forged is named."""

import copy
import json
import pathlib
import random

import pytest
from gpt1_jax.configs import ablate

from experiments import records
from gpt1_jax import storage, user_code
from gpt1_jax.ablation import ablate as program
from gpt1_jax.ablation import certificate, ledger
from gpt1_jax.errors import UserError
from tiny import ROOT, corpus, pretrain_config

RECORDS = ROOT / 'experiments' / 'results' / 'records'


@pytest.fixture(scope='module')
def record():
    """The contents of a record's certificate."""
    return certificate.read(min(RECORDS.glob('*.certificate.json')))


# Forgeries, from careless to careful


def row_of(contents):
    (row,) = [row for row in contents['ledger'] if row['key'] == contents['confirmation']]
    return row


def chained(rows):
    """The rows with digests made anew, as a forger makes them."""
    before = ''
    for row in rows:
        row['before'] = before
        before = storage.json_digest(row)[:32]


def with_better_p(contents):
    row_of(contents)['p'] /= 10
    chained(contents['ledger'])


def with_better_loss(contents):
    # The curve still ends at the loss that was trained
    contents['trials'][0]['loss'] -= 0.1


def with_better_curve(contents):
    # The ledger still has the differences of the losses that were trained
    contents['trials'][0]['loss'] -= 0.1
    contents['trials'][0]['curve'][-1][1] -= 0.1


def without_a_line_and_chained(contents):
    contents['ledger'].insert(0, copy.deepcopy(contents['ledger'][0]))  # an earlier confirmation
    chained(contents['ledger'])


@pytest.mark.parametrize(
    'forge, message',
    [
        (with_better_p, 'p of the confirmation is '),
        (with_better_loss, 'its loss is not that of its curve'),
        (with_better_curve, 'differences of the confirmation is '),
        (without_a_line_and_chained, 'was trained after other lines than its ledger has'),
        (lambda contents: contents['trials'].pop(), 'of the confirmation is missing'),
        (lambda contents: contents.pop('rounding'), "its field 'rounding' is missing or damaged"),
        (lambda contents: contents.update(trials=[{}]), 'no certificate, or damaged .KeyError'),
        (lambda contents: contents.update(idea='other'), "lacks the confirmation of 'other'"),
    ],
    ids=lambda value: getattr(value, '__name__', ''),
)
def test_a_forgery_is_named_before_anything_is_trained(record, tmp_path, forge, message):
    contents = copy.deepcopy(record)
    forge(contents)
    file = tmp_path / 'forged.json'
    file.write_text(json.dumps(contents))
    with pytest.raises(UserError, match=f'forged.json: .*{message}'):
        certificate.verify(file, 2, True, None, None)


def test_a_record_agrees_with_its_rows_and_is_believed(record):
    row = certificate.recompute(record, pathlib.Path('record'))
    assert row['verdict'] == 'better' and row['key'] in ledger.believed(record['ledger'])


@pytest.fixture(scope='module')
def certified(tmp_path_factory):
    """The certificate of an idea in code, on a corpus of the user's."""
    base = tmp_path_factory.mktemp('certified')
    text = corpus(base / 'text')
    (base / 'mine.py').write_text('def gelu(x):\n    return 1.7 * x\n')
    config = ablate.get_config()
    config.pretrain = pretrain_config(
        text, train__steps=6, eval__every=3, checkpoint__every=6, log_every=2
    )
    config.pretrain.optimizer.peak_rate = 1e-5
    config.confirm_seeds = 2
    config.ideas = (f'code: model.ops.gelu={base}/mine.py:gelu optimizer.peak_rate=3e-3',)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_code, '_everything_trusted', True)
        program.run(config, base / 'out', confirm=True)
        config.ideas = ()
        program.run(config, base / 'out', certify='code')
    return base / 'out' / 'code.certificate.json', text


@pytest.mark.full
def test_all_trials_are_trained_again_to_the_bit_and_no_code_runs_unasked(certified, tmp_path):
    file, text = certified
    with pytest.raises(UserError, match='its code must run: read the field "code"'):
        certificate.verify(file, 2, False, None, None)
    lines = certificate.verify(file, None, True, None, None)
    assert lines[0].startswith("Claimed: 'code' changes the validation loss by -")
    assert len(lines) == 3 + 4 and all('equal to the bit' in line for line in lines[3:])
    other = corpus(tmp_path / 'unseen')
    assert 'On unseen text -' in certificate.verify(file, 2, True, None, None, [str(other)])[-1]
    moved = tmp_path / 'elsewhere'
    text.rename(moved)
    with pytest.raises(UserError, match='no such file'):
        certificate.verify(file, 1, True, None, None)
    assert 'Trained again' in certificate.verify(file, 1, True, str(moved), None)[-1]
    before = (moved / '00.txt').read_text()
    (moved / '00.txt').write_text('Another text. ' * 40)
    with pytest.raises(UserError, match='another (validation text|vocabulary) than is here'):
        certificate.verify(file, 1, True, str(moved), None)
    (moved / '00.txt').write_text(before)
    moved.rename(text)


def replayed(idea, bits, unseen):
    return {'idea': idea, 'bits_per_byte': bits, 'unseen': unseen}


def test_a_gain_that_is_only_on_the_validation_text_is_refused():
    baseline = replayed('baseline', 2.5, 2.6)
    honest = certificate.on_unseen([replayed('mine', 2.4, 2.53), baseline], 'FILE')
    assert honest == 'On unseen text -0.0700 bits a byte, on the validation text -0.1000.'
    with pytest.raises(
        UserError, match='FILE: most of the gain is not there on unseen text: -0.1000 .* -0.0400 '
    ):
        certificate.on_unseen([replayed('mine', 2.4, 2.56), baseline], 'FILE')
    with pytest.raises(UserError, match='--unseen compares .* --trials=2'):
        certificate.verify('FILE', 1, True, None, None, ['novels'])
    with pytest.raises(UserError, match='nowhere.txt: no such file'):
        certificate.verify('FILE', 2, True, None, None, ['nowhere.txt'])


@pytest.mark.full
def test_losses_that_agree_among_themselves_are_found_forged_by_training_again(certified, tmp_path):
    """A forger lowers the idea's losses, and makes verdict, ledger and chain anew."""
    contents = json.loads(certified[0].read_text())
    row = row_of(contents)
    by_key = {trial['key']: trial for trial in contents['trials']}
    for ours, _ in row['runs']:
        by_key[ours]['loss'] -= 0.2
        by_key[ours]['curve'][-1][1] -= 0.2
    pairs = [(by_key[ours], by_key[theirs]) for ours, theirs in row['runs']]
    row |= ledger.measured(pairs, row['least'], row['warning'])
    chained(contents['ledger'])
    for trial in contents['trials']:
        trial['ledger'] = storage.json_digest(contents['ledger'][0])[:32]
    file = tmp_path / 'forged.json'
    file.write_text(json.dumps(contents))
    certificate.recompute(certificate.read(file), file)
    with pytest.raises(UserError, match='code, seed .* in the certificate and .* here'):
        certificate.verify(file, None, True, None, None)


@pytest.mark.slow
def test_a_trial_of_a_record_is_replayed_at_random(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(user_code, '_everything_trusted', False)
    file = random.SystemRandom().choice(sorted(RECORDS.glob('*.certificate.json')))
    lines = certificate.verify(file, 1, True, None, None)
    assert lines[-1].startswith('Trained again: ')


def test_the_page_of_the_records_is_that_of_their_certificates():
    page = RECORDS.with_suffix('.md').read_text(encoding='utf-8')
    assert page.rstrip() == '\n'.join(records.lines()).rstrip()
