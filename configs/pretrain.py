"""Sections 3.1 and 4.1: the paper's pretraining.

gpt1 pretrain --config=configs/pretrain.py --workdir=runs/gpt1 --config.data.corpus='books/*.txt'

The paper: validation perplexity 18.4 on BooksCorpus after 100 epochs.
"""

from ml_collections import ConfigDict, config_dict

from gpt1_jax import rules
from gpt1_jax.rules import between, one_of, positive, several, whole

WARMUP = 2000  # updates (4.1: 2000)


def get_config():
    config = ConfigDict()
    config.seed = 0  # of weights, order of windows and dropout

    config.model = ConfigDict()
    # 'gpt'; 'lstm' (Table 5), one layer: n_units in place of n_layer, n_embd, n_head and n_inner;
    # or FILE:CLASS
    config.model.kind = 'gpt'
    config.model.n_layer = 12  # blocks (4.1: 12)
    config.model.n_embd = 768  # width of the states (4.1: 768)
    config.model.n_head = 12  # attention heads (4.1: 12)
    config.model.n_inner = 3072  # width of the feed-forward network (4.1: 3072)
    # the LSTM's alone: its units and the width of its embedding (5: 2048)
    config.model.n_units = 2048
    config.model.n_ctx = 512  # tokens per window (4.1: 512)
    config.model.embd_dropout = 0.1  # on the embedding matrix (4.1: 0.1)
    config.model.attn_dropout = 0.1  # on attention probabilities (4.1: 0.1); not in the LSTM
    # after the output projections of attention and MLP (4.1: 0.1); on an LSTM's output
    config.model.resid_dropout = 0.1
    # of products and activations: 'float32' or 'bfloat16'; weights are float32
    config.model.dtype = 'float32'
    # of float32 products: 'highest' is float32 itself, others are faster and less exact: on an H200
    # 'high' and 'default' are TF32, 7 times the peak; on TPUs 3 or 1 bfloat16 passes, not 6
    config.model.precision = 'highest'
    # recompute blocks in the backward pass: less memory, more work; not an LSTM
    config.model.remat = False
    # layers of the scan laid out in a row, the LSTM's time steps; 0: by device
    config.model.unroll = 0
    config.model.kernels = 'auto'  # or 'plain', 'xla', 'triton', 'mosaic': models/fast/table.py

    # operations replaced by code of yours, FILE:NAME (gpt1_jax/models/ops.py)
    config.model.ops = ConfigDict()
    config.model.ops.look_up = config_dict.placeholder(str)  # (table, ids, whole)
    config.model.ops.dense = config_dict.placeholder(str)  # (x, kernel, bias)
    config.model.ops.gelu = config_dict.placeholder(str)  # (x)
    config.model.ops.attention = config_dict.placeholder(str)  # (qkv, dropout)
    config.model.ops.add_and_norm = config_dict.placeholder(str)  # (x, a, scale, bias, dropout)
    # (hidden, rows, targets, dtype of the logits)
    config.model.ops.cross_entropy = config_dict.placeholder(str)

    config.data = ConfigDict()
    # files, directories or globs: text, JSON lines, Parquet; comma-separated
    config.data.corpus = ''
    # a corpus of its own, or the fraction of whole documents held out by hash
    config.data.valid = '0.01'
    # Files in its directories that are named dev, valid, test: True reads them, False
    # leaves them out; default: read, with a notice
    config.data.split_files = config_dict.placeholder(bool)
    # Leave rows that have no text out and count them; else the first one is an error
    config.data.skip_bad = False
    config.data.text_field = 'text'  # of JSON lines; the column of Parquet
    # rows that share this field or column are one document
    config.data.join_by = config_dict.placeholder(str)
    # rows are joined to documents of at most so many
    config.data.join_characters = config_dict.placeholder(int)
    config.data.join_with = config_dict.placeholder(str)  # between joined rows; default a space
    # directory of prepared shards; default WORKDIR/tokens
    config.data.tokens = config_dict.placeholder(str)
    config.data.verify = False  # hash the shards at the start too; their sizes are always compared
    # training tokens on the devices: 'yes', 'no', 'auto': GPUs, TPUs with room
    config.data.resident = 'auto'
    config.data.processes = 0  # tokenizing processes; 0: one per core

    config.tokenizer = ConfigDict()
    # 'train', 'published', or a run (as init_from) or directory that has one
    config.tokenizer.source = 'train'
    config.tokenizer.merges = 40000  # merges to learn, of source 'train' (4.1: 40,000)
    # total size of the vocabulary, instead of merges
    config.tokenizer.vocab_size = config_dict.placeholder(int)
    # to learn from at most, of documents chosen by hash
    config.tokenizer.characters = config_dict.placeholder(int)
    config.tokenizer.encoder = ''  # 'published': path of encoder_bpe_40000.json
    config.tokenizer.bpe = ''  # 'published': path of vocab_40000.bpe

    config.batch = ConfigDict()
    config.batch.size = 64  # windows per update (4.1: 64)
    # parts of a batch whose gradients are averaged; changes memory, not results
    config.batch.microbatches = 1
    # parts of a sequence whose logits exist at a time: less memory, more work
    config.batch.loss_chunks = 1

    config.optimizer = adam()  # what pretraining and fine-tuning share
    config.optimizer.peak_rate = 2.5e-4  # peak learning rate (4.1: 2.5e-4)
    # updates of linear warm-up from zero; left open, 4.1's 2000 or a tenth of a shorter run
    config.optimizer.warmup_steps = config_dict.placeholder(int)
    # after the warm-up (4.1: 'cosine'); 'linear', 'constant', 'stable_decay', or FILE:NAME
    config.optimizer.schedule = 'cosine'
    # 'stable_decay': constant, then linear to zero over the last updates
    config.optimizer.decay_steps = 0

    config.train = ConfigDict()
    config.train.epochs = 100  # passes over the text (4.1: 100)
    # batches to leave out when their loss or gradient is not finite; then stop
    config.train.skip_nonfinite = 0
    config.train.steps = config_dict.placeholder(int)  # updates, instead of epochs

    config.eval = ConfigDict()
    config.eval.every = 2000  # updates between validations
    config.eval.windows = 1024  # validation windows used, evenly spaced; 0 = all
    config.eval.batch_size = 64  # windows at once, no more than training has
    config.eval.sample = 0  # tokens to generate and print at each validation; in one process only

    config.checkpoint = ConfigDict()
    config.checkpoint.every = 2000  # updates between checkpoints
    config.checkpoint.keep_latest = 2  # newest checkpoints kept
    config.checkpoint.keep_best = 1  # by validation loss
    config.checkpoint.keep_steps = ()  # updates that are saved and kept for good (Figure 2, right)
    # checkpoints kept for good at these numbers of words read (babylm.py)
    config.checkpoint.keep_words = ()

    config.mesh = ConfigDict()
    config.mesh.data = -1  # devices that share a batch; -1 = all that remain
    config.mesh.fsdp = 1  # devices that share a batch and hold a part of every weight each
    config.mesh.tensor = 1  # devices that share attention heads and the feed-forward network

    config.log_every = 50  # updates between progress lines and rows of metrics.jsonl
    # metrics also as event files in WORKDIR/tensorboard (extra `tensorboard`)
    config.tensorboard = False
    config.tracker = ''  # 'wandb' or 'trackio': metrics also go there (extras of these names)
    config.project = 'gpt1_jax'  # project name at the tracker
    # 'START:STOP': a trace of these updates in WORKDIR/profile, for TensorBoard
    config.profile = ''
    # a run, novels or hf:USER/NAME: its weights, a fresh schedule
    config.init_from = config_dict.placeholder(str)
    config.init_step = config_dict.placeholder(int)  # which of its checkpoints; default the latest
    return config


