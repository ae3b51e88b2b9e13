"""Sections 3.1 and 4.1: the paper's pretraining.

gpt1 pretrain --config=configs/pretrain.py --workdir=runs/gpt1 --config.data.corpus='books/*.txt'

The paper: validation perplexity 18.4 on BooksCorpus after 100 epochs.
"""

from ml_collections import ConfigDict, config_dict

from gpt1_jax import rules
from gpt1_jax.rules import BY_TYPE, between, one_of, positive, several, whole

WARMUP = 2000  # updates (4.1: 2000)


def get_config():
    config = ConfigDict()
    config.seed = 0  # of weights, order of windows and dropout

    config.model = ConfigDict()
    # 'gpt', FILE:CLASS or 'lstm' (Table 5). The LSTM has one layer, and n_units in place of
    # n_layer, n_embd, n_head and n_inner
    config.model.kind = 'gpt'
    config.model.n_layer = 12  # blocks (4.1: 12)
    config.model.n_embd = 768  # width of the states (4.1: 768)
    config.model.n_head = 12  # attention heads (4.1: 12)
    config.model.n_inner = 3072  # width of the feed-forward network (4.1: 3072)
    # only for the LSTM: its units and the width of its embedding (5: 2048)
    config.model.n_units = 2048
    config.model.n_ctx = 512  # tokens per window (4.1: 512)
    config.model.embd_dropout = 0.1  # on the embedding matrix (4.1: 0.1)
    config.model.attn_dropout = 0.1  # on attention probabilities (4.1: 0.1), not in the LSTM
    # after the output projections of attention and MLP (4.1: 0.1), or on an LSTM's output
    config.model.resid_dropout = 0.1
    # of products and activations: 'float32' or 'bfloat16' (weights are always float32)
    config.model.dtype = 'float32'
    # of float32 products. 'highest' is exact float32. 'high' and 'default' are faster and less
    # exact: TF32 on an H200 (7 times the peak), 3 or 1 bfloat16 passes on TPUs, not 6
    config.model.precision = 'highest'
    # recompute blocks in the backward pass: less memory, more work (not for an LSTM)
    config.model.remat = False
    # layers (or an LSTM's time steps) to unroll in the scan (0: chosen by device)
    config.model.unroll = 0
    config.model.kernels = 'auto'  # or 'plain', 'xla', 'triton', 'mosaic': models/fast/table.py

    # operations replaced by your own code, FILE:NAME (gpt1_jax/models/ops.py)
    config.model.ops = ConfigDict()
    config.model.ops.look_up = config_dict.placeholder(str)  # (table, ids, whole)
    config.model.ops.dense = config_dict.placeholder(str)  # (x, kernel, bias)
    config.model.ops.gelu = config_dict.placeholder(str)  # (x)
    config.model.ops.attention = config_dict.placeholder(str)  # (qkv, dropout)
    config.model.ops.add_and_norm = config_dict.placeholder(str)  # (x, a, scale, bias, dropout)
    # (hidden, rows, targets, dtype of the logits)
    config.model.ops.cross_entropy = config_dict.placeholder(str)

    config.data = ConfigDict()
    # comma-separated files, directories or globs: text, JSON lines, Parquet
    config.data.corpus = ''
    # another corpus, or the fraction of whole documents held out by hash
    config.data.valid = '0.01'
    # files named dev, valid or test in the corpus's directories: True reads them, False
    # leaves them out (default: reads them, with a notice)
    config.data.split_files = config_dict.placeholder(bool)
    # leave out rows that have no text, and count them (False: such a row is an error)
    config.data.skip_bad = False
    config.data.text_field = 'text'  # field of JSON lines, column of Parquet
    # rows that share this field or column are one document
    config.data.join_by = config_dict.placeholder(str)
    # rows are joined to documents of at most this many characters
    config.data.join_characters = config_dict.placeholder(int)
    config.data.join_with = config_dict.placeholder(str)  # between joined rows (default: a space)
    # a text between documents, such as '<|endoftext|>' in TinyStories.txt
    config.data.split_at = config_dict.placeholder(str)
    # directory of prepared shards (default: WORKDIR/tokens)
    config.data.tokens = config_dict.placeholder(str)
    config.data.verify = False  # also hash the shards at the start (sizes are always compared)
    # keep training tokens on the devices: 'yes', 'no', or 'auto': on GPUs and TPUs with room
    config.data.resident = 'auto'
    config.data.processes = 0  # tokenizing processes (0: one per core)

    config.tokenizer = ConfigDict()
    # 'train', 'published', or a run (as in init_from) or directory with a tokenizer
    config.tokenizer.source = 'train'
    config.tokenizer.merges = 40000  # merges to learn if source is 'train' (4.1: 40,000)
    # total size of the vocabulary, instead of merges
    config.tokenizer.vocab_size = config_dict.placeholder(int)
    # learn from at most this many characters, of documents chosen by hash
    config.tokenizer.characters = config_dict.placeholder(int)
    config.tokenizer.encoder = ''  # 'published': path of encoder_bpe_40000.json
    config.tokenizer.bpe = ''  # 'published': path of vocab_40000.bpe

    config.batch = ConfigDict()
    config.batch.size = 64  # windows per update (4.1: 64)
    # parts of a batch whose gradients are averaged (changes memory, not results)
    config.batch.microbatches = 1
    # parts of a sequence whose logits exist at a time: less memory, more work
    config.batch.loss_chunks = 1

    config.optimizer = adam()  # the fields that pretraining and fine-tuning share
    config.optimizer.peak_rate = 2.5e-4  # peak learning rate (4.1: 2.5e-4)
    # updates of linear warm-up from zero (default: a tenth of the run, at most 4.1's 2000)
    config.optimizer.warmup_steps = config_dict.placeholder(int)
    # after the warm-up: 'cosine' (4.1), 'linear', 'constant', 'stable_decay', or FILE:NAME
    config.optimizer.schedule = 'cosine'
    # for 'stable_decay': the last updates, over which the rate falls linearly to zero
    config.optimizer.decay_steps = 0

    config.train = ConfigDict()
    config.train.epochs = 100  # passes over the text (4.1: 100)
    # skip up to this many batches whose loss or gradient is not finite, then stop
    config.train.skip_nonfinite = 0
    config.train.steps = config_dict.placeholder(int)  # updates, instead of epochs

    config.eval = ConfigDict()
    config.eval.every = 2000  # updates between validations
    config.eval.windows = 1024  # validation windows used, evenly spaced (0: all)
    config.eval.batch_size = 64  # windows at once, no more than training has
    config.eval.sample = 0  # tokens to generate and print at each validation, in one process only

    config.checkpoint = ConfigDict()
    config.checkpoint.every = 2000  # updates between checkpoints
    config.checkpoint.keep_latest = 2  # newest checkpoints kept
    config.checkpoint.keep_best = 1  # by validation loss
    config.checkpoint.keep_steps = ()  # updates that are saved and kept for good (Figure 2, right)
    # checkpoints kept for good at these numbers of words read (babylm.py)
    config.checkpoint.keep_words = ()

    config.mesh = ConfigDict()
    config.mesh.data = -1  # devices that share a batch (-1: all that remain)
    config.mesh.fsdp = 1  # devices that share a batch and each hold a part of every weight
    config.mesh.tensor = 1  # devices that share attention heads and the feed-forward network

    config.log_every = 50  # updates between progress lines and rows of metrics.jsonl
    # also write metrics as event files in WORKDIR/tensorboard (extra `tensorboard`)
    config.tensorboard = False
    config.tracker = ''  # 'wandb' or 'trackio': also send metrics there (extras of these names)
    config.project = 'gpt1_jax'  # project name at the tracker
    # 'START:STOP': record a trace of these updates in WORKDIR/profile, for TensorBoard
    config.profile = ''
    # a run, novels or hf:USER/NAME: start from its weights, with a fresh schedule
    config.init_from = config_dict.placeholder(str)
    config.init_step = config_dict.placeholder(int)  # checkpoint of init_from (default: the latest)
    return config


