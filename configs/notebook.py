"""Pretraining in the notebooks (experiments/notebooks): a small GPT-1.

It trains in a few minutes on two CPU cores:
gpt1 pretrain --config=configs/notebook.py --workdir=runs/small
"""

from gpt1_jax.configs import quickstart
from ml_collections import ConfigDict


def get_config(size='small'):
    """Return the quickstart's model for fewer updates ('small'), or a model that trains for
    seconds and learns nothing ('tiny')."""
    config = quickstart.get_config().pretrain
    config.data.corpus = 'novels'  # the package's
    config.data.valid = '0.2'  # two of the ten
    config.tokenizer.vocab_size = 2048  # rows
    ConfigDict({'small': small, 'tiny': tiny})[size](config)  # names similar sizes
    return config


def small(p) -> None:
    p.batch.size = 8  # half of the quickstart's
    p.train.steps = 600
    p.eval.every = 150
    p.eval.windows = 128
    p.checkpoint.every = 300
    p.checkpoint.keep_steps = (30, 150, 600)


def tiny(p) -> None:
    p.model.n_layer = 1
    p.model.n_embd = 16
    p.model.n_head = 2
    p.model.n_inner = 16
    p.model.unroll = 1
    p.tokenizer.vocab_size = 600
    p.batch.size = 8
    p.optimizer.warmup_steps = 2
    p.train.steps = 20
    p.log_every = 5
    p.eval.every = 20
    p.eval.windows = 16
    p.checkpoint.every = 20
    p.checkpoint.keep_steps = (5, 10, 20)
