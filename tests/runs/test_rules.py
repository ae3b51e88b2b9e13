"""The rules for the values of a config's fields."""

import numpy as np
import pytest
from gpt1_jax.configs import finetune

from experiments.lib import run_list
from gpt1_jax import finetuning, pretraining, rules, zero_shot
from gpt1_jax.errors import UserError
from tiny import load_config


@pytest.mark.parametrize(
    'rule, good, bad',
    [
        (rules.whole(1, 5), 5, 6),
        (rules.whole(0), 1, np.int64(1)),
        (rules.integer(0), np.uint8(1), True),
        (rules.between(0, 1), 0.5, float('nan')),
        (rules.positive(), 0.1, 0),
        (rules.number(), 0, float('inf')),
        (rules.text(), '', 1),
        (rules.flag(), False, 0),
        (rules.several(rules.whole(1)), (1, 2), (1, 0)),
        (rules.optional(rules.whole(1)), None, 0),
    ],
)
def test_a_rule_refuses_what_it_says(rule, good, bad):
    accepts, _ = rule
    assert accepts(good) and rules.problem('x', bad, (accepts, ''))


def test_a_span_is_two_steps():
    assert rules.span('3:5') == (3, 5) and rules.span('') is None
    with pytest.raises(ValueError):
        rules.span('5:3')


def test_what_is_missing_and_what_is_wrong_is_one_line():
    config = load_config('pretrain')
    del config['seed']
    config.batch.size = 0
    with pytest.raises(
        UserError, match='^config has no seed; config.batch.size is 0, must be a whole number'
    ):
        rules.validate(config, pretraining.RULES)
    with pytest.raises(UserError, match=r'^config has no data.rows, data.text.field$'):
        rules.validate(
            {'data': [1]}, {'data.rows': rules.whole(1), 'data.text.field': rules.text()}
        )


@pytest.mark.parametrize(
    'name, arguments, module',
    [
        ('pretrain', (), pretraining),
        ('finetune', ('cola',), finetuning),
        ('zero_shot', ('cola',), zero_shot),
        ('experiments', (), run_list),
    ],
)
def test_every_field_of_a_config_has_a_rule(name, arguments, module):
    fields = rules.flatten(load_config(name, *arguments).to_dict())
    assert not [
        field
        for field in fields
        if not any(field == rule or field.startswith(f'{rule}.') for rule in module.RULES)
    ]


def test_every_rule_is_of_a_field():
    fields = {*rules.flatten(load_config('pretrain')), *rules.flatten(load_config('custom'))}
    fields |= {field[: field.rfind('.') + 1] for field in fields}
    written = finetune.FREE | finetune.SCORING | finetune.FIXED | finetune.CHANGEABLE
    assert written.keys() - fields == {'kind', 'labels', 'lengths', 'fingerprint.'}
