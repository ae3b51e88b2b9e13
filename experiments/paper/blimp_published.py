"""The published BLiMP accuracies, in percent, to compare with ours.

Protocols differ: see gpt1_jax/evaluation/minimal_pairs.py.
"""

from typing import NamedTuple


class Published(NamedTuple):
    """A model's figures for all 67 sets of 1,000 pairs.

    text: its training text. sets: the mean of the sets.
    """

    name: str
    text: str
    sets: float


# Warstadt et al. 2020, in the corrected table of the BLiMP repository (there a tie is wrong).
PAPER = (
    Published('5-gram', '3.07B words', 61.2),
    Published('LSTM', '83M words', 69.8),
    Published('Transformer-XL', '103M words', 69.6),
    Published('GPT-2 large', '40 GB', 83.0),
    Published('human', '', 88.6),
)
BY_PHENOMENON = {  # the same table: LSTM, Transformer-XL
    'anaphor_agreement': (91.7, 94.1),
    'argument_structure': (73.2, 72.2),
    'binding': (73.5, 74.7),
    'control_raising': (67.0, 71.5),
    'determiner_noun_agreement': (85.4, 83.0),
    'ellipsis': (67.6, 77.2),
    'filler_gap_dependency': (73.9, 66.6),
    'irregular_forms': (89.1, 78.2),
    'island_effects': (46.6, 48.3),
    'npi_licensing': (51.7, 55.2),
    'quantifiers': (64.5, 69.3),
    'subject_verb_agreement': (80.1, 76.0),
}
# Small Llama decoders on BabyLM text (ADA-research/lm-efficiency-analysis; three seeds, standard
# deviation 1).
DECODER = 'decoder of 21M, published'
# Tokens read, accuracy
DECODER_POINTS = ((25e6, 63.1), (50e6, 65.9), (100e6, 68.1), (250e6, 70.0), (1e9, 70.8))
# Scorers that know no grammar. A tie counts half.
CONTROLS = (
    Published('constant', '', 50.0),
    Published('fewer words', '', 51.0),
    Published('word frequency', '', 56.5),
)
