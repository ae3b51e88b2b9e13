"""What several tests of the data share."""
import warnings

import pytest


@pytest.fixture(autouse=True)
def partial_sets_are_fine():
    """No warning that a set of a few made-up rows is smaller than the published one."""
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', '.*the published set has')
        yield
