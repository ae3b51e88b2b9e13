"""The command gpt1, or python -m gpt1_jax: lists the programs, and runs one of them.

gpt1
gpt1 pretrain --config=pretrain --workdir=runs/gpt1 --config.data.corpus='books/*.txt'
python -m gpt1_jax generate --init_from=runs/gpt1 --prompt='Once upon a time'
"""

import os
import sys

# python -m looks for modules in the working directory first, which may be a stranger's
if __name__ == '__main__' and sys.path[0] == os.getcwd():
    del sys.path[0]

import ast
import importlib
import pathlib
import runpy

import gpt1_jax
from gpt1_jax import startup
from gpt1_jax.errors import did_you_mean

PROGRAMS = {  # command: module of gpt1_jax, in the order of a first use
    'prepare': 'prepare',
    'pretrain': 'pretraining',
    'finetune': 'finetuning',
    'predict': 'predict',
    'zero_shot': 'zero_shot',
    'perplexity': 'perplexity',
    'generate': 'generate',
    'lm_eval': 'lm_eval',
    'metrics': 'evaluation.score_predictions',
    'verify': 'verify',
    'ablate': 'ablation.ablate',
    'hugging_face': 'weights.hugging_face',
}
PAGES = {  # topic: package and file
    'ablate': ('gpt1_jax.ablation', 'README.md'),
    'configs': ('gpt1_jax.configs', 'README.md'),
    'coming_from': ('gpt1_jax.configs', 'coming_from.md'),
    'data': ('gpt1_jax.data', 'README.md'),
    'training': ('gpt1_jax.docs', 'training.md'),
    'when_it_fails': ('gpt1_jax.docs', 'when_it_fails.md'),
    'tasks': ('gpt1_jax.data.tasks', 'your_task.py'),
}


def main() -> None:
    """Run the program that the first argument names.

    Exit status 2 and one line for an unknown name.
    """
    name, *arguments = sys.argv[1:] or ['--help']
    if name in ('--help', '-h', 'help', '--helpfull'):
        # Imported here, because a program's signals are set before any import of a library
        from gpt1_jax.cli import terminal

        terminal.guard(ends=True)  # `gpt1 | head`
        if name == 'help' and arguments:
            print(page(arguments[0]))
        else:
            print(usage())
        return
    if '--version' in sys.argv[1:]:  # also for a program, before its imports
        print(f'gpt1_jax {gpt1_jax.__version__}')
        return
    program = name.replace('-', '_')
    module = PROGRAMS.get(program)
    if module is None:
        near = did_you_mean(name, PROGRAMS) or ':'
        print(f'error: there is no program {name!r}{near} `gpt1` lists them', file=sys.stderr)
        sys.exit(2)
    startup.before_imports(program)
    sys.argv[:] = [f'gpt1 {name}', *arguments]
    runpy.run_module(f'gpt1_jax.{module}', run_name='__main__', alter_sys=True)


def usage() -> str:
    """The programs, each in a line with the first line of its docstring."""
    width = max(map(len, PROGRAMS))
    lines = [f'  {command:{width}}  {summary(module)}' for command, module in PROGRAMS.items()]
    return '\n'.join(
        [
            'GPT-1 in JAX. A program and its options:',
            '',
            *lines,
            '',
            'gpt1 PROGRAM --help shows its page, its options and the fields of its config.',
            f'gpt1 help TOPIC prints a page: {", ".join(PAGES)}.',
            'Configs: --config=pretrain or --config=finetune:rte comes with the package, '
            '--config=my.py is a file of your own.',
        ]
    )


def page(topic: str) -> str:
    """The page of a topic. Exit status 2 and one line for an unknown topic."""
    if topic not in PAGES:
        near = did_you_mean(topic, PAGES) or f': there are {", ".join(PAGES)}'
        print(f'error: there is no page {topic!r}{near}', file=sys.stderr)
        sys.exit(2)
    package, file = PAGES[topic]
    folder = importlib.import_module(package).__path__[0]
    return pathlib.Path(folder, file).read_text(encoding='utf-8').rstrip()


def summary(module: str) -> str:
    """The first line of a program's docstring, read from its file without an import."""
    file = pathlib.Path(gpt1_jax.__file__).parent.joinpath(*module.split('.')).with_suffix('.py')
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding='utf-8')))
    assert docstring, file
    return docstring.splitlines()[0]


if __name__ == '__main__':
    main()
