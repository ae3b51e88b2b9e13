"""Hugging Face's OpenAIGPT, both ways: a run to a directory that transformers loads, and such a directory to a run.

    python -m gpt1_jax.weights.hugging_face --export=runs/gpt1 --out=exports/gpt1 --license=apache-2.0
    python -m gpt1_jax.weights.hugging_face --source=exports/gpt1 --out=runs/imported

A pretrained run becomes an OpenAIGPTLMHeadModel, a fine-tuned classifier an OpenAIGPTForSequenceClassification. Weights
are float32 both ways and come back to the bit; float16 and bfloat16 are read too, whose values float32 has. Of a model
with another head the backbone is taken. Pickles (pytorch_model.bin) are never read.
"""
import contextlib
import json
import pathlib
import re

import jax
import numpy as np
import safetensors
import safetensors.numpy
from absl import flags

from gpt1_jax import cli, evaluation, prediction, scoring, sharding, storage, workdir
from gpt1_jax.backbone import backbone
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError, about, shown
from gpt1_jax.weights import imported, layout, model_card, tokenizer_files, vocabulary

WEIGHTS, CONFIG = 'model.safetensors', 'config.json'
SIZES = {'vocab_size': 'vocab_size', 'n_ctx': 'n_positions', 'n_embd': 'n_embd', 'n_layer': 'n_layer',
         'n_head': 'n_head'}
DROPOUTS = {'embd_dropout': 'embd_pdrop', 'attn_dropout': 'attn_pdrop', 'resid_dropout': 'resid_pdrop'}
FIXED = {'model_type': 'openai-gpt', 'afn': 'gelu', 'layer_norm_epsilon': 1e-5, 'tie_word_embeddings': True}
TYPES = ('F32', 'F16', 'BF16')
TOKENS = 'tokens_embed.weight'
PREFIX, TIED = 'transformer.', 'lm_head.weight'  # names in a file may have the one, and it may have the other
MASKS = r'(transformer\.)?(h\.\d+\.attn\.bias|position_ids)'  # older versions of transformers stored these constants
HEADS = r'score\.weight|multiple_choice_head\.summary\.(weight|bias)'  # of its classes for tasks
SHIFTED = 'classifier_bias_in'  # in config.json and the file's header: the array that holds it, see _classifier
OTHERS = {'pytorch_model.bin': 'is a pickle, which is never read',
          'pytorch_model.bin.index.json': 'names pickles, which are never read',
          'model.safetensors.index.json': 'the weights are in several files'}
AGAIN = "load it by transformers and save it by save_pretrained(DIR, max_shard_size='10GB')"


def export(path, out, step=None, license='other'):
    """Write the run in `path` as a directory for transformers; returns the names of its files.

    step: as in Run.step. license: of the weights, for the model card: an identifier of Hugging Face's.
    UserError where transformers has no such model, which says why, and where `out` holds other files.
    """
    run = workdir.load(path)
    if run.config['model']['kind'] != 'gpt':
        raise UserError(f'{path}: transformers has no {run.config["model"]["kind"]} of this kind: only a GPT can be '
                        'exported')
    model = vars(backbone(run.config['model']).config)
    if model['n_inner'] != 4 * model['n_embd']:
        raise UserError(f'{path}: model.n_inner is {model["n_inner"]}, but OpenAIGPT has 4 x {model["n_embd"]} '
                        'always: it cannot be exported')
    step, tokenizer, tuned = run.step(step), run.tokenizer(), run.config['kind'] == 'finetune'
    arrays, more, notes = (_classifier if tuned else _language_model)(run, step)
    config = FIXED | {name: model[ours] for ours, name in (SIZES | DROPOUTS).items()} | {
        'vocab_size': len(arrays[PREFIX + TOKENS]), 'dtype': 'float32', 'initializer_range': 0.02, **more}
    found = {CONFIG: json.dumps(config, indent=2).encode() + b'\n',
             WEIGHTS: safetensors.numpy.save(arrays, {'format': 'pt'} | ({SHIFTED: more[SHIFTED]} if tuned else {})),
             **tokenizer_files.files(tokenizer, model['n_ctx'], specials=tuned),
             'README.md': model_card.card(run, step, tokenizer, sum(a.size for a in arrays.values()), license,
                                          notes).encode()}
    out, own = storage.path(out), {*found, vocabulary.OURS.split('/')[0]}
    with about(out):
        if out.exists() and not (out.is_dir() and own.issuperset(
                p.name.removesuffix('.partial') for p in out.iterdir())):
            raise UserError(f'{out}: holds other files: give a new directory')
        storage.mkdir(out)
        for name, content in found.items():
            storage.write(out / name, content)
    tokenizer.save(out / vocabulary.OURS)
    return list(found)


