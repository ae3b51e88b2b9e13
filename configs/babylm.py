"""BabyLM: a GPT from scratch on 10M or 100M words, with checkpoints kept by words read.

gpt1 pretrain --config=configs/babylm.py:10M --workdir=runs/babylm \\
    --config.data.corpus=babylm/train_10M --config.data.valid=babylm/dev

config:TRACK is `10M` (strict-small) or `100M` (strict), at most ten epochs. `cpu` is a small
version: a tenth of the words of 10M, for a model of 2.6M parameters. Sizes and rates are a start,
not the outcome of a search.
"""

from gpt1_jax.configs import pretrain

from gpt1_jax.rules import choose

MILLION = 10**6
BELOW_TEN = tuple(n * MILLION for n in range(1, 11))
# The challenge's revisions: each million up to ten, then each ten million up to a hundred, then
# each hundred million up to a thousand.
KEPT = {
    '10M': (*BELOW_TEN, *(10 * n for n in BELOW_TEN[1:])),
    '100M': (*BELOW_TEN, *(10 * n for n in BELOW_TEN[1:]), *(100 * n for n in BELOW_TEN[1:])),
    'cpu': (*(n // 10 for n in BELOW_TEN), *BELOW_TEN[1:]),
}


def get_config(track='10M'):
    p = pretrain.get_config()
    p.train.epochs = 10  # the most that the challenge allows
    p.checkpoint.keep_words = choose('track', track, KEPT)
    p.checkpoint.keep_latest = 1
    p.tokenizer.vocab_size = 16384  # rows. A larger vocabulary has too few examples of each row
    p.batch.size = 32  # 16,384 tokens: small batches, as the text is short
    p.optimizer.warmup_steps = 500
    p.eval.every = p.checkpoint.every = 500
    if track == '100M':
        p.batch.size = 64
        p.optimizer.warmup_steps = 2000
        p.eval.every = p.checkpoint.every = 2000
    if track == 'cpu':
        p.model.n_layer = 4
        p.model.n_embd = 192
        p.model.n_head = 4
        p.model.n_inner = 768
        p.model.n_ctx = 128
        p.model.unroll = 4  # faster on a CPU
        p.tokenizer.vocab_size = 4096
        p.batch.size = 16
        p.optimizer.peak_rate = 5e-4
        p.optimizer.warmup_steps = 300
    return p
