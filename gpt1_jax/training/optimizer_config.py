"""Builds the optimizer and the schedule that config.optimizer names.

They come from optimizer.py, from optax or from the user's code.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gpt1_jax import user_code
from gpt1_jax.errors import UserError
from gpt1_jax.training.optimizer import SCHEDULES, adam, clipped, decays


def from_optax(
    factory: Callable, weight_decay: float, clip: float
) -> optax.GradientTransformationExtraArgs:
    """Wraps an optax optimizer: like `adam`, its `update` then takes the step's `learning_rate=`.

    factory: called with learning_rate=1, after which updates must be proportional to the learning
    rate. If it has such arguments, it also gets weight_decay, the mask of `decays`, and the axes of
    the matrices. Its other settings keep their defaults.
    """

    def mask(params):
        return jax.tree_util.tree_map_with_path(lambda path, _: decays(path), params)

    offered = {
        'weight_decay': weight_decay,
        'mask': mask,
        'weight_decay_mask': mask,
        'muon_weight_dimension_numbers': matrices,
    }
    known = inspect.signature(factory).parameters
    inner = factory(
        learning_rate=1.0, **{name: value for name, value in offered.items() if name in known}
    )

    def update(grads, state, params, *, learning_rate, **unused):
        updates, state = inner.update(grads, state, params)
        return jax.tree.map(lambda u: learning_rate * u, updates), state

    return clipped(optax.GradientTransformationExtraArgs(inner.init, update), clip)


def matrices(params: Any) -> Any:
    """The axes of each block's matrices, for optimizers such as Muon. None for other arrays.

    Blocks are stacked: the first axis of a kernel is the layer, and each layer has a matrix of its
    own. The inputs of attention's output kernel are two axes, heads and dimensions.
    """

    def axes(path, x):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        if 'blocks/' not in name or not name.endswith('kernel'):
            return None
        end = 3 if name.endswith('out/kernel') else 2
        return optax.contrib.MuonDimensionNumbers(tuple(range(1, end)), tuple(range(end, x.ndim)))

    return jax.tree_util.tree_map_with_path(axes, params)


def make(settings: tuple[tuple[str, Any], ...]) -> optax.GradientTransformationExtraArgs:
    """Builds the optimizer of `settings`.

    UserError if config.optimizer.kind names code that cannot be loaded.
    """
    values = dict(settings)
    kind = values.pop('kind')
    if kind == 'adam':
        return adam(**values)
    return from_optax(
        user_code.load(kind, 'config.optimizer.kind'), values['weight_decay'], values['clip']
    )


def schedule(name: str, *numbers: float) -> Callable[[Mapping[str, Any], jax.Array], jax.Array]:
    """Returns a function (hyperparameters, step) -> learning rate.

    A schedule of SCHEDULES is made in the step, of the traced hyperparameters that it reads. A
    user's schedule, FILE:NAME, is made here, of `numbers`: peak, warmup, total and decay in Python.
    The reason is that optax's builders compare the numbers, and traced arrays cannot be compared.
    """
    if name not in SCHEDULES:
        made_here = user_code.load(name, 'config.optimizer.schedule')(*numbers)
        return lambda hyper, step: made_here(step)
    made = SCHEDULES[name]
    read = inspect.signature(made).parameters
    return lambda hyper, step: made(*(hyper[field] for field in read))(step)


def schedule_key(values: Mapping[str, Any], warmup: float, total: int) -> tuple[Any, ...]:
    """The arguments of `schedule`, from config.optimizer.

    They are hashable, because runs with equal keys share a compiled program. The numbers of a
    built-in schedule are arguments of the step and not in the key. warmup, total: in steps.
    """
    name = values['schedule']
    return (
        (name,)
        if name in SCHEDULES
        else (name, values['peak_rate'], warmup, total, values['decay_steps'])
    )


def check(values: Mapping[str, Any], params: Callable[[], Any]) -> None:
    """Checks config.optimizer. Of a user's optimizer or schedule, only shapes and types are
    computed.

    UserError if `schedule` and `decay_steps` do not fit together, if the user's code cannot be
    loaded, fails, or returns something that training cannot use, and if a field is set that the
    optimizer does not read. params: () -> the parameters' shapes.
    """
    kind = values['kind']
    name = values['schedule']
    if name in SCHEDULES and (name == 'stable_decay') != (values['decay_steps'] > 0):
        raise UserError(
            f'config.optimizer.schedule = {name!r} with config.optimizer.decay_steps = '
            f"{values['decay_steps']}: 'stable_decay' needs at least 1 and no other schedule "
            'reads it'
        )
    if user_code.names_code(kind):
        factory = user_code.load(kind, 'config.optimizer.kind')
        with user_code.running(kind, 'config.optimizer.kind'):
            _check_unread(values, factory)
            transformation = make(settings(values))
            tree = params()
            state = jax.eval_shape(transformation.init, tree)
            found = jax.eval_shape(
                functools.partial(transformation.update, learning_rate=1e-3), tree, state, tree
            )
            for what, ours, theirs in zip(('updates', 'state'), found, (tree, state)):
                if _types(ours) != _types(theirs):
                    raise UserError(
                        f'its update returns a tree of {what} with other shapes or types than it '
                        'was given'
                    )
            if any(
                jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in jax.tree.leaves(state)
            ):
                raise UserError('its state has a random key, which no checkpoint can hold')
    if user_code.names_code(name):
        own = user_code.load(name, 'config.optimizer.schedule')
        with user_code.running(name, 'config.optimizer.schedule'):
            of_step = own(values['peak_rate'] or 1e-3, 10, 1000, values['decay_steps'])
            rate = jax.eval_shape(of_step, jax.ShapeDtypeStruct((), jnp.int32))
            if _types(rate) != _types(jax.ShapeDtypeStruct((), jnp.float32)):
                raise UserError(
                    'it must return a function from a step to one number, its learning rate'
                )


def _check_unread(values, factory):
    """UserError if a field of `adam` is set that the optimizer of `factory` does not read."""
    reads_decay = (
        'weight_decay' in inspect.signature(factory).parameters or values['weight_decay'] == 0
    )
    for name in ('b1', 'b2', 'eps', *(() if reads_decay else ('weight_decay',))):
        default = inspect.signature(adam).parameters[name].default
        if values[name] != default:
            raise UserError(
                f'config.optimizer.{name} = {values[name]} has no effect with it: leave it at '
                f'{default}'
            )


def _types(tree):
    return jax.tree.structure(tree), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def hyperparameters(config: Any, warmup: float, total: int) -> dict[str, np.generic]:
    """The scalars of a run's config that a training step takes besides state and batch.

    warmup, total: in steps.
    """
    return {
        'seed': np.uint32(config.seed),
        'skips': np.int32(config.train.skip_nonfinite),
        'peak': np.float32(config.optimizer.peak_rate),
        'warmup': np.float32(warmup),
        'total': np.float32(total),
        'decay': np.float32(config.optimizer.decay_steps),
    }


def settings(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The argument of `make`, from config.optimizer.

    It is hashable, because equal settings share a compiled program.
    """
    return (
        ('kind', values['kind']),
        *((name, float(values[name])) for name in inspect.signature(adam).parameters),
    )
