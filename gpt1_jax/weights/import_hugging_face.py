"""Imports a Hugging Face OpenAIGPT, model.safetensors and config.json, as a run.

See hugging_face.py.
"""

import re

import numpy as np
import safetensors
import safetensors.numpy

from gpt1_jax import storage
from gpt1_jax.data.published import from_published, from_tokenizer_json
from gpt1_jax.data.tokenizer import MODEL_FILE, SETTINGS_FILE, Tokenizer
from gpt1_jax.errors import UserError, shown
from gpt1_jax.runs import workdir
from gpt1_jax.weights import import_run, names

DTYPES = ('F32', 'F16', 'BF16')
LARGEST = 1e15  # of a weight: products of a few such values overflow float32
TIED = 'lm_head.weight'  # the output layer: absent, or equal to the token embedding
# Constants that older versions of transformers stored
MASKS = r'(transformer\.)?(h\.\d+\.attn\.bias|position_ids)'
# Heads of transformers' classes for tasks, which are left out
HEADS = r'score\.weight|multiple_choice_head\.summary\.(weight|bias)'
PUBLISHED = (('vocab.json', 'merges.txt'), ('encoder_bpe_40000.json', 'vocab_40000.bpe'))
ADVICE = "load it with transformers and save it with save_pretrained(DIR, max_shard_size='10GB')"


def convert(
    source: storage.Path,
    out: storage.Path,
    tokenizer: storage.Path | None = None,
    n_head: int | None = None,
    origin: str = 'Hugging Face',
) -> workdir.Run:
    """Imports a Hugging Face directory, or a .safetensors file, as the run directory `out`.

    Returns its workdir.Run, a pretrained run.

    tokenizer: the directory with the vocabulary, see _tokenizer; by default beside the weights.
    n_head: only for a single file, which does not record it (default 12).
    origin: of the files, for the run's record.

    UserError naming the file, and the array in it, that is missing or does not fit.
    """
    if storage.remote(source):
        raise UserError(f'{source}: copy the files to this machine first')
    weights, config = _files(source)
    stated = {} if config is None else _stated(config)
    sources = [weights] if config is None else [weights, config]
    with _opened(weights) as file:
        if names.SHIFTED in stated or names.SHIFTED in (file.metadata() or {}):
            raise UserError(
                f'{source}: a classifier that gpt1_jax exported, with its bias in the last '
                'LayerNorm: import the model that it was fine-tuned from, and fine-tune here'
            )
        stored, model, left_out = _check(file, weights, stated, n_head)
        directory = tokenizer or weights.parent
        vocabulary, vocabulary_files = _tokenizer(directory)
        # Rows of tokens added to the vocabulary
        added = model['vocab_size'] - vocabulary.vocab_size
        if 0 < added == _added(directory, vocabulary.vocab_size):
            model['vocab_size'] = vocabulary.vocab_size
        if vocabulary.vocab_size != model['vocab_size']:
            raise UserError(
                f'{vocabulary_files[0]}: the vocabulary has {vocabulary.vocab_size:,} rows, the '
                f"weights' token embedding {model['vocab_size']:,}"
            )
        if added:
            left_out.append(
                f'{names.TOKENS}: its last {added} rows, of tokens added to the vocabulary'
            )

        def read(name):
            array = file.get_tensor(stored[name]).astype(np.float32, copy=False)
            if not np.abs(array).max(initial=0) < LARGEST:
                raise UserError(
                    f'{weights}: {stored[name]}: holds values that are not finite, or above '
                    f'{LARGEST:g}'
                )
            return array[: model['vocab_size']] if name == names.TOKENS else array

        params = names.to_tree(model, read)
        hashes = {path.name: storage.sha256(path) for path in (*sources, *vocabulary_files)}
        return import_run.save(out, origin, model, params, vocabulary, hashes, left_out)


def _files(source):
    """(the .safetensors file, config.json or None) of a directory or a file.

    UserError for weights in another form.
    """
    if source.suffix == '.safetensors':
        return source, None
    files = (
        [source]
        if source.is_file()
        else [source / name for name in names.REFUSED if (source / name).exists()]
    )
    if files and not (source / names.WEIGHTS).exists():
        raise UserError(
            f'{files[0]}: {names.REFUSED.get(files[0].name, "not a .safetensors file")}: {ADVICE}'
        )
    return source / names.WEIGHTS, source / names.CONFIG


def _tokenizer(directory):
    """Loads a vocabulary: (Tokenizer, the files that were read).

    directory: an export of gpt1_jax, a run, its tokenizer/, or a directory with the published
    vocabulary. That is vocab.json and merges.txt, the released names, or tokenizer.json.
    """
    for place in (directory / names.TOKENIZER, directory / 'tokenizer', directory):
        if (place / MODEL_FILE).is_file():
            return Tokenizer.load(place), [place / MODEL_FILE, place / SETTINGS_FILE]
    for pair in PUBLISHED:
        files = [directory / name for name in pair]
        if all(file.is_file() for file in files):
            return from_published(*files), files
    file = directory / 'tokenizer.json'
    if file.is_file():
        return from_tokenizer_json(file), [file]
    raise UserError(
        f'{directory}: no vocabulary ({names.TOKENIZER}, vocab.json and merges.txt, or '
        'tokenizer.json): give --tokenizer=DIR to gpt1 hugging_face'
    )


