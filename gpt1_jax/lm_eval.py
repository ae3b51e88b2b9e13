"""Tasks of lm-evaluation-harness, zero-shot or few-shot, by a pretrained model. Not in the paper.

    python -m gpt1_jax.lm_eval --init_from=runs/gpt1 --tasks=lambada_openai,hellaswag --limit=100 --out=results.json
    python -m gpt1_jax.lm_eval --init_from=runs/gpt1 --tasks=mine --include_path=my/tasks --samples=samples.jsonl

The first fetches the tasks' data sets from the Hugging Face Hub; with local files, or HF_HUB_OFFLINE=1, nothing is
fetched. What a text becomes here is in harness.py.
"""
import importlib.util
import json
import logging
import os
import sys

from absl import flags

from gpt1_jax import cli, results, storage
from gpt1_jax.errors import UserError, about


def _define_flags():
    flags.DEFINE_string('init_from', None, 'directory of a pretrained run', required=True)
    flags.DEFINE_integer('step', None, 'a saved update (default: the latest)')
    flags.DEFINE_list('tasks', None, 'tasks, groups or tags of the harness, by commas', required=True)
    flags.DEFINE_string('include_path', None, 'a directory of YAML files with tasks of your own')
    flags.DEFINE_float('limit', None, 'so many items of each task; below 1 a share of them (default: all)')
    flags.DEFINE_integer('num_fewshot', None, "examples before each item (default: the task's own number)",
                         lower_bound=0)
    flags.DEFINE_integer('batch_size', 8, 'sequences of a whole context at once; of shorter ones more', lower_bound=1)
    flags.DEFINE_string('out', None, 'a file to write, JSON: the results')
    flags.DEFINE_string('samples', None, 'a file to write, JSON lines: what was asked of each item, and answered')


def main():
    f = flags.FLAGS
    results.check(f.out)
    results.check(f.samples)
    if importlib.util.find_spec('lm_eval') is None:
        raise UserError("lm-evaluation-harness is not installed: pip install 'gpt1_jax[lm-eval]'")
    if not sys.stderr.isatty():
        os.environ['TQDM_DISABLE'] = '1'  # the progress bars of the harness and of its data sets
    from lm_eval.utils import setup_logging

    from gpt1_jax import harness
    setup_logging(logging.WARNING)
    found, samples = harness.evaluate(f.init_from, f.tasks, f.include_path, f.limit, f.num_fewshot, f.batch_size,
                                      f.step)
    if f.out:
        with about(f.out):
            storage.write(f.out, json.dumps(found, indent=1).encode() + b'\n')
    if f.samples:
        results.write(f.samples, samples)
    print(harness.table(found))


if __name__ == '__main__':
    cli.run(main, _define_flags)
