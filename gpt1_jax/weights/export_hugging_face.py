"""Exports a run as a directory that transformers loads: weights, config, tokenizer, model card.

See hugging_face.py.
"""

import dataclasses
import json

import jax
import numpy as np
import safetensors.numpy

from gpt1_jax import storage, user_code
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks.example import Task
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import workdir
from gpt1_jax.weights import model_card, names, tokenizer_json

DTYPES = ('float32', 'bfloat16')  # of stored weights
# Fields that do not change the function
NOT_STORED = ('n_special', 'dtype', 'precision', 'remat', 'unroll', 'kernels')


def export(
    path: storage.Path,
    out: storage.Path,
    step: int | None = None,
    license: str = 'other',
    dtype: str = 'float32',
) -> list[str]:
    """Writes the run in `path` as a directory for transformers. Returns the names of its files.

    step: as in Run.step.
    license: of the weights, for the model card: an identifier of Hugging Face's.
    dtype: of the stored weights, one of DTYPES. bfloat16 halves the file and rounds each weight to
        8 bits.

    UserError if transformers has no such model, and if `out` holds other files.
    """
    run = workdir.load(path)
    config, task = check(run)
    step = run.step(step)
    tokenizer = run.tokenizer()
    if task is None:
        arrays = _named(run, load.pretrained(run, step, sharding.make_mesh())[1])
        head = {'architectures': ['OpenAIGPTLMHeadModel']}
        notes = []
    else:
        arrays, head, notes = _classifier(run, task, load.fine_tuned(run, step).params)

    config |= {
        'vocab_size': len(arrays[names.PREFIX + names.TOKENS]),
        'dtype': dtype,
        'initializer_range': 0.02,
    } | head
    if dtype != 'float32':
        notes.append(f'Weights are stored in {dtype}, rounded from float32.')
    card = model_card.card(
        run, step, tokenizer, sum(array.size for array in arrays.values()), license, notes
    )
    # A file of weights may be passed on without its config.json
    mark = {names.SHIFTED: head[names.SHIFTED]} if task else {}
    weights = _serialized(
        {name: array.astype(dtype) for name, array in arrays.items()}, {'format': 'pt', **mark}
    )
    files = {
        names.CONFIG: json.dumps(config, indent=2).encode() + b'\n',
        names.WEIGHTS: weights,
        **tokenizer_json.files(tokenizer, config['n_positions'], specials=task is not None),
        'README.md': card.encode(),
    }
    folder = names.TOKENIZER.split('/')[0]
    if out.exists() and not {file.name.removesuffix('.partial') for file in out.iterdir()} <= {
        *files,
        folder,
    }:
        raise UserError(f'{out}: holds other files: give a new directory')
    storage.mkdir(out)
    tokenizer.save(out / names.TOKENIZER)
    for name, content in files.items():
        storage.write(out / name, content)
    return list(files)


def check(run: workdir.Run) -> tuple[dict, Task | None]:
    """Checks that transformers has such a model. UserError if it has not.

    Returns (the fields of config.json that follow from the run's model, a fine-tuned run's task).
    """
    kind = run.config['model']['kind']
    if kind != 'gpt':
        raise _refusal(run, f'model.kind is {kind!r}, and transformers has only the GPT')
    model = backbone(run.config['model']).config
    expressed = {*names.SIZES, *names.DROPOUTS, *NOT_STORED}
    fixed = {
        field.name: field.default
        for field in dataclasses.fields(model)
        if field.name not in expressed
    }
    for name, value in (fixed | {'n_inner': 4 * model.n_embd}).items():
        if getattr(model, name) != value:
            raise _refusal(
                run, f'model.{name} is {getattr(model, name)!r}, OpenAIGPT always has {value!r}'
            )
    if user_code.names_code(run.config.get('task')):
        raise _refusal(
            run, f'its task is code, {run.config["task"]}, and a Hugging Face directory has none'
        )
    task = tasks.of(load.fine_tuned_config(run)) if run.config['kind'] == 'finetune' else None
    if task is not None and task.head != 'classify':
        raise _refusal(
            run,
            f'the head of {task.name} ({task.head}) reads several sequences, '
            'OpenAIGPTForSequenceClassification one',
        )
    return names.FIXED | {
        theirs: getattr(model, ours) for ours, theirs in (names.SIZES | names.DROPOUTS).items()
    }, task