def _language_model(run, step):
    _, params = scoring.restore(run, step, sharding.make_mesh())
    return _named(run, params), {'architectures': ['OpenAIGPTLMHeadModel']}, []


def _named(run, params):
    """{transformers' name: array} of a backbone's parameters."""
    arrays = layout.from_tree(run.config['model'], jax.device_get(params))
    return {PREFIX + name: array for name, array in arrays.items()}


def _classifier(run, step):
    """transformers' linear layer has no bias (Eq. 3 has none, the released code one), so the last LayerNorm's bias
    takes it up: that is exact, as nothing else reads these states."""
    task = tasks.of(evaluation.check(run))
    if task.head != 'classify':
        why = {'similarity': 'adds the states of both orders of a pair', 'choice': 'compares the states of the choices'}
        raise UserError(f"{run.path}: the head of {task.name} {why[task.head]}, OpenAIGPTForSequenceClassification "
                        'reads one sequence: it cannot be exported')
    params = prediction.load(run, step).params
    arrays = _named(run, params['backbone'])
    kernel, bias = (np.asarray(params['classifier'][name], np.float64) for name in ('kernel', 'bias'))
    place = f'{PREFIX}h.{run.config["model"]["n_layer"] - 1}.ln_2.bias'
    old = arrays[place]
    arrays[place] = (old + np.linalg.lstsq(kernel.T, bias)[0]).astype(np.float32)
    if np.abs((arrays[place].astype(np.float64) - old) @ kernel - bias).max() > 1e-5 * max(1, np.abs(bias).max()):
        raise UserError(f"{run.path}: the classifier's bias cannot be told from its weights, which depend on each "
                        'other, and OpenAIGPTForSequenceClassification has none: it cannot be exported')
    labels = list(task.labels) if not task.squared else ['score']
    more = {'architectures': ['OpenAIGPTForSequenceClassification'], 'pad_token_id': 0, SHIFTED: place,
            'problem_type': 'regression' if task.squared else 'single_label_classification',
            'id2label': dict(enumerate(labels)), 'label2id': {label: i for i, label in enumerate(labels)}}
    notes = ["The classifier's bias is in the bias of the last LayerNorm, as OpenAIGPTForSequenceClassification has "
             'none of its own: logits are those of training, the states before them are shifted.']
    if task.score is not None:
        low, high = task.score
        notes.append(f'The prediction is {low:g} + {high - low:g} x the logit.' if task.squared else 'The labels are '
                     f'bins of a score, from {low:g} in steps of 1: the prediction is the expected value.')
    return arrays | {'score.weight': np.ascontiguousarray(params['classifier']['kernel'].T)}, more, notes


