"""Pretraining in the notebooks (experiments/notebooks): GPT-1 in small, trained in a few minutes on two CPU cores.

python -m gpt1_jax.pretrain --config=configs/notebook.py --workdir=runs/small
"""
from gpt1_jax.configs import quickstart
from ml_collections import ConfigDict


def get_config(size='small'):
    """'small': the quickstart's model, for fewer updates. 'tiny': seconds, and nothing is learned."""
    config = quickstart.get_config().pretrain
    config.data.corpus, config.data.valid = 'novels', '0.2'
    config.tokenizer.vocab_size = 2048
    ConfigDict({'small': small, 'tiny': tiny})[size](config)  # suggests the most similar one
    return config


def small(config) -> None:
    config.optimizer.warmup_steps = 60
    config.train.steps = 600
    config.eval.every, config.eval.windows = 150, 128
    config.checkpoint.every, config.checkpoint.keep_steps = 300, (30, 150, 600)


def tiny(config) -> None:
    config.model.n_layer, config.model.n_embd, config.model.n_head, config.model.n_inner = 1, 16, 2, 16
    config.model.unroll = 1
    config.tokenizer.vocab_size = 600
    config.batch.size, config.optimizer.warmup_steps = 8, 2
    config.train.steps, config.log_every = 20, 5
    config.eval.every, config.eval.windows = 20, 16
    config.checkpoint.every, config.checkpoint.keep_steps = 20, (5, 10, 20)
