"""Tables 2 to 5, Figure 2 and the claims (Sections 4 and 5), at the paper's size.

python -m experiments.tables --config=configs/experiments.py --config.pretrained=runs/gpt1 \\
    --config.lstm=runs/lstm --config.data=DATA --config.out=runs/paper
"""

from gpt1_jax.configs import finetune
from ml_collections import ConfigDict, config_dict

# The sets with seeds_small: their few rows mean a wide spread over seeds. (The paper's figure for
# Story Cloze is from one run. The authors' README gives the median of ten runs, 0.7 lower.)
SMALL = ('cola', 'mrpc', 'stsb', 'rte', 'story_cloze', 'wnli')
GLUE = ('cola', 'sst2', 'mrpc', 'stsb', 'qqp', 'mnli', 'qnli', 'rte', 'wnli')


def get_config():
    config = ConfigDict()
    # the pretrained run that everything starts from, or novels, hf:USER/NAME
    config.pretrained = ''
    # directory of the pretrained LSTM (without it the LSTM's rows are n/a)
    config.lstm = config_dict.placeholder(str)
    # directory of tables, figures, results.jsonl and the runs' directories
    config.out = 'runs/experiments'
    # results.jsonl to read and append to (default: OUT/results.jsonl)
    config.results = config_dict.placeholder(str)
    config.keep_checkpoints = False  # keep the weights of finished fine-tuning runs
    config.any_version = False  # also take rows that another version of the code made
    config.processes = 0  # runs at a time, in a process each (0: in turn, in one process)
    # with processes: end a run that takes longer, as failed
    config.run_minutes = config_dict.placeholder(float)
    config.start = True  # do the runs that results.jsonl lacks (False: they are n/a)

    # directory that holds the data sets. 'tfds:' or 'tfds:DATA_DIR' reads prepared TFDS data,
    # 'parquet:DIR' or 'hf:USER/NAME' Parquet files, and each stands for the whole path. A missing
    # set is n/a.
    config.data = ''
    config.directories = ConfigDict(
        {  # subdirectory of config.data with each set
            'cola': 'CoLA',
            'sst2': 'SST-2',
            'mrpc': 'MRPC',
            'stsb': 'STS-B',
            'qqp': 'QQP',
            'mnli': 'MNLI',
            'qnli': 'QNLI',
            'rte': 'RTE',
            'wnli': 'WNLI',
            'snli': 'SNLI',
            'scitail': 'SciTail',
            'race': 'RACE',
            'story_cloze': 'StoryCloze',
            'dpr': 'DPR',
            'blimp': 'blimp',
        }
    )

    config.seeds = (0,)  # a fine-tuning run each, on the large sets
    # seeds on CoLA, MRPC, STS-B, RTE, Story Cloze and WNLI, whose runs differ most
    config.seeds_small = (0, 1, 2, 3, 4)

    config.finetune = finetune.get_config('')  # the paper's settings, for every task
    # The same at any width
    config.finetune.optimizer.peak_rate = 6.25e-5
    config.finetune.train.epochs = 3
    config.tasks = ConfigDict()  # overrides of config.finetune for a task (none in the paper)

    # Table 5: every combination is run with and without pretraining. The table has the paper's
    # settings and the combination with the highest average.
    config.grid = ConfigDict(
        {  # {field of config.finetune: values}
            'optimizer': {'peak_rate': (6.25e-5, 1.25e-4, 2.5e-4)},
            'train': {'epochs': (3, 10)},
        }
    )
    # seeds of the grid's runs (default: the seeds of the other runs)
    config.grid_seeds = config_dict.placeholder(tuple)
    # Figure 2, left: transfer -1: nothing, 0: only embeddings, n: also the first n blocks
    config.layers = (-1, *range(13))
    config.layer_tasks = ('mnli', 'race')  # Figure 2, left

    config.zero_shot_tasks = ('cola', 'sst2', 'race', 'dpr')  # Figure 2, right
    config.zero_shot = ConfigDict()  # overrides of configs/zero_shot.py for a task
    config.zero_shot_steps = ()  # pretraining steps that are scored ((): all that are saved)

    # experiments.learning_curves: each condition is trained on every number of training rows.
    config.curves = ConfigDict()
    config.curves.tasks = ('sst2', 'mnli')  # a curve each
    config.curves.rows = (500, 2000, 8000, 20000)  # training rows of the points
    # also possible: 'no_aux', without the auxiliary LM (Table 5)
    config.curves.conditions = ('full', 'no_pretraining')
    config.curves.seeds = (0, 1, 2)  # runs of each point
    # of each condition, its peak rate
    config.curves.rates = ConfigDict(dict.fromkeys(('full', 'no_pretraining', 'no_aux'), 1.25e-4))
    config.curves.updates = 1000  # of a run, at least, in whole epochs

    config.submission = ConfigDict()  # experiments.glue_submission: the fine-tuned run of each task
    for task in GLUE:
        config.submission[task] = config_dict.placeholder(str)  # its directory
    return config
