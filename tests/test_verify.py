"""gpt1 verify replays training, and names the differences if a run was changed."""

import json
import pathlib
import shutil
from unittest import mock

import jax
import pytest

import released
from gpt1_jax import pretraining, verify
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import processes, sharding
from gpt1_jax.runs import checkpoint, provenance, results
from gpt1_jax.weights import hugging_face
from saved import flip
from tiny import override, pretrain_config


@pytest.fixture
def run(pretrained, tmp_path):
    return shutil.copytree(pretrained, tmp_path / 'run')


def arrays_of(run, step):
    return sum(
        len(arrays) for arrays in checkpoint.read_meta(run / 'checkpoints', step)['arrays'].values()
    )


def test_a_run_is_verified_between_its_last_two_checkpoints_or_those_that_are_named(run, capsys):
    n = arrays_of(run, 4)
    assert n > 30
    assert verify.run(run) == [f'steps 2 to 4 replayed: {n} arrays equal to the bit']
    assert 'equal to the bit' in capsys.readouterr().out
    assert verify.run(run, 0, 2) == [f'steps 0 to 2 replayed: {n} arrays equal to the bit']
    with pytest.raises(UserError, match='--from_step=1 must be 0 or a saved step before 4; there'):
        verify.run(run, 1, 4)


def test_one_weight_that_was_changed_and_saved_anew_is_named(run):
    """Its digests are sound: only training again shows that no training ended there."""
    directory = run / 'checkpoints'
    config = pretrain_config('', data__tokens=str(run / 'tokens'), train__steps=4)
    model = backbone(json.loads((run / 'config.json').read_text())['model'])
    abstract = pretraining.make_program(config, model, sharding.make_mesh()).state
    meta = checkpoint.read_meta(directory, 4)
    state = checkpoint.restore(directory, 4, abstract)
    layer = state.params['blocks']['mlp']['fc']
    kernel = layer['kernel']
    layer['kernel'] = jax.device_put(kernel.at[0, 3, 5].add(0.25), kernel.sharding)
    shutil.rmtree(directory / '4')
    writer = checkpoint.Writer(directory, 3)
    writer.save(state, {name: meta[name] for name in ('config', 'total')}, meta['quality'])
    writer.close()
    changed = f'1 of {arrays_of(run, 4)} arrays differ: params/blocks/mlp/fc/kernel by up to 0.25$'
    with pytest.raises(UserError, match=f'steps 2 to 4 replayed: {changed}'):
        verify.run(run)


@pytest.mark.parametrize(
    'pattern, message',
    [('checkpoints/4/params/**/*', '4.* params'), ('tokens/train/*.bin', '00000.bin')],
)
def test_a_damaged_weight_or_token_is_named(run, pattern, message):
    flip(max(filter(pathlib.Path.is_file, run.glob(pattern)), key=lambda file: file.stat().st_size))
    with pytest.raises(UserError, match=message):
        verify.run(run)


@pytest.mark.parametrize(
    'field, value', [('optimizer.peak_rate', 0.02), ('model.embd_dropout', 0.2)]
)
def test_a_changed_field_of_the_config_is_named(run, field, value):
    file = run / 'config.json'
    config = json.loads(file.read_text())
    file.write_text(json.dumps(override(config, {field.replace('.', '__'): value})))
    with pytest.raises(UserError, match=rf'{field}: .* -> {value}'):
        verify.run(run)


def test_another_version_of_the_code_is_noted(run, monkeypatch):
    recorded = provenance.code_digest()
    monkeypatch.setattr(provenance, 'code_digest', lambda: 'other')
    assert verify.run(run)[1:] == [f'trained with code {recorded}, replayed with other']


@pytest.mark.full
@pytest.mark.parametrize('flags', ['', processes.DETERMINISTIC], ids=['as usual', 'deterministic'])
def test_a_run_is_replayed_with_its_own_determinism_and_on_a_gpu_the_lack_of_it_is_noted(
    run, flags, monkeypatch
):
    file = run / 'environment.jsonl'
    (row,) = results.read(file)
    row['environment']['XLA_FLAGS'] = ' '.join(sorted(flags.split()))
    file.write_text(json.dumps(row) + '\n')
    given = dict(workdir=str(run), certificate=None, from_step=None, to_step=None, tokens=None)
    monkeypatch.setattr(verify, 'flags', mock.Mock(FLAGS=mock.Mock(**given)))
    start = mock.Mock()
    monkeypatch.setattr(processes, 'start', start)
    verify.main()
    start.assert_called_once_with(deterministic=bool(flags))
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    read = checkpoint.read_meta

    def recorded(*place):
        meta = read(*place)
        return meta | {'environment': meta['environment'] | {'XLA_FLAGS': flags}}

    monkeypatch.setattr(checkpoint, 'read_meta', recorded)
    noted = 'trained on a GPU without --deterministic'
    assert any(line.startswith(noted) for line in verify.run(run)) == (not flags)


@pytest.mark.full
def test_a_run_that_went_on_with_another_length_is_replayed_from_where_it_did(run):
    config = pretrain_config(
        '', model__n_layer=3, model__n_ctx=64, checkpoint__every=2, train__steps=6
    )
    pretraining.run(config, run, allow_change=True)
    assert verify.run(run)[0].startswith('steps 4 to 6 replayed')
    with pytest.raises(UserError, match=r'step 2 was trained with .train.steps: 4 -> 6.$'):
        verify.run(run, 2, 6)


def test_a_run_whose_text_was_moved_is_verified_by_naming_it(run, tmp_path):
    (run / 'tokens').rename(tmp_path / 'moved')
    with pytest.raises(UserError, match='run/tokens: no prepared text there: give --tokens=DIR'):
        verify.run(run)
    assert verify.run(run, tokens=str(tmp_path / 'moved'))[0].startswith('steps 2 to 4 replayed')


def test_weights_that_were_not_trained_here_are_not_verified(tmp_path):
    released.write(tmp_path / 'files')
    hugging_face.convert(tmp_path / 'files', tmp_path / 'run')
    with pytest.raises(
        UserError, match='run: weights that were imported: nothing was trained here$'
    ):
        verify.run(tmp_path / 'run')
