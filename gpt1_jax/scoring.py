"""Section 5, Zero-shot Behaviors: log-probabilities of given tokens under a pretrained model."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax import checkpoint, sharding, training, workdir
from gpt1_jax.backbone import backbone
from gpt1_jax.errors import UserError


def open_pretrained(path):
    """The workdir.Run of a pretrained run. UserError when there is none, or a fine-tuned one."""
    run = workdir.load(path)
    if run.config['kind'] != 'pretrain':
        raise UserError(f'{path}: is a fine-tuned run; scoring and generating text want a pretrained one')
    return run


def restore(run, step, mesh):
    """(backbone, parameters of a step) of a pretrained run, on a mesh."""
    model = backbone(run.config['model'])
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params'])
    return model, checkpoint.restore_params(run.checkpoints, step, sharding.targets(shapes, mesh))


def score(model, params, mesh, sequences, names=None, tokens_per_batch=4096):
    """The log-probabilities of the last tokens of each sequence, given everything before them.

    sequences: list of (ids, n): the last n tokens of ids are scored, 1 <= n < len(ids); what exceeds the context is cut
    from the left. Only vocabulary rows compete: no special or position row is ever scored.
    names: what the sequences are called in a UserError.
    Returns (sums, counts), float64[N] and int[N]: nats in all, and the tokens scored. The order is that of `sequences`.
    """
    n_ctx = model.config.n_ctx
    for name, (ids, n) in zip(names or (f'sequence {i}' for i in range(len(sequences))), sequences):
        try:
            check(ids, n, n_ctx)
        except UserError as error:
            raise UserError(f'{name}: {error}') from None
    sums, _ = last_tokens(model, params, mesh, [(ids[-n_ctx:], n) for ids, n in sequences], tokens_per_batch)
    return sums, np.array([n for _, n in sequences])


def last_tokens(model, params, mesh, sequences, tokens_per_batch=4096):
    """(float64[N], bool[N]): the log-probability, in nats, of the last n tokens of each sequence, and whether greedy
    decoding writes them: whether no other token is more probable in the place of any.

    sequences: list of (ids, n), 1 <= n < len(ids) <= n_ctx + 1: as many targets as there are positions.
    """
    n_ctx = model.config.n_ctx
    sums, greedy, by_length = np.zeros(len(sequences)), np.zeros(len(sequences), bool), {}
    for i in sorted(range(len(sequences)), key=lambda i: len(sequences[i][0])):
        by_length.setdefault(padded(len(sequences[i][0]) - 1, n_ctx), []).append(i)
    for L, chosen in by_length.items():
        size = batch_size(tokens_per_batch, L, mesh)
        for first in range(0, len(chosen), size):
            rows = chosen[first:first + size]
            inputs, targets = np.zeros((2, size, L), np.int32)
            for r, i in enumerate(rows):
                ids, _ = sequences[i]
                inputs[r, :len(ids) - 1], targets[r, :len(ids) - 1] = ids[:-1], ids[1:]
            logs, best = map(np.asarray, log_probabilities(model, mesh)(params, inputs, targets))
            for r, i in enumerate(rows):
                ids, n = sequences[i]
                scored = slice(len(ids) - 1 - n, len(ids) - 1)
                sums[i], greedy[i] = logs[r, scored].sum(dtype=np.float64), best[r, scored].all()
    return sums, greedy


def by_token(model, params, mesh, ids, stride=None, tokens_per_batch=4096):
    """float64[n - 1]: the log-probability, in nats, of each token of a text after the first. ids: int[n], any n from 2.

    Windows of n_ctx tokens begin every `stride` tokens, by default n_ctx. The first scores all its targets, each other
    its last `stride`, which have n_ctx - stride + 1 tokens before them at least.
    """
    n_ctx, last = model.config.n_ctx, len(ids) - 1
    stride, L, found = stride or n_ctx, padded(last, n_ctx), np.zeros(last)
    size = batch_size(tokens_per_batch, L, mesh)
    starts = np.arange(1 + -(-max(0, last - n_ctx) // stride)) * stride
    for first in range(0, len(starts), size):
        inputs, targets = np.zeros((2, size, L), np.int32)
        for r, start in enumerate(starts[first:first + size]):
            window = ids[start:start + n_ctx + 1]
            inputs[r, :len(window) - 1], targets[r, :len(window) - 1] = window[:-1], window[1:]
        logs, _ = log_probabilities(model, mesh)(params, inputs, targets)
        for row, start in zip(np.asarray(logs), starts[first:first + size]):
            n, new = min(n_ctx, last - start), n_ctx - stride if start else 0
            found[start + new:start + n] = row[new:n]
    return found


def check(ids, n, n_ctx):
    """UserError unless the last n of the ids can be scored by a model of context n_ctx."""
    if not 1 <= n < len(ids):
        raise UserError(f'{n} of {len(ids)} tokens to score: at least one is needed, and one before it as context')
    if n >= n_ctx:
        raise UserError(f'{n} tokens to score do not fit the context of {n_ctx}')


def padded(length, n_ctx):
    """The length that a sequence is padded to, 16, 32, 64, 96, 144, ... to n_ctx: so few programs are compiled."""
    size = 16
    while size < min(length, n_ctx):
        size = size * 2 if size < 64 else size + size // 2 // 16 * 16
    return min(size, n_ctx)


def batch_size(tokens_per_batch, L, mesh):
    """Sequences of L tokens scored at once, a multiple of the devices."""
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    return -(-max(1, tokens_per_batch // L) // devices) * devices


@functools.lru_cache
def log_probabilities(model, mesh):
    """(params, inputs int[B, L], targets int[B, L]) -> (float32[B, L], bool[B, L]): log P of each target after the
    inputs up to its place, in nats, over the vocabulary's rows; and whether none of them is more probable."""
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, rows, rows))
    def log_probabilities(params, inputs, targets):
        hidden, table = model.apply({'params': params}, inputs)
        logits = jnp.einsum('bld,vd->blv', hidden, table.tokens, preferred_element_type=jnp.float32)
        label = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return label - jax.nn.logsumexp(logits, axis=-1), label >= jnp.max(logits, axis=-1)
    return training.on_mesh(log_probabilities, mesh)