def warmup_steps(given: int | None, total: int) -> int:
    """The updates of warm-up in a run of `total`: those given, or the paper's, at most a tenth."""
    if given is None:
        return min(WARMUP, total // 10)
    return given


def adam():
    """Fields of the optimizer that pretraining and fine-tuning share."""
    config = ConfigDict()
    config.kind = 'adam'  # 'adam' as released; optax:NAME; or FILE:NAME (CONTRIBUTING.md)
    config.b1 = 0.9  # released code
    config.b2 = 0.999  # released code
    config.eps = 1e-8  # released code
    config.weight_decay = 0.01  # decoupled, on weights, not on biases and gains (4.1: 0.01)
    config.clip = 1.0  # global gradient norm, 0 = off; released code, unstated for pretraining
    return config


# What a field may be where the type of its default does not say it. SHARED: of pretraining and
# fine-tuning.
SHARED = {
    'seed': whole(0, 2**32 - 1),
    'log_every': whole(1),
    'batch.size': whole(1),
    'batch.microbatches': whole(1),
    'batch.loss_chunks': whole(1),
    'optimizer.kind': rules.or_code('adam'),
    'optimizer.schedule': rules.or_code('cosine', 'linear', 'constant', 'stable_decay'),
    'optimizer.decay_steps': whole(0),
    'optimizer.peak_rate': positive(),
    'optimizer.b1': between(0, 1),
    'optimizer.b2': between(0, 1),
    'optimizer.eps': positive(),
    'optimizer.weight_decay': between(0, 1),
    'optimizer.clip': between(0, rules.LARGEST),
    'train.skip_nonfinite': whole(0),
    'checkpoint.keep_latest': whole(1),
    'checkpoint.keep_best': whole(1),
    'mesh.data': rules.AXIS,
    'mesh.fsdp': rules.AXIS,
    'mesh.tensor': rules.AXIS,
    'tensorboard': rules.TENSORBOARD,
    'tracker': rules.extra('wandb', 'trackio'),
    'profile': rules.SPAN,
    'init_step': whole(0),
}
RULES = rules.of_defaults(
    get_config(),
    SHARED
    | {
        'data.resident': one_of('auto', 'yes', 'no'),
        'data.processes': whole(0),
        'data.join_characters': whole(1),
        'tokenizer.merges': whole(0),
        'tokenizer.vocab_size': whole(0),
        'tokenizer.characters': whole(1, 2**62),
        'optimizer.warmup_steps': whole(0),
        'train.epochs': whole(1),
        'train.steps': whole(1),
        'eval.every': whole(1),
        'eval.windows': whole(0),
        'eval.batch_size': whole(1),
        'eval.sample': whole(0, 512),
        'checkpoint.every': whole(1),
        'checkpoint.keep_steps': several(whole(1)),
        'checkpoint.keep_words': several(whole(1)),
    },
)
