"""Weights of Hugging Face's OpenAIGPT, model.safetensors and config.json, as a pretrained run. See hugging_face.py."""
import pathlib
import re

import numpy as np
import safetensors

from gpt1_jax import storage
from gpt1_jax.errors import UserError, about, shown
from gpt1_jax.runs import workdir
from gpt1_jax.weights import find_tokenizer, import_run, names

DTYPES = ('F32', 'F16', 'BF16')
TIED = 'lm_head.weight'  # the output layer: absent, or equal to the token embedding
MASKS = r'(transformer\.)?(h\.\d+\.attn\.bias|position_ids)'  # older versions of transformers stored these constants
HEADS = r'score\.weight|multiple_choice_head\.summary\.(weight|bias)'  # of transformers' classes for tasks: left out
OTHERS = {'pytorch_model.bin': 'is a pickle, which is never read',
          'pytorch_model.bin.index.json': 'names pickles, which are never read',
          'model.safetensors.index.json': 'the weights are in several files'}
AGAIN = "load it by transformers and save it by save_pretrained(DIR, max_shard_size='10GB')"


def convert(source: str | pathlib.Path, out: str | pathlib.Path, tokenizer: str | pathlib.Path | None = None,
            n_head: int | None = None, origin: str = 'Hugging Face') -> workdir.Run:
    """Make the run directory `out` of a Hugging Face directory, or of a .safetensors file; returns the workdir.Run.

    tokenizer: where the vocabulary is, see find_tokenizer.find; default beside the weights. n_head: for a file alone,
    which does not say it (default 12). origin: where the files are from, for the record. UserError naming the file, and
    the array in it, that is missing or does not fit.
    """
    if storage.remote(source):
        raise UserError(f'{source}: copy the files to this machine first')
    weights, config = _files(pathlib.Path(source))
    stated = {}
    sources = [weights]
    if config is not None:
        stated = read_config(config)
        sources.append(config)
    with _opened(weights) as file:
        stored, model, left_out = _check(file, weights, stated, n_head)

        directory = tokenizer or weights.parent
        vocabulary, vocabulary_files = find_tokenizer.find(directory)
        added = find_tokenizer.added(directory, vocabulary.vocab_size)
        if added and vocabulary.vocab_size + added == model['vocab_size']:
            model['vocab_size'] = vocabulary.vocab_size
            left_out.append(f'{names.TOKENS}: its last {added} rows, of tokens that were added to the vocabulary')
        import_run.check_tokenizer(vocabulary, model['vocab_size'], vocabulary_files[0])

        def read(name):
            array = file.get_tensor(stored[name])
            if not np.isfinite(array).all():
                raise UserError(f'{weights}: {stored[name]} holds values that are not finite')
            if name == names.TOKENS:
                array = array[:model['vocab_size']]
            return array.astype(np.float32, copy=False)
        return import_run.write(out, origin, model, read, vocabulary, [*sources, *vocabulary_files], left_out)


def _files(source):
    """(the .safetensors file, config.json or None) of a directory or a file. UserError where the weights are in another
    form."""
    if source.suffix == '.safetensors':
        return source, None
    with about(source):
        if source.is_file():
            raise UserError(f'{source}: {OTHERS.get(source.name, "is no .safetensors file")}: {AGAIN}')
        if not (source / names.WEIGHTS).exists():
            for name, why in OTHERS.items():
                if (source / name).exists():
                    raise UserError(f'{source / name}: {why}: {AGAIN}')
    return source / names.WEIGHTS, source / names.CONFIG


def _opened(file):
    """A .safetensors file, memory-mapped. UserError unless its header fits its size; nothing else is read yet."""
    with about(file):
        open(file, 'rb').close()
    try:
        return safetensors.safe_open(file, 'numpy')
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f'{file}: not a complete safetensors file ({error})') from None