def _refusal(run, why):
    return UserError(f'{run.path}: cannot be exported: {why}')


def _classifier(run, task, params):
    """The parts of an OpenAIGPTForSequenceClassification, for tasks that read one sequence.

    Returns (arrays, further fields of config.json, notes for the card).
    """
    arrays = _named(run, params['backbone'])
    kernel = np.asarray(params['classifier']['kernel'])
    arrays['score.weight'] = np.ascontiguousarray(kernel.T)

    place = f'{names.PREFIX}h.{run.config["model"]["n_layer"] - 1}.ln_2.bias'
    bias = np.asarray(params['classifier']['bias'])
    arrays[place] = _shifted(arrays[place], kernel, bias, run)
    notes = [
        "The classifier's bias is folded into the bias of the last LayerNorm, because "
        'OpenAIGPTForSequenceClassification has none: logits are those of training, the states '
        'before them are shifted.'
    ]

    labels = ['score'] if task.squared else list(task.labels)
    config = {
        'architectures': ['OpenAIGPTForSequenceClassification'],
        'pad_token_id': 0,
        names.SHIFTED: place,
        'problem_type': 'regression' if task.squared else 'single_label_classification',
        'id2label': dict(enumerate(labels)),
        'label2id': {label: i for i, label in enumerate(labels)},
    }
    if task.score is not None:
        low, high = task.score
        notes.append(
            f'The prediction is {low:g} + {high - low:g} x the logit.'
            if task.squared
            else f'The labels are bins of a score, from {low:g} in steps of 1: the prediction is '
            'the expected value.'
        )
    return arrays, config, notes


def _serialized(arrays, metadata):
    """The bytes of a .safetensors file, with sorted metadata.

    safetensors writes metadata in random order.
    """
    content = safetensors.numpy.save(arrays, metadata)
    n = int.from_bytes(content[:8], 'little')
    header = json.dumps(
        json.loads(content[8 : 8 + n]), sort_keys=True, separators=(',', ':'), ensure_ascii=False
    )
    return content[:8] + header.encode().ljust(n) + content[8 + n :]


def _shifted(ln_bias, kernel, bias, run):
    """Changes the last LayerNorm's bias so that the logits contain the classifier's bias.

    transformers' linear layer has no bias. (Eq. 3 has none, but the released code has one.) A
    change d of the LayerNorm's bias adds d @ kernel to the logits, so solve d @ kernel = bias. The
    result is exact, because nothing else reads these states.

    ln_bias: [D]. kernel: [D, n_labels]. bias: [n_labels]. UserError if there is no solution.
    """
    kernel = np.asarray(kernel, np.float64)
    bias = np.asarray(bias, np.float64)
    shifted = (ln_bias + np.linalg.lstsq(kernel.T, bias)[0]).astype(np.float32)
    error = (shifted.astype(np.float64) - ln_bias) @ kernel - bias
    if np.abs(error).max() > 1e-5 * max(1, np.abs(bias).max()):
        raise _refusal(
            run,
            'OpenAIGPTForSequenceClassification has no bias, and this '
            "classifier's weights are "
            'linearly dependent, so its bias cannot move into the last LayerNorm',
        )
    return shifted


def _named(run, params):
    """{name in transformers: array} of a backbone's parameters."""
    try:
        arrays = names.from_tree(run.config['model'], jax.device_get(params))
    except UserError as error:
        raise _refusal(run, error) from None
    return {names.PREFIX + name: array for name, array in arrays.items()}
