"""Section 4.1: the released opt.py: Adam with decoupled weight decay, three schedules; and warmup-stable-decay."""
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gpt1_jax import user_code
from gpt1_jax.errors import UserError
from gpt1_jax.parallel.sharding import leaf_name

NOT_DECAYED = r'(^|/)(bias|scale)$'  # 4.1: "w = 0.01 on all non bias or gain weights"


def warmup_cosine(peak: Any, warmup: Any, total: Any, decay: Any = 0) -> optax.Schedule:
    """An optax schedule: linear warm-up over `warmup` steps from zero to `peak`, cosine to zero at `total` (opt.py 5-7:
    the cosine runs over the whole training and is not re-based after the warm-up).

    peak, warmup, total: numbers or scalar arrays, the latter two in steps; a warm-up of 0 is none.
    """
    return _warmed_up(peak, warmup, lambda count: 0.5 * (1 + jnp.cos(jnp.pi * _fraction(count, total))))


def warmup_linear(peak: Any, warmup: Any, total: Any, decay: Any = 0) -> optax.Schedule:
    """The same warm-up times a linear decay over all `total` steps (opt.py 13-15)."""
    return lambda count: warmup_constant(peak, warmup, total)(count) * (1 - _fraction(count, total))


def warmup_constant(peak: Any, warmup: Any, total: Any, decay: Any = 0) -> optax.Schedule:
    """The same warm-up, then `peak` (opt.py 9-11)."""
    return _warmed_up(peak, warmup, lambda count: 1.0)


def stable_decay(peak: Any, warmup: Any, total: Any, decay: Any = 0) -> optax.Schedule:
    """The same warm-up, then `peak`, then a linear decay to zero over the last `decay` steps (Hu et al., 2024). Up to
    total - decay no rate depends on `total`, so that a run can be extended from there."""
    return _warmed_up(peak, warmup, lambda count: jnp.clip((total - count) / jnp.maximum(decay, 1), 0, 1))


SCHEDULES = {'cosine': warmup_cosine, 'linear': warmup_linear, 'constant': warmup_constant,
             'stable_decay': stable_decay}  # config.optimizer.schedule


def _warmed_up(peak, warmup, after):
    """peak x (a linear warm-up, then after(count))."""
    def schedule(count):
        count = jnp.asarray(count, jnp.float32)
        # In steps, not in fractions of the training as released: the quotients count / total and warmup / total may
        # round differently.
        warming = (count <= warmup) & (warmup > 0)
        return peak * jnp.where(warming, count / jnp.maximum(warmup, 1e-30), after(count))
    return schedule


def _fraction(count, total):
    return jnp.minimum(jnp.asarray(count, jnp.float32) / jnp.maximum(total, 1), 1)


def adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01,
         clip: float = 1.0) -> optax.GradientTransformationExtraArgs:
    """The released update as an optax transformation; its `update` takes the step's `learning_rate=`.

    With t = 1 at the first step, and lrt = learning_rate * sqrt(1 - b2^t) / (1 - b1^t):
        p <- p - lrt * (m / (sqrt(v) + eps) + weight_decay * p)
    Released code (opt.py 23-49): eps is added to the uncorrected sqrt(v), and the decay is scaled by the bias
    correction as well as by the learning rate, so that it is weaker than optax.adamw's in the first few thousand steps.
    clip: the largest global norm of the gradients; 0 leaves them as they are. Leaves called bias or scale are not
    decayed: decided by name, as a bias stacked over layers is a matrix too.
    """
    def init(params):
        mu, nu = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return optax.ScaleByAdamState(jnp.zeros([], jnp.int32), mu, nu)

    def update(grads, state, params, *, learning_rate, **unused):
        count = state.count + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, grads)
        t = count.astype(jnp.float32)
        corrected_rate = learning_rate * jnp.sqrt(1 - b2 ** t) / (1 - b1 ** t)

        def step(path, p, m, v):
            return -corrected_rate * (m / (jnp.sqrt(v) + eps) + (weight_decay * p if decays(path) else 0))
        return jax.tree_util.tree_map_with_path(step, params, mu, nu), optax.ScaleByAdamState(count, mu, nu)

    return _clipped(optax.GradientTransformationExtraArgs(init, update), clip)


def _clipped(transformation, clip):
    return optax.chain(optax.clip_by_global_norm(clip), transformation) if clip else transformation


def from_optax(factory: Callable, weight_decay: float, clip: float) -> optax.GradientTransformationExtraArgs:
    """An optax optimizer as a transformation whose `update` takes the step's `learning_rate=`, as `adam` is.

    factory: called with learning_rate=1, after which updates must be proportional to the learning rate; and with
    weight_decay and its mask (`decays`), where it has such arguments. Its other settings are its own defaults.
    """
    def mask(params):
        return jax.tree_util.tree_map_with_path(lambda path, _: decays(path), params)
    offered = {'weight_decay': weight_decay, 'mask': mask, 'weight_decay_mask': mask}
    known = inspect.signature(factory).parameters
    inner = factory(learning_rate=1.0, **{name: value for name, value in offered.items() if name in known})

    def update(grads, state, params, *, learning_rate, **unused):
        updates, state = inner.update(grads, state, params)
        return jax.tree.map(lambda u: learning_rate * u, updates), state
    return _clipped(optax.GradientTransformationExtraArgs(inner.init, update), clip)


