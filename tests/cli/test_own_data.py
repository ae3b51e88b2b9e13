"""The flags --data, --text and --label: the fields of configs/custom.py that they stand for."""

import types

import pytest

from gpt1_jax.cli import own_data
from refusal import refusal
from tiny import load_config

GIVEN = dict(data=None, text=[], label=None, choices=[], score=[], init_from=None, encoding=None)


def config_of(monkeypatch, fields=None, config='custom', **given):
    monkeypatch.setattr(own_data.flags, 'FLAGS', types.SimpleNamespace(**GIVEN | given))
    config = load_config(*config.split(':'))
    config.update_from_flattened_dict(fields or {})
    return own_data.filled(config)


def test_a_flag_is_the_field_of_its_name(monkeypatch):
    given = dict(data='a.csv', text=['a', 'b'], label='y', score=['0', '4'], init_from='novels')
    fields = {'lm_weight': 0.0, 'custom.encoding': 'cp1252', 'custom.label': 'x'}
    config = config_of(monkeypatch, fields, **given)
    assert (config.init_from, config.lm_weight) == ('novels', 0)
    assert config.custom.to_dict() == {
        'data': 'a.csv',
        'text': ('a', 'b'),
        'label': 'y',
        'choices': (),
        'score': (0, 4),
        'encoding': 'cp1252',
    }


@pytest.mark.parametrize(
    'fields, given, message',
    [
        ({}, dict(data=None, label='topic'), '--label goes with --data=FILE'),
        (
            {},
            dict(score=['low', 'high']),
            "score is ['low', 'high'], must be LOW,HIGH, two numbers",
        ),
        ({}, dict(config='finetune:cola'), '--data=FILE describes a task of your own, --config ha'),
    ],
)
def test_flags_that_do_not_fit_are_one_line(monkeypatch, fields, given, message):
    given = dict(data='a.csv', label='y') | given
    assert message in refusal(config_of, monkeypatch, fields, **given)
