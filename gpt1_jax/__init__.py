"""GPT-1: Improving Language Understanding by Generative Pre-Training, Radford et al., 2018.

Section                         File
3.1  Unsupervised pre-training  model.py (Eq. 2), attention.py, losses.py (Eq. 1), pretrain.py
3.2  Supervised fine-tuning     heads.py (Eq. 3), losses.py (Eqs. 4, 5), finetune.py
3.3  Input transformations      data/inputs.py, data/tasks/
4.1  Setup                      optimizer.py, dropout.py, training.py, data/text.py, data/tokenizer.py, data/tokens.py
4.2  Fine-tuning, Tables 2-4    data/tasks/, evaluation.py, metrics.py
5    Analysis                   transfer.py (Figure 2, left), heuristics.py, scoring.py, zero_shot.py (Figure 2, right),
                                lstm.py (Table 5)

In a program or a notebook: gpt1_jax.load(DIRECTORY), see api.py.

Nothing is imported here until it is asked for, so that reading data never loads jax.
"""
import importlib

__version__ = '0.1.0'


def __getattr__(name):
    if name != 'load':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return importlib.import_module('gpt1_jax.api').load