def read_config(file: pathlib.Path) -> dict:
    """config.json as a dict. UserError unless it is of an OpenAIGPT that computes what our GPT does."""
    config = storage.read_json(file)
    if not isinstance(config, dict):
        raise UserError(f'{file}: is {shown(config)}, must be an object')
    for name, value in names.FIXED.items():
        if config.get(name, value) != value:
            raise UserError(f'{file}: {name} is {shown(config[name])}, must be {value!r}')
    return config


def _check(file, where, stated, n_head):
    """({name in names.shapes: name in the file}, a run's 'model', names of arrays that are not imported).

    file: open; only its header is read. stated: config.json. UserError naming the array that is missing, unknown,
    or of another shape or dtype.
    """
    if names.SHIFTED in stated or names.SHIFTED in (file.metadata() or {}):
        raise UserError(f'{where}: a classifier that gpt1_jax exported, whose bias is in its last LayerNorm: import '
                        'the pretrained model')
    stored = {name.removeprefix(names.PREFIX): name for name in file.keys() if not re.fullmatch(MASKS, name)}
    if TIED in stored and names.TOKENS not in stored:  # transformers may store either of the two
        stored[names.TOKENS] = stored.pop(TIED)
    headers = {name: file.get_slice(full) for name, full in stored.items()}
    shapes = {name: tuple(header.get_shape()) for name, header in headers.items()}
    model = _model(shapes, where, stated, n_head)
    wanted = names.shapes(model)
    for name in wanted:
        if name not in stored:
            raise UserError(f'{where}: {name} is missing')
    left_out = [name for name in stored if re.fullmatch(HEADS, name)]
    for name, full in stored.items():
        if name not in wanted and name != TIED and name not in left_out:
            raise UserError(f'{where}: {full} is no array of a GPT-1 language model')
    for name, shape in (wanted | {TIED: wanted[names.TOKENS]}).items():
        if name not in stored:
            continue
        if shapes[name] != shape:
            raise UserError(f'{where}: {stored[name]} has shape {shapes[name]}, must be {shape}')
        dtype = headers[name].get_dtype()
        if dtype not in DTYPES:
            raise UserError(f'{where}: {stored[name]} is {dtype}, must be one of {", ".join(DTYPES)}')
    if TIED in stored:
        output, tokens = (file.get_tensor(stored[name]) for name in (TIED, names.TOKENS))
        if not np.array_equal(output, tokens):
            raise UserError(f"{where}: {TIED} is another matrix than {names.TOKENS}: GPT-1's output layer is tied")
    return {name: stored[name] for name in wanted}, model, left_out


def _model(shapes, where, stated, n_head):
    """A run's 'model', by the shapes of the arrays. UserError where config.json says otherwise."""
    for name, rank in {names.TOKENS: 2, names.POSITIONS: 2, 'h.0.mlp.c_fc.bias': 1}.items():
        if name not in shapes:
            raise UserError(f'{where}: {name} is missing')
        if len(shapes[name]) != rank:
            raise UserError(f'{where}: {name} has shape {shapes[name]}, must have {rank} dimensions')
    blocks = [int(name.split('.')[1]) for name in shapes if re.fullmatch(r'h\.\d{1,9}\..*', name)]
    n_layer = 1 + max(blocks)
    if n_layer > len(shapes):
        raise UserError(f'{where}: has arrays of block {n_layer - 1:,}, but not of all before it')
    vocab_size, n_embd = shapes[names.TOKENS]
    if n_head is None:
        n_head = stated.get('n_head', import_run.HEADS)
    sizes = {'vocab_size': vocab_size, 'n_ctx': shapes[names.POSITIONS][0], 'n_embd': n_embd, 'n_layer': n_layer,
             'n_head': n_head}
    for ours, name in names.SIZES.items():
        if stated.get(name, sizes[ours]) != sizes[ours]:
            raise UserError(f'{where}: {name} is {sizes[ours]}, {names.CONFIG} says {shown(stated[name])}')
    dropouts = {ours: stated[name] for ours, name in names.DROPOUTS.items() if name in stated}
    try:
        return import_run.fields(sizes | dropouts | {'n_inner': shapes['h.0.mlp.c_fc.bias'][0]})
    except UserError as error:
        raise UserError(f'{where}: {error}') from None
