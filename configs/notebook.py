"""Sizes of the notebooks (experiments/notebooks): a laptop's, a small accelerator's, and what a test has time for."""
from gpt1_jax.configs import quickstart
from ml_collections import ConfigDict


def get_config(size='small'):
    """'small': a few minutes on two CPU cores, less than one on an accelerator. 'medium': for an accelerator. 'tiny':
    seconds, and nothing is learned."""
    config = quickstart.get_config()
    ConfigDict({'small': small, 'medium': medium, 'tiny': tiny})[size](config)  # suggests the most similar one
    return config


def small(config) -> None:
    """The quickstart's model."""
    config.examples.train, config.examples.test = 1500, 500  # of each task


def medium(config) -> None:
    small(config)
    config.vocab_size = 4096               # rows of the SentencePiece vocabulary
    p, f = config.pretrain, config.finetune
    p.model.n_layer, p.model.n_embd, p.model.n_head, p.model.n_inner, p.model.n_ctx = 6, 256, 8, 1024, 128
    p.model.unroll = f.model.unroll = 6
    p.batch.size = 32
    p.optimizer.peak_rate, p.optimizer.warmup_steps = 5e-4, 300
    p.train.steps, p.eval.every, p.checkpoint.every, p.log_every = 3000, 500, 500, 150
    p.checkpoint.keep_steps = (50, 400, 3000)


def tiny(config) -> None:
    config.examples.train, config.examples.dev, config.examples.test, config.vocab_size = 64, 16, 32, 600  # seconds
    p, f = config.pretrain, config.finetune
    p.model.n_layer, p.model.n_embd, p.model.n_head, p.model.n_inner = 1, 16, 2, 16
    p.model.unroll = f.model.unroll = 1
    p.batch.size, p.train.steps, p.eval.every, p.eval.windows = 8, 20, 20, 16
    p.checkpoint.every, p.checkpoint.keep_steps, p.log_every, p.optimizer.warmup_steps = 20, (5, 10, 20), 5, 2
    f.train.epochs, f.batch.lengths, f.batch.size = 1, 1, 16