def convert(source, out, tokenizer=None, n_head=None):
    """Make the run directory `out` of a Hugging Face directory, or of a .safetensors file; returns the workdir.Run.

    tokenizer: where the vocabulary is, see vocabulary.find; default beside the weights. n_head: for a file alone, which
    does not say it (default 12). UserError naming the file, and the array in it, that is missing or does not fit.
    """
    if storage.remote(source):
        raise UserError(f'{source}: copy the files to this machine first')
    weights, config = _files(pathlib.Path(source))
    stated = {} if config is None else read_config(config)
    if n_head is not None and stated.get('n_head', n_head) != n_head:
        raise UserError(f'{config}: n_head is {stated["n_head"]}, not {n_head}')
    place = tokenizer or weights.parent
    with _opened(weights) as file:
        names, model, left_out = _check(file, weights, stated, n_head)
        chosen, paths = vocabulary.find(place)
        more = vocabulary.added(place, chosen.vocab_size)
        if more and chosen.vocab_size + more == model['vocab_size']:
            model['vocab_size'] = chosen.vocab_size
            left_out.append(f'{TOKENS}: its last {more} rows, of tokens that were added to the vocabulary')
        imported.check_tokenizer(chosen, model['vocab_size'], paths[0])

        def read(name):
            array = file.get_tensor(names[name])
            if not np.isfinite(array).all():
                raise UserError(f'{weights}: {names[name]} holds values that are not finite')
            return (array[:model['vocab_size']] if name == TOKENS else array).astype(np.float32, copy=False)
        return imported.write(out, 'Hugging Face', model, read, chosen,
                              [weights, *([config] if config else []), *paths], left_out)


def _files(source):
    """(the .safetensors file, config.json or None) of a directory or a file. UserError where the weights are in another
    form."""
    if source.suffix == '.safetensors':
        return source, None
    with about(source):
        if source.is_file():
            raise UserError(f'{source}: {OTHERS.get(source.name, "is no .safetensors file")}: {AGAIN}')
        if not (source / WEIGHTS).exists():
            for name, why in OTHERS.items():
                if (source / name).exists():
                    raise UserError(f'{source / name}: {why}: {AGAIN}')
    return source / WEIGHTS, source / CONFIG


@contextlib.contextmanager
def _opened(file):
    """A .safetensors file, mapped. UserError unless its header fits its size; nothing else is read yet."""
    with about(file):
        open(file, 'rb').close()
    try:
        found = safetensors.safe_open(file, 'numpy')
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f'{file}: not a complete safetensors file ({error})') from None
    with found:
        yield found


def read_config(file):
    """config.json as a dict. UserError unless it is of an OpenAIGPT that computes what ours does."""
    with about(file):
        content = file.read_bytes()
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UserError(f'{file}: not JSON ({error})') from None
    if not isinstance(found, dict):
        raise UserError(f'{file}: is {shown(found)}, must be an object')
    for name, value in FIXED.items():
        if found.get(name, value) != value:
            raise UserError(f'{file}: {name} is {shown(found[name])}, must be {value!r}')
    for name in SIZES.values():
        if name in found and (type(found[name]) is not int or not 0 < found[name] < 2 ** 31):
            raise UserError(f'{file}: {name} is {shown(found[name])}, must be a whole number')
    return found