def make(settings: tuple[tuple[str, Any], ...]) -> optax.GradientTransformationExtraArgs:
    """The optimizer of `settings`. UserError where config.optimizer.kind names code that cannot be loaded."""
    values = dict(settings)
    kind = values.pop('kind')
    if kind == 'adam':
        return adam(**values)
    return from_optax(user_code.load(kind, 'config.optimizer.kind'), values['weight_decay'], values['clip'])


def schedule(name: str, *numbers: float) -> Callable[..., optax.Schedule]:
    """(peak, warmup, total, decay) -> an optax schedule: one of SCHEDULES; or the one that the function FILE:NAME makes
    of `numbers`, these four, as optax's own builders compare them and refuse traced arrays."""
    if name in SCHEDULES:
        return SCHEDULES[name]
    made = user_code.load(name, 'config.optimizer.schedule')(*numbers)
    return lambda *_: made


def schedule_key(values: Mapping[str, Any], warmup: float, total: int) -> tuple[Any, ...]:
    """The arguments of `schedule`, of config.optimizer: hashable, as runs share a compiled program where they are
    equal. The numbers of a built-in schedule are arguments of the step. warmup, total: in steps."""
    name = values['schedule']
    return (name,) if name in SCHEDULES else (name, values['peak_rate'], warmup, total, values['decay_steps'])


def check_code(values: Mapping[str, Any], params: Callable[[], Any]) -> None:
    """UserError where an optimizer or a schedule of the user's own cannot be loaded, fails, or returns something else
    than training needs, or where a field is set that the optimizer does not read. Only shapes and types are computed.
    params: () -> the parameters' shapes."""
    kind, name = values['kind'], values['schedule']
    if user_code.names_code(kind):
        with user_code.running(kind, 'config.optimizer.kind'):
            _check_unread(values, user_code.load(kind, 'config.optimizer.kind'))
            transformation, tree = make(settings(values)), params()
            state = jax.eval_shape(transformation.init, tree)
            found = jax.eval_shape(functools.partial(transformation.update, learning_rate=1e-3), tree, state, tree)
            for what, ours, theirs in zip(('updates', 'state'), found, (tree, state)):
                if _types(ours) != _types(theirs):
                    raise UserError(f'its update returns a tree of {what} with other shapes or types than it was given')
            if any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in jax.tree.leaves(state)):
                raise UserError('its state has a random key, which no checkpoint can hold')
    if user_code.names_code(name):
        with user_code.running(name, 'config.optimizer.schedule'):
            of_step = schedule(*schedule_key(dict(values, peak_rate=values['peak_rate'] or 1e-3), 10, 1000))()
            rate = jax.eval_shape(of_step, jax.ShapeDtypeStruct((), jnp.int32))
            if _types(rate) != _types(jax.ShapeDtypeStruct((), jnp.float32)):
                raise UserError('it must return a function from a step to one number, its learning rate')


def _check_unread(values, factory):
    """UserError where a field of `adam` that another optimizer does not read is set."""
    reads_decay = 'weight_decay' in inspect.signature(factory).parameters or values['weight_decay'] == 0
    for name in ('b1', 'b2', 'eps', *(() if reads_decay else ('weight_decay',))):
        default = inspect.signature(adam).parameters[name].default
        if values[name] != default:
            raise UserError(f'config.optimizer.{name} = {values[name]} has no effect with it: leave it at {default}')


def _types(tree):
    return jax.tree.structure(tree), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def check(values: Mapping[str, Any]) -> None:
    """UserError unless `schedule` and `decay_steps` of config.optimizer fit together."""
    if values['schedule'] in SCHEDULES and (values['schedule'] == 'stable_decay') != (values['decay_steps'] > 0):
        raise UserError(f"config.optimizer.schedule = {values['schedule']!r} with config.optimizer.decay_steps = "
                        f"{values['decay_steps']}: 'stable_decay' needs at least 1 and no other schedule reads it")


def hyperparameters(config: Any, warmup: float, total: int) -> dict[str, np.generic]:
    """The scalars of a run's config that a training step takes besides state and batch. warmup, total: in steps."""
    return {'seed': np.uint32(config.seed), 'skips': np.int32(config.train.skip_nonfinite),
            'peak': np.float32(config.optimizer.peak_rate), 'warmup': np.float32(warmup), 'total': np.float32(total),
            'decay': np.float32(config.optimizer.decay_steps)}


def settings(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What `make` takes, of config.optimizer: hashable, as equal settings share a compiled program."""
    return (('kind', values['kind']),
            *((name, float(values[name])) for name in inspect.signature(adam).parameters))


def decays(path: Any) -> bool:
    """Whether weight decay applies to the leaf at this path of a parameter tree."""
    return not re.search(NOT_DECAYED, leaf_name(path))
