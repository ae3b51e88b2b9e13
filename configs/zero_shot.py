"""Section 5, Zero-shot Behaviors: a pretrained model scored without fine-tuning, config:TASK.

gpt1 zero_shot --config=configs/zero_shot.py:cola --config.init_from=runs/gpt1 \\
    --config.data.dir=glue/CoLA

blimp (Warstadt et al., 2020) is not in the paper. What is scored, and which of the published
conventions each metric follows, is in gpt1_jax/evaluation/minimal_pairs.py.
"""

from ml_collections import ConfigDict, config_dict

from gpt1_jax import rules

SPLIT = {'dpr': 'test', 'blimp': 'test'}  # these have no development split


def get_config(task='cola'):
    config = ConfigDict()
    config.task = task  # cola, sst2, race, dpr, blimp, continuation, word_order
    config.data = ConfigDict()
    config.data.dir = ''  # directory of official or Parquet files; tfds:DIR; hf:USER/NAME
    config.data.split = SPLIT.get(task, 'dev')  # split that is scored
    # rows of the split, at most, always the same; default all. Of the training rows too, on which
    # CoLA's threshold is chosen
    config.data.rows = config_dict.placeholder(int)
    config.data.skip_bad = False  # leave rows out that cannot be read or scored, and say how many
    # blimp: JSON {set: [pairs]}, reported beside all pairs
    config.data.filter = config_dict.placeholder(str)
    config.init_from = config_dict.placeholder(str)  # a pretrained run, novels or hf:USER/NAME
    config.step = config_dict.placeholder(int)  # one checkpoint; default every saved one
    config.tokens_per_batch = 4096  # scored at once
    # results.jsonl to append to; default that of init_from
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
