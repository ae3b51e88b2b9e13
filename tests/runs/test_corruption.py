"""Each file of a real checkpoint is damaged in turn. The error names the file, or the saved arrays
are restored to the bit.

python -m pytest -m slow tests/runs/test_corruption.py -s    # the corruption run; prints its counts
"""

import collections
import gc
import random
import shutil

import numpy as np
import pytest
from ml_collections import ConfigDict

from gpt1_jax import pretraining
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import checkpoint, workdir
from saved import leaves, same

pytestmark = pytest.mark.full

STEP = 4


@pytest.fixture(scope='module')
def real(pretrained):
    """(checkpoints of a pretraining at steps 2 and 4, target to restore into, what restores at 4:
    arrays, meta)."""
    run = workdir.load(pretrained)
    program = pretraining.make_program(
        ConfigDict(run.config), backbone(run.config['model']), sharding.make_mesh()
    )
    state = checkpoint.restore(run.checkpoints, STEP, program.state)
    return (
        run.checkpoints,
        program.state,
        leaves((state.params, state.opt_state)),
        checkpoint.read_meta(run.checkpoints, STEP),
    )


def damages(data, flips, rng):
    """(name, damaged bytes or None for removed) of a file's bytes: cut short, gone, and `flips` of
    its bits, one at a time, at places spread evenly; and eight bytes in a row."""
    yield 'removed', None
    for length in {0, len(data) // 2, len(data) - 1} - {len(data)}:
        yield f'cut to {length} of {len(data)} bytes', data[:length]
    for place in {*np.linspace(0, len(data) - 1, flips if data else 0).astype(int).tolist()}:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        yield f'a bit of byte {place} flipped', bytes(flipped)
    middle = len(data) // 2
    inverted = bytes(b ^ 255 for b in data[middle : middle + 8])
    yield 'eight bytes inverted', data[:middle] + inverted + data[middle + 8 :]


def outcome(real, directory, blamed):
    """'named' or 'identical', of checkpoints whose step 4 has a damaged file; fails where it is
    neither.

    blamed: a text in the error, in addition to the step and the other steps.
    """
    _, like, expected, meta = real
    try:
        state = checkpoint.restore(directory, STEP, like)
    except checkpoint.DamagedError as error:
        text = str(error)
        assert '\n' not in text and len(text) < 2000 and blamed in text, text
        assert text.startswith(f'{directory / str(STEP)}: ') and text.endswith(
            'other steps there: 2'
        ), text
        found = 'named'
    else:
        assert int(state.step) == STEP and same(state, expected)
        assert checkpoint.read_meta(directory, STEP) == meta
        found = 'identical'
    # A run can be started again beside it, whatever is damaged
    checkpoint.Writer(directory).close()
    assert checkpoint.steps(directory) == [2, STEP]
    return found


@pytest.mark.parametrize(
    'few', [True, pytest.param(False, marks=pytest.mark.slow)], ids=['a few', 'every file']
)
def test_damaged_files_are_named_or_restore_to_the_bit(real, tmp_path, few):
    """Each damage is in a fresh copy: TensorStore keeps the files that it has read in memory, by
    path."""
    step = real[0] / str(STEP)
    rng = random.Random(0)
    counts = collections.Counter()
    files = sorted(path for path in step.rglob('*') if path.is_file())
    assert len(files) > 15
    if few:
        arrays = max((step / 'params').rglob('d/*'), key=lambda p: p.stat().st_size)
        files = [step / 'meta' / 'data.json', arrays, step / 'opt_state' / 'manifest.ocdbt']
    for path in files:
        name = path.relative_to(step)
        for what, data in damages(path.read_bytes(), 2 if few else 24, rng):
            copy = shutil.copytree(real[0], tmp_path / f'{name.parts[0]}-{counts.total()}')
            victim = copy / str(STEP) / name
            victim.unlink() if data is None else victim.write_bytes(data)
            try:
                counts[outcome(real, copy, name.parts[0])] += 1
            except BaseException as error:
                error.add_note(f'{name}: {what}')
                raise
            shutil.rmtree(copy)
    print(f'\ncorruption run: {len(files)} files, {dict(counts)}, 0 wrong values')
    if few:
        assert counts['named'] > 3 * len(files)
    else:
        assert min(counts['named'], counts['identical']) > len(files)


def test_a_file_of_an_array_that_is_gone_is_named_and_no_other_array_s_error_is_printed(
    real, tmp_path, capfd
):
    copy = shutil.copytree(real[0], tmp_path / 'copy')
    for file in (copy / str(STEP) / 'params').rglob('d/*'):
        file.unlink()
    assert outcome(real, copy, f'local file "{copy}/{STEP}/params/d/') == 'named'
    gc.collect()  # when asyncio tells of exceptions that nobody asked for
    assert capfd.readouterr().err == ''
