"""Every table and figure in small, in one to two hours on two CPU cores (experiments.reproduce)."""

from gpt1_jax.configs import reproduce
from ml_collections import ConfigDict

SAVED = (50, 100, 200, 400, 800, 1600, 3000)  # updates whose zero-shot figures are plotted

# Training rows of a set if they are not 1,200, so that a run takes half a minute (RACE: two
# minutes). Rows of CoLA and SST-2 are short. The other sets have two sequences a row (both orders,
# both endings), RACE has four, and RTE has long rows.
ROWS = {
    'cola': 2000,
    'sst2': 2000,
    'mrpc': 300,
    'stsb': 500,
    'qqp': 500,
    'qnli': 800,
    'rte': 300,
    'story_cloze': 500,
    'race': 480,
}


def get_config():
    config = reproduce.get_config()
    config.books = 50  # training books used, evenly spaced by name: about one epoch
    config.valid_books = 4  # of the validation books, if the corpus has any

    p = config.pretrain
    p.model.n_layer = 4
    p.model.n_embd = 128
    p.model.n_head = 4
    p.model.n_inner = 512
    p.model.n_ctx = 128
    p.model.unroll = 4  # faster on a CPU
    p.tokenizer.vocab_size = 4096  # size of the vocabulary
    p.batch.size = 16  # small batches: at this size updates count for more than their precision
    p.optimizer.peak_rate = 1e-3
    p.optimizer.warmup_steps = 300
    p.train.steps = SAVED[-1]
    p.eval.every = 1000
    p.eval.windows = 256
    p.eval.batch_size = 32
    p.checkpoint.every = 1000
    p.checkpoint.keep_steps = SAVED
    p.checkpoint.keep_latest = 1
    p.log_every = 100

    config.lstm_differs = ConfigDict(
        {  # the LSTM of Table 5: overrides of config.pretrain
            'model': {
                'kind': 'lstm',
                'n_units': 224,  # as many parameters as the Transformer: 1.3 million
                'unroll': 8,  # time steps laid out in a row: faster on a CPU
            },
            # the better rate of 1e-3 and 3e-3 for each kind of model
            'optimizer': {'peak_rate': 3e-3},
        }
    )

    f = config.finetune
    f.optimizer.peak_rate = 5e-4  # a small model needs a higher rate
    f.batch.size = 16  # few rows: smaller batches make more updates
    f.batch.eval_size = 64
    f.batch.lengths = 2  # one program is compiled for each
    f.model.unroll = 4
    f.data.train_rows = 1200
    f.data.eval_rows = 500
    f.log_every = 75

    # One run for each large set
    config.seeds = (0,)
    config.seeds_small = (0, 1, 2)
    config.tasks = ConfigDict()  # overrides of config.finetune for a task
    for task, rows in ROWS.items():
        config.tasks[task] = ConfigDict({'data': {'train_rows': rows}})  # see ROWS
    config.tasks.race.train = ConfigDict({'epochs': 2})  # 512 tokens a row
    # the first is the setting above
    config.grid = ConfigDict({'optimizer': {'peak_rate': (5e-4, 1.5e-3)}})
    config.grid_seeds = (0,)  # one run a setting
    config.layers = (-1, *range(p.model.n_layer + 1))  # all layers

    for task in config.zero_shot_tasks:
        config.zero_shot[task] = ConfigDict({'data': {'rows': 800}})  # the same at every update
    config.zero_shot.race.data.rows = 400  # four long choices
    return config
