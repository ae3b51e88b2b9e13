import pytest

from gpt1_jax.errors import UserError
from gpt1_jax.training import optimizer_config


@pytest.mark.parametrize('schedule, steps', [('stable_decay', 0), ('cosine', 10)])
def test_decay_steps_belong_to_stable_decay_alone(schedule, steps):
    values = {
        'kind': 'adam',
        'b1': 0.9,
        'b2': 0.999,
        'eps': 1e-8,
        'weight_decay': 0.01,
        'clip': 1,
        'schedule': schedule,
    }
    with pytest.raises(UserError, match='decay_steps'):
        optimizer_config.check(values | {'decay_steps': steps}, None)
    optimizer_config.check(values | {'decay_steps': 10 - steps}, None)
