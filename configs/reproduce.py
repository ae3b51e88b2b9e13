"""The paper's experiments in stages (`python -m experiments.reproduce`), at the paper's size.

small_cpu.py, overnight_cpu.py and one_gpu.py are the same experiments at sizes that one machine can
do.
"""

from gpt1_jax.configs import experiments, pretrain
from ml_collections import ConfigDict, config_dict

LARGE = ('mnli', 'qnli', 'qqp', 'snli', 'sst2', 'scitail')  # with config.seeds
GLUE = ('cola', 'sst2', 'mrpc', 'stsb', 'qqp', 'mnli', 'qnli', 'rte')  # the columns of Table 5
ROWS = ('full', 'no_pretraining', 'no_aux')
BASELINES = (
    'constant',
    'overlap',
    'words',
    'probe',
    'random',
    'joined',
    'likelihood',
    'likelihood_random',
)


def get_config():
    config = experiments.get_config()
    # 'pretrain' and 'pretrain_lstm' are the two models.
    config.stages = (  # the order in which time is spent: the most telling first
        'pretrain',
        'zero_shot',
        'small',
        'large',
        'layers',
        'race',
        'pretrain_lstm',
        'zero_shot_lstm',
        'lstm',
        'grid',
        'baselines',
    )
    # The runs of the other stages: each task under each condition, with all of its seeds.
    # Conditions full, no_pretraining, no_aux and lstm are the rows of Table 5. layers stands for
    # the numbers of config.layers, grid for the settings of config.grid, with and without
    # pretraining. zero_shot and zero_shot_lstm score every saved update, without fine-tuning.
    # experiments.baselines computes BASELINES for each task.
    config.runs = ConfigDict(
        {
            'zero_shot': {'tasks': config.zero_shot_tasks, 'conditions': ('zero_shot',)},
            'small': {'tasks': experiments.SMALL, 'conditions': ROWS},
            'large': {'tasks': LARGE, 'conditions': ROWS},
            'layers': {'tasks': config.layer_tasks, 'conditions': ('layers',)},
            'race': {'tasks': ('race',), 'conditions': ROWS},
            'zero_shot_lstm': {'tasks': config.zero_shot_tasks, 'conditions': ('zero_shot_lstm',)},
            'lstm': {'tasks': GLUE, 'conditions': ('lstm',)},
            'grid': {'tasks': GLUE, 'conditions': ('grid',)},
            'baselines': {'tasks': (*experiments.SMALL, *LARGE, 'race'), 'conditions': BASELINES},
        }
    )

    # maximum number of training books, evenly spaced by name (default: all)
    config.books = config_dict.placeholder(int)
    config.valid_books = config_dict.placeholder(int)  # the same for the validation books

    # deadline of a command, after prepare: no run is started later (default: none)
    config.minutes = config_dict.placeholder(float)
    config.limits = ConfigDict()  # {stage: minutes}: the same for a stage; pretraining is stopped
    # checkpoints scored zero-shot, evenly spaced on a log scale, if
    # config.pretrain.checkpoint.keep_steps names none
    config.saved = 12

    config.pretrain = pretrain.get_config()  # the Transformer
    config.lstm_differs = ConfigDict(
        {  # the LSTM of Table 5: overrides of config.pretrain
            'model': {'kind': 'lstm', 'n_units': 2048, 'unroll': 8}
        }
    )
    return config
