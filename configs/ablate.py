"""Ideas, each compared with a baseline on the same seeds: `python -m experiments.ablate`.

A run takes about a minute on two CPU cores: 0.44M parameters, and 0.7M tokens of the novels that
come with the package.
"""

from gpt1_jax.configs import pretrain
from ml_collections import ConfigDict

from gpt1_jax import rules


def get_config(which='small'):
    config = ConfigDict()
    config.ideas = (  # NAME: FIELD=VALUE ... of config.pretrain. A VALUE may be FILE:NAME
        '2 heads: model.n_head=2',
        'squared ReLU: model.ops.gelu=experiments/ideas/relu.py:relu_squared',
    )
    config.compare = ()  # 'NAME - NAME': ideas to compare with each other also
    config.seeds = 3  # runs of the baseline and of each idea
    config.max_seeds = 10  # at most this many with --until=WIDTH
    # also score zero-shot, {task: directory}: config.tasks.blimp = 'data/blimp'
    config.tasks = ConfigDict()
    # of finished runs. Without checkpoints, a task that you add later trains every run again
    config.keep_checkpoints = False

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
    if which in ('gallery', 'longer'):
        steps = GALLERY_STEPS if which == 'gallery' else 4 * GALLERY_STEPS
        p.model.n_embd = 64
        p.model.n_inner = 256
        p.train.steps = steps
        p.optimizer.warmup_steps = steps // 10
        p.eval.every = GALLERY_STEPS // 3
        p.log_every = GALLERY_STEPS // 3
        p.checkpoint.every = steps
        config.ideas = GALLERY
        config.compare = COMPARED
    if which == 'longer':  # do the differences remain? does pairing still help?
        ideas = [idea for idea in GALLERY if idea.partition(':')[0] in LONGER]
        config.ideas = (*ideas, f'{STABLE}={steps // 5}')
        config.compare = ()
    return config


# The choices of Section 4.1 and their alternatives: experiments/results/ideas.
IDEAS = 'experiments/ideas'
GALLERY_STEPS = 600
STABLE = 'stable, decay over the last fifth: optimizer.schedule=stable_decay optimizer.decay_steps'
NO_DROPOUT = 'model.embd_dropout=0.0 model.attn_dropout=0.0 model.resid_dropout=0.0'
GALLERY = (
    f'pre-LayerNorm: model.kind={IDEAS}/pre_norm.py:PreNorm',
    f'no dropout: {NO_DROPOUT}',
    f'Muon: optimizer.kind={IDEAS}/optimizers.py:muon',
    f'squared ReLU: model.ops.gelu={IDEAS}/relu.py:relu_squared',
    f'rotary positions: model.kind={IDEAS}/positions.py:NoPositions '
    f'model.ops.attention={IDEAS}/positions.py:rotary',
    f'free output layer: model.kind={IDEAS}/weights.py:FreeOutput',
    'rate x 2: optimizer.peak_rate=2e-3',
    'no warm-up: optimizer.warmup_steps=0',
    'no dropout of the embedding matrix: model.embd_dropout=0.0',
    f'sinusoidal positions: model.kind={IDEAS}/positions.py:Sinusoidal',
    'Lion, rate / 5: optimizer.kind=optax:lion optimizer.peak_rate=2e-4',
    'linear schedule: optimizer.schedule=linear',
    f'initial weights scaled by depth: model.kind={IDEAS}/weights.py:ScaledByDepth',
    'weight decay 0.1: optimizer.weight_decay=0.1',
    'no clipping: optimizer.clip=0.0',
    f'ReLU: model.ops.gelu={IDEAS}/relu.py:relu',
    'AdamW of optax: optimizer.kind=optax:adamw',
    f'{STABLE}={GALLERY_STEPS // 5}',
    'context of 256: model.n_ctx=256 batch.size=4',
    '2 heads: model.n_head=2',
    '6 layers x 44: model.n_layer=6 model.n_embd=44 model.n_inner=176 model.unroll=6',
    f'no positions: model.kind={IDEAS}/positions.py:NoPositions',
    'no weight decay: optimizer.weight_decay=0.0',
    'vocabulary of 4,096: tokenizer.vocab_size=4096',
    'a tenth of the text: data.valid=0.9',
    f'a tenth of the text, no dropout: data.valid=0.9 {NO_DROPOUT}',
)
LONGER = (
    'pre-LayerNorm',
    'Muon',
    'squared ReLU',
    'rotary positions',
    'free output layer',
    'no dropout of the embedding matrix',
    '2 heads',
)
COMPARED = (
    'a tenth of the text, no dropout - a tenth of the text',
    'rotary positions - sinusoidal positions',
)
RULES = rules.of_defaults(
    get_config(),
    {
        'ideas': rules.several(rules.text()),
        'compare': rules.several(rules.text()),
        'seeds': rules.whole(1, 1000),
        'max_seeds': rules.whole(1, 1000),
        **{f'pretrain.{name}': rule for name, rule in pretrain.RULES.items()},
    },
)
