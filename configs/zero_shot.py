"""Section 5, Zero-shot Behaviors: a pretrained model scored without fine-tuning, config:TASK.

python -m gpt1_jax.zero_shot --config=configs/zero_shot.py:cola --config.init_from=runs/gpt1 --config.data.dir=glue/CoLA
"""
from ml_collections import ConfigDict, config_dict


def get_config(task='cola'):
    config = ConfigDict()
    config.task = task                     # cola, sst2, acceptability
    config.data = ConfigDict()
    config.data.dir = ''                   # directory of the official files
    config.data.split = 'dev'              # split that is scored
    config.init_from = config_dict.placeholder(str)   # a pretrained run's directory
    config.step = config_dict.placeholder(int)        # one checkpoint; default every saved one
    config.tokens_per_batch = 4096         # scored at once
    config.results = config_dict.placeholder(str)     # results.jsonl to append to; default that of init_from
    return config
