"""Section 5, Table 5: builds the backbone that `config.model` describes, a GPT or an LSTM. Chosen only here."""
import dataclasses

from gpt1_jax.errors import UserError, did_you_mean, shown
from gpt1_jax.models.gpt import GPT, GPTConfig
from gpt1_jax.models.lstm import LSTM, LSTMConfig

KINDS = {'gpt': (GPT, GPTConfig), 'lstm': (LSTM, LSTMConfig)}
# Fields that fine-tuning takes from its pretrained run, besides the kind: the shapes of the weights and the context.
SIZES = {'gpt': ('n_layer', 'n_embd', 'n_head', 'n_inner', 'n_ctx', 'ops'), 'lstm': ('n_units', 'n_ctx')}
# Fields that were added after runs without them had been trained, with the values that these runs have.
ADDED: dict[str, dict[str, dict]] = {'gpt': {'ops': {}}, 'lstm': {}}


def backbone(fields: dict) -> GPT | LSTM:
    """The module that `fields` describe. Its `config` has vocab_size, n_ctx, n_embd (width) and n_layer (depth).

    fields: {'kind': 'gpt' or 'lstm', ...}, by default 'gpt'. Each kind reads its own fields and ignores the other's, as
    config.model has those of both; the defaults are the paper's. UserError for an unknown kind or field, or a value
    that the kind's config refuses.
    """
    own = own_fields(fields)
    module, config = KINDS[own.pop('kind')]
    if 'ops' in own:
        own['ops'] = tuple(sorted(own['ops'].items()))  # hashable
    return module(config(**own))


def own_fields(fields: dict) -> dict:
    """The kind and the fields that it reads: what a run's config.json stores. UserErrors as above."""
    kind = fields.get('kind', 'gpt')
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f'model.kind is {shown(kind)}{did_you_mean(str(kind).lower(), KINDS)} '
                        f'(there are {", ".join(map(repr, KINDS))})')
    known = {name: {f.name for f in dataclasses.fields(config)} for name, (_, config) in KINDS.items()}
    anywhere = set.union(*known.values())
    for name in fields:
        if name != 'kind' and name not in anywhere:
            raise UserError(f'unknown field model.{name}{did_you_mean(name, sorted(anywhere))}')
    own = {'kind': kind} | {name: value for name, value in fields.items() if name in known[kind]}
    if 'ops' in known[kind]:
        own['ops'] = {name: code for name, code in dict(own.get('ops', {})).items() if code is not None}
    return own
