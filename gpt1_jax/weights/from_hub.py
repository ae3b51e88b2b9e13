"""Finds weights by name.

A name is hf:USER/NAME on the Hugging Face Hub, such as hf:openai-community/openai-gpt, or a Hugging
Face directory. 'novels' is a small GPT that comes with this package and was trained on
public-domain novels. Each version is imported once into the cache (GPT1_JAX_CACHE), as a run like
any other (import_hugging_face.py).
"""

import os
import pathlib
import re
import shutil
from typing import Any

from gpt1_jax import rules, storage
from gpt1_jax.data import hub
from gpt1_jax.errors import TYPED, UserError, did_you_mean
from gpt1_jax.parallel import processes
from gpt1_jax.weights import names

PACKAGED = ('novels',)
NAMES = ('init_from', 'tokenizer', 'tokenizer.source')  # fields of a config
FILES = (names.WEIGHTS, names.CONFIG, 'tokenizer.json', 'vocab.json', 'merges.txt', 'gpt1_jax/*')


def local_run(name: str | storage.Path | None) -> storage.Path | None:
    """Finds the run directory of a name, or imports it.

    A name that is not a run is imported into the cache at its first use.

    name: a run directory, a Hugging Face directory (config.json, model.safetensors), 'novels' (a
    directory of this name is './novels'), 'hf:USER/NAME' or 'hf:USER/NAME@REVISION', or only
    USER/NAME if no directory USER exists. None for None.

    UserError as in `source`, for another model than a GPT-1, for weights in another form, and for a
    misspelt packaged name.
    """
    if name is None:
        return None
    if isinstance(name, str) and re.fullmatch(r'[\w-][\w.-]*/[\w.-]+(@.+)?', name):
        here = pathlib.Path(name)
        if not here.exists() and not here.parent.exists():
            try:
                return local_run(hub.PREFIX + name)
            except UserError as error:
                raise UserError(f'{error}; and there is no directory {name} here') from None
    directory, origin = source(name)
    if hub.is_name(name):
        place = storage.cache('hub') / hub.split(name)[0].replace('/', '--') / directory.name
    elif not storage.remote(directory) and any(
        (directory / file).is_file() for file in names.FORMS
    ):
        files = sorted(
            file for pattern in FILES for file in directory.glob(pattern) if file.is_file()
        )
        digest = storage.json_digest([storage.sha256(file) for file in files])[:12]
        place = storage.cache('imported') / f'{directory.name}-{digest}'
    else:
        near = did_you_mean(name, PACKAGED)
        if near and not directory.exists():
            raise UserError(f'{name}: no such directory{near}')
        return directory
    # also if it is not readable: then the import fails and names the cause
    if not os.path.exists(place):
        _import(name, directory, place, origin)
    TYPED[str(place)] = str(name)
    return place


def local_tokenizer(name: str) -> str:
    """The directory of a run or a tokenizer, found like `local_run`.

    'train' and 'published' are returned unchanged.
    """
    return name if name in ('train', 'published') else str(local_run(name))


def located(config: Any) -> Any:
    """A copy of a ConfigDict in which the fields in NAMES are directories, as `local_run` finds."""
    config = config.copy_and_resolve_references()
    present = rules.flatten(config)
    for field in NAMES:
        if isinstance(present.get(field), str):
            config.update_from_flattened_dict({field: local_tokenizer(present[field])})
    return config


def source(name: str | storage.Path) -> tuple[storage.Path, str]:
    """(directory of a name's files, their origin for the record: repository and commit).

    UserError if the Hub refuses, or if the repository has no model.safetensors.
    """
    if name in PACKAGED:
        return pathlib.Path(__file__).with_name(str(name)), f'gpt1_jax: {name}'
    if not hub.is_name(name):
        return storage.path(name), 'Hugging Face'
    directory = hub.download(name, 'model', FILES)
    if not (directory / names.WEIGHTS).is_file():
        raise UserError(
            f'{name}: has no {names.WEIGHTS} (pickles such as pytorch_model.bin are never read)'
        )
    return directory, f'Hugging Face, {hub.split(name)[0]} at {directory.name}'


def _import(name, directory, out, origin):
    # Imported here, because training from a run needs no library of tokenizers
    from gpt1_jax.weights import import_hugging_face

    if processes.joined():
        raise UserError(
            f'{name}: with several processes, import it first to a directory that all can read: '
            f'gpt1 hugging_face --source={name} --out=RUN'
        )
    # Renamed when complete: an interrupted import leaves nothing, and two imports at once do not
    # collide.
    partial = out.with_name(f'{out.name}.{os.getpid()}.partial')
    try:
        import_hugging_face.convert(directory, partial, origin=origin)
        if not out.exists():
            os.rename(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
