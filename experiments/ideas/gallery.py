"""GPT-1's own choices and their alternatives, as ideas: experiments/results/ideas.

gpt1 ablate --config=experiments/ideas/gallery.py --out=runs/gallery
gpt1 ablate --config=experiments/ideas/gallery.py:longer --out=runs/longer
"""

from gpt1_jax.configs import ablate

# The choices of Section 4.1 and their alternatives.
IDEAS = 'experiments/ideas'
STEPS = 600
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
    f'{STABLE}={STEPS // 5}',
    'context of 256: model.n_ctx=256 batch.size=4',
    '2 heads: model.n_head=2',
    '6 layers x 44: model.n_layer=6 model.n_embd=44 model.n_inner=176 model.unroll=6',
    f'no positions: model.kind={IDEAS}/positions.py:NoPositions',
    'no weight decay: optimizer.weight_decay=0.0',
    'vocabulary of 4,096: tokenizer.vocab_size=4096',
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


def get_config(which='gallery'):
    """which: 'gallery', or 'longer' for fewer ideas and four times the updates."""
    config = ablate.get_config()
    steps = STEPS if which == 'gallery' else 4 * STEPS
    p = config.pretrain
    p.model.n_embd = 64
    p.model.n_inner = 256
    p.train.steps = steps
    p.optimizer.warmup_steps = steps // 10
    p.eval.every = STEPS // 3
    p.log_every = STEPS // 3
    p.checkpoint.every = steps
    config.ideas = GALLERY
    if which == 'longer':  # do the differences remain? does pairing still help?
        ideas = [idea for idea in GALLERY if idea.partition(':')[0] in LONGER]
        config.ideas = (*ideas, f'{STABLE}={steps // 5}')
    return config
