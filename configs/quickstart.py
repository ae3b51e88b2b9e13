"""The config of `python -m experiments.quickstart`: GPT-1 in small.

The quickstart takes about five minutes on two CPU cores.
"""

from gpt1_jax.configs import finetune, pretrain, zero_shot
from ml_collections import ConfigDict

SAVED = (25, 50, 100, 200, 400, 700, 1000)  # updates whose zero-shot score is plotted


def get_config():
    config = ConfigDict()
    config.examples = ConfigDict()  # examples of each task
    config.examples.train = 1000  # examples to train on
    config.examples.dev = 100  # examples that select the best epoch
    config.examples.test = 800  # examples for the report, from novels never trained on
    config.vocab_size = 2048  # size of the vocabulary

    p = config.pretrain = pretrain.get_config()
    p.model.n_layer = 3
    p.model.n_embd = 128
    p.model.n_head = 4
    p.model.n_inner = 512
    p.model.n_ctx = 96
    p.model.unroll = 3  # a fifth faster on a CPU
    p.batch.size = 16  # small batches: at this size updates count for more than their precision
    p.optimizer.peak_rate = 1e-3
    p.optimizer.warmup_steps = 100
    p.train.steps = SAVED[-1]
    p.eval.every = 200
    p.eval.windows = 256
    p.eval.batch_size = 32
    p.eval.sample = 16  # tokens to write at each validation
    p.checkpoint.every = 400
    p.checkpoint.keep_steps = SAVED
    p.checkpoint.keep_latest = 1
    p.log_every = 50

    f = config.finetune = finetune.get_config('')
    f.batch.eval_size = 64
    f.batch.lengths = 2
    f.train.epochs = 3
    f.batch.size = 16
    f.model.unroll = 3
    f.eval.splits = ('test',)
    f.log_every = 50

    config.zero_shot = zero_shot.get_config('word_order')  # scored at each saved update
    config.zero_shot.data.split = 'test'  # the items that the fine-tuned model gets
    return config
