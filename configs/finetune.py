"""The paper's fine-tuning (Sections 3.2 and 4.1), config:TASK.

gpt1 finetune --config=configs/finetune.py:cola --workdir=runs/cola \\
    --config.init_from=runs/gpt1 --config.data.dir=glue/CoLA

Tasks, with the paper's test figures: mnli (82.1 / 81.4), snli (89.9), scitail (88.3), qnli (88.1),
rte (56.0), story_cloze (86.5), race (59.0), cola (45.4 Matthews), sst2 (91.3), mrpc (82.3 F1),
stsb (82.0 Pearson), qqp (70.3 F1). wnli is not in the paper. FILE:NAME is your own task
(gpt1 help tasks).
"""

from gpt1_jax.configs import pretrain
from ml_collections import ConfigDict, config_dict

from gpt1_jax import rules
from gpt1_jax.rules import BY_TYPE, between, several, whole


def get_config(task='cola'):
    config = ConfigDict()
    config.task = task  # see gpt1_jax/data/tasks
    config.seed = 0  # of new weights, order of rows and dropout

    config.data = ConfigDict()
    config.data.dir = ''  # directory of official or Parquet files, tfds:DIR or hf:USER/NAME
    # longest sequence in tokens (default: the model's context)
    config.data.n_ctx = config_dict.placeholder(int)

    # maximum number of training rows, the same rows for all seeds (default: all)
    config.data.train_rows = config_dict.placeholder(int)
    # maximum number of rows of each evaluated split (default: all)
    config.data.eval_rows = config_dict.placeholder(int)
    # leave bad rows out and count them (False: the first bad row is an error)
    config.data.skip_bad = False

    # a pretrained run, novels or hf:USER/NAME (default: train from scratch)
    config.init_from = config_dict.placeholder(str)
    config.init_step = config_dict.placeholder(int)  # checkpoint of init_from (default: the latest)
    # transfer -1: nothing, 0: embeddings, n: also n blocks (5, Figure 2; default: all)
    config.n_transfer = config_dict.placeholder(int)
    # from scratch: a run (as in init_from) or directory with a tokenizer
    config.tokenizer = config_dict.placeholder(str)

    # kind and sizes default to the checkpoint's, or from scratch to the paper's
    config.model = ConfigDict()
    config.model.kind = config_dict.placeholder(str)  # 'gpt', 'lstm' (Table 5), or FILE:CLASS
    config.model.n_units = config_dict.placeholder(int)  # of the LSTM
    config.model.n_layer = config_dict.placeholder(int)  # blocks
    config.model.n_embd = config_dict.placeholder(int)  # width of the states
    config.model.n_head = config_dict.placeholder(int)  # attention heads
    config.model.n_inner = config_dict.placeholder(int)  # width of the feed-forward network
    config.model.n_ctx = config_dict.placeholder(int)  # positions
    config.model.embd_dropout = 0.1  # on the embedding matrix (4.1: 0.1)
    config.model.attn_dropout = 0.1  # on attention probabilities (4.1: 0.1)
    config.model.resid_dropout = 0.1  # after the output projections of attention and MLP (4.1: 0.1)
    config.model.dtype = 'float32'  # of products and activations: 'float32' or 'bfloat16'
    # of float32 products: 'highest', 'high' or 'default', see gpt1 pretrain --help
    config.model.precision = 'highest'
    # recompute blocks in the backward pass: less memory, more work (not for an LSTM)
    config.model.remat = False
    config.model.unroll = 0  # layers to unroll in the scan (0: chosen by device)
    config.model.kernels = 'auto'  # or 'plain', 'xla', 'triton', 'mosaic': models/fast/table.py
    config.classifier_dropout = 0.1  # on the state that the linear layer reads (4.1: 0.1)

    config.lm_weight = 0.5  # lambda of Eq. 5 (4.1: 0.5; 0: no auxiliary language modelling)

    config.batch = ConfigDict()
    config.batch.size = 32  # examples per update (4.1: 32)
    # parts of a batch whose gradients are averaged (changes memory, not results)
    config.batch.microbatches = 1
    # parts of a sequence whose logits exist at a time: less memory, more work
    config.batch.loss_chunks = 1
    config.batch.eval_size = 32  # examples at once in evaluation
    # maximum number of lengths that rows are padded to, with a compiled program for each
    # (default: 6, or 12 from 300 updates on)
    config.batch.lengths = config_dict.placeholder(int)
    # batch rows of similar length together (False: a plain shuffle, as released)
    config.batch.by_length = True
    # pad to exactly these lengths, so that tasks share compiled programs
    config.batch.fixed_lengths = ()

    config.optimizer = pretrain.adam()  # kind, b1, b2, eps, weight_decay, clip
    # peak learning rate (4.1: 6.25e-5; default: 4.1's at width 768, higher for narrower
    # models, see gpt1_jax/training/transfer.py)
    config.optimizer.peak_rate = config_dict.placeholder(float)
    config.optimizer.warmup = 0.002  # fraction of all updates (4.1: 0.002)
    # after the warm-up: 'linear' (4.1), 'cosine', 'constant', 'stable_decay', or FILE:NAME
    config.optimizer.schedule = 'linear'
    # for 'stable_decay': the last updates, over which the rate falls linearly to zero
    config.optimizer.decay_steps = 0

    config.train = ConfigDict()
    # passes over the training rows (4.1: 3; default: 3, or enough for 100 updates)
    config.train.epochs = config_dict.placeholder(int)
    # epochs between evaluations on dev, each of which is also a checkpoint
    config.train.evaluate_every = 1
    # skip up to this many batches whose loss or gradient is not finite, then stop
    config.train.skip_nonfinite = 0

    config.eval = ConfigDict()
    config.eval.splits = ('dev',)  # scored at the end
    # score the parameters that are 'best' on dev, the 'final' parameters, or both
    config.eval.selections = ('best',)

    config.checkpoint = ConfigDict()
    config.checkpoint.keep_latest = 1  # newest checkpoints kept (each evaluation writes one)
    config.checkpoint.keep_best = 1  # by the task's first metric on dev

    config.mesh = ConfigDict()
    config.mesh.data = -1  # devices that share a batch (-1: all that remain)
    config.mesh.fsdp = 1  # devices that share a batch and each hold a part of every weight
    config.mesh.tensor = 1  # devices that share attention heads and the feed-forward network

    config.log_every = 20  # updates between progress lines and rows of metrics.jsonl
    # also write metrics as event files in WORKDIR/tensorboard (extra `tensorboard`)
    config.tensorboard = False
    config.tracker = ''  # 'wandb' or 'trackio': also send metrics there (extras of these names)
    config.project = 'gpt1_jax'  # project name at the tracker
    # 'START:STOP': record a trace of these updates in WORKDIR/profile, for TensorBoard
    config.profile = ''
    # results.jsonl to append to (default: WORKDIR/results.jsonl)
    config.results = config_dict.placeholder(str)
    return config


FREE = pretrain.FREE | {
    'data.dir': BY_TYPE,
    'custom.data': BY_TYPE,
    'batch.eval_size': whole(1, 65536),
    'eval.splits': several(rules.text()),
    'eval.selections': (
        lambda x: x and set(x) <= {'best', 'final'},
        "a tuple of 'best' and 'final'",
    ),
    'tokenizer': BY_TYPE,
    'results': BY_TYPE,
}
SCORING = pretrain.SCORING | {'data.eval_rows': whole(1), 'lengths': BY_TYPE}
FIXED = pretrain.FIXED | {
    'task': BY_TYPE,
    'labels': BY_TYPE,
    'n_transfer': whole(-1),
    'custom.': BY_TYPE,
}
CHANGEABLE = pretrain.CHANGEABLE | {
    'data.n_ctx': whole(0),
    'data.train_rows': whole(1),
    'lm_weight': between(0, rules.LARGEST),
    'classifier_dropout': between(0, 1),
    'batch.lengths': whole(1, 512),
    'batch.fixed_lengths': several(whole(1)),
    'optimizer.warmup': between(0, 1),
    'train.evaluate_every': whole(1),
}
RULES = rules.of_defaults(get_config(), FREE | SCORING | FIXED | CHANGEABLE)