def _check(file, where, stated, n_head):
    """Of an open file, of which only the header is read: ({name in layout.shapes: name in the file}, a run's 'model',
    [what is left out]).

    UserError naming the array that is missing, unknown, of another shape or type.
    """
    if SHIFTED in stated or SHIFTED in (file.metadata() or {}):
        raise UserError(f'{where}: a classifier that gpt1_jax exported, whose bias is in its last LayerNorm: import '
                        'the pretrained model')
    given = [name for name in file.keys() if not re.fullmatch(MASKS, name)]
    names = {name.removeprefix(PREFIX): name for name in given}
    for name in sorted(set(given) - set(names.values()))[:1]:
        raise UserError(f'{where}: has {name} with and without {PREFIX}')
    if TIED in names and TOKENS not in names:  # transformers leaves out either of the two
        names[TOKENS] = names.pop(TIED)
    slices = {name: file.get_slice(full) for name, full in names.items()}
    shapes = {name: tuple(found.get_shape()) for name, found in slices.items()}
    for name, rank in {TOKENS: 2, 'positions_embed.weight': 2, 'h.0.mlp.c_fc.bias': 1}.items():
        if len(shapes.get(name, ())) != rank:
            raise UserError(f'{where}: {name} ' + (f'has shape {shapes[name]}, must have {rank} dimensions'
                                                   if name in shapes else 'is missing'))
    depth = 1 + max(int(name.split('.')[1]) for name in names if re.fullmatch(r'h\.\d{1,9}\..*', name))
    if depth > len(names):
        raise UserError(f'{where}: has arrays of block {depth - 1:,}, but not of all before it')
    n_ctx, (vocab_size, n_embd) = shapes['positions_embed.weight'][0], shapes[TOKENS]
    sizes = {'vocab_size': vocab_size, 'n_ctx': n_ctx, 'n_embd': n_embd, 'n_layer': depth,
             'n_head': stated.get('n_head', imported.HEADS if n_head is None else n_head)}
    for ours, name in SIZES.items():
        if stated.get(name, sizes[ours]) != sizes[ours]:
            raise UserError(f'{where}: the arrays say that {name} is {sizes[ours]}, {CONFIG} says {stated[name]}')
    dropouts = {ours: stated[name] for ours, name in DROPOUTS.items() if name in stated}
    try:
        model = imported.fields(sizes | dropouts | {'n_inner': shapes['h.0.mlp.c_fc.bias'][0]})
    except UserError as error:
        raise UserError(f'{where}: {error}') from None
    wanted = layout.shapes(model)
    for name in sorted(wanted.keys() - names)[:1]:
        raise UserError(f'{where}: {name} is missing')
    heads = [name for name in names if re.fullmatch(HEADS, name)]
    for name in sorted(names.keys() - wanted - {TIED, *heads})[:1]:
        raise UserError(f'{where}: {names[name]} is no array of a GPT-1 language model')
    for name, shape in (wanted | {TIED: wanted[TOKENS]}).items():
        if name in names and shapes[name] != shape:
            raise UserError(f'{where}: {names[name]} has shape {shapes[name]}, must be {shape}')
        if name in names and slices[name].get_dtype() not in TYPES:
            raise UserError(f'{where}: {names[name]} is {slices[name].get_dtype()}, must be one of {", ".join(TYPES)}')
    if TIED in names and not np.array_equal(*(file.get_tensor(names[n]) for n in (TIED, TOKENS))):
        raise UserError(f"{where}: {TIED} is another matrix than {TOKENS}: GPT-1's output layer is tied")
    return {name: names[name] for name in wanted}, model, heads


def _define_flags():
    flags.DEFINE_string('export', None, 'a run to export')
    flags.DEFINE_string('source', None, 'a directory of Hugging Face, or a .safetensors file, to import')
    flags.DEFINE_string('out', None, 'the directory to make', required=True)
    flags.DEFINE_integer('step', None, 'with --export: a saved update (default: the best one of a fine-tuned run, the '
                         'latest one of a pretrained run)')
    flags.DEFINE_string('license', 'other', "with --export: of the weights, for the model card, as Hugging Face's "
                        "identifiers say it: 'mit', 'apache-2.0', ...")
    flags.DEFINE_string('tokenizer', None, 'with --source: a directory of the vocabulary, or a run that has it '
                        '(default: beside the weights)')
    flags.DEFINE_integer('n_head', None, 'with --source=FILE.safetensors, which does not say it: attention heads '
                         '(default: 12)')


def main():
    f = flags.FLAGS
    if (f.export is None) == (f.source is None):
        raise UserError('give either --export=RUN or --source=DIR_OR_FILE')
    if f.source:
        print(imported.report(convert(f.source, f.out, f.tokenizer, f.n_head)))
    else:
        print(f'{f.out}: ' + ', '.join(export(f.export, f.out, f.step, f.license)))


if __name__ == '__main__':
    cli.run(main, _define_flags)