def _added(directory, vocab_size):
    """How many tokens the directory's tokenizer.json adds to a vocabulary of this size.

    0 without such a file.
    """
    try:
        content = storage.read_json(directory / 'tokenizer.json')
        return len({token['id'] for token in content['added_tokens'] if token['id'] >= vocab_size})
    except (OSError, UserError, KeyError, TypeError):
        return 0


def _opened(file):
    """Opens a .safetensors file, memory-mapped.

    UserError unless its header fits its size. Nothing else is read yet.
    """
    open(file, 'rb').close()  # OSError if it cannot be read
    try:
        return safetensors.safe_open(file, 'numpy')
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f'{file}: not a complete safetensors file ({error})') from None


def _stated(file):
    """config.json as a dict.

    UserError unless it describes an OpenAIGPT that computes the same as our GPT.
    """
    config = storage.read_json(file)
    if not isinstance(config, dict):
        raise UserError(f'{file}: is {shown(config)}, must be an object')
    for name, value in names.FIXED.items():
        if config.get(name, value) != value:
            raise UserError(f'{file}: {name} is {shown(config[name])}, must be {value!r}')
    return config


def _check(file, where, stated, n_head):
    """Checks the header of an open file.

    Returns ({name in names.shapes: name in the file}, a run's 'model', names of arrays that are not
    imported). UserError naming an array that is missing, unknown, or of another shape or dtype.
    """
    stored = {
        name.removeprefix(names.PREFIX): name
        for name in file.keys()
        if not re.fullmatch(MASKS, name)
    }
    # transformers may store either of the tied arrays
    if TIED in stored and names.TOKENS not in stored:
        stored[names.TOKENS] = stored.pop(TIED)
    headers = {name: file.get_slice(full) for name, full in stored.items()}
    shapes = {name: tuple(header.get_shape()) for name, header in headers.items()}
    left_out = [name for name in stored if re.fullmatch(HEADS, name)]
    try:
        model = _model(shapes, stated, n_head)
        wanted = names.shapes(model)
        expected = wanted | ({TIED: wanted[names.TOKENS]} if TIED in stored else {})
        for name in [*expected, *(stored.keys() - expected.keys() - {*left_out})]:
            full = stored.get(name, name)
            if name not in stored:
                raise UserError(f'{full} is missing')
            if shapes[name] != expected.get(name):
                raise UserError(
                    f'{full} has shape {shapes[name]}, must be '
                    f'{expected.get(name, "absent from a GPT-1 language model")}'
                )
            if headers[name].get_dtype() not in DTYPES:
                raise UserError(
                    f'{full} is {headers[name].get_dtype()}, must be one of {", ".join(DTYPES)}'
                )
        if TIED in stored and not np.array_equal(
            *(file.get_tensor(stored[name]) for name in (TIED, names.TOKENS))
        ):
            raise UserError(f"{TIED} differs from {names.TOKENS}, but GPT-1's output layer is tied")
    except UserError as error:
        raise UserError(f'{where}: {error}') from None
    return {name: stored[name] for name in wanted}, model, left_out


def _model(shapes, stated, n_head):
    """A run's 'model', inferred from the shapes of the arrays.

    UserError if config.json has other sizes.
    """
    try:
        vocab_size, n_embd = shapes[names.TOKENS]
        n_ctx, _ = shapes[names.POSITIONS]
        (n_inner,) = shapes['h.0.mlp.c_fc.bias']
    except (KeyError, ValueError):
        raise UserError(
            f'{names.TOKENS}, {names.POSITIONS} or h.0.mlp.c_fc.bias is missing or has another '
            'number of dimensions'
        ) from None
    layers = {name.split('.')[1] for name in shapes if re.fullmatch(r'h\.\d+\..*', name)}
    sizes = {
        'vocab_size': vocab_size,
        'n_ctx': n_ctx,
        'n_embd': n_embd,
        'n_layer': len(layers),
        'n_head': stated.get('n_head', import_run.HEADS) if n_head is None else n_head,
    }
    for ours, name in names.SIZES.items():
        if stated.get(name, sizes[ours]) != sizes[ours]:
            raise UserError(f'{name} is {sizes[ours]}, {names.CONFIG} has {shown(stated[name])}')
    dropouts = {ours: stated[name] for ours, name in names.DROPOUTS.items() if name in stated}
    return import_run.fields(sizes | dropouts | {'n_inner': n_inner})
