"""Section 5, Table 5: which backbone a run has, by the fields of its `config.model`. None is named but here."""
import dataclasses
import difflib

from gpt1_jax.errors import UserError, shown
from gpt1_jax.lstm import LSTM, LSTMConfig
from gpt1_jax.model import GPT, GPTConfig

KINDS = {'gpt': (GPT, GPTConfig), 'lstm': (LSTM, LSTMConfig)}
# What fine-tuning takes over from its pretrained run, besides the kind: the shapes of the weights and the context.
SIZES = {'gpt': ('n_layer', 'n_embd', 'n_head', 'n_inner', 'n_ctx'), 'lstm': ('n_units', 'n_ctx')}


def backbone(fields):
    """The module `fields` describe; its `config` has vocab_size, n_ctx, n_embd (the width) and n_layer (the depth).

    fields: {'kind': 'gpt' or 'lstm', ...}: 'gpt' where there is none, as in runs from before there was a choice. Of the
    others, each kind reads its own, with the paper's defaults; config.model has those of both.
    UserError for a kind or a field that is none, and for a value that cannot be.
    """
    own = own_fields(fields)
    module, config = KINDS[own.pop('kind')]
    return module(config(**own))


def own_fields(fields):
    """The fields that the kind reads, and the kind: what a run's config.json stores. UserErrors as above."""
    kind = fields.get('kind', 'gpt')
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f'model.kind is {shown(kind)}, must be one of {", ".join(map(repr, KINDS))}'
                        f'{_near(kind, KINDS) if isinstance(kind, str) else ""}')
    known = {name: {f.name for f in dataclasses.fields(config)} for name, (_, config) in KINDS.items()}
    anywhere = set.union(*known.values())
    for name in fields:
        if name != 'kind' and name not in anywhere:
            raise UserError(f'model.{name} is no field of any model{_near(name, anywhere)}')
    return {'kind': kind} | {name: value for name, value in fields.items() if name in known[kind]}


def _near(name, names):
    """'; did you mean 'lstm'?', or nothing."""
    close = difflib.get_close_matches(str(name).lower(), sorted(names), 1)
    return f'; did you mean {close[0]!r}?' if close else ''
