"""Section 5, Table 5: builds the backbone that `config.model` describes, and the model of a task.

A backbone is a GPT, an LSTM, or a class written by the user.
"""

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax import user_code
from gpt1_jax.errors import UserError, did_you_mean, in_code, shown
from gpt1_jax.models import dropout, kv_cache
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.heads import TaskModel
from gpt1_jax.models.lstm import LSTM, LSTMConfig

KINDS = {'gpt': (GPT, GPTConfig), 'lstm': (LSTM, LSTMConfig)}
# Fields that fine-tuning sets itself. All other fields are the shapes of the weights, which
# fine-tuning takes from its pretrained run.
NOT_SIZES = (
    'vocab_size',
    'n_special',
    'embd_dropout',
    'attn_dropout',
    'resid_dropout',
    'dtype',
    'precision',
    'remat',
    'unroll',
    'kernels',
)


def backbone(fields: dict) -> Any:
    """Builds the module that `fields` describe.

    The module's `config` has vocab_size, n_ctx, n_embd (width) and n_layer (depth).

    fields: {'kind': 'gpt', 'lstm' or 'FILE:CLASS', ...}; the kind is 'gpt' by default. Each kind
    reads its fields and ignores the fields of other kinds, because config.model has the fields of
    all kinds. The defaults are the paper's.

    UserError for an unknown kind or field, for a value that the kind's config refuses, or for a
    user's class that lacks GPT's interface.
    """
    own = own_fields(fields)
    kind = own.pop('kind')
    module, config = _classes(kind)
    if 'ops' in own:
        own['ops'] = tuple(sorted(own['ops'].items()))  # hashable
    if kind in KINDS:
        return module(config(**own))
    with in_code(kind.rpartition(':')[0]):
        return _of_user(kind, module, config(**own))


def task_model(task: Any, fields: dict, classifier_dropout: float) -> TaskModel:
    """Builds the model of a task.

    task: its head, labels and squared are read. fields: a run's config['model'].
    """
    n_labels = 1 if task.squared else len(task.labels)
    module = backbone(fields | {'n_special': 3})  # start, delimiter, extract (Section 3.3)
    return TaskModel(module, task.head, n_labels, classifier_dropout)


def init_params(model: TaskModel, sequences: int, seed: int | jax.Array) -> Any:
    """Returns fresh parameters.

    sequences: K of the model's inputs. seed: an int or a uint32 scalar.
    """
    tokens = jnp.zeros((1, sequences, 1), jnp.int32)
    extract = jnp.zeros((1, sequences), jnp.int32)
    return model.init(jax.random.key(seed), tokens, extract)['params']


def shapes(module: Any) -> Any:
    """The parameters of a backbone as ShapeDtypeStructs."""
    return jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']


def precision(config: Any) -> Callable[[], contextlib.AbstractContextManager]:
    """The context in which to call a backbone's jitted functions, as config.precision asks.

    By default JAX multiplies float32 matrices on GPUs in TF32 (a mantissa of 10 bits instead of 23)
    and on TPUs in one pass of bfloat16 (7 bits). 'highest' is float32, 'high' three passes or TF32,
    'default' JAX's setting. Gradients have the same precision. A CPU always computes in float32.
    With dtype = 'bfloat16' none of this applies.
    """
    if config.dtype != 'float32' or config.precision == 'default':
        return contextlib.nullcontext  # JAX's own setting, jax_default_matmul_precision
    return functools.partial(jax.default_matmul_precision, config.precision)


