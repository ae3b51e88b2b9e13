"""Ten minutes of one H200: a GPT of 30M parameters that reads novels, and learning curves.

gpt1 pretrain --config=configs/ten_minutes_gpu.py:pretrain --config.data.tokens=tokens \\
    --workdir=runs/novels_30M
python -m experiments.learning_curves --config=configs/ten_minutes_gpu.py \\
    --config.pretrained=runs/novels_30M \\
    --config.data=DATA --config.out=runs/curves
"""

from gpt1_jax.configs import overnight_cpu
from ml_collections import ConfigDict

STEPS = 8_700  # of 64 x 512 tokens: 285M tokens, 3.8 epochs of 620 novels
# of padded fine-tuning rows: each set compiles a program for each length once
LENGTHS = (32, 64, 128, 256)


def get_config(part=None):
    if part is not None:
        return model(part)
    config = overnight_cpu.get_config()
    config.pretrain = model('pretrain')  # the model
    config.layers = (-1, *range(config.pretrain.model.n_layer + 1))  # all layers

    f = config.finetune
    f.data.n_ctx = LENGTHS[-1]  # few rows are longer
    f.data.train_rows = 10_000  # of the large sets
    f.batch.fixed_lengths = LENGTHS  # each set compiles a program for each length once
    f.batch.eval_size = 128  # no gradients: larger batches fit
    f.model.unroll = 0  # by device
    config.tasks = ConfigDict()  # all sets are fine-tuned alike

    c = config.curves
    c.tasks = 'sst2', 'mnli', 'qnli'  # the other sets are given on the command line
    c.rows = (500, 2000, 10000)
    c.seeds = (0, 1, 2)
    # the best of 1.4e-4, 2.8e-4 and 5.6e-4 in the mean over ten sets, for both conditions
    c.rates.update(dict.fromkeys(c.rates, 1.4e-4))
    c.updates = 600
    return config


def model(part):
    """Return the config of pretraining. part: 'pretrain'."""
    p = overnight_cpu.model(part)
    p.model.n_layer = 8
    p.model.n_embd = 512
    p.model.n_head = 8
    p.model.n_inner = 2048
    p.model.n_ctx = 512
    p.model.unroll = 0  # by device
    # the paper's: four epochs could overfit
    p.model.embd_dropout = p.model.attn_dropout = p.model.resid_dropout = 0.1
    p.batch.size = 64
    p.optimizer.peak_rate = 5e-4
    p.optimizer.warmup_steps = 1000
    # Constant, then linear to zero
    p.optimizer.schedule = 'stable_decay'
    p.optimizer.decay_steps = STEPS // 4
    p.train.steps = STEPS
    p.eval.every = 1000
    p.eval.batch_size = 64
    p.checkpoint.every = STEPS
    p.checkpoint.keep_steps = ()
    p.checkpoint.keep_latest = 1
    return p
