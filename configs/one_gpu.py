"""The paper's experiments at the paper's model size on one GPU in half an hour, with experiments.reproduce."""
from gpt1_jax.configs import experiments, reproduce
from ml_collections import ConfigDict

# Updates of 64 x 512 tokens: 295M tokens. One H200 trains on 543,000 tokens/s (experiments/benchmarks/README.md): nine
# of the thirty minutes, and about one more for compiling, validation and checkpoints. Choose fewer for a slower GPU.
STEPS = 9_000
LENGTHS = (64, 128, 256, 512)              # that fine-tuning rows are padded to: tasks share compiled programs


def get_config():
    config = reproduce.get_config()
    config.minutes = 30.0                  # of the device, for everything but preparing and reporting

    p = config.pretrain                    # the paper's, but for its length
    p.model.dtype = 'bfloat16'
    p.optimizer.warmup_steps = STEPS // 25
    p.train.steps = STEPS
    p.log_every = 100
    p.eval.every, p.eval.windows = STEPS // 10, 256
    p.checkpoint.every, p.checkpoint.keep_latest = STEPS // 10, 1

    f = config.finetune                    # also the paper's
    f.model.dtype = 'bfloat16'
    f.batch.fixed_lengths = LENGTHS
    f.batch.eval_size = 128
    f.train.evaluate_every = 3             # once, at the end: a checkpoint takes longer than an epoch of a small set
    f.log_every = 200

    config.seeds, config.seeds_small = (0,), (0, 1, 2)  # a run each
    config.layers = (-1, 0, 2, 4, 6, 8, 10, 12)      # Figure 2, left
    config.layer_tasks = config.runs.layers.tasks = ('mnli',)  # RACE's would take too long
    config.runs.race.conditions = ('full', 'no_pretraining')  # without the third row: each takes minutes
    config.runs.lstm.tasks = (*experiments.SMALL, *reproduce.LARGE)  # all but RACE
    config.tasks = ConfigDict({'race': {'data': {'train_rows': 8700, 'eval_rows': 2000}}})  # of 87,866 questions
    for task in config.zero_shot_tasks:
        config.zero_shot[task] = ConfigDict({'tokens_per_batch': 32768})  # fewer programs than small batches have
    config.zero_shot.race.data = ConfigDict({'rows': 1000})  # the same at every update
    config.grid = ConfigDict()             # Table 5's other settings are not run
    return config
