"""Ideas, each compared with a baseline on the same seeds: `gpt1 ablate`.

A trial takes about a minute on two CPU cores: 0.44M parameters, and 0.7M tokens of the novels that
come with the package.
"""

from gpt1_jax.configs import pretrain
from ml_collections import ConfigDict

from gpt1_jax import rules


def get_config():
    config = ConfigDict()
    # NAME: FIELD=VALUE ... of config.pretrain. A VALUE may be FILE:NAME
    config.ideas = ('2 heads: model.n_head=2', 'no dropout of embeddings: model.embd_dropout=0.0')
    config.seeds = 3  # trials of the baseline and of each idea in a screen
    config.confirm_seeds = 7  # trials of each, on fresh seeds, with --confirm
    config.least = 0.005  # the smallest difference that matters, in nats a token
    config.keep_checkpoints = False  # of finished trials

    p = config.pretrain = pretrain.get_config()  # the baseline
    p.data.corpus = 'novels'  # in the package. Also: files, directories, patterns
    p.data.valid = '0.1'
    p.tokenizer.vocab_size = 1024
    p.model.n_layer = 3
    p.model.n_embd = 96
    p.model.n_head = 4
    p.model.n_inner = 384
    p.model.n_ctx = 64
    p.model.unroll = 3  # a fifth faster on a CPU
    p.batch.size = 16
    p.optimizer.peak_rate = 1e-3
    p.optimizer.warmup_steps = 70
    p.train.steps = 700
    p.eval.every = 175
    p.eval.windows = 512
    p.eval.batch_size = 64
    p.checkpoint.every = 350
    p.checkpoint.keep_latest = 1
    p.log_every = 175
    return config


RULES = rules.of_defaults(
    get_config(),
    {
        'ideas': rules.several(rules.text()),
        'seeds': rules.whole(1, 1000),
        'confirm_seeds': rules.whole(2, 1000),
        'least': rules.between(0, 10),
        **{f'pretrain.{name}': rule for name, rule in pretrain.RULES.items()},
        'pretrain.train.steps': rules.whole(1),
    },
)
