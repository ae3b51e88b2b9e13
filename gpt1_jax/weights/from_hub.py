"""Weights by name, imported once: those of the Hugging Face Hub, such as hf:openai-community/openai-gpt, and the model
that comes with this package, 'novels', a small GPT that has read public-domain novels.

The package's directory novels/ is an export like any other (hugging_face.py), in bfloat16. The import is a run like any
other, in the cache (GPT1_JAX_CACHE), one for each commit. See import_hugging_face.py for what is accepted:
model.safetensors and no pickle, of an OpenAIGPT.
"""
import os
import pathlib
import re
import shutil
from typing import Any

from gpt1_jax import storage
from gpt1_jax.data import hub
from gpt1_jax.errors import UserError, about
from gpt1_jax.parallel import processes
from gpt1_jax.weights import names

PACKAGED = ('novels',)
FILES = (names.WEIGHTS, names.CONFIG, 'tokenizer.json', 'vocab.json', 'merges.txt', f'{names.TOKENIZER}/*')


def local_run(path: Any) -> Any:
    """The directory of a run: of its import for 'novels', 'hf:USER/NAME' or 'hf:USER/NAME@REVISION', else the path
    itself.

    UserError as in `files`, and where the files are no GPT-1.
    """
    directory, origin = source(path)
    if directory == path:
        return path
    if hub.is_name(path):
        out = storage.cache('hub') / hub.split(path)[0].replace('/', '--') / directory.name
    else:
        out = storage.cache('packaged') / f'{path}-{storage.sha256(directory / names.WEIGHTS)[:12]}'
    return _imported(path, directory, out, origin)


def source(name: Any) -> tuple[Any, str]:
    """The directory of the files of 'novels', 'hf:USER/NAME' or 'hf:USER/NAME@REVISION', else `name` itself; and where
    the weights are from, for the record of a run: repository and commit. UserError as in `files`."""
    if name in PACKAGED and not pathlib.Path(name).exists():
        return pathlib.Path(__file__).with_name(name), f'gpt1_jax: {name}'
    if not hub.is_name(name):
        return name, 'Hugging Face'
    directory = files(name)
    return directory, f'Hugging Face, {hub.split(name)[0]} at {directory.name}'


def _imported(path, source, out, origin):
    """The run `out`, imported from the directory `source` unless it is there."""
    # Imported only where it is used: training from a run needs no library of tokenizers.
    from gpt1_jax.weights import import_hugging_face
    with about(out):
        if out.exists():
            return str(out)
        if processes.joined():
            raise UserError(f'{path}: several processes need a run that each can read: '
                            f'python -m gpt1_jax.weights.hugging_face --source={path} --out=RUN')
        # Imported beside it and moved, so that a killed import leaves nothing, and two at once are no matter.
        partial = out.with_name(f'{out.name}.{os.getpid()}.partial')
        try:
            import_hugging_face.convert(source, partial, origin=origin)
            if not out.exists():
                os.rename(partial, out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return str(out)


def files(name: str) -> pathlib.Path:
    """The local directory of a model's files. UserError where the Hub does not give them, or there are no weights."""
    found = hub.download(name, 'model', FILES)
    if not (found / names.WEIGHTS).is_file():
        raise UserError(f'{name}: no {names.WEIGHTS} in it (pickles such as pytorch_model.bin are never read)')
    return found


def load_or_name(path: Any) -> Any:
    """`path`, or 'hf:' and it where it is USER/NAME and no path here: neither it nor its parent directory exists."""
    if not isinstance(path, str) or not re.fullmatch(r'[\w-][\w.-]*/[\w.-]+(@.+)?', path):
        return path
    here = pathlib.Path(path)
    with about(path):
        if here.exists() or here.parent.exists():
            return path
    return hub.PREFIX + path
