"""A pretrained and a fine-tuned run to export to Hugging Face, and comparisons of two runs."""

import json
import shutil
import types

import jax

import reference
import saved as saved_lib
from gpt1_jax.data import bpe_training, tasks
from gpt1_jax.evaluation import load
from gpt1_jax.models import build
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import results
from gpt1_jax.weights import hugging_face
from meshes import shapes
from tiny import WORDS, override, pretrain_config

MESH = sharding.make_mesh()  # that of exports: so one program reads a run in both
TOKENS = 'f' * 64  # the corpus's hash


def saved(directory, config, vocabulary, model, K, steps, first):
    """Makes a run as training leaves it after `steps` updates, with random weights of any size."""
    params = reference.random_like(shapes(model, K), seed=3)
    return saved_lib.run(
        directory, json.loads(json.dumps(config)), vocabulary, params, steps, first
    )


def pretrained(directory, steps=4, first=4):
    """Makes a run as pretraining leaves it, by default after four steps.

    The steps from `first` on are kept.
    """
    vocabulary = bpe_training.train([' '.join(WORDS).capitalize() + ', and.'], merges=90)
    config = pretrain_config('books', model__n_inner=64, model__n_ctx=48).to_dict()
    fields = build.own_fields(config['model']) | {'vocab_size': vocabulary.vocab_size}
    config |= {
        'kind': 'pretrain',
        'model': fields,
        'fingerprint': {'tokens': TOKENS, 'tokenizer': vocabulary.fingerprint},
    }
    run = saved(directory, config, vocabulary, build.backbone(fields), None, steps, first)
    results.append(
        run.metrics, {'step': 3, 'valid_perplexity': 90.0}, {'step': 4, 'valid_perplexity': 87.5}
    )
    return run


def fine_tuned(directory, config, origin):
    config = override(config, {'init_from': str(origin.path)}).to_dict()
    task = tasks.of(config)
    vocabulary = origin.tokenizer()
    config |= {
        'kind': 'finetune',
        'model': origin.config['model'],
        'labels': list(task.labels),
        'lengths': [16, 32],
        'fingerprint': {
            'tokenizer': vocabulary.fingerprint,
            'origin': origin.digest(origin.step()),
            'files': {'train.tsv': '0123456789abcdef'},
        },
    }
    run = saved(
        directory, config, vocabulary, build.task_model(task, config['model'], 0.1), 1, 20, 20
    )
    results.append(
        run.results,
        *(
            {
                'kind': 'finetune',
                'task': task.name,
                'split': 'dev',
                'group': None,
                'n': 13,
                'metric': 'matthews',
                'value': value,
                'digest': of,
            }
            for value, of in ((0.25, run.digest(20)), (0.75, 'another'))
        ),
    )
    return run


def restored(run):
    return jax.device_get(load.pretrained(run, run.step(), MESH)[1])


def same_run(run, other):
    """Whether two runs have the same weights, to the bit, sizes and vocabulary."""
    ours, theirs = (jax.tree_util.tree_leaves_with_path(restored(one)) for one in (run, other))
    for (path, leaf), (place, found) in zip(ours, theirs, strict=True):
        assert place == path and found.tobytes() == leaf.tobytes() and found.shape == leaf.shape, (
            path
        )
    sizes = 'kind vocab_size n_ctx n_embd n_layer n_head n_inner'.split()
    for name in (*sizes, 'embd_dropout', 'attn_dropout', 'resid_dropout'):
        assert run.config['model'][name] == other.config['model'][name]
    assert run.tokenizer().fingerprint == other.tokenizer().fingerprint
    return True


def edited(run, directory, change):
    shutil.copytree(run.path, directory)
    config = json.loads((directory / 'config.json').read_text())
    change(config)
    (directory / 'config.json').write_text(json.dumps(config))
    return directory


def run_main(monkeypatch, **given):
    """The program weights.hugging_face with these flags."""
    flags = dict.fromkeys('export source out step license dtype tokenizer n_head'.split()) | given
    monkeypatch.setattr(hugging_face.flags, 'FLAGS', types.SimpleNamespace(**flags))
    hugging_face.main()
