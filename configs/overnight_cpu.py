"""A night of two CPU cores: a GPT of 7M parameters that reads novels, and an LSTM.

The LSTM has as many parameters. The paper's tables and figures are then made with both models.

python -m experiments.reproduce --config=configs/overnight_cpu.py --books=books --data=DATA \\
    --out=runs/overnight_cpu

config:PART is for `gpt1 pretrain` and pretrains only one model: `pretrain`, the Transformer, or
`lstm`. Kill the command whenever you need the machine, and start the same command again: the result
is the same to the bit.
"""

from gpt1_jax.configs import pretrain, reproduce
from ml_collections import ConfigDict

STEPS = 52_000  # of 8 x 256 tokens: 106M tokens, 1.4 epochs of 620 novels
# Updates whose checkpoints are kept: evenly spaced on a log scale.
SAVED = (400, 800, 1600, 3200, 4800, 6400, 9600, 12800, 19200, 25600, 38400, STEPS)
LSTM = {
    'model': {
        'kind': 'lstm',
        'n_units': 544,  # as many parameters as the Transformer
        'unroll': 8,  # time steps laid out in a row: faster on a CPU
    },
    # with fewer steps, the models are compared at the updates that both have
    'train': {'steps': STEPS},
}
# Training rows of a set if they are not 4,000 (small sets use all their rows), and its epochs if
# three are fewer than 600 updates.
ROWS = {'cola': 8551, 'mrpc': 3668, 'stsb': 5749, 'rte': 2490, 'story_cloze': 1497, 'race': 800}
EPOCHS = {'rte': 4, 'story_cloze': 7}


def get_config(part=None):
    if part is not None:
        return model(part)
    config = reproduce.get_config()
    config.pretrain = model('pretrain')  # the Transformer
    config.lstm_differs = ConfigDict(LSTM)

    f = config.finetune
    f.optimizer.peak_rate = 5e-4  # the best of three on SST-2, with and without pretraining
    f.batch.size = 16  # few rows: smaller batches make more updates
    f.batch.eval_size = 64
    f.batch.lengths = 4  # one program is compiled for each
    f.model.unroll = 6
    f.model.dtype = 'bfloat16'
    f.data.train_rows = 4000
    f.data.eval_rows = 2000
    f.train.epochs = f.train.evaluate_every = 3
    f.log_every = 75

    # One run for each large set
    config.seeds = (0,)
    config.seeds_small = (0, 1, 2)
    config.tasks = ConfigDict()  # overrides of config.finetune for a task
    for task, rows in ROWS.items():
        epochs = EPOCHS.get(task, 3)
        config.tasks[task] = ConfigDict(
            {'data': {'train_rows': rows}, 'train': {'epochs': epochs, 'evaluate_every': epochs}}
        )
    # the first is the setting above
    config.grid = ConfigDict({'optimizer': {'peak_rate': (5e-4, 1e-3)}})
    config.grid_seeds = (0,)  # one run a setting
    config.curves.tasks = ('sst2',)  # a curve each
    config.curves.rows = (500, 2000, 8000, 20000)  # training rows of a point
    # the best of three on SST-2 (see above)
    config.curves.rates.update(dict.fromkeys(config.curves.rates, 5e-4))
    config.curves.updates = 300
    config.layers = (-1, *range(config.pretrain.model.n_layer + 1))  # all layers
    for task in config.zero_shot_tasks:
        config.zero_shot[task] = ConfigDict({'data': {'rows': 1000}})  # the same at every update
    config.zero_shot.race.data.rows = 400  # four long choices
    # of 67,000 pairs: a minute an update
    config.zero_shot.blimp = ConfigDict({'data': {'rows': 6700}})
    return config


def model(part):
    """Return the config of pretraining one model: 'pretrain' (the Transformer) or 'lstm'."""
    p = pretrain.get_config()
    p.model.n_layer = 6
    p.model.n_embd = 256
    p.model.n_head = 4
    p.model.n_inner = 1024
    p.model.n_ctx = 256
    p.model.unroll = 6  # faster on a CPU
    p.model.dtype = 'bfloat16'  # twice as fast on processors with bfloat16 instructions (AMX)
    # 1.4 epochs are too few to overfit
    p.model.embd_dropout = p.model.attn_dropout = p.model.resid_dropout = 0.0
    p.tokenizer.vocab_size = 8192  # size of the vocabulary
    p.batch.size = 8  # small batches: at this size updates count for more than their precision
    p.optimizer.peak_rate = 7e-4
    p.optimizer.warmup_steps = 1000
    p.train.steps = STEPS
    p.eval.every = 2000
    p.eval.windows = 256
    p.eval.batch_size = 32
    p.checkpoint.every = 500
    p.checkpoint.keep_steps = SAVED
    p.checkpoint.keep_latest = 1
    p.log_every = 100
    # For an unknown part, ConfigDict suggests the nearest name
    p.update(ConfigDict({'pretrain': {}, 'lstm': LSTM})[part])
    return p
