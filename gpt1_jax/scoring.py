"""Section 5, Zero-shot Behaviors: log-probabilities of given tokens under a pretrained model.

Sequences that begin alike, such as the answers to a question, read their beginning once; the output layer runs where a
token is scored; and what is alike in length runs together. None of this changes a value.
"""
import bisect
import functools
import itertools
import math
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpt1_jax import checkpoint, sharding, training, workdir
from gpt1_jax.backbone import backbone
from gpt1_jax.errors import UserError
from gpt1_jax.model import Cache

MOST = 8   # sequences that share a beginning: each has a copy of what the model keeps of it
PARTS = 4  # shapes for as many sequences


def open_pretrained(path):
    """The workdir.Run of a pretrained run. UserError when there is none, or a fine-tuned one."""
    run = workdir.load(path)
    if run.config['kind'] != 'pretrain':
        raise UserError(f'{path}: is a fine-tuned run; scoring and generating text want a pretrained one')
    return run


def restore(run, step, mesh):
    """(backbone, parameters of a step) of a pretrained run, on a mesh. Its layers are laid out as the device wants it,
    not the training: laid out in a row, they take a CPU three times as long to read with a cache."""
    model = backbone(run.config['model'] | {'unroll': 0})
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

    sequences: list of (ids, n), 1 <= n < len(ids) <= n_ctx + 1: as many targets as there are positions. They may stand
    in any order: which of them begin alike is found here.
    """
    sums, greedy = np.zeros(len(sequences)), np.zeros(len(sequences), bool)
    for G, (K, P, S, T), groups in batches(grouped(sequences, model.config.n_ctx), tokens_per_batch, mesh):
        prefixes, known, rests = np.zeros((G, P), np.int32), np.zeros(G, np.int32), np.zeros((G, K, S), np.int32)
        first, targets = np.zeros((G, K), np.int32), np.zeros((G, K, T), np.int32)
        places = [(g, k, i) for g, group in enumerate(groups) for k, i in enumerate(group.members)]
        for g, k, i in places:
            (ids, n), p = sequences[i], groups[g].shared
            rest = ids[p:-1]
            prefixes[g, :p], known[g], rests[g, k, :len(rest)] = ids[:p], p, rest
            first[g, k], targets[g, k, :n] = len(rest) - n, ids[-n:]
        logs, best = map(np.asarray, of_groups(model, mesh)(params, prefixes, known, rests, first, targets))
        for g, k, i in places:
            n = sequences[i][1]
            sums[i], greedy[i] = logs[g, k, :n].sum(dtype=np.float64), best[g, k, :n].all()
    return sums, greedy


class Shape(NamedTuple):
    """The sizes that a group is padded to."""
    K: int  # sequences
    P: int  # tokens that all of them begin with, read once; 0 where there are none
    S: int  # tokens that each reads after these
    T: int  # tokens that are scored in each

    @property
    def tokens(self):
        """How many the model reads."""
        return self.P + self.K * self.S


class Group(NamedTuple):
    """Sequences that are run together."""
    shape: Shape
    shared: int         # tokens that they begin with, without padding
    members: list[int]  # their indices


def grouped(sequences, n_ctx):
    """The Groups of sequences as of `last_tokens`, each in one: those that together read the fewest tokens.

    In the order of their tokens, those that begin alike stand side by side. Of all ways to cut this order into groups
    the best is found from front to back: it ends with some group, before which stands the best of what is left.
    """
    order = sorted(range(len(sequences)), key=lambda i: sequences[i][0])
    common = [0, *(len(os.path.commonprefix([sequences[i][0], sequences[j][0]])) for i, j in zip(order, order[1:]))]
    best = [(0, None)]  # of the first 0, 1, 2, ... in order: tokens, and the last Group
    for end in range(1, len(order) + 1):
        options, shared, longest, scored = [], n_ctx, 0, 0
        for start in range(end - 1, max(end - MOST, 0) - 1, -1):
            ids, n = sequences[order[start]]
            # A scored token is predicted from the one before it, which each sequence reads itself.
            shared, longest, scored = min(shared, len(ids) - 1 - n), max(longest, len(ids) - 1), max(scored, n)
            p, K = shared if start < end - 1 else 0, 1 << (end - start - 1).bit_length()
            shape = Shape(K, p and padded(p, n_ctx, 1), padded(longest - p, n_ctx, 1), padded(scored, n_ctx, 1))
            options.append((best[start][0] + shape.tokens, Group(shape, p, order[start:end])))
            shared = min(shared, common[start])  # with the one before, which is the next to join
            if not shared:
                break
        best.append(min(options, key=lambda option: option[0]))
    groups, end = [], len(order)
    while end:
        groups.append(best[end][1])
        end -= len(groups[-1].members)
    return groups


def batches(groups, tokens_per_batch, mesh):
    """Yield (G, Shape, Groups) of each batch, to be padded to this Shape and to G groups.

    A program is compiled for each (G, Shape), which takes longer than most of what it could save: groups of as many
    sequences have PARTS shapes at most, and no more than they fill batches; G is full or a power of two.
    """
    for K in sorted({group.shape.K for group in groups}):
        alike = [group for group in groups if group.shape.K == K]
        filled = sum(group.shape.tokens for group in alike) // tokens_per_batch
        for shape, chosen in parts(alike, min(PARTS, max(1, filled))):
            most = batch_size(tokens_per_batch, shape.tokens, mesh)
            for first in range(0, len(chosen), most):
                several = chosen[first:first + most]
                yield batch_size(min(most, 1 << (len(several) - 1).bit_length()), 1, mesh), shape, several


def parts(groups, n):
    """[(Shape, Groups)]: the groups, all of as many sequences, in at most n parts, those that are padded least."""
    groups = sorted(groups)
    shapes = sorted({group.shape for group in groups})
    below = [0, *(bisect.bisect_right(groups, shape, key=lambda group: group.shape) for shape in shapes)]
    # (tokens, cuts) of the groups of the first i shapes, by i, with one part more at each round.
    best = [(0, (0,))] + [(math.inf, ())] * len(shapes)
    for _ in range(n):
        longer = best[:1]
        for k in range(1, len(shapes) + 1):
            options, widest = [], shapes[k - 1]
            for i in reversed(range(k)):
                widest = Shape(*map(max, widest, shapes[i]))
                options.append((best[i][0] + widest.tokens * (below[k] - below[i]), (*best[i][1], below[k])))
            longer.append(min(options))
        best = longer
    return [(Shape(*map(max, *(group.shape for group in groups[first:last]), groups[first].shape)), groups[first:last])
            for first, last in itertools.pairwise(best[-1][1])]


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
        logs = of_all(model, mesh)(params, inputs, targets)
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


def padded(length, n_ctx, least=16):
    """The length that a sequence is padded to, 16, 32, 64, 96, 144, ... to n_ctx: so few programs are compiled.

    least: the smallest length, a power of two up to 16.
    """
    size = least
    while size < min(length, n_ctx):
        size = size * 2 if size < 64 else size + size // 2 // 16 * 16
    return min(size, n_ctx)


def batch_size(tokens_per_batch, L, mesh):
    """Sequences of L tokens scored at once, a multiple of the devices."""
    devices = mesh.shape['data'] * mesh.shape['fsdp']
    return -(-max(1, tokens_per_batch // L) // devices) * devices


@functools.lru_cache
def of_groups(model, mesh):
    """(params, prefixes int[G, P], known int[G], rests int[G, K, S], first int[G, K], targets int[G, K, T])
    -> (float32[G, K, T], bool[G, K, T]): log P of each target, and whether none is more probable.

    Each sequence reads the first known[g] tokens of its prefix, then its rest. Its first target comes after
    rests[g, k, first[g, k]].
    """
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, *[rows] * 5))
    def of_groups(params, prefixes, known, rests, first, targets):
        (G, P), (_, K, S), T = prefixes.shape, rests.shape, targets.shape[2]
        rests = rests.reshape(G * K, S)
        if P:
            _, _, cache = model.apply({'params': params}, prefixes, None, model.empty_cache(G, P + S), known)
            cache = Cache(jax.tree.map(lambda x: jnp.repeat(x, K, axis=1), cache.memory), jnp.repeat(cache.length, K))
            hidden, table, _ = model.apply({'params': params}, rests, None, cache)
        else:
            hidden, table = model.apply({'params': params}, rests)
        scored = first.reshape(G * K, 1, 1) + jnp.arange(T)[None, :, None]
        hidden = jnp.take_along_axis(hidden, scored, axis=1, mode='clip')  # beyond the last one is padding
        logs, best = log_probabilities(hidden, table, targets.reshape(G * K, T))
        return logs.reshape(G, K, T), best.reshape(G, K, T)
    return training.on_mesh(of_groups, mesh)


@functools.lru_cache
def of_all(model, mesh):
    """(params, inputs int[B, L], targets int[B, L]) -> float32[B, L]: log P of each target after the inputs up to its
    place."""
    rows = sharding.batch_sharding(mesh)

    @functools.partial(jax.jit, in_shardings=(None, rows, rows))
    def of_all(params, inputs, targets):
        return log_probabilities(*model.apply({'params': params}, inputs), targets)[0]
    return training.on_mesh(of_all, mesh)


def log_probabilities(hidden, table, targets):
    """The output layer: [B, T, D], the Table, int[B, T] -> (float32[B, T], bool[B, T]): log P of each target, in nats,
    over the vocabulary's rows; and whether none of them is more probable."""
    logits = jnp.einsum('btd,vd->btv', hidden, table.tokens, preferred_element_type=jnp.float32)
    label = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return label - jax.nn.logsumexp(logits, axis=-1), label >= jnp.max(logits, axis=-1)
