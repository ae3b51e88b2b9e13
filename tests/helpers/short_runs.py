"""Runs of a few steps, and what two runs are compared by."""
from gpt1_jax import pretrain
from gpt1_jax.runs import checkpoint, results
from tiny import corpus, override, pretrain_config


def pretrained_run(base, **overrides):
    """A run of four steps with a context of 64 tokens, to be fine-tuned; its text is there, too. Returns its path."""
    config = pretrain_config(corpus(base / 'text'), model__n_ctx=64, train__steps=4, checkpoint__every=4)
    return pretrain.run(override(config, overrides), base / 'run').path


def arrays(run, step):
    """The digests of all arrays of a step, by item and name."""
    return {item: {name: a['digest'] for name, a in leaves.items()}
            for item, leaves in checkpoint.read_meta(run.checkpoints, step)['arrays'].items()}


def losses(run):
    return [(row['step'], row['loss']) for row in results.read(run.metrics) if 'loss' in row]
