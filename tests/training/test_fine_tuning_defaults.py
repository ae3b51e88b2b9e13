"""The rule of fine-tuning's rate, epochs and lengths where the config leaves them open."""
import pytest

from gpt1_jax.training import fine_tuning_defaults as defaults
from tiny import load_config

# Training rows of the paper's twelve sets as published; Story Cloze's as the released code splits them.
PUBLISHED = {'mnli': 392702, 'snli': 549367, 'scitail': 23596, 'qnli': 104743, 'rte': 2490, 'race': 87866,
             'story_cloze': 1497, 'cola': 8551, 'sst2': 67349, 'mrpc': 3668, 'stsb': 5749, 'qqp': 363846}


def test_the_papers_sets_have_three_epochs_and_few_rows_are_read_until_there_are_a_hundred_updates():
    size = load_config('finetune').batch.size
    assert {task: defaults.epochs(rows // size) for task, rows in PUBLISHED.items()} == dict.fromkeys(PUBLISHED, 3)
    assert [defaults.epochs(steps) for steps in (1, 6, 33, 34)] == [100, 17, 4, 3]


def test_the_rate_is_the_papers_at_its_width_and_rises_to_a_thousandth_at_smaller_ones():
    assert defaults.peak_rate(768) == defaults.peak_rate(2048) == 6.25e-5  # 2,048: the LSTM of Table 5
    assert defaults.peak_rate(384) == pytest.approx(2.5e-4)
    assert [defaults.peak_rate(width) for width in (128, 32)] == [1e-3, 1e-3]


def test_the_papers_sets_but_rte_and_story_cloze_are_padded_to_twelve_lengths():
    size = load_config('finetune').batch.size
    updates = {task: rows // size * defaults.epochs(rows // size) for task, rows in PUBLISHED.items()}
    fewer = {'rte': 6, 'story_cloze': 6}
    assert {task: defaults.lengths(n) for task, n in updates.items()} == dict.fromkeys(PUBLISHED, 12) | fewer
