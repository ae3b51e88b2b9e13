"""The baseline of the records: GPT-1's own recipe at 0.2M parameters, on the novels of the package.

gpt1 ablate --config=experiments/ideas/records.py --out=runs/records --confirm \\
    --idea='NAME: FIELD=VALUE'

A confirmation trains for 1,000 updates of 16 x 64 tokens, with seven seeds. A record is a believed
idea with its certificate (experiments/results/records.md).
"""

from gpt1_jax.configs import ablate


def get_config():
    config = ablate.get_config()
    config.ideas = ()
    p = config.pretrain
    p.model.n_layer = 2
    p.model.n_embd = 64
    p.model.n_inner = 256
    p.model.unroll = 2
    p.train.steps = 500
    p.optimizer.warmup_steps = 50
    p.eval.every = 125
    p.checkpoint.every = 500
    p.log_every = 125
    return config