def warmup_steps(given: int | None, total: int) -> int:
    """Return the given warm-up, or else the paper's, at most a tenth of `total` updates."""
    if given is None:
        return min(WARMUP, total // 10)
    return given


def adam():
    """Return the optimizer's fields that pretraining and fine-tuning share."""
    config = ConfigDict()
    config.kind = 'adam'  # 'adam' as released, optax:NAME, or FILE:NAME (CONTRIBUTING.md)
    config.b1 = 0.9  # released code
    config.b2 = 0.999  # released code
    config.eps = 1e-8  # released code
    config.weight_decay = 0.01  # decoupled, on weights, not on biases and gains (4.1: 0.01)
    config.clip = 1.0  # global gradient norm (0: off). Released code, unstated for pretraining
    return config


# The rules of the fields, and what a change of a field means for a run that goes on. finetune.py
# adds the fields of fine-tuning. A name with a dot at its end stands for a group. BY_TYPE: the rule
# follows from the default's type.

# These may differ between a run and its continuation. They do not change what is computed.
FREE = {
    'log_every': whole(1),
    'eval.every': whole(1),
    'eval.batch_size': whole(1),
    'eval.sample': whole(0, 512),
    'checkpoint.': BY_TYPE,
    'checkpoint.every': whole(1),
    'checkpoint.keep_latest': whole(1),
    'checkpoint.keep_best': whole(1),
    'checkpoint.keep_steps': several(whole(1)),
    'checkpoint.keep_words': several(whole(1)),
    'mesh.data': rules.AXIS,
    'mesh.fsdp': rules.AXIS,
    'mesh.tensor': rules.AXIS,
    'batch.microbatches': whole(1),
    'batch.loss_chunks': whole(1),
    # the rules of the model's fields are in models/config_checks.py
    'model.remat': BY_TYPE,
    'model.unroll': BY_TYPE,
    'model.kernels': BY_TYPE,
    'model.precision': BY_TYPE,
    'data.corpus': BY_TYPE,
    'data.valid': BY_TYPE,
    'data.tokens': BY_TYPE,
    'data.verify': BY_TYPE,
    'data.resident': one_of('auto', 'yes', 'no'),
    'data.processes': whole(0),
    'data.join_by': BY_TYPE,
    'data.join_characters': whole(1),
    'data.join_with': BY_TYPE,
    'data.split_at': BY_TYPE,
    'data.split_files': BY_TYPE,
    'tokenizer.': BY_TYPE,
    'tokenizer.merges': whole(0),
    'tokenizer.vocab_size': whole(0),
    'tokenizer.characters': whole(1, 2**62),
    'train.skip_nonfinite': whole(0),
    'profile': rules.SPAN,
    'tensorboard': rules.TENSORBOARD,
    'tracker': rules.extra('wandb', 'trackio'),
    'project': BY_TYPE,
    # fingerprint.origin has the digest of these weights
    'init_from': BY_TYPE,
    'init_step': whole(0),
}
# These act only in evaluation. A run that trained has the same training rows with and without
# data.skip_bad.
SCORING = {'eval.windows': whole(0), 'data.skip_bad': BY_TYPE}
# A change of these makes another run, which needs a new work directory. A field of FREE or SCORING
# may change although its group is here.
FIXED = {
    'kind': BY_TYPE,
    'seed': whole(0, 2**32 - 1),
    'batch.size': whole(1),
    'model.': BY_TYPE,
    'fingerprint.': BY_TYPE,
}
# All other fields may change with --allow_change.
CHANGEABLE = {
    'optimizer.kind': rules.or_code('adam'),
    'optimizer.schedule': rules.or_code('cosine', 'linear', 'constant', 'stable_decay'),
    'optimizer.decay_steps': whole(0),
    'optimizer.warmup_steps': whole(0),
    'optimizer.peak_rate': positive(),
    'optimizer.b1': between(0, 1),
    'optimizer.b2': between(0, 1),
    'optimizer.eps': positive(),
    'optimizer.weight_decay': between(0, 1),
    'optimizer.clip': between(0, rules.LARGEST),
    'train.epochs': whole(1),
    'train.steps': whole(1),
}
RULES = rules.of_defaults(get_config(), FREE | SCORING | FIXED | CHANGEABLE)
