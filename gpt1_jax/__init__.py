"""GPT-1: Improving Language Understanding by Generative Pre-Training, Radford et al., 2018.

The front page lists ten files in an order to read. In a program or a notebook, begin with
gpt1_jax.load(DIRECTORY), see api.py.

Other modules are imported at their first use, so that reading data never loads jax.
"""

import importlib.machinery
import importlib.util
import os
import sys

from gpt1_jax.version import __version__ as __version__

# Found, not imported: python -m would look for it in the working directory (__main__.py)
if importlib.util.find_spec('fcntl') is None:
    sys.exit('error: gpt1_jax needs Linux or macOS; on Windows use WSL')


def _folders_of_the_clone():
    """Make the folders configs/ and docs/ of a clone importable as gpt1_jax.configs and .docs.

    The wheel has the folders under these names.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    for name in ('configs', 'docs'):
        if not os.path.isdir(os.path.join(package, name)):
            spec = importlib.machinery.ModuleSpec(f'{__name__}.{name}', None, is_package=True)
            spec.submodule_search_locations = [os.path.join(os.path.dirname(package), name)]
            sys.modules[spec.name] = importlib.util.module_from_spec(spec)


_folders_of_the_clone()


# Name: module, imported at the first use
_PUBLIC = {
    'pretrain': 'api',
    'finetune': 'api',
    'load': 'api',
    'Trained': 'api',
    'UserError': 'errors',
}
__all__ = [*_PUBLIC]  # which help(gpt1_jax) prints

# As in typing, which python -m would look for in the working directory (__main__.py)
TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpt1_jax.api import Trained as Trained
    from gpt1_jax.api import finetune as finetune
    from gpt1_jax.api import load as load
    from gpt1_jax.api import pretrain as pretrain
    from gpt1_jax.errors import UserError as UserError
else:

    def __getattr__(name):
        if name not in _PUBLIC:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        return getattr(importlib.import_module(f'{__name__}.{_PUBLIC[name]}'), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
