"""Runs small enough for a test: a corpus of made-up sentences, a two-layer model, task files in
official layouts."""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys

from own_sets import CONFIGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = (
    'the cat sat on a mat while red dogs ran over green hills and old birds sang to every small '
    'child who had lost nothing but very good positive negative bread near seven rivers under that '
    'bright moon again'
).split()


def sentence(rng):
    return ' '.join(rng.choice(WORDS) for _ in range(rng.randint(5, 9))).capitalize() + '.'


def corpus(directory, documents=16, sentences=40):
    """Write documents of random sentences, and return the directory."""
    directory.mkdir(parents=True)
    for i in range(documents):
        rng = random.Random(i)
        (directory / f'{i:02}.txt').write_text('\n'.join(sentence(rng) for _ in range(sentences)))
    return directory


def cola(directory):
    """Write CoLA's train.tsv of 40 rows and dev.tsv of 13 rows.

    The label is 1 if a sentence ends in a full stop.
    """
    directory.mkdir(parents=True)
    rng = random.Random(0)
    for split, n in {'train': 40, 'dev': 13}.items():
        labels = [i % 2 for i in range(n)]
        text = [sentence(rng) if label else sentence(rng)[:-1] + ' the the the' for label in labels]
        (directory / f'{split}.tsv').write_text(
            ''.join(f'gj04\t{label}\t\t{t}\n' for label, t in zip(labels, text))
        )
    return directory


def sst2(directory, n=10):
    """Write SST-2's dev.tsv."""
    directory.mkdir(parents=True)
    rng = random.Random(0)
    (directory / 'dev.tsv').write_text(
        'sentence\tlabel\n' + ''.join(f'{sentence(rng)}\t{i % 2}\n' for i in range(n))
    )


def predictions(path, right, n=100):
    """Write predictions of two labels. Gold alternates.

    The predictions in `right` (or the first `right` predictions) are right.
    """
    right = range(right) if isinstance(right, int) else right
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            'id': str(i),
            'gold': i % 2,
            'scores': [0.0, 1.0] if (i % 2) == (i in right) else [1.0, 0.0],
        }
        for i in range(n)
    ]
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return str(path)


def load_config(name, *arguments):
    """get_config of configs/NAME.py."""
    spec = importlib.util.spec_from_file_location(
        f'configs_{name}', ROOT / 'configs' / f'{name}.py'
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(*arguments)


# A pretraining of 30 steps. In overrides of a config, the dots of names are double underscores.
SMALL = dict(
    model__n_layer=2,
    model__n_embd=16,
    model__n_head=4,
    model__n_inner=32,
    model__n_ctx=16,
    data__valid='0.2',
    data__processes=1,
    tokenizer__merges=60,
    batch__size=8,
    optimizer__peak_rate=1e-2,
    optimizer__warmup_steps=3,
    train__steps=30,
    eval__every=10,
    eval__windows=16,
    eval__batch_size=8,
    checkpoint__every=5,
    log_every=5,
)


def pretrain_config(corpus_dir, **overrides):
    """configs/pretrain.py with a tiny model."""
    return override(load_config('pretrain'), SMALL | {'data__corpus': str(corpus_dir)} | overrides)


def small_flags(**overrides):
    """Those of a program for SMALL with overrides, but for fields that are None there."""
    return [
        f'--config.{name.replace("__", ".")}={value}'
        for name, value in (SMALL | overrides).items()
        if value is not None
    ]


def finetune_config(name, directory, **overrides):
    """configs/finetune.py:NAME, or of NAME custom:SET configs/custom.py for own_sets.CONFIGS[SET],
    in small."""
    kind, _, argument = name.rpartition(':')
    config = load_config('custom') if kind else load_config('finetune', argument)
    if kind:
        config.custom.update(CONFIGS[argument] | {'data': str(directory)})
    small = dict(
        data__dir=str(directory),
        batch__size=8,
        batch__eval_size=8,
        train__epochs=2,
        log_every=2,
        optimizer__peak_rate=1e-2,
    )
    return override(config, small | overrides)


def place(program, batch):
    """A whole host batch on a training program's mesh."""
    from gpt1_jax.parallel import sharding

    size = len(next(iter(batch.values())))
    return sharding.place(
        lambda rows: {name: array[rows] for name, array in batch.items()}, size, program.mesh
    )


def override(config, values):
    for name, value in values.items():
        *parents, field = name.split('__')
        target = config
        for parent in parents:
            target = target[parent]
        target[field] = value
    return config


def python(*words, check=None, cwd=ROOT, timeout=300, env=None, **how):
    """Run Python with these words, from the clone unless another directory is given.

    check: the expected exit status.
    """
    found = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | (env or {}),
        **how,
    )
    if check is not None:
        assert found.returncode == check, found.stdout + found.stderr
    return found


def command(program, *arguments, **how):
    """Run gpt1 PROGRAM, as a user does."""
    return python('-m', 'gpt1_jax', program, *arguments, **how)