def own_fields(fields: dict) -> dict:
    """Returns the kind and the fields that this kind reads, as a run's config.json stores them.

    UserErrors as for `backbone`.
    """
    kind = fields.get('kind', 'gpt')
    known = {field.name: field.default for field in dataclasses.fields(_classes(kind)[1])}
    anywhere = {
        *known,
        *(field.name for _, config in KINDS.values() for field in dataclasses.fields(config)),
    }
    for name in fields:
        if name != 'kind' and name not in anywhere:
            raise UserError(f'unknown field model.{name}{did_you_mean(name, sorted(anywhere))}')
    own = {name: value for name, value in fields.items() if name in known}
    if user_code.names_code(kind):  # a user's fields need not be in it
        own = {
            name: value
            for name, value in known.items()
            if name not in ('vocab_size', 'n_special') and value is not dataclasses.MISSING
        } | own
    replaced = {
        name: code for name, code in dict(fields.get('ops', {})).items() if code is not None
    }
    if 'ops' in known:
        own['ops'] = replaced
    elif replaced:
        raise UserError(f'model.ops.{min(replaced)}: model.kind = {kind!r} has no such operation')
    return {'kind': kind} | own


def sizes(kind: str) -> tuple[str, ...]:
    """Fields that fine-tuning takes from its pretrained run, besides the kind."""
    return tuple(
        field.name for field in dataclasses.fields(_classes(kind)[1]) if field.name not in NOT_SIZES
    )


def _classes(kind):
    """(module, config) classes of a kind. UserError for an unknown kind."""
    if user_code.names_code(kind):
        module = user_code.load(kind, 'config.model.kind')
        annotated = (
            {f.name: f.type for f in dataclasses.fields(module)}
            if dataclasses.is_dataclass(module)
            else {}
        )
        config = annotated.get('config')
        if isinstance(config, str):  # from __future__ import annotations
            config = getattr(sys.modules[module.__module__], config, None)
        if not dataclasses.is_dataclass(config) or not config.__dataclass_params__.frozen:
            raise UserError(
                f'config.model.kind = {kind}: is not a Flax module with a field `config` that is '
                'annotated with a frozen dataclass, as GPT'
            )
        return module, config
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(
            f'model.kind is {shown(kind)}{did_you_mean(str(kind).lower(), KINDS)} (there are '
            f'{", ".join(map(repr, KINDS))}, and FILE:CLASS)'
        )
    return KINDS[kind]


@functools.cache
def _of_user(kind, module, config):
    """Instantiates a user's class after checking that it matches GPT's interface.

    The check infers shapes and computes nothing.
    """
    model = module(config)
    found = jax.eval_shape(functools.partial(_interface, model))
    B = 2
    L = min(3, config.n_ctx)
    c = config
    states = (B, L, c.n_embd), str(jnp.dtype(c.dtype))
    depths = {leaf.shape[:1] for leaf in jax.tree.leaves(found['params'].get('blocks', {}))}
    for what, is_right in {
        "parameters {'embed': ..., 'blocks': ...}": {'embed', 'blocks'} <= found['params'].keys(),
        f'arrays in blocks whose first axis is n_layer = {c.n_layer}': depths == {(c.n_layer,)},
        f'states of shape and type {states}': {(h.shape, str(h.dtype)) for h in found['states']}
        == {states},
        f'logits of shape {(B, L, c.vocab_size)}': found['logits'].shape == (B, L, c.vocab_size),
    }.items():
        if not is_right:
            raise UserError(f'{kind.rpartition(":")[2]} must have {what}')
    return model


def _interface(model):
    """Calls GPT's interface as training, evaluation and decoding do, and returns the results."""
    tokens = jnp.zeros((2, min(3, model.config.n_ctx)), jnp.int32)
    variables = model.init(jax.random.key(0), tokens[:1, :1])
    zero = jnp.uint32(0)
    trained, rows = model.apply(variables, tokens, dropout.Key(zero, zero, zero))
    evaluated, _ = model.apply(variables, tokens)
    cache = model.empty_cache(2)
    (cached, _), _ = kv_cache.read(model, variables['params'], cache, tokens, jnp.array([1, 2]))
    return {
        'params': variables['params'],
        'states': [trained, evaluated, cached],
        'logits': model.logits(trained, rows),
    }
