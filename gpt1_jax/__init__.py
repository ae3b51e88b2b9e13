"""GPT-1: Improving Language Understanding by Generative Pre-Training, Radford et al., 2018.

README.md lists the files of each section. In a program or a notebook, begin with
gpt1_jax.load(DIRECTORY), see api.py.

Other modules are imported at their first use, so that reading data never loads jax.
"""

import importlib.machinery
import importlib.util
import os
import sys

__version__ = '0.1.0'

try:
    import fcntl  # noqa: F401
except ImportError:
    sys.exit('error: gpt1_jax needs Linux or macOS; on Windows use WSL')


def _configs_of_the_clone():
    """Make the folder configs/ of a clone importable as gpt1_jax.configs.

    The wheel has the folder under this name.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(os.path.dirname(package), 'configs')
    if os.path.isdir(os.path.join(package, 'configs')) or not os.path.isfile(
        os.path.join(folder, 'pretrain.py')
    ):
        return
    spec = importlib.machinery.ModuleSpec(f'{__name__}.configs', None, is_package=True)
    spec.submodule_search_locations = [folder]
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)


_configs_of_the_clone()


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
