"""A pretrained model scored without fine-tuning (Section 5, Zero-shot Behaviors), config:TASK.

gpt1 zero_shot --config=configs/zero_shot.py:cola --config.init_from=runs/gpt1 \\
    --config.data.dir=glue/CoLA

blimp (Warstadt et al., 2020) is not in the paper. gpt1_jax/evaluation/minimal_pairs.py describes
the scores, and which published convention each metric follows.
"""

from ml_collections import ConfigDict, config_dict

from gpt1_jax import rules

SPLIT = {'dpr': 'test', 'blimp': 'test'}  # these have no development split


def get_config(task='cola'):
    config = ConfigDict()
    # cola, sst2, race, dpr, blimp, word_order, or your multiple choice, FILE:NAME
    config.task = task
    config.data = ConfigDict()
    config.data.dir = ''  # directory of official or Parquet files, tfds:DIR or hf:USER/NAME
    config.data.split = SPLIT.get(task, 'dev')  # split that is scored
    # maximum number of rows of the split, always the same rows (default: all). It also limits the
    # training rows on which CoLA's threshold is chosen
    config.data.rows = config_dict.placeholder(int)
    config.data.skip_bad = False  # leave out and count rows that cannot be read or scored
    # blimp: JSON {set: [pairs]} of pairs to report also on their own
    config.data.filter = config_dict.placeholder(str)
    config.init_from = config_dict.placeholder(str)  # a pretrained run, novels or hf:USER/NAME
    config.step = config_dict.placeholder(int)  # one checkpoint (default: every saved checkpoint)
    config.tokens_per_batch = 4096  # scored at once
    # results.jsonl to append to (default: init_from's)
    config.results = config_dict.placeholder(str)
    return config


RULES = rules.of_defaults(
    get_config(),
    {
        'data.rows': rules.whole(1),
        'step': rules.whole(0),
        'tokens_per_batch': rules.whole(1, 2**24),
    },
)
