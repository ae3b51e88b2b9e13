"""The list of faults in mutations.py is current: run `python tests/mutations.py` to see that each
is noticed."""

import re

import pytest
from mutations import MUTATIONS, ROOT


@pytest.mark.parametrize('mutation', MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_can_be_put_in_and_has_a_test(mutation):
    source = (ROOT / 'gpt1_jax' / mutation.file).read_text()
    assert source.count(mutation.old) == 1, f'{mutation.old!r} must occur once in {mutation.file}'
    assert mutation.old != mutation.new
    file, _, test = mutation.test.partition('::')
    assert re.search(
        rf'^def {re.escape(test)}\(', (ROOT / 'tests' / file).read_text(), re.MULTILINE
    ), mutation.test


def test_there_are_sixty_and_every_folder_has_some():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 60
    folders = {mutation.file.partition('/')[0] for mutation in MUTATIONS}
    assert folders >= {
        'models',
        'training',
        'data',
        'evaluation',
        'metrics',
        'runs',
        'parallel',
        'weights',
    }


def test_no_two_test_files_have_one_name():
    """pytest would stop at the second."""
    names = [file.name for file in (ROOT / 'tests').rglob('test_*.py')]
    assert len(set(names)) == len(names)
