"""Evaluates a pretrained model on tasks of lm-evaluation-harness, zero-shot or few-shot.

    gpt1 lm_eval --init_from=runs/gpt1 --tasks=lambada_openai,hellaswag --limit=100 \\
        --out=results.json
    gpt1 lm_eval --init_from=runs/gpt1 --tasks=mine --include_path=my/tasks --samples=samples.jsonl

Not in the paper. The first command downloads the tasks' data sets from the Hugging Face Hub. Tasks
with local files, and HF_HUB_OFFLINE=1, download nothing. evaluation/lm_harness.py documents how
texts become tokens.
"""

import importlib.util
import json
import logging
import os
import sys

from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results
from gpt1_jax.weights import from_hub


def _define_flags():
    cli.define_model_flags()
    flags.DEFINE_list(
        'tasks', None, 'comma-separated tasks, groups or tags of the harness', required=True
    )
    flags.DEFINE_string('include_path', None, 'a directory of YAML files with your own tasks')
    flags.DEFINE_float(
        'limit', None, 'number of items of each task; below 1 a fraction of them (default: all)'
    )
    flags.DEFINE_integer(
        'num_fewshot',
        None,
        "examples before each item (default: the task's own number)",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        'batch_size', 8, 'sequences of n_ctx tokens per batch; more if shorter', lower_bound=1
    )
    flags.DEFINE_string('out', None, 'a file to write, JSON: the results')
    flags.DEFINE_string(
        'samples', None, 'a file to write, JSON lines: the requests and answers of each item'
    )


def main() -> None:
    f = flags.FLAGS
    out, samples = (None if file is None else storage.path(file) for file in (f.out, f.samples))
    results.check(out)
    results.check(samples)
    if importlib.util.find_spec('lm_eval') is None:
        raise UserError("lm-evaluation-harness is not installed: pip install 'gpt1_jax[lm-eval]'")
    if not sys.stderr.isatty():
        os.environ['TQDM_DISABLE'] = '1'  # the progress bars of the harness and of its data sets
    from lm_eval.utils import setup_logging

    from gpt1_jax.evaluation import lm_harness

    setup_logging(logging.WARNING)
    include_path = storage.path(f.include_path) if f.include_path else None
    found, answers = lm_harness.evaluate(
        from_hub.local_run(f.init_from),
        f.tasks,
        include_path,
        f.limit,
        f.num_fewshot,
        f.batch_size,
        f.step,
    )
    # Printed first, so that it is not lost if a file cannot be written
    print(lm_harness.table(found), flush=True)
    if out:
        storage.write(out, json.dumps(found, indent=1).encode() + b'\n', follow=True)
    if samples:
        results.write(samples, answers, follow=True)


if __name__ == '__main__':
    cli.run(main, _define_flags)
